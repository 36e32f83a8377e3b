"""Workloads are evicted for one that lacks room: which, in which order, and what happens to the room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Evict, Milestone, Reserve
from extender.core.events import GroupJobSeen, PodGone, Synced
from extender.core.limits import Limits, Preempts
from tests.builders import cluster, gang, key, node, single
from tests.core.preempting import ON, Cluster, lacks, running
from tests.core.script import Script
from tests.core.sliced import step
from tests.core.taken_up import KEY, WAITS, made


def test_a_gang_of_a_higher_priority_evicts_a_whole_gang_and_starts_there() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    assert script.reason("high") == "Preempting"
    assert script.message("high") == "default/low is being evicted for it; it starts when that is gone"
    script.leave(low[0])
    assert not script.planned(high[0]), "all of it has to go first"
    script.leave(low[1])
    assert sorted(map(script.planned, high)) == ["a-0", "a-1"]
    script.run(high)
    assert len(script.bound(high)) == 2
    assert script.kept is None, "nothing is kept any more"


def test_nodes_that_come_free_first_do_not_divide_the_gang_among_cliques() -> None:
    script = Cluster(*cluster("a: 4x8", "b: 4x8"))
    low = running(script, "low", 6)
    high = gang("high", 4, priority=10)
    script.see(high)
    nodes = [str(script.pods[pod.uid].node) for pod in low]
    in_order = sorted(low, key=lambda pod: sum(node[0] == str(script.pods[pod.uid].node)[0] for node in nodes))
    for pod in in_order[:3]:
        script.leave(script.pods[pod.uid])
        assert not any(map(script.planned, high)), "five nodes are free, in two cliques"
    for pod in in_order[3:]:
        script.leave(script.pods[pod.uid])
    assert len({str(script.planned(pod))[0] for pod in high}) == 1


def test_all_who_give_way_are_named() -> None:
    script = Cluster(*cluster("a: 2x8"))
    for name in ("one", "two"):
        running(script, name, 1)
    script.see(gang("high", 2, priority=10))
    message = script.message("high")
    assert sorted(message.split(" are being ")[0].split(", ")) == ["default/one", "default/two"]
    assert message.endswith(" are being evicted for it; it starts when they are gone")


def test_nothing_is_told_before_it_is_written_down() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    running(script, "low", 1)
    script.see(gang("high", 1, priority=10))
    assert script.kept is not None
    assert not script.evicted
    script.write(script.written[-1])
    assert script.evicted == ["low-0"]


def test_what_cannot_be_written_down_evicts_nobody() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    running(script, "low", 1)
    script.see(gang("high", 1, priority=10))
    script.write(script.written[-1], "the API server said no")
    assert not script.evicted
    assert "the API server said no" in script.message("high")
    script.advance(120)
    assert not script.evicted


@pytest.mark.parametrize("mode", [Preempts.OFF, Preempts.DRY_RUN])
def test_nobody_is_evicted_when_it_is_off_or_a_dry_run(mode: Preempts) -> None:
    script = Cluster(*cluster("a: 1x8"), limits=Limits(preemption=mode))
    running(script, "low", 1)
    script.see(gang("high", 1, priority=10))
    script.advance(60)
    assert not script.evicted
    assert not script.written
    assert script.reason("high") == "NoRoom"
    assert ("default/low" in script.message("high").split("dry run")[-1]) is (mode is Preempts.DRY_RUN)


def test_nobody_of_the_same_priority_and_nobody_for_a_class_that_never_preempts() -> None:
    script = Cluster(*cluster("a: 1x8"))
    running(script, "low", 1, priority=10)
    script.see(gang("equal", 1, priority=10), gang("polite", 1, priority=20, preempts=False))
    script.advance(60)
    assert not script.evicted


def test_what_it_lacks_is_said_once() -> None:
    script = Cluster(*cluster("a: 1x8"))
    running(script, "same", 1, priority=10)
    script.see(gang("high", 1, priority=10))
    lacks = "0 of 1 members fit at once: 0 of 1 nodes have room for 8 nvidia.com/gpu"
    assert script.message("high") == f"{lacks}; nothing may be evicted"


def test_pods_of_no_gang_go_and_those_that_stay_with_their_node_or_are_critical_do_not() -> None:
    script = Cluster(
        *cluster("a: 3x8"),
        single("dev", gpus=8, node="a-0"),
        single("daemon", gpus=8, node="a-1", stays=True),
        single("system", gpus=8, node="a-2", priority=2_000_000_000),
    )
    high = gang("high", 1, priority=2_000_001_000)
    script.see(high)
    assert script.evicted == ["dev"]
    script.leave(script.pods["uid-dev"])
    assert script.planned(high[0]) == "a-0"


@pytest.mark.parametrize(("large", "small"), [("a", "b"), ("b", "a")])
def test_of_pods_that_cost_as_much_the_smaller_one_that_suffices_goes(large: str, small: str) -> None:
    pods = [single(name, gpus=0, cpu=cpu, node="n", priority=0) for name, cpu in ((large, 40), (small, 30))]
    script = Cluster(node("n", 0, cpu=70), *pods)
    wants = gang("wants", 1, gpus=0, cpu=30, priority=10)
    script.see(wants)
    script.advance(1)
    assert script.evicted == [small]
    script.leave(script.pods[f"uid-{small}"])
    assert script.planned(wants[0]) == "n"


def test_the_room_that_comes_free_is_for_nobody_else() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    free = script.pods[low[0].uid].node or ""
    script.leave(low[0])
    other = single("other", gpus=8, priority=5)
    assert script.filter(other, [free]) == ()
    script.see(gang("between", 1, priority=9))
    assert not script.planned(script.pods["uid-between-0"])
    script.leave(low[1])
    assert sorted(map(script.planned, high)) == ["a-0", "a-1"]


def test_a_preemptor_that_is_deleted_before_anybody_is_told_evicts_nobody() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    running(script, "low", 1)
    high = gang("high", 1, priority=10)
    script.see(high)
    write = script.written[-1]
    script.gone(*high)
    script.write(write)
    assert not script.evicted
    assert not script.core.state.preemptions.under_way


def test_a_preemptor_that_is_deleted_in_between_keeps_no_room() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    free = script.pods[low[0].uid].node or ""
    script.leave(low[0])
    other = single("other", gpus=8)
    assert script.filter(other, [free]) == ()
    script.gone(*high)
    assert script.filter(other, [free]) == (free,)


def test_victims_that_do_not_go_end_it_and_are_not_told_again_until_room_comes_free() -> None:
    script = Cluster(*cluster("a: 2x8"), single("other", gpus=8, node="a-1", priority=10))
    running(script, "low", 1)
    script.see(gang("high", 1, priority=10))
    script.advance(61)
    assert script.reason("high") == "NoRoom"
    assert "still had pods" in script.message("high")
    evictions = len(script.evicted)
    assert script.kept is None
    script.advance(300)
    assert len(script.evicted) == evictions
    script.leave(script.pods["uid-other"])
    assert script.planned(script.pods["uid-high-0"]) == "a-1"


def test_a_victim_is_told_again_while_it_is_still_there() -> None:
    script = Cluster(*cluster("a: 1x8"))
    running(script, "low", 1)
    script.see(gang("high", 1, priority=10))
    script.advance(40)
    assert len(script.evicted) == 3


def test_room_elsewhere_ends_it() -> None:
    script = Cluster(*cluster("a: 1x8"))
    running(script, "low", 1)
    high = gang("high", 1, priority=10)
    script.see(high)
    script.see(*cluster("b: 1x8"))
    assert script.planned(high[0]) == "b-0"
    assert script.kept is None


def test_room_elsewhere_for_its_quorum_ends_it_while_more_members_wait() -> None:
    script = Cluster(*cluster("a: 1x8"), writes=False)
    running(script, "low", 1)
    high = gang("high", 2, min_member=1, priority=10)
    script.see(high)
    (reserve,) = script.written
    script.see(*cluster("b: 1x8"))
    assert sorted(bool(script.planned(pod)) for pod in high) == [False, True]
    assert script.kept is None
    script.write(reserve)
    assert not script.evicted


def test_it_has_not_failed_if_more_members_than_its_quorum_find_no_room() -> None:
    """Seed 6020392: the gang had started, and the reason of its last member was that the eviction had failed."""
    script = Cluster(*cluster("a: 1x8"))
    low = running(script, "low", 1)
    high = gang("high", 2, min_member=1, priority=10)
    script.see(high)
    script.leave(*low)
    script.advance(1)
    assert sorted(bool(script.planned(pod)) for pod in high) == [False, True]
    assert script.kept is None
    assert not script.milestones(Milestone.UNRESERVED)
    assert "eviction" not in lacks(script, "high")


def test_its_room_is_kept_while_a_plan_for_more_than_its_quorum_is_committed_in_steps() -> None:
    script = Cluster(*cluster("a: 130x1"), limits=replace(ON, slice_units=1))
    low = running(script, "low", 40, gpus=1)
    high = gang("high", 130, min_member=95, gpus=1, priority=10)
    script.see(high)
    for pod in low:
        script.feed(PodGone(pod.uid))
    while not script.gang("high").filling:
        step(script)
    assert script.gang("high").has_promised_quorum
    assert script.kept is not None
    script.advance(1)
    assert all(script.planned(pod) for pod in high)
    assert script.kept is None


def test_a_victim_does_not_start_again_before_it_has_gone_and_returns_later() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    high = gang("high", 1, priority=10)
    script.see(high)
    script.leave(low[0])
    again = gang("low", 2, life="")
    script.see(replace(again[0], uid="uid-again-0", name="again-0"))
    assert script.reason("low") in ("Preempted", "Running")
    script.leave(low[1])
    assert script.planned(high[0])


def test_a_restart_goes_on_with_it() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    free = script.pods[low[0].uid].node or ""
    script.leave(low[0])
    left = [script.pods[pod.uid] for pod in (low[1], *high)]
    again = Cluster(*cluster("a: 2x8"), *left)
    again.advance(1)
    assert again.evicted == ["low-1"]
    assert again.filter(single("other", gpus=8), [free]) == ()
    again.leave(low[1])
    assert sorted(map(again.planned, high)) == ["a-0", "a-1"]


def test_what_somebody_else_has_written_on_a_pod_evicts_nobody_it_may_not() -> None:
    """Pods of equal priority and pods beyond the named nodes stay, and no more room is made than requested."""
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 1)
    peer = running(script, "peer", 1, priority=10)
    high = gang("high", 1, priority=10)
    script.see(high)
    kept = script.kept
    assert kept is not None
    stamp = script.pods[peer[0].uid].stamp
    assert stamp is not None
    greedy = replace(kept, rooms=tuple((node, kept.rooms[0][1]) for node in ("a-0", "a-1")))
    others = replace(kept, victims=(kept.victims[0]._replace(key=key("peer"), releases=(stamp.release,)),))
    old = replace(kept, until=0.0)
    for forged in (greedy, others, old):
        there = [script.pods[pod.uid] for pod in (*low, *peer)]
        again = Cluster(*cluster("a: 2x8"), *there, replace(script.pods[high[0].uid], reservation=forged))
        assert "peer-0" not in again.evicted
        assert again.milestones(Milestone.PREEMPTING) == 1 or forged is others, "it is searched for anew"


def test_before_synced_nothing_happens() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = running(script, "low", 1)
    fresh = Script(
        *cluster("a: 1x8"), script.pods[low[0].uid], gang("high", 1, priority=10)[0], limits=ON, synced=False
    )
    assert not [effect for effect in fresh.effects if isinstance(effect, Evict | Reserve)]
    fresh.feed(Synced(fresh.now))
    fresh.advance(0.1)
    assert [effect for effect in fresh.effects if isinstance(effect, Reserve)]


def test_a_podgroup_whose_pods_have_yet_to_come_evicts_nobody() -> None:
    """No pod exists on which its reservation could be written."""
    script = Cluster(*cluster("a: 2x8"))
    running(script, "low", 2)
    script.feed(GroupJobSeen(made(priority=10)))
    script.see(WAITS)
    script.advance(1)
    assert script.milestones(Milestone.PREEMPTING) == 0
    assert script.evicted == []
    assert script.reason(KEY.name) == "NoRoom"


def test_nobody_is_evicted_who_has_run_for_less_than_the_minimum() -> None:
    script = Cluster(*cluster("a: 2x8"), limits=replace(ON, min_runtime_s=100.0))
    running(script, "old", 1)
    script.advance(40)
    running(script, "young", 1)
    script.advance(10)
    script.see(gang("high", 2, priority=10))
    assert not script.evicted
    assert "has run for less than its minimum" in script.message("high")
    script.advance(60)
    assert not script.evicted, "the young one has run for 70 s, and both are needed"
    script.advance(31)
    assert sorted(script.evicted) == ["old-0", "young-0"]


def test_who_has_run_for_long_enough_goes_at_once() -> None:
    script = Cluster(*cluster("a: 2x8"), limits=replace(ON, min_runtime_s=100.0))
    running(script, "old", 1, priority=5)
    script.advance(101)
    running(script, "young", 1)
    script.see(gang("high", 1, priority=10))
    assert script.evicted == ["old-0"]


def test_after_a_restart_nobody_goes_for_whom_there_is_room_by_then() -> None:
    script = Cluster(*cluster("a: 1x8"))
    (low,) = running(script, "low", 1)
    (high,) = gang("high", 1, priority=10)
    script.see([high])
    assert script.evicted == ["low-0"]
    again = Cluster(*cluster("a: 2x8"), script.pods[low.uid], script.pods[high.uid])
    again.advance(1)
    assert again.planned(high) == "a-1"
    assert not again.evicted
    assert again.kept is None
