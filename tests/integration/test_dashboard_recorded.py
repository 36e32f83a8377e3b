"""Two tenants and an operator at the dashboard of the chart, in a real Chromium, while gangs of six kinds come and go.

The name of a tenant is part of the names of all its objects: nothing that the other tenant gets may have it in it.
Browsers record what they get and show. CONTRIBUTING.md says how to keep a recording, and how to look at it.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect, sync_playwright

from charts.templates import CHART
from devcluster import Cluster
from devcluster.api import Object
from devcluster.chromium import FLAGS, chromium
from devcluster.controllers import start_controller
from devcluster.dashboard import make_viewer
from devcluster.documents import write_all
from devcluster.helm import Helm
from devcluster.installed import InstalledMuster
from devcluster.muster import NAMESPACE, until_gated, until_jobs_are_admitted
from devcluster.process import Process
from policies.model import CLIQUE
from tests.integration.stage import add_priorities
from tests.integration.viewers import add_tenant, token_of
from tests.scenarios.pods import gang, pod

KEPT_IN = "MUSTER_RECORDINGS"
"""The environment variable that names a folder for the recordings."""
FALCON, ORCHID, OPERATOR = "falcon", "orchid", "operator"
PRIORITIES = {"low": 10, "usual": 100, "urgent": 1000}
CHOSEN = ("components.dashboard=true", "components.preemption=true", "config.preemption=on")
CONTROLLERS = ("jobset", "lws", "training-operator")
PAGES = ("", "overview", "map", "queues", "day", "reasons")
PATIENCE_MS = 60_000.0


class Person:
    """A user whose browser has the list of workloads open, and a program of the same user on the stream."""

    def __init__(self, name: str, browser: Browser, url: str, token: str, folder: Path) -> None:
        self._name, self._folder, self._har = name, folder, folder / f"{name}.har"
        headers = {"Authorization": f"Bearer {token}"}
        self._context = browser.new_context(
            base_url=url, extra_http_headers=headers, record_har_path=self._har, record_har_content="embed"
        )
        self._context.tracing.start(screenshots=True, snapshots=True, title=name)
        self._shown: list[str] = []
        self._list = self._open("")
        self._stream: Future[str] = ThreadPoolExecutor(1).submit(stream, url, headers)

    def sees(self, workload: str, status: str, *, because: str = "") -> None:
        """Wait until the open list has the workload with this status, and with this reason."""
        row = self._row(workload)
        expect(row.locator(".chip")).to_have_text(status)
        if because:
            expect(row.locator("a.reason")).to_have_text(because)

    def misses(self, workload: str) -> None:
        """Check that the open list does not have it."""
        expect(self._row(workload)).to_have_count(0)

    def keep(self, act: str) -> None:
        """Keep a picture of the list."""
        self._keep(self._list, act)

    def reads(self, path: str, act: str) -> str:
        """Return the text of a page, with all that is folded on it, and keep a picture of it."""
        page = self._open(path)
        page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
        self._keep(page, act)
        text = page.locator("main").inner_text()
        page.close()
        return text

    def counts(self) -> str:
        """Return what the overview says of GPUs and workloads."""
        page = self._open("overview")
        text = "\n".join(
            page.locator("section").filter(has=page.locator(f"#{section}")).inner_text()
            for section in ("gpus", "loads")
        )
        page.close()
        return text

    def leave(self) -> str:
        """Return everything that the person got: answers, pages as they were shown, and the stream until its end."""
        self._context.tracing.stop(path=self._folder / f"{self._name}.zip")
        self._context.close()
        entries = json.loads(self._har.read_text())["log"]["entries"]
        answers = [entry["response"]["content"].get("text", "") for entry in entries]
        assert sum(entry["response"]["status"] == httpx.codes.OK for entry in entries) > len(PAGES)
        return "\n".join([*answers, *self._shown, self._stream.result()])

    def _open(self, path: str) -> Page:
        page = self._context.new_page()
        page.goto(f"/{path}")
        expect(page.locator("html")).to_have_attribute("data-live", "yes")
        return page

    def _row(self, workload: str) -> Locator:
        return self._list.get_by_role("row").filter(has=self._list.get_by_role("link", name=workload, exact=True))

    def _keep(self, page: Page, act: str) -> None:
        page.screenshot(path=self._folder / f"{act}-{self._name}.png", full_page=True)
        self._shown.append(page.content())


def stream(url: str, headers: dict[str, str]) -> str:
    """Return all events until the dashboard ends."""
    texts: list[str] = []
    with (
        contextlib.suppress(httpx.RemoteProtocolError),
        httpx.stream("GET", f"{url}/events", headers=headers, trust_env=False, timeout=None) as answer,  # noqa: S113
    ):
        texts.extend(answer.iter_text())
    return "".join(texts)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the recording."""
    kept = Path(os.environ.get(KEPT_IN) or tmp_path)
    kept.mkdir(parents=True, exist_ok=True)
    return kept


