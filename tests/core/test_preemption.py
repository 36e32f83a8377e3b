"""Others give way to a workload that lacks room: who, in which order, and what becomes of the room."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome, Reserved
from extender.core.effects import Effect, Evict, Reserve, SuspendJob, Turned
from extender.core.events import GroupJobSeen, Synced
from extender.core.limits import Limits, Preempts
from extender.core.turns import Turn
from policies.model import Dialect, GroupRef, Node, Pod, PodSets, Reservation
from tests.builders import cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script
from tests.core.test_enqueues import KEY, WAITS, made

ON = Limits(preemption=Preempts.ON, preemption_s=60.0)


class Cluster(Script):
    """Writes reservations down at once, unless it is told not to."""

    def __init__(self, *facts: Node | Pod, writes: bool = True, limits: Limits = ON) -> None:
        self.writes = writes
        self.written: list[Reserve] = []
        super().__init__(*facts, limits=limits)

    def _note(self, effect: Effect) -> None:
        super()._note(effect)
        if isinstance(effect, Reserve):
            self.written.append(effect)
            if self.writes:
                self.write(effect)

    def write(self, effect: Reserve, detail: str = "") -> None:
        if not detail and effect.pod is not None and effect.pod.uid in self.pods:
            self.change(self.pods[effect.pod.uid], reservation=effect.reservation)
        self.feed(Reserved(effect.key, effect.pod, effect.job, effect.reservation, detail))
        self.advance(0.1)

    @property
    def kept(self) -> Reservation | None:
        return self.written[-1].reservation if self.written else None

    def leave(self, *pods: Pod) -> None:
        """They have been told to go, and go."""
        for pod in pods:
            self.change(pod, deleting=True)
        self.gone(*(self.pods[pod.uid] for pod in pods))

    def turns(self, turn: Turn) -> int:
        return sum(isinstance(effect, Turned) and effect.turn is turn for effect in self.effects)


def running(
    script: Cluster, name: str, size: int, gpus: int = 8, priority: int = 0, least: int | None = None
) -> list[Pod]:
    """A gang that is bound. ``least``: so many of it have to run, if not all."""
    pods = gang(name, size, min_member=least, gpus=gpus, priority=priority)
    script.see(pods)
    script.run(pods)
    assert len(script.bound(pods)) == size
    return pods


def lacks(script: Cluster, name: str) -> str:
    """What is taken to keep those of it that wait from being planned."""
    demand = script.gang(name).asked
    assert demand is not None
    return str(demand.trouble)


def test_a_gang_of_a_higher_priority_evicts_a_whole_gang_and_starts_there() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    assert sorted(script.evicted) == ["low-0", "low-1"]
    assert script.reason("high") == "Preempting"
    assert "default/low" in script.message("high")
    script.leave(low[0])
    assert not script.planned(high[0]), "all of it has to go first"
    script.leave(low[1])
    assert sorted(map(script.planned, high)) == ["a-0", "a-1"]
    script.run(high)
    assert len(script.bound(high)) == 2
    assert script.kept is None, "nothing is kept any more"


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
    assert script.turns(Turn.PREEMPTING) == 1, "not again until something has changed"


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
    asked = script.written[-1]
    script.gone(*high)
    script.write(asked)
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
    assert "had yet to go" in script.message("high")
    told = len(script.evicted)
    assert script.kept is None
    script.advance(300)
    assert len(script.evicted) == told
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


@pytest.mark.parametrize("outcome", [Outcome.UNKNOWN, Outcome.REFUSED])
def test_a_job_whose_suspension_did_not_come_about_in_time_runs_on(outcome: Outcome) -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, job(1, name="low"))
    pods = low.run()
    low.obeys = False
    script.see(gang("high", 1, priority=10))
    low.wait(65)
    assert script.turns(Turn.UNRESERVED) == 1
    script.feed(JobWritten(low.seen.key, low.seen.uid, outcome))
    low.wait(120)
    assert len(low.stops) == 1, "nobody waits for its room any more"
    assert (script.reason("low"), script.bound(pods)) == ("Running", ["a-0"])


def test_a_pod_of_a_job_that_is_to_be_suspended_says_so_until_nobody_waits_for_its_room() -> None:
    script = Cluster(*cluster("a: 2x8"))
    low = Controlled(script, job(2, name="low"))
    first, _ = low.run()
    low.obeys = False
    high = gang("high", 1, priority=10)
    script.see(high)
    script.see(replace(first, uid="uid-again", name="again"))
    script.change(first, deleting=True)
    assert "default/high" in lacks(script, "low")
    script.see(*cluster("b: 1x8"))
    assert script.planned(high[0]) == "b-0"
    assert "default/high" not in lacks(script, "low")


def test_a_pod_of_a_job_says_so_before_its_suspension_can_be_written_again() -> None:
    script, seen = Cluster(*cluster("a: 2x8")), job(2, name="low")
    fewer = PodSets(seen.key, (replace(seen.podsets.podsets[0], minimum=1),))
    low = Controlled(script, replace(seen, podsets=fewer))
    first, _ = low.run()
    low.obeys = False
    script.see(gang("high", 1, priority=10), *cluster("b: 1x8"))
    script.feed(JobWritten(seen.key, seen.uid, Outcome.REFUSED))
    script.change(first, deleting=True)
    script.see(replace(first, uid="uid-again", name="again"), gang("next", 1, priority=10))
    assert sum(isinstance(effect, SuspendJob) for effect in script.effects) == 1
    assert "default/next" in lacks(script, "low")


def test_a_job_is_suspended_and_runs_again_when_there_is_room() -> None:
    script = Cluster(*cluster("a: 1x8"))
    low = Controlled(script, job(1, name="low"))
    low.run()
    high = gang("high", 1, priority=10)
    script.see(high)
    low.settle()
    assert len(low.stops) == 1
    assert "default/high" in low.stops[0]
    assert not script.evicted, "what deletes the pods of a job counts as a failure"
    low.delete()
    low.show(stopped=True)
    low.settle()
    assert script.planned(high[0]) == "a-0"
    script.run(high)
    script.see(*cluster("b: 1x8"))
    low.settle()
    assert len(low.starts) == 2
    assert len(script.bound(low.run())) == 1


def test_a_job_that_preempts_says_so_on_itself() -> None:
    script = Cluster(*cluster("a: 1x8"), single("dev", gpus=8, node="a-0"))
    seen = job(1, name="high")
    podset = seen.podsets.podsets[0]
    urgent = replace(podset, template=replace(podset.template, priority=10))
    high = Controlled(script, replace(seen, podsets=replace(seen.podsets, podsets=(urgent,))))
    asked = script.written[0]
    assert asked.job is not None
    assert asked.pod is None
    assert script.evicted == ["dev"]
    script.leave(script.pods["uid-dev"])
    high.settle()
    assert len(high.starts) == 1
    assert not script.core.state.preemptions.under_way


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
    """Nobody of an equal priority, nobody beyond the nodes that it names, and no more room than is asked for."""
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
        assert again.turns(Turn.PREEMPTING) == 1 or forged is others, "it is searched for anew"


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
    """There is nothing that its reservation could be written on."""
    script = Cluster(*cluster("a: 2x8"))
    running(script, "low", 2)
    script.feed(GroupJobSeen(made(priority=10)))
    script.see(WAITS)
    script.advance(1)
    assert script.turns(Turn.PREEMPTING) == 0
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


def test_the_surplus_of_a_gang_gives_way_and_the_gang_runs_on() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 2, priority=10)
    script.see(urgent)
    script.advance(0.5)
    assert script.evicted == ["low-2", "low-3"]
    assert script.kept is not None
    assert [str(one) for one in script.kept.victims] == ["pod default/low-2", "pod default/low-3"]
    script.leave(*pods[2:])
    script.advance(0.5)
    assert sorted(script.planned(pod) for pod in urgent) == ["a-2", "a-3"]
    assert script.core.state.workloads[key("low")].whole


def test_a_gang_goes_with_its_surplus_where_that_alone_makes_too_little_room() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 3, priority=10)
    script.see(urgent)
    script.advance(0.5)
    assert sorted(script.evicted) == [pod.name for pod in pods]


def test_no_surplus_goes_of_which_the_gang_needs_a_member_by_then() -> None:
    """A member is lost between the decision and the moment when it is known to be written down."""
    script = Cluster(*cluster("a: 4x8"), writes=False)
    pods = running(script, "low", 4, least=3)
    urgent = gang("urgent", 1, priority=10)
    script.see(urgent)
    script.advance(0.5)
    script.gone(script.pods[pods[0].uid])
    script.write(script.written[-1])
    assert not script.evicted
    script.advance(0.5)
    assert script.planned(urgent[0]) == "a-0"


def test_the_surplus_of_a_gang_keeps_the_least_of_each_role() -> None:
    script = Cluster(*cluster("a: 4x8"))
    said = GroupRef("low", Dialect.ANNOTATION, 3, role="worker", minima=(("ps", 1), ("worker", 2)))
    pods = [replace(pod, group=said) for pod in gang("low", 4)]
    pods[-1] = replace(pods[-1], group=said._replace(role="ps"))
    script.see(pods)
    script.advance(0.5)
    script.run(pods)
    script.see(gang("urgent", 1, priority=10))
    script.advance(0.5)
    assert script.evicted == ["low-2"]


def test_after_a_restart_a_surplus_goes_that_is_one_still() -> None:
    script = Cluster(*cluster("a: 4x8"))
    pods = running(script, "low", 4, least=2)
    urgent = gang("urgent", 2, priority=10)
    script.see(urgent)
    script.leave(pods[3])
    left = [script.pods[pod.uid] for pod in (*pods[:3], *urgent)]
    again = Cluster(*cluster("a: 4x8"), *left)
    again.advance(1)
    assert again.evicted == ["low-2"]
    fewer = Cluster(*cluster("a: 4x8"), *left[1:])
    fewer.advance(1)
    assert not fewer.evicted, "the gang runs with two, and needs both"
    assert sorted(map(fewer.planned, urgent)) == ["a-0", "a-3"]


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
