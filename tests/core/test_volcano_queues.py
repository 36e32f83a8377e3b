"""Volcano's Queues: their workloads, what they may use, whose turn it is, and which Queue reclaims from which."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from extender.core.effects import Enqueue
from extender.core.events import GroupGone, GroupJobSeen, QueueGone, QueueSeen
from extender.core.explain.reasons import Reason
from extender.core.ledger.quotas import Quotas
from policies.chosen import OURS
from policies.model import Dialect, GroupRef, Pod, PodGroup
from policies.model.queues import VOLCANO, LocalQueue, VolcanoQueue
from policies.order import Proportion
from tests.builders import GPU, cluster, gang, key, node
from tests.core.preempting import ON
from tests.core.queues import Queued, cluster_queue, come, flavor, in_queue, leave, planned, reason, show, used
from tests.core.script import Script
from tests.core.taken_up import WAITS, made

NODES = f"{VOLCANO}nodes"


def queue(name: str, weight: int = 1, **facts: Any) -> VolcanoQueue:
    """The amounts are of GPUs."""
    for field in ("capability", "deserved", "guarantee"):
        facts |= {field: {GPU: facts[field]}} if field in facts else {}
    return VolcanoQueue(name, Fraction(weight), **facts)


def in_volcanos(name: str, size: int, of: str = "team", **facts: Any) -> list[Pod]:
    return in_queue(name, size, f"{VOLCANO}{of}", **facts)


def group_of(name: str, size: int, of: str = "") -> PodGroup:
    """A PodGroup of Volcano. ``of``: the queue that its spec names."""
    return PodGroup(key(name), f"uid-of-{name}", size, dialect=Dialect.VOLCANO, queue=of and f"{VOLCANO}{of}")


def of_group(name: str, size: int, queue: str = "") -> list[Pod]:
    return [replace(pod, queue=queue, group=GroupRef(name, Dialect.VOLCANO)) for pod in gang(name, size)]


def test_a_gang_waits_at_the_capability_and_starts_when_room_is_given_back() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, queue("team", capability=32))
    first = in_volcanos("first", 4)
    come(script, first)
    come(script, in_volcanos("second", 2))
    assert (planned(script, "first"), planned(script, "second")) == (4, 0)
    text = (
        "Queue team: it asks for 16 nvidia.com/gpu, and 0 of 32 nvidia.com/gpu are left; "
        "it is used by default/first (32)"
    )
    assert reason(script, "second") == Reason("NoQuota", text)
    assert used(script, f"{VOLCANO}team", NODES) == 32
    leave(script, first)
    assert planned(script, "second") == 2


def test_what_a_queue_says_nothing_of_is_neither_limited_nor_refused() -> None:
    disk = ("ephemeral-storage", 10)
    nodes = [replace(node, allocatable=(*node.allocatable, disk)) for node in cluster("a: 2x8")]
    script = Script(*nodes)
    show(script, VolcanoQueue("team", capability={"cpu": 64_000}))
    come(script, [replace(pod, requests=(*pod.requests, disk)) for pod in in_volcanos("first", 2)])
    assert planned(script, "first") == 2


@pytest.mark.parametrize(
    ("things", "why"),
    [
        ((queue("other"),), Reason("QueueMissing", "there is no Queue team of Volcano")),
        ((queue("team", closed=True),), Reason("QueueStopped", "Queue team is closed")),
        (
            (queue("team"), queue("below", parent="team")),
            Reason("QueueInactive", "Queue team has queues below it: only those have workloads"),
        ),
        (
            (queue("team", parent="ghost"),),
            Reason("QueueInactive", "Queue team cannot be used: there is no Queue ghost, which is its parent"),
        ),
    ],
)
def test_why_nobody_is_admitted(things: tuple[VolcanoQueue, ...], why: Reason) -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, *things)
    come(script, in_volcanos("first", 2))
    assert (planned(script, "first"), reason(script, "first")) == (0, why)
    for thing in things:
        script.feed(QueueGone(thing))
    script.advance(0.5)
    assert planned(script, "first") == 2, "without any such object the name says nothing of quota"


def test_what_is_wrong_with_a_queue_is_the_reason_of_those_in_it_and_below_it() -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, queue("team", parent="lab"))
    script.feed(QueueSeen(queue("lab"), problems=("its weight is no number",)))
    come(script, in_volcanos("first", 2))
    assert reason(script, "first") == Reason(
        "QueueInactive", "Queue team cannot be used: Queue lab: its weight is no number"
    )


def test_queues_of_kueue_say_nothing_of_volcanos_and_the_other_way_round() -> None:
    script = Script(*cluster("a: 8x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}))
    come(script, in_volcanos("volcanos", 2))
    come(script, in_queue("kueues", 2, "nowhere"))
    assert (planned(script, "volcanos"), planned(script, "kueues")) == (2, 0)
    script = Script(*cluster("a: 8x8"))
    show(script, queue("team", capability=8))
    come(script, in_queue("kueues", 2))
    assert planned(script, "kueues") == 2, "it names a LocalQueue, and there are none"


def test_the_podgroup_names_the_queue() -> None:
    script = Script(*cluster("a: 8x8"), group_of("first", 2, "team"))
    show(script, queue("team", capability=8), queue("default"))
    come(script, of_group("first", 2))
    assert reason(script, "first").message.startswith("Queue team: it asks for 16")


def test_pods_and_podgroup_that_name_different_queues_contradict_each_other() -> None:
    script = Script(*cluster("a: 8x8"), group_of("first", 2, "team"))
    show(script, queue("team"), queue("other"))
    come(script, of_group("first", 2, f"{VOLCANO}other"))
    assert reason(script, "first") == Reason(
        "Contradiction", "its members name Queue other, and its PodGroup Queue team"
    )
    agreed = Script(*cluster("a: 8x8"), group_of("first", 2, "team"))
    show(agreed, queue("team"))
    come(agreed, of_group("first", 2, f"{VOLCANO}team"))
    assert planned(agreed, "first") == 2


def test_a_local_queue_counts_where_both_are_named() -> None:
    script = Script(*cluster("a: 8x8"), group_of("first", 2, "small"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}), queue("small", capability=8))
    script.feed(QueueSeen(LocalQueue("default", "team", "team")))
    come(script, of_group("first", 2, "team"))
    assert planned(script, "first") == 2
    assert used(script, "team") == 16


def test_a_podgroup_that_names_no_queue_belongs_to_default_if_there_is_one() -> None:
    script = Script(*cluster("a: 8x8"), group_of("first", 2))
    show(script, queue("team"))
    first = of_group("first", 2)
    come(script, first)
    assert planned(script, "first") == 2, "it is free of quota"
    script.feed(QueueSeen(queue("default", capability=8)))
    script.advance(0.5)
    assert used(script, f"{VOLCANO}default", NODES) == 16, "what it has it is counted with"
    leave(script, first)
    come(script, in_queue("other", 2, ""))
    assert planned(script, "other") == 2, "a gang without a PodGroup of Volcano belongs to none"


def test_quota_is_used_until_the_last_pod_has_gone_though_the_podgroup_has() -> None:
    """Volcano's job controller deletes both."""
    group = group_of("first", 2, "team")
    script = Script(*cluster("a: 8x8"), group)
    show(script, queue("team", capability=16))
    first = of_group("first", 2)
    come(script, first)
    script.run(first)
    script.feed(GroupGone(group.key, group.uid, Dialect.VOLCANO))
    script.advance(0.5)
    assert used(script, f"{VOLCANO}team", NODES) == 16
    for pod in first:
        script.change(script.pods[pod.uid], deleting=True)
    show(script, queue("other"))  # a full recount
    script.advance(0.5)
    assert used(script, f"{VOLCANO}team", NODES) == 16
    leave(script, first)
    assert used(script, f"{VOLCANO}team", NODES) == 0


