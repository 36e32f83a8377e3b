"""kube-scheduler preempts for a single pod: no gang is broken in part, and whole ones are evicted only as a last
resort.

It ends by a restart, by room elsewhere, or by victims that stay.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Milestone, Nominate, Reached
from extender.core.events import PodsSeen, Tick
from extender.core.gate.advisory import Mode
from extender.core.limits import Limits, Preempts
from policies.model import CLIQUE, Constraints, Term, Victim
from tests.builders import GPU, cluster, gang, key, node, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import OFF, ON, Asked, Cluster, running, urgent
from tests.core.relations import APART, HOST, TRAIN
from tests.core.script import Script


def test_the_whole_gang_gives_way_and_the_room_is_kept_for_the_pod() -> None:
    case = Asked()
    script, pod, node = case.script, case.pod, case.node
    assert case.ask() == {}, "kube-scheduler would delete one of them"
    assert sorted(script.evicted) == ["low-0", "low-1"]
    assert script.kept is not None
    assert script.kept.victims[0].key == key("low")
    assert [name for name, _ in script.kept.rooms] == [node]
    other = single("other", gpus=8, priority=5)
    script.leave(*case.low)
    assert set(script.filter(other)) == {case.other}
    script.see(gang("next", 2, priority=5))
    assert not script.planned(script.pods["uid-next-0"]), "one node is left"
    assert node in script.filter(pod)
    script.bind(pod, node)
    assert script.bindings[pod.uid].node == node
    script.post_all()
    assert script.kept is None, "what it was for is done"
    assert not script.core.state.preemptions.under_way


@pytest.mark.parametrize(("cpus", "go"), [(1, ["low-10"]), (3, ["low-10", "low-8", "low-9"])])
def test_the_surplus_of_a_gang_goes_by_rank_where_that_is_enough(cpus: int, go: list[str]) -> None:
    """Eleven pods with a minimum of 1 fill a node; kube-scheduler would delete any of them. volcano#5984"""
    script = Cluster(node("n", 0, cpu=11), limits=OFF)
    low = running(script, "low", 11, gpus=0, least=1)
    pod = single("urgent", gpus=0, cpu=cpus, priority=100)
    script.see(pod)
    assert script.preempt(pod, {"n": tuple(pod_of_low.uid for pod_of_low in low[:cpus])}) == {}
    assert sorted(script.evicted) == go
    script.leave(*(script.pods[f"uid-{name}"] for name in go))
    script.bind(pod, "n")
    script.post_all()
    assert script.gang("low").has_bound_quorum
    assert not script.core.state.preemptions.under_way


def test_a_gang_goes_as_a_whole_where_its_surplus_is_not_enough() -> None:
    script = Cluster(node("n", 0, cpu=4), limits=OFF)
    low = running(script, "low", 4, gpus=0, least=2)
    pod = single("urgent", gpus=0, cpu=3, priority=100)
    script.see(pod)
    assert script.preempt(pod, {"n": tuple(pod_of_low.uid for pod_of_low in low[:3])}) == {}
    assert len(script.evicted) == 4


def test_the_eviction_of_a_surplus_goes_on_after_a_restart() -> None:
    script = Cluster(node("n", 0, cpu=4), limits=OFF)
    low = running(script, "low", 4, gpus=0, least=2)
    pod = single("urgent", gpus=0, priority=100)
    script.see(pod)
    script.preempt(pod, {"n": (low[0].uid,)})
    assert script.evicted == ["low-3"]
    again = Cluster(node("n", 0, cpu=4), *script.pods.values(), limits=OFF)
    again.advance(1)
    assert again.evicted == ["low-3"]
    assert again.filter(single("other", gpus=0, priority=5)) == ("n",)
    again.leave(again.pods["uid-low-3"])
    assert again.filter(single("other", gpus=0, priority=5)) == ()


def test_its_turning_points_are_those_of_a_pod_of_no_gang() -> None:
    case = Asked()
    case.ask()
    case.script.advance(OFF.preemption_s + 1)
    reached = [
        effect
        for effect in case.script.effects
        if isinstance(effect, Reached) and effect.milestone in (Milestone.PREEMPTING, Milestone.UNRESERVED)
    ]
    assert [(event.milestone, event.alone) for event in reached] == [
        (Milestone.PREEMPTING, True),
        (Milestone.UNRESERVED, True),
    ]


