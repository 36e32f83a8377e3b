"""`muster bench gangs` on a real control plane: docs/load-test.md is typed, and the audit log confirms the figures."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.gangs_audit import PROGRAM, differences, instants
from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from extender.cli.bench.plan import OWNER, PREFIX, RUN
from tests.documents.pages import ROOT, commands
from tests.integration.test_rights import compare

pytestmark = pytest.mark.xdist_group("bench-gangs")

PAGE = ROOT / "docs" / "load-test.md"
COURSE = ("--gangs", "20", "--size", "4", "--rate", "20")
NAMESPACES = "/api/v1/namespaces"
DEAD = 2**22 + 1
"""No process has this id: Linux gives none above 4,194,304."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(audited=True) as running:
        running.add_nodes(12, labels=lambda number: {"nvidia.com/gpu.clique": f"clique-{number // 4}", "pool": "a"})
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


class Rig:
    """Types commands: kubectl as the administrator, and muster with the rights of docs/load-test.md."""

    def __init__(self, cluster: Cluster, muster: RunningMuster, directory: Path) -> None:
        self.directory = directory
        self._cluster = cluster
        path = f"{PROGRAM.parent}:{cluster.binary('kubectl').parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "MUSTER_URL": muster.url, "COLUMNS": "160"}

    def type(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the page in the checkout's stead."""
        argv = ["bash", "-c", command]
        return subprocess.run(
            argv, cwd=self.directory, env=self._as(command), capture_output=True, text=True, check=False
        )

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start `muster bench gangs` with these options."""
        return subprocess.Popen(
            [PROGRAM, "bench", "gangs", *argv], env=self._as("muster"), stderr=subprocess.PIPE, text=True
        )

    def bench(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run `muster bench gangs` with these options to its end."""
        command = [str(PROGRAM), "bench", "gangs", *argv]
        return subprocess.run(command, env=self._as("muster"), capture_output=True, text=True, check=False)

    def _as(self, command: str) -> dict[str, str]:
        kubeconfig = self._cluster.kubeconfig
        if command.startswith("muster"):
            kubeconfig = self._cluster.service_account_kubeconfig("kube-system", "load-tester")
        return {**self._environment, "KUBECONFIG": str(kubeconfig)}


@pytest.fixture(scope="module")
def tester(cluster: Cluster, muster: RunningMuster, tmp_path_factory: pytest.TempPathFactory) -> Rig:
    """A user who has typed the page's commands about rights, and no others."""
    directory = tmp_path_factory.mktemp("checkout")
    (directory / "manifests").symlink_to(ROOT / "manifests")
    rig = Rig(cluster, muster, directory)
    for command in commands(PAGE):
        if command.text.startswith("kubectl"):
            done = rig.type(command.text)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
    return rig


def typed(tester: Rig, begins: str) -> subprocess.CompletedProcess[str]:
    """Type the page's command that begins like this."""
    (command,) = [step.text for step in commands(PAGE) if step.text.startswith(begins)]
    return tester.type(command)


def made(cluster: Cluster) -> list[str]:
    """The remains of runs: namespaces, and pods and Jobs with the label of one."""
    paths = NAMESPACES, "/api/v1/pods", "/apis/batch/v1/jobs"
    return [obj["metadata"]["name"] for path in paths for obj in cluster.api.list(path, labelSelector=RUN)]


def until_under_way(cluster: Cluster, runs: int) -> set[str]:
    """Wait until ``runs`` runs have created ten pods; returns their namespaces."""

    def under_way(pods: list[Object]) -> set[str]:
        counts = Counter(pod["metadata"]["namespace"] for pod in pods if RUN in pod["metadata"].get("labels", {}))
        return {namespace for namespace, count in counts.items() if count >= 10}

    return under_way(cluster.api.wait_for("/api/v1/pods", lambda pods: len(under_way(pods)) == runs))


def test_what_the_page_says_to_type_works_with_the_rights_that_it_names(cluster: Cluster, tester: Rig) -> None:
    refused = tester.bench(*COURSE)
    assert (refused.returncode, "pass --yes" in refused.stderr, made(cluster)) == (2, True, []), refused.stderr

    run = typed(tester, "muster bench gangs --gangs 20 --size 4 --rate 20")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"✓ p99\(bind\) > 60s: [\d.]+ ms\n✓ errors > 0: 0\n", run.stdout), run.stdout
    assert (made(cluster), "with 80 pods in it" in run.stderr) == ([], True)
    document = json.loads((tester.directory / "pods.json").read_text())
    assert (document["pods"], document["bound"], document["errors"], document["notes"]) == (80, 80, {}, [])
    audit = cluster.audit()
    # How far apart the latencies are is measured by benchmarks.gangs_audit: here another test takes the processor.
    assert list(differences(document, audit)), "both count the same pods and gangs"
    binding_times = instants(audit, f"{PREFIX}{document['run']}")["asked"]
    for pod in document["each_pod"]:
        bound = datetime.fromisoformat(pod["due"]).timestamp() + pod["bound_ms"] / 1000
        assert bound > binding_times[pod["pod"]], "no pod is bound before the API server has its Binding"
    for pod in document["each_pod"]:
        # The answer to its creation may come when it is at bind already.
        assert pod["created_ms"] > 0
        assert pod["at_bind_ms"] < pod["bound_ms"]
        assert pod["planned_ms"] <= pod["at_bind_ms"]
    section = PAGE.read_text().partition("## Files")[2].partition("## Compare")[0]
    keys = re.findall(r"^\| `([a-z_]+)` \|", section, re.MULTILINE)
    assert set(document) == set(keys), "the page has the keys of the file, and no others"

    pods = json.loads((tester.directory / "metrics/podLatencyMeasurement-muster-bench-gangs.json").read_text())
    assert len(pods) == 80
    ours = {pod["pod"]: (round(pod["bound_ms"]), pod["node"]) for pod in document["each_pod"]}
    assert {pod["podName"]: (pod["schedulingLatency"], pod["nodeName"]) for pod in pods} == ours
    assert all(pod["schedulingLatency"] <= pod["podReadyLatency"] for pod in pods)
    quantiles = json.loads(
        (tester.directory / "metrics/podLatencyQuantilesMeasurement-muster-bench-gangs.json").read_text()
    )
    assert {quantile["quantileName"] for quantile in quantiles} == {
        "PodScheduled",
        "Initialized",
        "ContainersReady",
        "Ready",
    }
    suite = ElementTree.parse(tester.directory / "junit.xml").getroot()  # noqa: S314 - it is ours
    assert [case.get("name") for case in suite] == ["p99(bind) > 60s", "errors > 0"]

    jobs = typed(tester, "muster bench gangs --kind job")
    assert (jobs.returncode, made(cluster)) == (0, []), jobs.stdout + jobs.stderr
    summary = json.loads((tester.directory / "jobs.json").read_text())
    assert (summary["bound"], summary["errors"], summary["latency_ms"]["planned"]["missing"]) == (40, {}, 0)
    assert all(entry["planned_ms"] <= entry["created_ms"] for entry in summary["each_pod"]), (
        "planned before its pods are there"
    )
    compared = typed(tester, "muster bench gangs --compare")
    assert compared.returncode in (0, 1), compared.stderr
    assert "the runs differ in kind: pods and job" in compared.stdout
    cleaned = typed(tester, "muster bench gangs --clean")
    assert (cleaned.returncode, "nothing to remove" in cleaned.stdout) == (0, True), cleaned.stderr
    compare(cluster, "load-tester")