def test_a_job_of_volcano_is_taken_up_when_its_queue_has_quota() -> None:
    script = Script(*cluster("a: 8x8"), replace(WAITS, queue=f"{VOLCANO}team"))
    show(script, queue("team", capability=16))
    others = in_volcanos("others", 1)
    come(script, others)
    script.feed(GroupJobSeen(made()))
    script.advance(0.5)
    assert not any(isinstance(effect, Enqueue) for effect in script.effects)
    leave(script, others)
    assert any(isinstance(effect, Enqueue) for effect in script.effects)


def test_what_nodes_have_is_shared_by_proportion_and_who_has_least_comes_first() -> None:
    script = Script(*cluster("a: 8x8"), policies=replace(OURS, between=Proportion()))
    show(script, queue("big"), queue("small"))
    running = [in_volcanos(f"b{at}", 2, "big") for at in range(3)]
    for pods in running:
        come(script, pods)
    come(script, in_volcanos("taken", 2, "small"))
    come(script, in_volcanos("b-next", 2, "big"))
    come(script, in_volcanos("s-next", 2, "small"))
    leave(script, running[0])
    assert (planned(script, "b-next"), planned(script, "s-next")) == (0, 2)


@pytest.mark.parametrize("between", [None, Proportion()])
def test_a_queue_of_higher_priority_is_served_first_whatever_it_has(between: Proportion | None) -> None:
    script = Script(*cluster("a: 4x8"), policies=replace(OURS, between=between))
    show(script, queue("low"), queue("high", priority=5))
    running = [in_volcanos(f"h{at}", 1, "high") for at in range(3)]
    for pods in running:
        come(script, pods)
    come(script, in_volcanos("taken", 1, "low"))
    come(script, in_volcanos("a-low", 1, "low", priority=9))
    come(script, in_volcanos("next", 1, "high"))
    leave(script, running[0])
    assert (planned(script, "a-low"), planned(script, "next")) == (0, 1)


