"""A replica on an API server that a test plays: it stands by, takes over, loses the Lease, and writes only between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from extender.core.engine import Engine
from extender.http.server import create_app
from extender.kube.api.connection import StandbyError
from extender.kube.client import Kube
from extender.kube.writer import KubeApi
from extender.observe.metrics import Metrics
from extender.observe.sight import DARK_S, Sight
from extender.replica import Replica
from extender.runtime.election import LeaderElection, Leadership, Lease
from extender.runtime.runner import Runner
from tests.kube.fake_api import OK, Answer, FakeApi, fake_api, refused, watch
from tests.running import eventually

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
READY = {
    "allocatable": {"nvidia.com/gpu": "8", "pods": "10"},
    "conditions": [{"type": "Ready", "status": "True"}],
}
LISTS = {
    "/api/v1/namespaces": [{"metadata": {"name": "default", "uid": "default"}}],
    "/api/v1/nodes": [{"metadata": {"name": "n0", "uid": "n0"}, "status": READY}],
    "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": [],
    "/api/v1/persistentvolumeclaims": [],
    "/api/v1/persistentvolumes": [],
    "/apis/storage.k8s.io/v1/storageclasses": [],
    "/apis/storage.k8s.io/v1/csidrivers": [],
    "/apis/storage.k8s.io/v1/csistoragecapacities": [],
    "/apis/policy/v1/poddisruptionbudgets": [],
}


def pod(name: str) -> dict[str, Any]:
    annotations = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
    container = {"name": "main", "resources": {"requests": {"nvidia.com/gpu": "1"}}}
    meta = {"name": name, "namespace": "team", "uid": name, "annotations": annotations}
    return {"metadata": meta, "spec": {"schedulerName": "muster", "containers": [container]}, "status": {}}


class Played:
    """A replica, the API server that it sees, and a client of its pages."""

    def __init__(self, api: FakeApi, kube: Kube) -> None:
        self.api = api
        self.kube = kube
        self.wall = 1000.0
        self.now = 5.0
        self.leadership = Leadership("us", wall=lambda: self.wall)
        kube._may_write = self.leadership.holds
        self.runner = Runner(Engine(), KubeApi(kube))
        self.sight = Sight(lambda: self.now)
        metrics = Metrics(lambda: self.runner.core.state, leads=self.runner.acting.is_set)
        app = create_app(self.runner, metrics, bind_timeout_s=30, max_body=1 << 20, sight=self.sight)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
        self.replica = Replica(kube, self.runner, Engine, lambda: KubeApi(kube), self.sight)
        self.election = LeaderElection(enabled=True)

    def elect(self, holder: str) -> None:
        self.leadership.seen(Lease(holder, self.wall, 15.0))

    async def writes(self, method: str, count: int) -> list[str]:
        """Wait for that many writes; returns their paths."""

        def found() -> list[str]:
            return [request.path for request in self.api.asked if request.method == method]

        await eventually(lambda: len(found()) >= count)
        return found()

    async def until(self, acting: bool) -> None:
        await eventually(lambda: (self.runner.acting.is_set(), self.runner.standing_by) == (acting, not acting))

    async def bind(self, name: str) -> str:
        body = {"PodName": name, "PodNamespace": "team", "PodUID": name, "Node": "n0"}
        answer = await self.client.post("/bind", json=body)
        return str(answer.json()["Error"])


@asynccontextmanager
async def replica(**flags: Any) -> AsyncIterator[Played]:
    async with fake_api() as (api, kube):
        for path, items in {**LISTS, "/api/v1/pods": [pod("p0"), pod("p1")], LEASES: []}.items():
            api.on("GET", path, Answer(body={"metadata": {"resourceVersion": "1"}, "items": items}))
            api.on("WATCH", path, watch(stays_open=True))
        for name in ("p0", "p1"):
            api.on("PATCH", f"/api/v1/namespaces/team/pods/{name}/status", OK)
            api.on("POST", f"/api/v1/namespaces/team/pods/{name}/binding", OK)
            api.on("GET", f"/api/v1/namespaces/team/pods/{name}", Answer(body=pod(name)))
        played = Played(api, kube)
        running = asyncio.create_task(
            played.replica.run(LeaderElection(**{"enabled": True, **flags}), played.leadership)
        )
        try:
            if flags.get("enabled", True):
                # The Lease that this API server does not have has been looked for: from now on the test tells of it.
                await eventually(lambda: ("WATCH", LEASES) in [(request.method, request.path) for request in api.asked])
            yield played
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await played.runner.drain()
            await played.client.aclose()


pytestmark = pytest.mark.anyio


async def test_a_replica_that_stands_by_is_ready_knows_the_gangs_and_writes_nothing() -> None:
    async with replica() as played:
        await played.until(acting=False)
        played.elect("them_1")
        assert (await played.client.get("/readyz")).text == "ok, standing by\n"
        assert [gang["name"] for gang in (await played.client.get("/gangs")).json()] == ["train"]
        assert "muster_leader 0.0" in (await played.client.get("/metrics")).text
        assert "stands by" in await played.bind("p0")
        assert {request.method for request in played.api.asked} == {"GET", "WATCH"}


async def test_without_leader_election_it_acts_as_soon_as_it_has_read_the_cluster() -> None:
    async with replica(enabled=False) as played:
        played.kube._may_write = lambda: True
        await played.writes("PATCH", 2)
        assert (await played.client.get("/readyz")).text == "ok\n"


async def test_it_takes_over_with_everything_that_it_has_followed() -> None:
    async with replica() as played:
        await played.until(acting=False)
        played.elect("us_1")
        assert sorted(await played.writes("PATCH", 2)) == [f"/api/v1/namespaces/team/pods/p{n}/status" for n in (0, 1)]
        assert "muster_leader 1.0" in (await played.client.get("/metrics")).text
        assert (await played.client.get("/readyz")).text == "ok\n"


async def test_after_a_takeover_it_lags_behind_until_the_watch_of_pods_shows_what_was_newest_then() -> None:
    async with replica() as played:
        await played.until(acting=False)
        assert not played.kube.behind
        newest = Answer(body={"metadata": {"resourceVersion": "7"}, "items": []})
        played.api.on("GET", "/api/v1/pods", refused(500), newest)
        played.elect("us_1")
        await played.until(acting=True)
        assert played.kube.behind
        await eventually(lambda: [ask.query.get("limit") for ask in played.api.asked].count("1") == 2)
        assert played.kube.behind, "the watch has shown version 1"
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "7"}}}
        played.api.on("WATCH", "/api/v1/pods", watch(bookmark, stays_open=True))
        played.api.end_streams()
        await eventually(lambda: not played.kube.behind)
        assert played.runner.acting.is_set()


async def test_a_call_that_comes_before_the_news_of_the_election_waits_for_it() -> None:
    async with replica() as played:
        await played.until(acting=False)
        calling = asyncio.create_task(played.bind("p0"))
        await asyncio.sleep(0)
        played.elect("us_1")
        await played.until(acting=True)
        assert [*await asyncio.gather(calling, played.bind("p1"))] == ["", ""]


async def test_whoever_loses_the_lease_fails_what_it_holds_and_writes_no_more() -> None:
    async with replica() as played:
        await played.until(acting=False)
        played.elect("us_1")
        await played.writes("PATCH", 2)
        held = asyncio.create_task(played.bind("p0"))
        await eventually(lambda: bool(played.runner.core.state.binds.held))
        played.elect("them_1")
        assert "does not lead any more" in await asyncio.wait_for(held, 10)
        await played.until(acting=False)
        assert "stands by" in await played.bind("p1")
        assert not [request for request in played.api.asked if request.path.endswith("/binding")]
        played.elect("us_2")
        bound = await asyncio.gather(played.bind("p0"), played.bind("p1"))
        assert [*bound] == ["", ""]


async def test_a_write_that_is_asked_for_after_the_lease_ran_out_is_not_sent() -> None:
    """The event loop may learn of it later than the clock does: the moment of the write counts."""
    async with replica() as played:
        await played.until(acting=False)
        played.elect("us_1")
        await played.until(acting=True)
        before = len(played.api.asked)
        played.leadership._until = 0.0  # ten seconds have passed without a renewal
        with pytest.raises(StandbyError):
            await played.kube.patch_status("team", "p0", "p0", {"nominatedNodeName": "n0"})
        assert len([request for request in played.api.asked[before:] if request.method == "PATCH"]) <= 2


async def test_a_replica_that_hears_nothing_is_not_ready_and_says_of_what() -> None:
    async with replica() as played:
        await played.until(acting=False)
        played.now += DARK_S
        assert (await played.client.get("/readyz")).status_code == 200
        played.now += 5
        for kind in played.sight.ages().keys() - {"pods"}:
            played.sight.heard(kind)
        answer = await played.client.get("/readyz")
        silence = "the API server has said nothing about pods for 95 s: what Muster knows is old\n"
        assert (answer.status_code, answer.text) == (503, silence)
        assert (await played.client.get("/healthz")).status_code == 200, "a restart would not help"
        detail = (await played.client.get("/readyz?verbose")).text.splitlines()
        assert detail[2:4] == ["csidrivers: last heard of 0 s ago", "csistoragecapacities: last heard of 0 s ago"]
        assert "pods: last heard of 95 s ago" in detail
        played.sight.heard("pods")
        assert (await played.client.get("/readyz")).text == "ok, standing by\n"