def test_a_name_that_nobody_serves_and_gangs_that_do_not_fit_are_refused(cluster: Cluster, tester: Rig) -> None:
    nobody = tester.bench("--gangs", "2", "--scheduler-name", "nobody")
    assert (nobody.returncode, "no Muster serves the scheduler name nobody" in nobody.stderr) == (2, True), (
        nobody.stderr
    )
    nowhere = tester.bench("--gangs", "2", "--selector", "pool=b")
    assert (nowhere.returncode, "0 free places on 0 nodes" in nowhere.stderr) == (2, True), nowhere.stderr
    assert made(cluster) == []


def test_what_a_killed_run_leaves_is_removed_and_nothing_else(cluster: Cluster, tester: Rig) -> None:
    killed = tester.start(*COURSE, "--yes")
    (left,) = until_under_way(cluster, 1)
    killed.kill()  # no process has waited for its exit when --clean looks for it
    owner = {OWNER: f"{socket.gethostname()}/{DEAD}/1"}
    for name, labels in (("muster-bench-mine", {}), ("team-a", {RUN: "a"}), ("muster-bench-shared", {RUN: "shared"})):
        cluster.api.create(NAMESPACES, {"metadata": {"name": name, "labels": labels, "annotations": owner}})
    shared = f"{NAMESPACES}/muster-bench-shared/pods"
    cluster.api.wait_for(f"{NAMESPACES}/muster-bench-shared/serviceaccounts/default", bool)
    pod = {"containers": [{"name": "main", "image": "none"}], "schedulerName": "nobody"}
    cluster.api.create(shared, {"metadata": {"name": "foreign"}, "spec": pod})
    # For 100 s: it is stopped before that.
    going_on = tester.start("--gangs", "20", "--size", "4", "--rate", "0.2", "--yes")
    (alive,) = until_under_way(cluster, 2) - {left}

    cleaned = typed(tester, "muster bench gangs --clean")
    assert cleaned.returncode == 1, "something was kept"
    assert re.search(rf"^removed {left}, with \d+ pods in it$", cleaned.stdout, re.MULTILINE), cleaned.stdout
    assert "kept muster-bench-shared: others have put pod foreign into it" in cleaned.stdout
    assert f"left {alive} alone: its run goes on: process {going_on.pid} of this host" in cleaned.stderr
    assert left not in made(cluster)
    killed.communicate()
    going_on.send_signal(signal.SIGINT)
    _, stderr = going_on.communicate()
    assert (going_on.returncode, f"removed {alive}" in stderr, "Traceback" in stderr) == (130, True, False), stderr
    cluster.api.delete(f"{shared}/foreign", {"gracePeriodSeconds": 0})
    again = tester.bench("--clean")
    assert (again.returncode, made(cluster)) == (0, ["team-a"]), again.stdout + again.stderr
    assert cluster.api.get(f"{NAMESPACES}/muster-bench-mine")["status"]["phase"] == "Active"
