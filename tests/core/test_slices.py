"""Planning in slices: each is bounded whatever pods declare, others come in between, and their changes are seen.

Between the slices of a cycle others look for quota, or wait behind others for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from extender.core.effects import Nominate, Report, Ungate
from extender.core.events import BindArrived, NodeGone, NodeSeen, PodGone, PodSeen, Synced, Tick
from extender.core.explain.reasons import reason_of
from extender.core.limits import Limits
from policies.model import GANG_GATE, Node, Pod, Topology
from policies.model.queues import Evicts, Preemption, Strategy
from tests.builders import cluster, gang, node, single
from tests.core.invariants import validate
from tests.core.preempting import ON
from tests.core.queues import FLAVOR, Queued, cluster_queue, flavor, in_queue, show, sort
from tests.core.script import Script
from tests.core.sliced import NODES, ONE, appear, choosy, pinned, step, ticks, until_walking
from tests.effort import calls


def test_a_gang_of_too_many_shapes_is_told_so_with_the_limit() -> None:
    script = Script(*cluster("a: 4x8"), *choosy("odd", 5), limits=Limits(shapes=4))
    assert script.reason("odd") == "TooManyShapes"
    assert "5 different shapes" in script.message("odd")
    assert "may have at most 4 (max_gang_shapes)" in script.message("odd")
    script.see(*choosy("fine", 4, gpus=8))
    assert script.reason("fine") == "Placed"


def test_pins_are_no_shapes() -> None:
    """A plan that was forgotten leaves each member pinned to its node."""
    pods = pinned(gang("pinned", 3), "a-2", "a-0", "a-1")
    script = Script(*cluster("a: 4x8"), *pods, limits=Limits(shapes=2))
    assert [script.planned(pod) for pod in pods] == ["a-2", "a-0", "a-1"]
    full = pinned(gang("late", 3), "a-3", "a-1", "a-2")
    script.see(full)
    assert script.reason("late") == "NoRoom"
    assert script.message("late").startswith(
        "1 of 3 members fit at once: the others are pinned to, or have volumes on, nodes that are full"
    )


def test_pinned_members_and_others_are_placed_together() -> None:
    pods = gang("mixed", 4, gpus=4)
    pods = [*pinned(pods[:3], "a-0", "a-0", "b-0"), pods[3]]
    script = Script(*cluster("a: 1x8", "b: 2x8"), *pods, limits=Limits(shapes=2))
    assert [script.planned(pod) for pod in pods[:3]] == ["a-0", "a-0", "b-0"]
    assert script.planned(pods[3]) == "b-0"


def test_pinned_members_do_not_break_what_they_require() -> None:
    pods = [replace(pod, topology=Topology("clique")) for pod in pinned(gang("apart", 3), "a-0", "a-1", "b-0")]
    script = Script(*cluster("a: 2x8", "b: 2x8"), *pods, limits=Limits(shapes=2))
    assert script.reason("apart") == "NoRoom"
    assert not any(map(script.planned, pods))


@pytest.mark.parametrize(
    "pods",
    [
        choosy("odd", 16, terms=120),
        choosy("odd", 16, terms=120, gpus=1),
        choosy("many", 300, terms=60),
        gang("large", 1500, gpus=1),
        gang("large", 1500, gpus=9),
        [replace(pod, topology=Topology("clique")) for pod in gang("close", 1000, gpus=1)],
    ],
    ids=["no room", "room", "too many", "large", "large, no room", "a clique"],
)
def test_no_slice_is_long(pods: list[Pod]) -> None:
    script = Script(*NODES, checked=10_000)
    script.see(gang("first", 2))
    appear(script, pods)
    counted = ticks(script)
    assert max(counted) < 16_500
    assert script.reason(pods[0].group_key.name if pods[0].group_key else "") in ("Placed", "NoRoom", "TooManyShapes")
    validate(script.core.state)


def test_new_reasons_of_many_gangs_are_settled_and_reported_in_slices() -> None:
    script = Script(*cluster("a: 2x8"), limits=Limits(slice_units=100), checked=10_000)
    for number in range(200):
        appear(script, gang(f"gang-{number}", 3))
    workloads = script.core.state.workloads.values()
    renewed, reported = list[int](), list[int]()

    def go_on(seconds: float) -> None:
        until = script.now + seconds
        while (wake := script.core.next_wake()) is not None and wake <= until:
            script.now = max(script.now, wake)
            before = [workload.reason_state.cause for workload in workloads]
            effects = script.feed(Tick())
            after = [workload.reason_state.cause for workload in workloads]
            renewed.append(sum(now != then for now, then in zip(after, before, strict=True)))
            reported.append(sum(isinstance(effect, Report) for effect in effects))

    go_on(5)
    script.see(single("takes", gpus=5, node="a-0"))  # and so the numbers in all reasons change
    go_on(40)
    assert (sum(renewed), sum(reported)) == (400, 200)
    assert max(renewed) < 10
    assert max(reported) <= 32


def test_one_namespace_leaves_a_pass_to_the_others() -> None:
    crowd = [choosy(f"odd{number:02}", 16, terms=100, namespace="greedy") for number in range(40)]
    limits = Limits(excess_units=5000)
    script = Script(*cluster("a: 6x8", "b: 6x8"), limits=limits, checked=10_000)
    for pods in crowd:
        appear(script, pods)
    until_walking(script)
    modest = gang("modest", 2)
    appear(script, modest)
    slices = 0
    while not script.planned(modest[0]):
        step(script)
        slices += 1
    greedy = [gang for key, gang in script.core.state.workloads.items() if key.namespace == "greedy"]
    looked_at = sum(reason_of(gang.reason_state.cause).code == "NoRoom" for gang in greedy)
    assert looked_at < 20
    assert slices * limits.slice_units < 60_000
    script.advance(5)
    assert {reason_of(gang.reason_state.cause).code for gang in greedy} == {"NoRoom"}, "all are looked at in the end"


def half_planned(*facts: Node | Pod, pods: list[Pod]) -> Script:
    """The gang's plan is being made."""
    script = Script(*facts, limits=ONE)
    appear(script, pods)
    until_walking(script)
    for _ in range(6):
        step(script)
    assert not any(map(script.planned, pods))
    assert script.core.passes[1]
    return script


