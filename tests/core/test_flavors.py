"""The flavor of a gang, the nodes that it may use, and the flavor with which it is completed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.workload.status import Status
from policies.model import Node, Pod, Selection
from tests.builders import cluster, gang, key, node
from tests.core.jobs import Controlled, job
from tests.core.queues import FLAVOR, cluster_queue, come, flavor, in_queue, leave, reason, show, sort, used
from tests.core.script import Script


def test_the_next_flavor_is_tried_where_there_is_quota_and_no_room() -> None:
    h100 = [replace(node, labels={**node.labels, FLAVOR: "h100"}) for node in cluster("a: 4x4")]
    a100 = [replace(node, labels={**node.labels, FLAVOR: "a100"}) for node in cluster("b: 4x8")]
    script = Script(*h100, *a100)
    show(script, sort("h100"), sort("a100"), cluster_queue("team", {"h100": 64, "a100": 64}))
    come(script, in_queue("big", 2, gpus=8))
    assert {name.partition("-")[0] for name in script.core.state.workloads[key("big")].placement.values()} == {"b"}
    assert (used(script, "team", "h100"), used(script, "team", "a100")) == (0, 16)


def test_a_flavor_with_quota_for_fewer_members_is_tried_where_the_others_have_no_room() -> None:
    script = Script(*sorted_nodes(slow="a: 2x4", fast="b: 2x8"))
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 16, "fast": 8}))
    come(script, in_queue("train", 2, min_member=1))
    assert [*script.core.state.workloads[key("train")].placement.values()] == ["b-0"]


@pytest.mark.parametrize("comes", ["first", "later"])
def test_members_that_find_room_start_where_quota_for_fewer_is_left_and_the_first_ones_find_none(comes: str) -> None:
    """The first member may go to full nodes alone, and there is no quota for both."""
    script = Script(*cluster("a: 1x4"), node("b-0", 8 if comes == "first" else 4))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    first, other = in_queue("train", 2, min_member=1, gpus=8)
    held = Selection((("kubernetes.io/hostname", "a-0"),))
    come(script, [replace(first, selection=held), other])
    if comes == "later":
        assert reason(script, "train").code == "NoRoom"
        script.see(node("b-0", 8))
        script.advance(0.5)
    assert [*script.core.state.workloads[key("train")].placement.values()] == ["b-0"]


def test_a_pod_that_a_job_can_do_without_has_the_flavor_of_its_start_when_the_others_have_ended() -> None:
    script, wanted = Script(*sorted_nodes(slow="a: 1x8", fast="b: 2x8")), job(3)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"fast": 16, "slow": 0}))
    (podset,) = wanted.podsets.podsets
    wanted = replace(wanted, podsets=replace(wanted.podsets, podsets=(replace(podset, minimum=1),)), queue="team")
    train = Controlled(script, wanted)
    *first, last = train.create()
    script.run(first)
    show(script, cluster_queue("team", {"fast": 0, "slow": 8}))
    for pod in first:
        script.change(script.pods[pod.uid], phase="Succeeded")
    script.advance(5)
    assert reason(script, "job").message.endswith("it was started with flavor fast")
    assert not script.planned(last)


def test_a_flavor_holds_a_gang_to_its_nodes() -> None:
    labelled = [replace(node, labels={**node.labels, FLAVOR: "h100"}) for node in cluster("a: 2x8")]
    script = Script(*labelled, *cluster("b: 8x8"))
    show(script, sort("h100"), cluster_queue("team", {"h100": 64}))
    come(script, in_queue("first", 2))
    come(script, in_queue("second", 2))
    assert set(script.core.state.workloads[key("first")].placement.values()) == {"a-0", "a-1"}
    assert reason(script, "second").code == "NoRoom"


def sorted_nodes(slow: str, fast: str) -> list[Node]:
    """Nodes of the flavors slow and fast."""
    return [
        replace(node, labels={**node.labels, FLAVOR: name})
        for name, outline in (("slow", slow), ("fast", fast))
        for node in cluster(outline)
    ]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_gang_whose_start_broke_off_is_completed_on_nodes_of_its_flavor(*, restarts: bool) -> None:
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 2x8")
    queues = sort("fast"), sort("slow"), cluster_queue("team", {"fast": 0, "slow": 64})
    script = Script(*nodes)
    show(script, *queues)
    come(script, pods := in_queue("train", 2))
    script.bind_all(pods)
    script.post(bound := script.pods[next(iter(script.bindings))])
    lost = next(pod for pod in pods if pod.uid != bound.uid)
    nodes = [replace(node, unschedulable=node.name == script.planned(lost)) for node in nodes]
    script.see(*nodes)
    script.post(lost, Outcome.REFUSED)
    if restarts:
        script = Script(*nodes, *script.pods.values(), now=script.now, synced=False)
        show(script, *queues)
        script.feed_synced()
    script.advance(5)
    assert script.gang("train").status.value is Status.PARTIAL
    assert (script.planned(lost), script.reason("train")) == ("", "NoRoom")
    script.see(*sorted_nodes(slow="a: 3x8", fast="b: 2x8")[2:])
    assert script.planned(lost) == "a-2"


def broken_off(script: Script, pods: list[Pod], nodes: list[Node]) -> tuple[Pod, Pod]:
    """A gang with one of two pods bound, and with the node of the first one held closed since.

    Returns the other two: the first, and the one whose Binding comes last.
    """
    come(script, pods)
    script.bind_all(pods)
    bound, first = (script.pods[uid] for uid in script.bindings)
    last = next(pod for pod in pods if pod.uid not in (bound.uid, first.uid))
    script.post(bound)
    script.see(*(replace(node, unschedulable=node.name == script.planned(first)) for node in nodes))
    script.post(first, Outcome.REFUSED)
    script.post(last, Outcome.REFUSED)
    script.advance(5)
    assert script.gang("train").status.value is Status.PARTIAL
    return first, last


def test_a_member_more_of_a_gang_whose_start_broke_off_gets_the_flavor_of_the_others_until_that_is_whole() -> None:
    nodes = sorted_nodes(slow="a: 3x8", fast="b: 3x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    two = broken_off(script, in_queue("train", 3, min_member=2), nodes)
    completes, more = sorted(two, key=script.planned, reverse=True)
    assert script.planned(completes).startswith("a-")
    assert script.planned(more) == ""
    script.bind(script.pods[completes.uid])
    script.post(completes)
    script.advance(5)
    assert script.planned(more).startswith("b-")


def test_a_member_more_that_was_promised_another_flavor_does_not_complete_a_gang_whose_start_broke_off() -> None:
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 1x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    come(script, pods := in_queue("train", 3, min_member=2))
    script.advance(1)
    more = next(pod for pod in pods if script.planned(pod) == "b-0")
    two = [pod for pod in pods if pod is not more]
    script.bind_all(two)
    script.post(bound := script.pods[next(iter(script.bindings))])
    lost = next(pod for pod in two if pod.uid != bound.uid)
    script.see(*(replace(node, unschedulable=node.name == script.planned(lost)) for node in nodes))
    script.post(lost, Outcome.REFUSED)
    script.advance(5)
    assert script.gang("train").status.value is Status.PARTIAL
    assert (script.planned(lost), script.planned(more)) == ("", "")
    script.see(*nodes)
    script.advance(5)
    assert sorted((script.planned(lost), script.planned(more))) == ["", "a-1"]


def test_a_member_that_uses_no_quota_completes_a_gang_whose_start_broke_off_on_nodes_of_any_flavor() -> None:
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 1x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    here, large, there = pods = in_queue("train", 3, min_member=2)
    for at, name in ((0, "a-0"), (2, "b-0")):
        held = Selection((("kubernetes.io/hostname", name),))
        pods[at] = replace(pods[at], requests=(("cpu", 1000),), selection=held)
    come(script, pods)
    script.advance(1)
    assert script.planned(there) == "b-0"
    script.bind_all(pods[:2])
    script.post(here)
    script.see(*(replace(node, unschedulable=node.name == script.planned(large)) for node in nodes))
    script.post(large, Outcome.REFUSED)
    assert script.gang("train").status.value is Status.PARTIAL
    assert script.planned(there) == "b-0"


def test_a_gang_whose_start_broke_off_is_completed_by_the_members_that_find_room() -> None:
    """The gang lacks one member, and two wait. The node of the first one has been closed."""
    nodes = sorted_nodes(slow="a: 2x8", fast="b: 2x8")
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    bound, large, small = pods = in_queue("train", 3, min_member=2)
    pods[2] = small = replace(small, requests=(("cpu", 1000),))
    come(script, pods)
    script.bind_all(pods)
    assert small.uid in script.bindings
    script.post(bound)
    script.see(*(replace(node, unschedulable=node.name == script.planned(large)) for node in nodes))
    script.post(small, Outcome.REFUSED)
    script.post(large, Outcome.REFUSED)
    script.advance(5)
    assert (script.planned(large), script.planned(small)) == ("", "a-0")


def test_a_gang_whose_start_broke_off_holds_no_role_to_a_flavor_that_the_role_does_not_ask_for() -> None:
    script = Script(*sorted_nodes(slow="a: 2x8", fast="b: 2x8"))
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 64, "fast": 64}))
    pods = in_queue("train", 2)
    pods = [
        replace(pod, selection=Selection(((FLAVOR, name),))) for pod, name in zip(pods, ("slow", "fast"), strict=True)
    ]
    come(script, pods)
    script.bind_all(pods)
    script.post(pods[0])
    script.post(pods[1], Outcome.REFUSED)
    script.advance(5)
    assert script.gang("train").status.value is Status.PARTIAL
    assert script.planned(pods[1]).startswith("b-")


def test_a_flavor_whose_nodes_all_count_as_those_of_another_is_not_for_gangs() -> None:
    """After a restart their flavor could not be determined."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("first"), flavor("second"), cluster_queue("team", {"first": 8, "second": 16}))
    come(script, in_queue("first", 2))
    assert reason(script, "first").code == "NoQuota"
    assert "flavor second: its nodes count as those of flavor first" in reason(script, "first").message
    controlled = Controlled(script, replace(job(2), queue="team"))
    assert controlled.starts[0].flavors == {"": {"nvidia.com/gpu": "second"}}, "a job carries its flavors"


def test_a_member_more_takes_room_of_another_flavor_that_comes_free() -> None:
    """The gang runs with one flavor. Room of the other flavor comes free, and nothing else has changed."""
    nodes = [node("fast-0", labels={FLAVOR: "fast"}), node("slow-0", labels={FLAVOR: "slow"})]
    script = Script(*nodes)
    show(script, sort("slow"), sort("fast"), cluster_queue("team", {"slow": 16, "fast": 16}))
    other = gang("other", 1, priority=5)
    come(script, [replace(other[0], selection=Selection((("kubernetes.io/hostname", "slow-0"),)))])
    script.run([script.pods[other[0].uid]])
    pods = in_queue("train", 2, min_member=1)
    come(script, pods)
    script.run([pod for pod in pods if script.planned(pod)])
    script.advance(30)
    assert len(script.bound(pods)) == 1
    leave(script, other)
    script.advance(5)
    assert sorted(map(script.planned, pods)) != ["", ""]
    assert {script.planned(pod) or script.pods[pod.uid].node for pod in pods} == {"fast-0", "slow-0"}