@pytest.fixture
def installed(cluster: Cluster, tmp_path: Path) -> InstalledMuster:
    """The chart with its dashboard, on 8 nodes of 8 GPUs in two cliques, beside the controllers of the kinds."""
    cluster.start_scheduler()
    cluster.add_nodes(8, labels=lambda number: {CLIQUE: f"clique-{number // 4}"})
    for name in CONTROLLERS:
        start_controller(cluster, name)
    add_priorities(cluster, PRIORITIES)
    options = [f"--set={value}" for value in CHOSEN]
    Helm(tmp_path, cluster)("install", "muster", CHART, f"--namespace={NAMESPACE}", *options)
    until_gated(cluster)
    until_jobs_are_admitted(cluster)
    muster = InstalledMuster(cluster)
    processes: list[Process] = []
    cluster.api.wait_for(f"/api/v1/namespaces/{NAMESPACE}/pods", lambda _: bool(muster.play(processes)))
    assert muster.dashboard is not None
    return muster


@contextmanager
def people(cluster: Cluster, url: str, folder: Path) -> Iterator[dict[str, Person]]:
    """The tenants, and an operator who may see everything."""
    tokens = {name: add_tenant(cluster, name) for name in (FALCON, ORCHID)}
    tokens[OPERATOR] = token_of(cluster, *make_viewer(cluster).split("/"))
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        yield {name: Person(name, browser, url, token, folder) for name, token in tokens.items()}
        browser.close()


def test_what_two_tenants_and_an_operator_see(cluster: Cluster, installed: InstalledMuster, folder: Path) -> None:
    assert installed.dashboard is not None
    with people(cluster, installed.dashboard.url, folder) as everybody:
        four_kinds_start(cluster, everybody)
        a_fifth_waits(cluster, everybody)
        a_sixth_preempts(cluster, everybody)
        both_start(cluster, everybody)
        assert len({person.counts() for person in everybody.values()}) == 1
        for page in PAGES:
            for person in everybody.values():
                person.reads(page, f"5-{page or 'workloads'}")
        installed.dashboard.process.terminate()
        got = {name: person.leave() for name, person in everybody.items()}
    assert "orchid-train" in got[ORCHID]
    assert "falcon-vision" in got[FALCON]
    assert ORCHID not in got[FALCON]
    assert FALCON not in got[ORCHID]


def four_kinds_start(cluster: Cluster, everybody: dict[str, Person]) -> None:
    """Gangs of four kinds fill the nodes."""
    create(cluster, ORCHID, job("orchid-train"), job_set("orchid-sweep"))
    create(cluster, FALCON, leader_worker_set("falcon-serve"), *gang("falcon-ring", 2, priorityClassName="usual"))
    for owner, other, workload in (
        (ORCHID, FALCON, "job-orchid-train"),
        (ORCHID, FALCON, "jobset-orchid-sweep"),
        (FALCON, ORCHID, "leaderworkerset-falcon-serve-0"),
        (FALCON, ORCHID, "falcon-ring"),
    ):
        for name in (owner, OPERATOR):
            everybody[name].sees(workload, "running")
        everybody[other].misses(workload)
    for person in everybody.values():
        person.keep("1-four-run")