def test_room_that_is_taken_while_a_plan_is_made_is_not_promised() -> None:
    pods = choosy("train", 2, gpus=8)
    script = half_planned(*cluster("a: 2x8", "b: 2x8"), pods=pods)
    script.see(*(single(f"busy-{name}", gpus=8, node=name) for name in ("a-0", "b-1")))
    script.advance(1)
    assert sorted(map(script.planned, pods)) == ["a-1", "b-0"]


def test_a_node_that_goes_while_a_plan_is_made_is_not_promised() -> None:
    pods = choosy("train", 2, gpus=8)
    script = half_planned(*cluster("a: 2x8", "b: 2x8"), pods=pods)
    script.feed(NodeGone("a-0"))
    script.feed(NodeSeen(node("c-0", clique="c")))
    script.advance(1)
    assert sorted(map(script.planned, pods)) == ["b-0", "b-1"]


def test_a_member_that_goes_while_a_plan_is_made_is_promised_nothing() -> None:
    pods = choosy("train", 3, gpus=8)
    script = half_planned(*cluster("a: 4x8"), pods=pods)
    script.gone(pods[0])
    script.advance(1)
    assert script.reason("train") == "MembersMissing"
    assert not script.core.state.claims.promised_nodes


def test_room_that_comes_while_a_plan_is_made_is_found() -> None:
    pods = choosy("train", 2, gpus=8)
    busy = single("busy", gpus=8, node="a-0")
    script = half_planned(*cluster("a: 2x8"), busy, pods=pods)
    script.gone(busy)
    script.advance(3)
    assert sorted(map(script.planned, pods)) == ["a-0", "a-1"]


def large(count: int = 250) -> list[Pod]:
    return gang("large", count, gpus=1, gates=(GANG_GATE,))


def half_promised(script: Script, pods: list[Pod]) -> None:
    appear(script, pods)
    while not 0 < len(script.gang("large").placement) < len(pods):
        step(script)


def test_no_gate_comes_off_before_every_member_has_its_node() -> None:
    pods = large()
    script = Script(*cluster("a: 40x8"), limits=ONE, checked=50)
    half_promised(script, pods)
    assert not any(isinstance(effect, Ungate) for effect in script.effects)
    script.advance(5)
    assert all(map(script.planned, pods))
    assert sum(isinstance(effect, Ungate) for effect in script.effects) == len(pods)
    assert script.reason("large") == "Placed"


def test_a_gang_that_loses_a_member_while_it_is_promised_its_nodes_gives_them_back() -> None:
    pods = large()
    script = Script(*cluster("a: 40x8"), limits=ONE, checked=50)
    half_promised(script, pods)
    script.feed(PodGone(pods[0].uid))
    script.advance(5)
    assert not script.gang("large").placement
    assert not script.core.state.claims.promised_nodes
    assert script.reason("large") == "MembersMissing"