@pytest.mark.parametrize(("priority", "evicted"), [(0, "of-b"), (5, "of-a"), (-1, "of-b")])
def test_who_is_in_a_queue_of_lower_priority_gives_way_first(priority: int, evicted: str) -> None:
    things = (queue("a", deserved=8), queue("b", deserved=8, priority=priority), queue("own", deserved=8))
    script = Queued(*cluster("a: 4x8"), things=things, limits=ON)
    for name, importance in (("a", 9), ("b", 0)):
        script.start(f"first-{name}", 1, f"{VOLCANO}{name}", priority=99)
        script.start(f"of-{name}", 1, f"{VOLCANO}{name}", priority=importance)
    script.come("next", 1, f"{VOLCANO}own")
    assert script.evicted == [f"{evicted}-0"]


def test_nodes_that_come_and_go_change_what_is_left_beside_a_guarantee() -> None:
    script = Script(*cluster("a: 2x8"))
    show(script, queue("team"), queue("safe", guarantee=8))
    come(script, in_volcanos("first", 2))
    text = "Queue team: it asks for 16 nvidia.com/gpu, and the queue can have 8 nvidia.com/gpu at most"
    assert reason(script, "first") == Reason("NoQuota", text)
    script.see(node("more"))
    script.advance(0.5)
    assert planned(script, "first") == 2
    script.drop("more")
    come(script, in_volcanos("second", 1))
    assert reason(script, "second").code == "NoQuota"


def test_nobody_is_counted_anew_when_nodes_have_other_amounts(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, queue("lab"), queue("team", parent="lab"), queue("safe", guarantee=8))
    first = in_volcanos("first", 2)
    come(script, first)
    come(script, in_volcanos("second", 2))
    with monkeypatch.context() as patch:
        patch.setattr(Quotas, "recount", None)
        script.see(node("more"))
        script.advance(0.5)
    assert (planned(script, "second"), used(script, f"{VOLCANO}team", NODES)) == (2, 32)
    tree = script.core.state.quotas.queues.snapshot.tree
    assert [tree.cohorts[VOLCANO + name].used[NODES, GPU] for name in ("lab", "root")] == [32, 32]
    come(script, in_volcanos("third", 1))
    assert reason(script, "third").code == "NoQuota"
    leave(script, first)
    assert (planned(script, "third"), used(script, f"{VOLCANO}team", NODES)) == (1, 24)


@pytest.mark.parametrize(("weight", "evicted"), [(1, 1), (3, 0)])
def test_what_is_deserved_by_weight_is_taken_back(weight: int, evicted: int) -> None:
    script = Queued(*cluster("a: 4x8"), things=(queue("research", weight), queue("production")), limits=ON)
    script.start("own", 1, f"{VOLCANO}production")
    for name in ("first", "second", "third"):
        script.start(name, 1, f"{VOLCANO}research", priority=9)
    script.come("next", 1, f"{VOLCANO}production")
    assert len(script.evicted) == evicted
    script.come("more", 1, f"{VOLCANO}production")
    assert len(script.evicted) == evicted, "more than it deserves"


@pytest.mark.parametrize("reclaimable", [True, False])
def test_what_a_queue_deserves_it_takes_back_where_that_is_allowed(reclaimable: bool) -> None:
    things = queue("research", deserved=8, reclaimable=reclaimable), queue("production", deserved=8)
    script = Queued(*cluster("a: 2x8"), things=things, limits=ON)
    script.start("first", 1, f"{VOLCANO}research", priority=9)
    script.start("second", 1, f"{VOLCANO}research", priority=9)
    script.come("third", 1, f"{VOLCANO}production")
    assert len(script.evicted) == (1 if reclaimable else 0)