def test_no_gang_goes_where_pods_of_no_gang_would_do() -> None:
    script = Cluster(*cluster("a: 3x8"), single("dev", gpus=8, node="a-2"), limits=OFF)
    low = running(script, "low", 2)
    pod = urgent()
    script.see(pod)
    victims: dict[str, tuple[str, ...]] = {
        script.pods[pod_of_low.uid].node or "": (pod_of_low.uid,) for pod_of_low in low
    }
    assert script.preempt(pod, victims | {"a-2": ("uid-dev",)}) == {"a-2": ("uid-dev",)}
    assert not script.evicted
    assert not script.written


@pytest.mark.parametrize(
    "limits", [OFF, replace(OFF, preemption=Preempts.ON), replace(OFF, preemption=Preempts.DRY_RUN)]
)
def test_it_does_not_depend_on_whether_workloads_preempt(limits: Limits) -> None:
    case = Asked(limits=limits)
    case.ask()
    assert sorted(case.script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_when_it_is_switched_off() -> None:
    case = Asked(limits=replace(OFF, pods_preempt_gangs=False))
    assert case.ask() == {}
    assert not case.script.written
    assert not case.script.evicted


def test_a_gang_with_a_member_of_the_same_priority_stays() -> None:
    case = Asked()
    case.script.change(case.low[1], priority=10)
    assert case.ask() == {}
    assert not case.script.written


@pytest.mark.parametrize("facts", [{"preempts": False}, {"scheduler": "other"}, {"node": "a-9"}, {"deleting": True}])
def test_nobody_goes_for_a_pod_that_may_not_preempt_or_does_not_wait(facts: dict[str, object]) -> None:
    case = Asked()
    case.script.change(case.pod, **facts)
    assert case.ask() == {}
    assert not case.script.written


def test_a_job_is_suspended_and_none_of_its_pods_deleted() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    low = Controlled(script, job(1, name="low"))
    (member,) = low.run()
    pod = urgent()
    script.see(pod)
    assert script.preempt(pod, {"a-0": (member.uid,)}) == {}
    low.settle()
    assert len(low.stops) == 1
    assert "default/pod urgent" in low.stops[0]
    assert not script.evicted
    low.delete()
    low.show(stopped=True)
    low.settle()
    assert len(low.starts) == 1, "the room is kept"
    script.bind(pod, "a-0")
    script.post_all()
    script.see(*cluster("b: 1x8"))
    low.settle()
    assert len(low.starts) == 2


def test_nobody_is_told_before_it_is_written_down() -> None:
    case = Asked(writes=False)
    case.ask()
    assert not case.script.evicted
    case.script.write(case.script.written[-1])
    assert sorted(case.script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_for_a_pod_on_which_it_cannot_be_written() -> None:
    case = Asked(writes=False)
    case.ask()
    case.script.write(case.script.written[-1], "the API server said no")
    assert not case.script.evicted
    assert not case.script.core.state.preemptions.under_way
    assert case.ask() == {}
    assert case.script.milestones(Milestone.PREEMPTING) == 1, "not again until something has changed"


def test_nobody_goes_for_a_pod_that_has_been_deleted_meanwhile() -> None:
    case = Asked(writes=False)
    case.ask()
    case.script.gone(case.script.pods[case.pod.uid])
    case.script.write(case.script.written[0])
    assert not case.script.evicted
    assert not case.script.core.state.preemptions.under_way


def test_the_same_question_gets_the_same_answer_and_evicts_nobody_else() -> None:
    case = Asked()
    script = case.script
    case.ask()
    script.see(*cluster("b: 1x8"), single("dev", gpus=8, node="b-0"))
    assert case.ask() == {}
    assert script.preempt(case.pod, {"b-0": ("uid-dev",)}) == {}, "room is on its way elsewhere"
    assert len(script.evicted) == 2


def test_the_gang_that_matters_least_goes() -> None:
    """The order is by priority, then by how many pods are evicted."""
    script = Cluster(*cluster("a: 4x8"), limits=OFF)
    higher, large, small = (
        running(script, "higher", 1, priority=5),
        running(script, "large", 2),
        running(script, "small", 1),
    )
    pod = urgent()
    script.see(pod)
    on = {low_pod.uid: script.pods[low_pod.uid].node or "" for low_pod in (*higher, *large, *small)}
    assert script.preempt(pod, {node: (uid,) for uid, node in on.items()}) == {}
    assert script.evicted == ["small-0"]


def test_beside_a_gang_kube_scheduler_evicts_pods_of_no_gang_once_the_gang_has_gone() -> None:
    script = Cluster(*cluster("a: 1x8"), single("dev", gpus=4, node="a-0"), limits=OFF)
    low, pod = running(script, "low", 1, gpus=4), urgent()
    script.see(pod)
    assert script.pods[low[0].uid].node == "a-0"
    assert script.preempt(pod, {"a-0": (low[0].uid, "uid-dev")}) == {}
    assert script.evicted == ["low-0"]
    script.leave(*low)
    script.see(*cluster("b: 1x8"), single("late", gpus=8, node="b-0"))
    assert script.preempt(pod, {"a-0": ("uid-dev",), "b-0": ("uid-late",)}) == {"a-0": ("uid-dev",)}
    assert script.filter(single("other", gpus=4, priority=5), ["a-0"]) == ()
    script.leave(script.pods["uid-dev"])
    script.bind(pod, "a-0")
    assert script.bindings[pod.uid].node == "a-0"


def test_a_gang_gives_way_to_one_alone_whatever_kube_scheduler_asks_while_victims_are_looked_for() -> None:
    for steps in range(12):
        script = Cluster(*cluster("a: 1x8"), limits=replace(ON, slice_units=1), writes=False)
        (low,) = running(script, "low", 1)
        script.see(pod := urgent(priority=20))
        script.advance(3)
        script.feed(PodsSeen(tuple(gang("high", 1, priority=10))))
        for _ in range(steps):
            script.now = max(script.now, script.core.next_wake() or script.now)
            script.feed(Tick())
        script.preempt(pod, {"a-0": (low.uid,)})
        script.advance(5)
        assert len(script.core.state.preemptions.under_way) == 1, steps


def test_a_gang_gives_way_with_the_room_that_is_kept_for_its_lost_member() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    lost, stays = running(script, "low", 2, gpus=4)
    script.gone(script.pods[lost.uid])
    assert script.gang("low").reserved
    pod = urgent()
    script.see(pod)
    assert script.preempt(pod, {"a-0": (stays.uid,)}) == {}
    assert script.evicted == [stays.name]
    assert not script.gang("low").reserved
    script.leave(script.pods[stays.uid])
    assert script.filter(pod) == ("a-0",)


def test_room_elsewhere_ends_it() -> None:
    case = Asked()
    script = case.script
    case.ask()
    script.leave(*case.low)
    script.see(*cluster("b: 1x8"))
    script.bind(case.pod, "b-0")
    assert script.kept is None
    assert case.node in script.filter(single("other", gpus=8))


def test_a_gang_that_does_not_go_in_time_ends_it_until_room_comes_free() -> None:
    case = Asked()
    script = case.script
    case.ask()
    script.advance(61)
    assert script.kept is None
    assert script.milestones(Milestone.UNRESERVED) == 1
    evictions = len(script.evicted)
    assert case.ask() == {}
    script.advance(60)
    assert len(script.evicted) == evictions


def test_a_restart_goes_on_with_it() -> None:
    case = Asked()
    case.ask()
    case.script.leave(case.low[0])
    again = case.restart()
    again.advance(1)
    assert again.evicted == ["low-1"]
    again.leave(case.low[1])
    assert again.filter(single("other", gpus=8), [case.node]) == ()
    assert again.filter(case.pod, [case.node]) == (case.node,)


def test_what_somebody_else_has_written_on_a_pod_evicts_nobody_it_may_not() -> None:
    case = Asked()
    script = case.script
    case.ask()
    kept = script.kept
    assert kept is not None
    (room,) = kept.rooms
    forged = (
        replace(kept, rooms=((case.node, ((GPU, 9),)),)),
        replace(kept, rooms=(room, (case.other, room[1]))),
        replace(kept, rooms=()),
        replace(kept, victims=(Victim(key("low"), "", ("another",)),)),
        replace(kept, until=0.0),
    )
    for reservation in forged:
        script.pods[case.pod.uid] = replace(script.pods[case.pod.uid], reservation=reservation)
        again = case.restart()
        assert not again.evicted
        assert again.kept is None
        assert len(again.written) == 1
    script.pods[case.pod.uid] = replace(script.pods[case.pod.uid], reservation=kept, priority=0)
    assert not case.restart().evicted


def test_what_is_left_on_a_pod_that_runs_is_taken_off_after_a_restart() -> None:
    case = Asked()
    case.ask()
    script = case.script
    script.pods[case.pod.uid] = replace(script.pods[case.pod.uid], node="a-9")
    again = case.restart()
    assert [effect.reservation for effect in again.written] == [None]
    assert not again.evicted


def test_nobody_goes_who_has_run_for_less_than_the_minimum() -> None:
    case = Asked(limits=replace(OFF, min_runtime_s=100.0))
    assert case.ask() == {}
    assert not case.script.evicted
    case.script.advance(101)
    case.ask()
    assert sorted(case.script.evicted) == ["low-0", "low-1"]


def test_a_gang_goes_for_nobody_whom_promised_room_would_keep_out() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    running(script, "low", 1, gpus=4)
    starting = gang("starting", 1, gpus=4, priority=5)
    script.see(starting)
    assert script.planned(starting[0]) == "a-0"
    pod = urgent()
    script.see(pod)
    assert script.preempt(pod, {"a-0": ("uid-low-0",)}) == {}
    assert not script.written


@pytest.mark.parametrize("away", [HOST, CLIQUE])
def test_a_gang_goes_for_nobody_whom_the_anti_affinity_to_one_that_starts_would_keep_out(away: str) -> None:
    """kube-scheduler does not know of members whose Bindings are yet to come."""
    script = Cluster(*cluster("a: 2x8"), limits=OFF)
    low = running(script, "low", 1, gpus=4)
    starting = [replace(member, labels=(("app", "train"),)) for member in gang("starting", 3, gpus=4, priority=20)]
    script.see(starting)
    assert {script.planned(member) for member in starting} == {"a-0", "a-1"}
    terms = (Term(away, TRAIN, ("default",)),)
    pod = replace(urgent(gpus=4), constraints=Constraints(anti_affinity=terms))
    script.see(pod)
    node = script.pods[low[0].uid].node or ""
    assert script.preempt(pod, {node: (low[0].uid,)}) == {}
    assert not script.written


@pytest.mark.parametrize("priority", [0, 10, 20])
def test_while_victims_go_no_gang_comes_that_would_keep_the_preemptor_away(priority: int) -> None:
    """A gang of a higher priority may start, because kube-scheduler accepts it first."""
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    low, pod = running(script, "low", 2, gpus=3), replace(urgent(gpus=2, priority=10), constraints=APART)
    script.see(pod)
    assert script.preempt(pod, {"a-0": (low[0].uid,)}) == {}
    script.leave(low[0])
    rival = [replace(member, labels=(("app", "train"),)) for member in gang("rival", 1, gpus=3, priority=priority)]
    script.see(rival)
    assert bool(script.planned(rival[0])) is (priority > 10)
    script.leave(low[1])
    if priority <= 10:
        assert script.filter(pod, ["a-0"]) == ("a-0",)
        script.change(pod, node="a-0")
        assert not script.planned(rival[0])


def test_a_nomination_that_leads_nowhere_is_cleared() -> None:
    case = Asked()
    case.script.change(case.pod, nominated_node=case.node)
    case.ask()
    assert any(isinstance(effect, Nominate) and effect.node is None for effect in case.script.effects)


def test_a_pod_that_was_refused_while_its_victims_went_is_woken_when_they_have_gone() -> None:
    """kube-scheduler may see that they have gone before we do, and hears of it no more."""
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    low, pod, starting = running(script, "low", 1, gpus=7), urgent(gpus=7), gang("starting", 1, gpus=1, priority=20)
    script.see(pod, starting)
    assert script.planned(starting[0]) == "a-0"
    assert script.preempt(pod, {"a-0": (low[0].uid,)}) == {}
    assert script.filter(pod, ["a-0"]) == ()
    script.leave(*low)
    assert script.woken == ["urgent"]
    assert script.filter(pod, ["a-0"]) == ("a-0",)


def test_muster_evicts_nobody_where_it_only_advises() -> None:
    case = Asked()
    there = [pod for pod in case.script.pods.values() if pod.uid != case.pod.uid]
    script = Script(*cluster("a: 2x8"), *there, case.pod, mode=Mode.ADVISE)
    assert script.preempt(case.pod, {case.node: (case.low[0].uid,)}) == {}
    assert not script.evicted


def test_a_gang_that_is_still_starting_goes_once_it_runs() -> None:
    """kube-scheduler asks again only after minutes: nothing that it hears of has changed for the pod."""
    script = Cluster(*cluster("a: 2x8"), limits=OFF)
    low, pod = gang("low", 2), urgent()
    script.see(low, pod)
    script.bind_all(low)
    script.post(low[0])
    node = script.pods[low[0].uid].node or ""
    assert script.preempt(pod, {node: (low[0].uid,)}) == {}
    script.advance(5)
    assert not script.written
    script.post_all()
    script.advance(2)
    assert sorted(script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_later_for_a_pod_that_there_is_room_for_by_then() -> None:
    case = Asked(limits=replace(OFF, min_runtime_s=100.0))
    case.ask()
    case.script.see(*cluster("b: 1x8"))
    case.script.advance(200)
    assert not case.script.written
    case.script.drop("b-0")
    case.script.advance(2)
    assert sorted(case.script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_later_for_a_pod_that_waits_no_more() -> None:
    case = Asked(limits=replace(OFF, min_runtime_s=100.0))
    case.ask()
    case.script.gone(case.script.pods[case.pod.uid])
    case.script.advance(200)
    assert not case.script.written
    assert case.script.core.next_wake() is None


def test_no_gang_goes_while_it_is_not_known_who_the_others_are() -> None:
    """A single pod is about to end, or the watch has yet to show it: its end may be enough."""
    case = Asked()
    victims: dict[str, tuple[str, ...]] = {case.node: (case.low[0].uid,), "b-0": ("uid-unknown",)}
    assert case.script.preempt(case.pod, victims) == {}
    assert not case.script.written
    case.script.see(*cluster("b: 1x8"), replace(single("unknown", gpus=8), node="b-0"))
    case.script.advance(2)
    assert not case.script.written, "it would do"


def test_no_gang_goes_later_from_a_node_that_others_have_filled_by_then() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=replace(OFF, min_runtime_s=100.0))
    low, pod = running(script, "low", 1, gpus=4), urgent()
    script.see(pod)
    assert script.preempt(pod, {"a-0": (low[0].uid,)}) == {}
    script.see(single("late", gpus=4, node="a-0", priority=20))
    script.advance(200)
    assert not script.written
    script.gone(script.pods["uid-late"])
    script.advance(2)
    assert script.evicted == ["low-0"]


def test_no_gang_goes_for_a_pod_that_does_not_fit_as_far_as_is_known() -> None:
    """kube-scheduler knows already that a pod has ended, before Muster's watch shows it."""
    script = Cluster(*cluster("a: 1x8"), single("ended", gpus=4, node="a-0", priority=20), limits=OFF)
    low, pod = running(script, "low", 1, gpus=4), urgent()
    script.see(pod)
    script.preempt(pod, {"a-0": (low[0].uid,)})
    script.advance(5)
    assert not script.written
    script.change(script.pods["uid-ended"], phase="Succeeded")
    script.advance(2)
    assert script.evicted == ["low-0"]


def test_kube_scheduler_may_ask_for_a_pod_before_the_watch_shows_it() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    low, pod = running(script, "low", 1), urgent()
    assert script.preempt(pod, {"a-0": (low[0].uid,)}) == {}
    assert not script.written
    script.see(pod)
    script.advance(2)
    assert script.evicted == ["low-0"]


def test_a_pod_that_the_watch_never_shows_is_forgotten() -> None:
    script = Cluster(*cluster("a: 1x8"), limits=OFF)
    low = running(script, "low", 1)
    script.preempt(urgent(), {"a-0": (low[0].uid,)})
    script.advance(60)
    assert script.core.next_wake() is None


def test_nothing_is_remembered_of_pods_that_gangs_were_to_give_way_to_in_vain_and_are_gone() -> None:
    case = Asked()
    script = case.script
    case.ask()
    script.advance(61)
    assert script.milestones(Milestone.UNRESERVED) == 1
    script.gone(script.pods[case.pod.uid])
    script.leave(*case.low)
    low, other = running(script, "low", 2), urgent(name="other")
    script.see(other)
    script.preempt(other, {script.bound(low)[0]: (low[0].uid,)})
    script.advance(61)
    assert [str(failed_key) for failed_key in script.core.state.preemptions.failed] == ["default/pod other"]