def test_room_that_is_taken_from_a_gang_that_is_promised_its_nodes_is_looked_for_again() -> None:
    pods = large(160)
    script = Script(*cluster("a: 30x8"), limits=ONE, checked=50)
    half_promised(script, pods)
    free = [name for name in script.core.state.claims.nodes if name not in script.core.state.claims.promised_nodes]
    script.see(*(single(f"busy-{name}", gpus=8, node=name) for name in free[:8]))
    script.advance(5)
    assert all(map(script.planned, pods))
    validate(script.core.state)


def nominated(pods: list[Pod], *nodes: str) -> list[Pod]:
    return [replace(pod, nominated_node=name) for pod, name in zip(pods, nodes, strict=True)]


def restarted(limits: Limits) -> Script:
    """A running gang, one that was nominated, one whose nominations fit no more, and one that waits."""
    running = [replace(pod, node=name) for pod, name in zip(gang("runs", 2), ("a-0", "a-1"), strict=True)]
    led = nominated(gang("led", 2), "b-0", "b-1")
    misled = nominated(gang("misled", 2), "a-0", "gone")
    script = Script(*cluster("a: 4x8", "b: 4x8"), limits=limits, synced=False)
    appear(script, [*running, *led, *misled, *gang("waits", 20)])
    return script


def test_a_restart_is_taken_in_in_slices() -> None:
    script = restarted(ONE)
    script.feed(Synced())
    state = script.core.state
    assert not state.process.recovered
    script.feed(BindArrived(1, "uid-led-0", "default", "led-0", "b-0", script.now + 60))
    assert script.answers[1] == "Muster is starting; try again"
    while not state.process.recovered:
        assert script.reason("waits") == "New", "nobody is planned anew before what was promised is known"
        step(script)
    assert dict(script.gang("led").placement) == {"uid-led-0": "b-0", "uid-led-1": "b-1"}
    script.advance(5)
    at_once = restarted(Limits())
    at_once.feed(Synced())
    at_once.advance(5)
    for name in ("runs", "led", "misled", "waits"):
        assert script.reason(name) == at_once.reason(name)
        assert script.gang(name).placement == at_once.gang(name).placement
    assert script.gang("misled").placement


def test_what_happens_in_the_middle_of_a_restart_is_seen() -> None:
    script = restarted(ONE)
    script.feed(Synced())
    while not script.core.state.process.counted:
        step(script)
    script.feed(PodGone("uid-runs-1"))
    script.feed(PodSeen(single("taken", gpus=8, node="b-0")))
    script.feed(PodSeen(gang("runs", 3, min_member=2)[2]))
    assert script.gang("runs").release.complete, "it ran before, and has lost a member since"
    script.advance(5)
    assert script.core.state.process.recovered
    assert "b-0" not in script.gang("led").placement.values()
    assert all(script.gang(name).placement for name in ("led", "misled"))
    assert script.planned(gang("runs", 3)[2])


def test_a_nomination_is_written_once_for_each_member() -> None:
    pods = large(210)
    script = Script(*cluster("a: 40x8"), limits=ONE, checked=50)
    script.see(*pods)
    script.advance(5)
    written = [effect.uid for effect in script.effects if isinstance(effect, Nominate)]
    assert sorted(written) == sorted(pod.uid for pod in pods)


def test_room_that_comes_back_after_a_gang_was_looked_at_is_news_to_it() -> None:
    """At the time of the look less was free than at the beginning of that pass."""
    small, large = single("small", gpus=1, node="a-0"), single("large", gpus=7, node="a-0")
    pods = choosy("train", 1, gpus=7)
    script = Script(*cluster("a: 1x8"), small, limits=ONE)
    appear(script, [*choosy("first", 16, terms=100), *pods])
    until_walking(script)
    for event in (PodGone(small.uid), PodSeen(large)):
        script.feed(event)
    while script.reason("train") != "NoRoom":
        step(script)
    script.feed(PodGone(large.uid))
    script.advance(5)
    assert script.planned(pods[0]) == "a-0"


SLICED = replace(ON, slice_units=1)
FLAVORED = [
    replace(node, labels={**node.labels, FLAVOR: name})
    for name, outline in (("slow", "a: 2x8"), ("fast", "b: 2x8"))
    for node in cluster(outline)
]
SORTS = (sort("slow"), sort("fast"))


def alone() -> Queued:
    """No node of either flavor has room for a gang, whose queue has quota of both."""
    script = Queued(*FLAVORED, things=(*SORTS, cluster_queue("team", {"slow": 64, "fast": 64})), limits=SLICED)
    for number in range(3):
        script.start(f"other{number}", 1, "team", priority=20)
    return script


