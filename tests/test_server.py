"""The HTTP face with everything behind it but the API server: bad input gets a clear answer, never a 500."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from extender.core.events import NodeSeen
from extender.core.ledger.kube_scheduler import GANG_WAITS
from extender.runtime.quarantine import FAILURES, LEFT_OUT_NOTICE, Source
from policies.model import GroupKey, Node
from tests.running import Extender, running

pytestmark = pytest.mark.anyio


@pytest.fixture
async def extender() -> AsyncIterator[Extender]:
    async with running(*(Node(name, (("nvidia.com/gpu", 8), ("pods", 10))) for name in ("n0", "n1"))) as started:
        yield started


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


async def test_the_health_page_names_what_is_left_out_and_a_pause_makes_it_unready(extender: Extender) -> None:
    runner, event, source = extender.runner, NodeSeen(Node("odd", ())), Source("nodes", "uid-odd", "7")
    runner.quarantine.blame([(event, source)], KeyError("secret"), extender.core.state)
    runner.show(event, source)
    answer = await extender.client.get("/readyz")
    assert (answer.status_code, answer.text) == (200, f"ok\n{LEFT_OUT_NOTICE}: Node odd\n")
    for _ in range(FAILURES):
        runner.quarantine.blame_nobody()
    answer = await extender.client.get("/readyz")
    assert answer.status_code == 503
    assert "nothing new is planned for 300 s" in answer.text
    metrics = (await extender.client.get("/metrics")).text
    assert "muster_left_out_objects 1.0" in metrics
    assert "muster_planning_paused 1.0" in metrics


async def test_before_the_cluster_is_read_every_verb_says_try_again() -> None:
    starting = Extender()
    pod = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}}
    filtered = await starting.post("filter", {"Pod": pod, "NodeNames": ["n0"]})
    assert "starting" in filtered.json()["Error"]
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
    nodes = extender.core.state.workloads[GroupKey("ns", "gang")].placement
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
    assert [gang["name"] for gang in (await extender.client.get("/gangs")).json()] == ["gang"]


async def test_metrics_tell_verbs_and_gangs(extender: Extender) -> None:
    extender.member("a", size=3)
    await extender.post("bind", b"{")
    text = (await extender.client.get("/metrics")).text
    assert 'muster_verb_calls_total{outcome="error",verb="bind"} 1.0' in text
    assert "muster_gangs{" in text
    assert "muster_verb_duration_seconds_bucket" in text
