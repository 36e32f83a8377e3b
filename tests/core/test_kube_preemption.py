"""kube-scheduler preempts for a pod of no gang: no gang is broken in part, and whole ones go where nobody else can."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.advisory import Mode
from extender.core.effects import Nominate, Turned
from extender.core.limits import Limits, Preempts
from extender.core.turns import Turn
from policies.model import Pod, Victim
from tests.builders import GPU, cluster, gang, key, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster, running
from tests.core.script import Script

OFF = Limits(preemption_s=60.0)


def urgent(gpus: int = 8, priority: int = 10, name: str = "urgent") -> Pod:
    return single(name, gpus=gpus, priority=priority)


class Asked:
    """Two nodes with a gang of two on them, and an urgent pod for which kube-scheduler would delete one of its pods."""

    def __init__(self, *, limits: Limits = OFF, writes: bool = True, priority: int = 10) -> None:
        self.script = Cluster(*cluster("a: 2x8"), limits=limits, writes=writes)
        self.low = running(self.script, "low", 2)
        self.pod = urgent(priority=priority)
        self.script.see(self.pod)
        self.node = self.script.pods[self.low[0].uid].node or ""
        self.other = self.script.pods[self.low[1].uid].node or ""

    def ask(self) -> dict[str, tuple[str, ...]]:
        return self.script.preempt(self.script.pods[self.pod.uid], {self.node: (self.low[0].uid,)})

    def restart(self) -> Cluster:
        """Another extender, which reads what is left."""
        return Cluster(*cluster("a: 2x8"), *self.script.pods.values(), limits=OFF)


def test_the_whole_gang_gives_way_and_the_room_is_kept_for_the_pod() -> None:
    asked = Asked()
    script, pod, node = asked.script, asked.pod, asked.node
    assert asked.ask() == {}, "kube-scheduler would delete one of them"
    assert sorted(script.evicted) == ["low-0", "low-1"]
    assert script.kept is not None
    assert script.kept.victims[0].key == key("low")
    assert [name for name, _ in script.kept.rooms] == [node]
    other = single("other", gpus=8, priority=5)
    script.leave(*asked.low)
    assert set(script.filter(other)) == {asked.other}
    script.see(gang("next", 2, priority=5))
    assert not script.planned(script.pods["uid-next-0"]), "one node is left"
    assert node in script.filter(pod)
    script.bind(pod, node)
    assert script.bindings[pod.uid].node == node
    script.post_all()
    assert script.kept is None, "what it was for is done"
    assert not script.core.state.preemptions.under_way


def test_its_turning_points_are_those_of_a_pod_of_no_gang() -> None:
    asked = Asked()
    asked.ask()
    asked.script.advance(OFF.preemption_s + 1)
    told = [
        one
        for one in asked.script.effects
        if isinstance(one, Turned) and one.turn in (Turn.PREEMPTING, Turn.UNRESERVED)
    ]
    assert [(one.turn, one.alone) for one in told] == [(Turn.PREEMPTING, True), (Turn.UNRESERVED, True)]


def test_no_gang_goes_where_pods_of_no_gang_would_do() -> None:
    script = Cluster(*cluster("a: 3x8"), single("dev", gpus=8, node="a-2"), limits=OFF)
    low = running(script, "low", 2)
    pod = urgent()
    script.see(pod)
    victims: dict[str, tuple[str, ...]] = {script.pods[one.uid].node or "": (one.uid,) for one in low}
    assert script.preempt(pod, victims | {"a-2": ("uid-dev",)}) == {"a-2": ("uid-dev",)}
    assert not script.evicted
    assert not script.written


@pytest.mark.parametrize(
    "limits", [OFF, replace(OFF, preemption=Preempts.ON), replace(OFF, preemption=Preempts.DRY_RUN)]
)
def test_it_does_not_depend_on_whether_workloads_preempt(limits: Limits) -> None:
    asked = Asked(limits=limits)
    asked.ask()
    assert sorted(asked.script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_when_it_is_switched_off() -> None:
    asked = Asked(limits=replace(OFF, pods_preempt_gangs=False))
    assert asked.ask() == {}
    assert not asked.script.written
    assert not asked.script.evicted


def test_a_gang_with_a_member_of_the_same_priority_stays() -> None:
    asked = Asked()
    asked.script.change(asked.low[1], priority=10)
    assert asked.ask() == {}
    assert not asked.script.written


@pytest.mark.parametrize("facts", [{"preempts": False}, {"scheduler": "other"}, {"node": "a-9"}, {"deleting": True}])
def test_nobody_goes_for_a_pod_that_may_not_preempt_or_does_not_wait(facts: dict[str, object]) -> None:
    asked = Asked()
    asked.script.change(asked.pod, **facts)
    assert asked.ask() == {}
    assert not asked.script.written


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
    asked = Asked(writes=False)
    asked.ask()
    assert not asked.script.evicted
    asked.script.write(asked.script.written[-1])
    assert sorted(asked.script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_for_a_pod_on_which_it_cannot_be_written() -> None:
    asked = Asked(writes=False)
    asked.ask()
    asked.script.write(asked.script.written[-1], "the API server said no")
    assert not asked.script.evicted
    assert not asked.script.core.state.preemptions.under_way
    assert asked.ask() == {}
    assert asked.script.turns(Turn.PREEMPTING) == 1, "not again until something has changed"


def test_nobody_goes_for_a_pod_that_has_been_deleted_meanwhile() -> None:
    asked = Asked(writes=False)
    asked.ask()
    asked.script.gone(asked.script.pods[asked.pod.uid])
    asked.script.write(asked.script.written[0])
    assert not asked.script.evicted
    assert not asked.script.core.state.preemptions.under_way


def test_the_same_question_gets_the_same_answer_and_evicts_nobody_else() -> None:
    asked = Asked()
    script = asked.script
    asked.ask()
    script.see(*cluster("b: 1x8"), single("dev", gpus=8, node="b-0"))
    assert asked.ask() == {}
    assert script.preempt(asked.pod, {"b-0": ("uid-dev",)}) == {}, "room is on its way elsewhere"
    assert len(script.evicted) == 2


def test_the_gang_that_matters_least_goes() -> None:
    """By its priority, then by how many pods go."""
    script = Cluster(*cluster("a: 4x8"), limits=OFF)
    higher, large, small = (
        running(script, "higher", 1, priority=5),
        running(script, "large", 2),
        running(script, "small", 1),
    )
    pod = urgent()
    script.see(pod)
    on = {one.uid: script.pods[one.uid].node or "" for one in (*higher, *large, *small)}
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


def test_room_elsewhere_ends_it() -> None:
    asked = Asked()
    script = asked.script
    asked.ask()
    script.leave(*asked.low)
    script.see(*cluster("b: 1x8"))
    script.bind(asked.pod, "b-0")
    assert script.kept is None
    assert asked.node in script.filter(single("other", gpus=8))


def test_a_gang_that_does_not_go_in_time_ends_it_until_room_comes_free() -> None:
    asked = Asked()
    script = asked.script
    asked.ask()
    script.advance(61)
    assert script.kept is None
    assert script.turns(Turn.UNRESERVED) == 1
    told = len(script.evicted)
    assert asked.ask() == {}
    script.advance(60)
    assert len(script.evicted) == told


def test_a_restart_goes_on_with_it() -> None:
    asked = Asked()
    asked.ask()
    asked.script.leave(asked.low[0])
    again = asked.restart()
    again.advance(1)
    assert again.evicted == ["low-1"]
    again.leave(asked.low[1])
    assert again.filter(single("other", gpus=8), [asked.node]) == ()
    assert again.filter(asked.pod, [asked.node]) == (asked.node,)


def test_what_somebody_else_has_written_on_a_pod_evicts_nobody_it_may_not() -> None:
    asked = Asked()
    script = asked.script
    asked.ask()
    kept = script.kept
    assert kept is not None
    (room,) = kept.rooms
    forged = (
        replace(kept, rooms=((asked.node, ((GPU, 9),)),)),
        replace(kept, rooms=(room, (asked.other, room[1]))),
        replace(kept, rooms=()),
        replace(kept, victims=(Victim(key("low"), "", ("another",)),)),
        replace(kept, until=0.0),
    )
    for one in forged:
        script.pods[asked.pod.uid] = replace(script.pods[asked.pod.uid], reservation=one)
        again = asked.restart()
        assert not again.evicted
        assert again.kept is None
        assert len(again.written) == 1
    script.pods[asked.pod.uid] = replace(script.pods[asked.pod.uid], reservation=kept, priority=0)
    assert not asked.restart().evicted


def test_what_is_left_on_a_pod_that_runs_is_taken_off_after_a_restart() -> None:
    asked = Asked()
    asked.ask()
    script = asked.script
    script.pods[asked.pod.uid] = replace(script.pods[asked.pod.uid], node="a-9")
    again = asked.restart()
    assert [effect.reservation for effect in again.written] == [None]
    assert not again.evicted


def test_nobody_goes_who_has_run_for_less_than_the_minimum() -> None:
    asked = Asked(limits=replace(OFF, min_runtime_s=100.0))
    assert asked.ask() == {}
    assert not asked.script.evicted
    asked.script.advance(101)
    asked.ask()
    assert sorted(asked.script.evicted) == ["low-0", "low-1"]


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


def test_a_nomination_that_leads_nowhere_is_cleared() -> None:
    asked = Asked()
    asked.script.change(asked.pod, nominated_node=asked.node)
    asked.ask()
    assert any(isinstance(effect, Nominate) and effect.node is None for effect in asked.script.effects)


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
    asked = Asked()
    there = [pod for pod in asked.script.pods.values() if pod.uid != asked.pod.uid]
    script = Script(*cluster("a: 2x8"), *there, asked.pod, mode=Mode.ADVISE)
    assert script.preempt(asked.pod, {asked.node: (asked.low[0].uid,)}) == {}
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
    asked = Asked(limits=replace(OFF, min_runtime_s=100.0))
    asked.ask()
    asked.script.see(*cluster("b: 1x8"))
    asked.script.advance(200)
    assert not asked.script.written
    asked.script.drop("b-0")
    asked.script.advance(2)
    assert sorted(asked.script.evicted) == ["low-0", "low-1"]


def test_nobody_goes_later_for_a_pod_that_waits_no_more() -> None:
    asked = Asked(limits=replace(OFF, min_runtime_s=100.0))
    asked.ask()
    asked.script.gone(asked.script.pods[asked.pod.uid])
    asked.script.advance(200)
    assert not asked.script.written
    assert asked.script.core.next_wake() is None


def test_no_gang_goes_while_it_is_not_known_who_the_others_are() -> None:
    """A pod of no gang that is about to be gone, or that the watch has yet to show: it may be enough that it goes."""
    asked = Asked()
    victims: dict[str, tuple[str, ...]] = {asked.node: (asked.low[0].uid,), "a-9": ("uid-unknown",)}
    assert asked.script.preempt(asked.pod, victims) == {}
    assert not asked.script.written
    asked.script.see(*cluster("b: 1x8"), replace(single("unknown", gpus=8), node="b-0"))
    asked.script.advance(2)
    assert not asked.script.written, "it would do"


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
    """kube-scheduler knows already that somebody has ended: we will, too."""
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
