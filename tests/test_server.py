"""The HTTP face with everything behind it but the API server: bad input gets a clear answer, never a 500."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest

from extender.core.effects import Evict, Nominate, PostBinding, Report, Ungate, Wake
from extender.core.events import NodeSeen, Outcome, PodSeen, Synced
from extender.core.scheduler import Scheduler
from extender.core.verdicts import GANG_WAITS
from extender.metrics import Metrics
from extender.runner import Runner
from extender.server import create_app
from policies.model import Dialect, GroupKey, GroupRef, Node, Pod

pytestmark = pytest.mark.anyio

GPUS = (("nvidia.com/gpu", 8), ("pods", 1))


class Written:
    """A writer that succeeds at once and remembers."""

    def __init__(self) -> None:
        self.bindings: list[PostBinding] = []
        self.nominated = asyncio.Event()

    async def write_binding(self, effect: PostBinding, still_wanted: Callable[[], bool]) -> tuple[Outcome, str]:
        if not still_wanted():
            return Outcome.REFUSED, "given up"
        self.bindings.append(effect)
        return Outcome.DONE, ""

    async def write_nomination(self, effect: Nominate) -> str | None:
        self.nominated.set()
        return None

    async def write_ungate(self, effect: Ungate) -> str | None:
        return None

    async def write_wake(self, effect: Wake) -> str | None:
        return None

    async def write_eviction(self, effect: Evict) -> str | None:
        return None

    async def write_report(self, effect: Report) -> str | None:
        return None


class Extender:
    """A running extender without a cluster, and a client of it."""

    def __init__(self) -> None:
        self.core = Scheduler()
        self.written = Written()
        self.runner = Runner(self.core, self.written)
        app = create_app(self.runner, Metrics(lambda: self.core.state), bind_timeout_s=30, max_body=4 << 20)
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://muster")

    async def post(self, verb: str, body: Any) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.client.post(f"/{verb}", content=content)

    def member(self, name: str, size: int = 2) -> Pod:
        pod = Pod(name, "ns", name, GPUS, group=GroupRef("gang", Dialect.ANNOTATION, size))
        self.runner.dispatch(PodSeen(pod))
        return pod

    async def planned(self) -> None:
        """Wait for the pass that follows a change."""
        await self.written.nominated.wait()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    one = Extender()
    for name in ("n0", "n1"):
        one.runner.dispatch(NodeSeen(Node(name, (("nvidia.com/gpu", 8), ("pods", 10)))))
    one.runner.dispatch(Synced())
    yield one
    await one.runner.drain()
    await one.client.aclose()


NOISE = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"42",
    b"\xff\xfe\x00",
    b'{"Pod": 7}',
    b'{"Pod": {"metadata": {"name": 1}}}',
    b'{"NodeNames": "n0"}',
    b'{"PodUID": {}}',
    b"[" * 200_000,
    b"x" * (1 << 20),
    b'{"Pod":{"metadata":{"annotations":{"muster.dev/pod-group":"' + b"a" * 500_000 + b'"}}}}',
]


@pytest.mark.parametrize("body", NOISE, ids=range(len(NOISE)))
@pytest.mark.parametrize("verb", ["filter", "prioritize", "bind", "preempt"])
async def test_noise_gets_a_200_with_an_error_or_a_4xx(extender: Extender, verb: str, body: bytes) -> None:
    answer = await extender.post(verb, body)
    assert answer.status_code == 200 or 400 <= answer.status_code < 500
    if verb in ("filter", "bind") and answer.status_code == 200:
        assert answer.json()["Error"]
    assert (await extender.client.get("/healthz")).text == "ok\n"


async def test_a_body_over_the_limit_is_refused_before_it_is_read(extender: Extender) -> None:
    assert (await extender.post("filter", b"x" * (5 << 20))).status_code == 413


async def test_before_the_cluster_is_read_every_verb_says_try_again() -> None:
    starting = Extender()
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    asked = await starting.post("filter", {"Pod": pod, "NodeNames": ["n0"]})
    assert "starting" in asked.json()["Error"]
    bound = await starting.post("bind", {"PodName": "p", "PodNamespace": "ns", "PodUID": "u", "Node": "n0"})
    assert "starting" in bound.json()["Error"]
    assert (await starting.client.get("/readyz")).status_code == 503


async def test_a_pod_that_nobody_has_seen_is_not_bound(extender: Extender) -> None:
    answer = await extender.post("bind", {"PodName": "p", "PodNamespace": "ns", "PodUID": "ghost", "Node": "n0"})
    assert "not seen" in answer.json()["Error"]
    assert extender.written.bindings == []


async def test_the_first_member_is_held_until_the_second_one_asks(extender: Extender) -> None:
    first, second = extender.member("a"), extender.member("b")
    await extender.planned()
    nodes = extender.core.state.gangs[GroupKey("ns", "gang")].placement
    asks = [
        asyncio.create_task(
            extender.post(
                "bind", {"PodName": pod.name, "PodNamespace": "ns", "PodUID": pod.uid, "Node": nodes[pod.uid]}
            )
        )
        for pod in (first, second)
    ]
    answers = await asyncio.gather(*asks)
    assert [answer.json()["Error"] for answer in answers] == ["", ""]
    assert [effect.annotations.get("muster.dev/release-complete") for effect in extender.written.bindings] == [
        None,
        "true",
    ]


async def test_a_member_without_a_placement_gets_no_node_for_one_constant_reason(extender: Extender) -> None:
    extender.member("a", size=3)
    pod = {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": "a",
            "annotations": {"muster.dev/pod-group": "gang", "muster.dev/min-member": "3"},
        }
    }
    request = {"Pod": pod, "Nodes": None, "NodeNames": ["n0", "n1"]}
    first = await extender.post("filter", request)
    assert first.json()["NodeNames"] == []
    assert first.json()["FailedAndUnresolvableNodes"] == {"n0": GANG_WAITS, "n1": GANG_WAITS}
    assert (await extender.post("filter", request)).content == first.content


async def test_a_gang_can_be_looked_at(extender: Extender) -> None:
    extender.member("a", size=3)
    answer = await extender.client.get("/gangs/ns/gang")
    assert answer.json()["min_member"] == 3
    assert [pod["name"] for pod in answer.json()["pods"]] == ["a"]
    assert (await extender.client.get("/gangs/ns/other")).status_code == 404
    assert [one["name"] for one in (await extender.client.get("/gangs")).json()] == ["gang"]


async def test_metrics_tell_verbs_and_gangs(extender: Extender) -> None:
    extender.member("a", size=3)
    await extender.post("bind", b"{")
    text = (await extender.client.get("/metrics")).text
    assert 'muster_verb_calls_total{outcome="error",verb="bind"} 1.0' in text
    assert "muster_gangs{" in text
    assert "muster_verb_duration_seconds_bucket" in text


async def test_of_two_reports_that_wait_for_their_turn_only_the_newer_is_written() -> None:
    written, told = Written(), []

    async def write_report(effect: Report) -> str | None:
        told.append(effect.code)
        return None

    written.write_report = write_report  # type: ignore[method-assign]
    runner = Runner(Scheduler(), written, writes_at_once=1)
    for code, warning in (("Busy", True), ("Placed", False), ("Forgotten", True), ("Running", False)):
        runner._tell(Report(GroupKey("ns", "busy" if code == "Busy" else "gang"), None, None, code, "", warning))
    await asyncio.gather(*runner._tasks)
    assert told == ["Busy", "Running"]
    await runner.drain()