def a_fifth_waits(cluster: Cluster, everybody: dict[str, Person]) -> None:
    """The tenant of the fifth gang reads how many gangs have the room, and no name."""
    create(cluster, FALCON, pytorch_job("falcon-vision"))
    text = {}
    for name in (FALCON, OPERATOR):
        everybody[name].sees("pytorchjob-falcon-vision", "pending", because="NoRoom")
        text[name] = everybody[name].reads("workloads/falcon/pytorchjob-falcon-vision", "2-waits")
    assert "other namespace" in text[FALCON]
    assert "orchid/job-orchid-train" in text[OPERATOR]


def a_sixth_preempts(cluster: Cluster, everybody: dict[str, Person]) -> None:
    """The tenant whose job is evicted reads why without a name."""
    create(cluster, FALCON, stateful_set("falcon-answer"))
    for name in (FALCON, OPERATOR):
        everybody[name].sees("statefulset-falcon-answer", "running")
    text = {}
    for name in (ORCHID, OPERATOR):
        everybody[name].sees("job-orchid-train", "pending")
        text[name] = everybody[name].reads("workloads/orchid/job-orchid-train", "3-preempted")
    assert "preempted by a workload of another namespace" in text[ORCHID]
    assert "preempted by falcon/statefulset-falcon-answer" in text[OPERATOR]


def both_start(cluster: Cluster, everybody: dict[str, Person]) -> None:
    """The sixth ends, and pods of the fourth: the fifth has room, and the evicted job has room again."""
    cluster.kubectl("delete", "statefulset/falcon-answer", "pod/falcon-ring-0", "pod/falcon-ring-1", f"-n={FALCON}")
    for name in (FALCON, OPERATOR):
        everybody[name].sees("pytorchjob-falcon-vision", "running")
        everybody[name].misses("statefulset-falcon-answer")
        everybody[name].misses("falcon-ring")
    for name in (ORCHID, OPERATOR):
        everybody[name].sees("job-orchid-train", "running")
    for person in everybody.values():
        person.keep("4-starts")


def create(cluster: Cluster, namespace: str, *objects: Object) -> None:
    cluster.kubectl("create", f"--namespace={namespace}", "-f", "-", stdin=write_all(objects))


def template(priority: str, container: str = "main") -> Object:
    """The template of pods with 8 GPUs each."""
    spec = {**pod("any")["spec"], "priorityClassName": priority}
    spec["containers"][0]["name"] = container
    return {"spec": spec}


def opted_in(kind: str, version: str, name: str, spec: Object) -> Object:
    meta = {"name": name, "labels": {"muster.dev/gang": "true"}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def job(name: str) -> Object:
    pods = template("low")
    pods["spec"]["restartPolicy"] = "Never"
    size = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    return opted_in("Job", "batch/v1", name, {**size, "template": pods})


def job_set(name: str) -> Object:
    pods = template("usual")
    pods["spec"]["restartPolicy"] = "Never"
    replicated_job = {
        "name": "trial",
        "replicas": 2,
        "template": {"spec": {"parallelism": 1, "completions": 1, "template": pods}},
    }
    return opted_in("JobSet", "jobset.x-k8s.io/v1alpha2", name, {"replicatedJobs": [replicated_job]})


def leader_worker_set(name: str) -> Object:
    both = {"size": 2, "workerTemplate": template("usual")}
    spec = {"replicas": 1, "leaderWorkerTemplate": both}
    return opted_in("LeaderWorkerSet", "leaderworkerset.x-k8s.io/v1", name, spec)


def pytorch_job(name: str) -> Object:
    roles = {role: {"replicas": 1, "template": template("low", "pytorch")} for role in ("Master", "Worker")}
    return opted_in("PyTorchJob", "kubeflow.org/v1", name, {"pytorchReplicaSpecs": roles})


def stateful_set(name: str) -> Object:
    pods = template("urgent") | {"metadata": {"labels": {"app": name}}}
    spec = {"replicas": 2, "podManagementPolicy": "Parallel", "serviceName": name}
    return opted_in(
        "StatefulSet", "apps/v1", name, spec | {"selector": {"matchLabels": {"app": name}}, "template": pods}
    )
