"""The dashboard on a real API server, from both sides: each tenant sees its own workloads, and of others counts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.sightings import GANG
from devcluster import Cluster
from devcluster.dashboard import RunningDashboard, make_viewer
from devcluster.muster import CURRENT, NAMESPACE, RunningMuster, start_muster, with_components
from extender.api.feed import FEED_PATH
from tests.integration.viewers import add_tenant, token_of

TEAMS = "team-a", "team-b"
PATIENCE_S = 60.0


class Stage:
    """Muster, its dashboard, two tenants with a gang each, and a token of everybody."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        manifests = with_components(cluster.directory / "manifests", "dashboard")
        self.muster: RunningMuster = start_muster(cluster, manifests=manifests)
        self.dashboard = RunningDashboard(cluster)
        self.muster.restart_extender(self.dashboard.settings)
        cluster.add_nodes(2, gpus=8)
        self.tokens = {"operator": token_of(cluster, *make_viewer(cluster).split("/"))}
        for team in TEAMS:
            self.tokens[team] = add_tenant(cluster, team)
            for index in range(2):
                cluster.api.create(f"/api/v1/namespaces/{team}/pods", _member(team, f"secret-of-{team}", index))
        cluster.kubectl("create", "serviceaccount", "nobody", "--namespace=default")
        self.tokens["nobody"] = token_of(cluster, "default", "nobody")

    def get(self, path: str, who: str) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self.tokens.get(who, who)}"}
        return httpx.get(f"{self.dashboard.url}{path}", headers=headers, trust_env=False, timeout=30)

    def gangs(self, who: str) -> set[str]:
        return {gang["namespace"] for gang in self.get("/api/v1/gangs", who).json()}

    def wait(self, holds: Callable[[], bool]) -> None:
        """Ask again until it holds: the feed has no event that a test could await."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.dashboard.process.tail()
            time.sleep(0.1)


def _member(namespace: str, gang: str, index: int) -> dict[str, Any]:
    annotations = {GANG: gang, "muster.dev/min-member": "2"}
    limits = {"cpu": "1", "nvidia.com/gpu": "8"}
    containers = [{"name": "main", "image": "none", "resources": {"requests": limits, "limits": limits}}]
    meta = {"name": f"{gang}-{index}", "namespace": namespace, "annotations": annotations}
    return {"metadata": meta, "spec": {"schedulerName": "muster", "containers": containers}}


@pytest.fixture(scope="module")
def stage(cluster: Cluster) -> Stage:
    new_stage = Stage(cluster)
    new_stage.wait(lambda: new_stage.gangs("operator") == {*TEAMS})
    return new_stage


def test_each_tenant_sees_its_own_and_the_operator_all(stage: Stage) -> None:
    assert stage.gangs("team-a") == {"team-a"}
    assert stage.gangs("team-b") == {"team-b"}
    assert stage.gangs("nobody") == set()


@pytest.mark.parametrize("who", ["team-a", "team-b"])
def test_nothing_that_a_tenant_reads_names_the_other(stage: Stage, who: str) -> None:
    own, other = TEAMS if who == "team-a" else reversed(TEAMS)
    paths = ["gangs", f"explain/{own}/secret-of-{own}", "queues", "domains", "topology"]
    texts = [stage.get(f"/api/v1/{path}", who) for path in paths]
    assert [response.status_code for response in texts] == [200] * len(paths)
    assert f"secret-of-{own}" in texts[0].text
    for answer in texts:
        assert f"secret-of-{other}" not in answer.text
        assert other not in answer.text
    for path in ("gangs", "explain"):
        refused = stage.get(f"/api/v1/{path}/{other}/secret-of-{other}", who)
        assert refused.status_code == 404
        missing = stage.get(f"/api/v1/{path}/{other}/nothing", who)
        assert refused.text.replace(f"secret-of-{other}", "nothing") == missing.text


def test_one_of_the_two_waits_for_the_other_and_its_tenant_is_told_without_a_name(stage: Stage) -> None:
    def waiting() -> list[str]:
        return [
            gang["namespace"] for gang in stage.get("/api/v1/gangs", "operator").json() if gang["state"] == "NoRoom"
        ]

    stage.wait(lambda: len(waiting()) == 1)
    (namespace,) = waiting()
    (other,) = {*TEAMS} - {namespace}
    path = f"/api/v1/explain/{namespace}/secret-of-{namespace}"
    assert f"{other}/secret-of-{other}" in stage.get(path, "operator").text
    text = stage.get(path, namespace).text
    assert "a workload of another namespace" in text
    assert other not in text


@pytest.mark.parametrize("token", ["no token at all", "a.b.c"])
def test_a_token_that_the_cluster_does_not_know_opens_nothing(stage: Stage, token: str) -> None:
    assert stage.get("/api/v1/gangs", token).status_code == 401
    assert httpx.get(f"{stage.dashboard.url}/api/v1/gangs", trust_env=False).status_code == 401


@pytest.mark.parametrize("who", ["operator", "team-a"])
def test_nobody_but_muster_brings_updates(stage: Stage, who: str) -> None:
    headers = {
        "Authorization": f"Bearer {stage.tokens[who]}", "Connection": "Upgrade", "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }  # fmt: skip
    answer = httpx.get(f"{stage.dashboard.url}{FEED_PATH}", headers=headers, trust_env=False)
    assert answer.status_code == 403


def test_a_dashboard_that_is_killed_has_the_picture_again(stage: Stage) -> None:
    stage.dashboard.process.kill()
    stage.dashboard.start()
    stage.wait(lambda: stage.gangs("operator") == {*TEAMS})


@contextmanager
def window(cluster: Cluster, *options: str) -> Iterator[str]:
    """The address that `muster ui` prints."""
    argv = [str(CURRENT.program), "ui", "--no-open", f"--kubeconfig={cluster.kubeconfig}", *options]
    process = cluster.start("muster-ui", argv)
    log = Path(cluster.directory) / "logs" / "muster-ui.log"
    deadline = time.monotonic() + PATIENCE_S
    while (printed := re.search(r"http://127\.0\.0\.1:\S+", log.read_text())) is None:
        assert process.running, process.tail()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield printed[0]
    process.terminate()


def test_the_window_on_a_laptop_shows_what_its_account_sees(stage: Stage, cluster: Cluster) -> None:
    options = f"--url={stage.dashboard.url}", "--account=team-a/viewer"
    with window(cluster, *options) as address, httpx.Client(trust_env=False, follow_redirects=True) as browser:
        base = address.partition("/?")[0]
        assert browser.get(f"{base}/api/v1/gangs").status_code == 403
        browser.get(address)
        answer = browser.get(f"{base}/api/v1/gangs")
        assert {gang["namespace"] for gang in answer.json()} == {"team-a"}


def test_the_account_of_the_dashboard_may_do_nothing_else(cluster: Cluster, stage: Stage) -> None:
    """``stage``: the rights are installed."""
    listed = cluster.kubectl("auth", "can-i", "--list", f"--as=system:serviceaccount:{NAMESPACE}:muster-dashboard")
    rows = [line.split() for line in listed.splitlines()[1:] if not line.startswith(" ")]
    may = {row[0] for row in rows if "create" in row[-1] or "create]" in row[-1]}
    own = {"tokenreviews.authentication.k8s.io", "subjectaccessreviews.authorization.k8s.io"}
    everybody = {
        "selfsubjectaccessreviews.authorization.k8s.io", "selfsubjectrulesreviews.authorization.k8s.io",
        "selfsubjectreviews.authentication.k8s.io",
    }  # fmt: skip
    assert may == own | everybody