def lent() -> Queued:
    """Another queue has borrowed of both flavors, and has to give that back."""
    quotas = {name: cluster_queue(name, {"slow": much, "fast": much}, cohort="all") for name, much in _LENT.items()}
    team = replace(quotas["team"], preemption=Preemption(reclaim=Evicts.ANY))
    script = Queued(*FLAVORED, things=(*SORTS, quotas["research"], team), limits=SLICED)
    for name, size in (("own", 1), ("borrower", 2), ("another", 1)):
        script.start(name, size, "research", priority=5)
    script.advance(60)
    return script


_LENT = {"research": 8, "team": 16}


def moments(scene: str) -> Iterator[Queued]:
    """Yield the script at each moment of a gang's planning: after one slice, two slices, and so on."""
    for count in range(100):
        script = alone() if scene == "alone" else lent()
        appear(script, in_queue("wants", 2))
        for _ in range(count):
            step(script)
        if count > 2 and not script.core.passes[1]:
            assert count > 3
            return
        yield script


@pytest.mark.parametrize("scene", ["alone", "lent"])
def test_a_member_that_goes_while_quota_is_looked_for_is_asked_for_no_more(scene: str) -> None:
    for script in moments(scene):
        script.feed(PodGone(script.pods.pop(in_queue("wants", 2)[1].uid).uid))
        script.advance(2)
        assert script.reason("wants") == "MembersMissing"


def test_who_changes_while_the_first_of_a_strict_queue_is_refused_again_is_looked_at() -> None:
    """The earlier reason is not the current one any more."""
    queue, count = cluster_queue("team", {"slow": 8}, strategy=Strategy.STRICT), 0
    for count in range(2, 20):
        script = Queued(*FLAVORED, things=(*SORTS, queue), limits=SLICED)
        for name, priority in (("first", 1), ("second", 0)):
            script.come(name, 2, "team", priority=priority)
        assert script.reason("second") == "QueueOrder"
        show(script, cluster_queue("team", {"slow": 9}, strategy=Strategy.STRICT))
        for _ in range(count):
            step(script)
        if not script.core.passes[1]:
            break
        script.feed(PodGone(script.pods.pop(in_queue("second", 2)[1].uid).uid))
        script.advance(0.5)
        assert script.reason("second") == "MembersMissing"
    assert count > 4


def test_no_slice_of_a_restart_is_long() -> None:
    script = Script(*NODES, limits=Limits(slice_units=25), checked=20_000, synced=False)
    appear(script, [pod for number in range(2500) for pod in gang(f"waits-{number}", 2, gpus=9)])
    synced = calls(lambda: script.feed(Synced()))
    assert max(synced, *ticks(script)) < 16_500
    assert script.core.state.process.recovered


@pytest.mark.parametrize("alike", [False, True])
def test_no_slice_is_long_when_there_may_be_what_many_wait_for(*, alike: bool) -> None:
    nodes, ends = cluster("a: 2x8"), single("ends", gpus=8, node="a-1")
    script = Script(*nodes, single("stays", gpus=8, node="a-0"), ends, limits=Limits(slice_units=25), checked=100_000)
    for number in range(2500):
        appear(script, gang(f"waits-{number}", 2, cpu=1 if alike else 1 + number % 90))
    ticks(script)
    for event in (NodeSeen(replace(nodes[0], labels={**nodes[0].labels, "new": "yes"})), PodGone(ends.uid)):
        script.feed(event)
        slices = ticks(script)
        assert len(slices) > 100
        assert max(slices) < 16_500


@pytest.mark.parametrize("strategy", [Strategy.BEST_EFFORT, Strategy.STRICT])
@pytest.mark.parametrize("alike", [False, True])
def test_no_slice_is_long_when_quota_comes_free_that_many_wait_for(strategy: Strategy, *, alike: bool) -> None:
    ends = replace(in_queue("ends", 1)[0], node="a-0", phase="Running")
    script = Script(*cluster("a: 2x8"), limits=Limits(slice_units=25), checked=100_000, synced=False)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}, strategy=strategy))
    script.see(ends)
    script.feed_synced()
    for number in range(2500):
        appear(script, in_queue(f"waits-{number}", 1, cpu=1 if alike else 1 + number % 90))
    ticks(script)
    assert not any(map(script.planned, script.pods.values()))
    script.feed(PodGone(ends.uid))
    slices = ticks(script)
    assert len(slices) > 3
    assert max(slices) < 16_500
    assert sum(bool(script.planned(pod)) for pod in script.pods.values()) == 1
