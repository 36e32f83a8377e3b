"""How a placement is carried out: nominations first, gates last, and pins only where they are asked for."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import Nominated, Outcome, Ungated
from extender.core.effects import Nominate, Ungate
from extender.core.events import PodSeen, Synced, Tick
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Limits
from tests.builders import cluster, gang
from tests.core.script import Script
from tests.core.steered import GATED, nominations, ungates


def test_no_gate_comes_off_before_every_nomination_is_written() -> None:
    pods = gang("train", 3, **GATED)
    script = Script(*cluster("a: 3x8"), *pods, nominates=False)
    for pod in pods[:2]:
        script.feed(Nominated(pod.uid, script.planned(pod)))
    assert not ungates(script)
    script.feed(Nominated(pods[2].uid, script.planned(pods[2])))
    assert [effect.uid for effect in ungates(script)] == [pod.uid for pod in pods]
    assert all(effect.pin == () for effect in ungates(script))


def test_a_member_that_is_bound_keeps_no_gate_on_and_its_late_nomination_takes_nothing_back() -> None:
    """The nomination was written and taken up, but its answer was lost: it is repeated until it fails."""
    (first,) = gang("train", 1, min_member=1)
    _, second = gang("train", 2, min_member=1, **GATED)
    script = Script(*cluster("a: 2x8"), first, second, nominates=False)
    script.run([first])
    assert not ungates(script)
    script.feed(Nominated(second.uid, script.planned(second)))
    assert [effect.uid for effect in ungates(script)] == [second.uid]
    script.feed(Nominated(first.uid, "a-0", "the API server gave no answer"))
    assert script.planned(second)


def test_a_member_refused_in_the_middle_of_a_release_keeps_no_room_by_its_nomination() -> None:
    """Even one that is still being written: the newest wish for a pod is the one that counts."""
    first, second = pods = gang("train", 2, min_member=1)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind(first)
    assert list(script.bindings) == [first.uid]
    node = script.planned(second)
    script.effects.clear()
    script.change(script.pods[second.uid], nominated_node=None, refusal="0/2 nodes are available: 2 InterPodAffinity")
    wishes = [effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.uid == second.uid]
    assert node
    assert wishes[:1] == [None]


def test_a_member_that_could_not_be_nominated_in_the_middle_of_a_release_is_planned_anew() -> None:
    pods = gang("train", 3, min_member=2)
    script = Script(*cluster("a: 3x8"), *pods, nominates=False)
    spare = pods[2]
    script.bind_all(pods[:2])
    assert script.bindings
    script.change(spare, nominated_node=None)
    script.feed(Nominated(spare.uid, script.planned(spare), "the API server gave no answer"))
    script.effects.clear()
    script.post_all()
    assert len(script.bound(pods)) == 2
    script.advance(5)
    assert nominations(script) == [spare.name]
    script.feed(Nominated(spare.uid, script.planned(spare)))
    script.run([spare])
    assert len(script.bound(pods)) == 3


def test_what_the_watch_shows_of_a_write_counts_though_it_was_never_answered() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, nominates=False)
    planned = [script.planned(pod) for pod in pods]
    for pod, node in zip(pods, planned, strict=True):
        script.feed(Nominated(pod.uid, node, "the API server gave no answer"))
    assert [effect.uid for effect in ungates(script)] == [pod.uid for pod in pods]
    script.change(pods[0], gates=())
    script.feed(Ungated(pods[0].uid, "the API server gave no answer"))
    assert [script.planned(pod) for pod in pods] == planned
    script.feed(Ungated(pods[1].uid, "the API server gave no answer"))
    assert [script.planned(pod) for pod in pods] != planned


def test_held_members_wait_for_one_whose_gate_the_api_server_does_not_take_off() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods)
    first, second = pods
    script.change(first, gates=())
    script.feed(Ungated(first.uid))
    script.bind(first, expires_s=300.0)
    script.advance(100)
    assert script.planned(second)
    script.change(second, gates=())
    script.feed(Ungated(second.uid))
    script.advance(25)
    assert script.planned(second)
    script.bind(second)
    script.post_all()
    assert len(script.bound(pods)) == 2


def test_a_member_that_could_not_be_ungated_in_the_middle_of_a_release_is_planned_anew() -> None:
    first, second = gang("train", 2, min_member=1)[0], gang("train", 2, min_member=1, **GATED)[1]
    script = Script(*cluster("a: 2x8"), first, second)
    assert [effect.uid for effect in ungates(script)] == [second.uid]
    script.bind(first)
    script.feed(Ungated(second.uid, "the API server gave no answer"))
    script.post_all()
    script.advance(5)
    assert [effect.uid for effect in ungates(script)] == [second.uid] * 2


def test_a_member_in_doubt_that_could_not_be_nominated_is_planned_anew_when_it_does_not_come_back() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods, nominates=False)
    script.bind_all(pods)
    sure, doubtful = script.bindings
    script.feed(Nominated(doubtful, script.bindings[doubtful].node, "the API server gave no answer"))
    script.post(script.pods[sure])
    script.feed_outcome(doubtful, Outcome.UNKNOWN)
    script.effects.clear()
    script.advance(25)
    script.post_all()
    script.advance(25)
    assert script.pods[doubtful].name in nominations(script)
    assert not script.evicted


def test_a_nomination_that_kube_scheduler_leaves_on_a_failed_bind_is_taken_back() -> None:
    """It tries to clear it once, and that request may fail."""
    first, second = pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    call = script.bind(first)
    script.drop(script.planned(second))
    assert script.answers[call]
    script.effects.clear()
    script.advance(60)
    taken_back = [effect.uid for effect in script.effects if isinstance(effect, Nominate) and effect.node is None]
    assert first.uid in taken_back
    assert script.pods[first.uid].nominated_node is None


def test_a_nomination_that_is_yet_to_be_written_is_taken_back_from_a_held_member_whose_gang_is_planned_anew() -> None:
    """kube-scheduler clears that of a failed bind, but one that is written afterwards stays, and keeps room."""
    first, second = pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, nominates=False)
    call = script.bind(first)
    script.effects.clear()
    script.drop(script.planned(second))
    assert script.answers[call]
    wishes = [effect.node for effect in script.effects if isinstance(effect, Nominate) and effect.uid == first.uid]
    assert wishes == [None]


def test_a_placement_waits_for_its_writes_however_long_they_take() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, steering=SteeringMode.PIN_NODE, limits=Limits(plan_s=10))
    script.advance(60)
    assert all(script.planned(pod) for pod in pods)
    for pod in pods:
        script.feed(Ungated(pod.uid))
    script.advance(9)
    assert all(script.planned(pod) for pod in pods)
    script.advance(5)
    assert script.gang("train").retries.failures == 1


def test_a_gate_that_cannot_be_taken_off_takes_the_placement_back() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods)
    script.feed(Ungated(pods[0].uid, "403 Forbidden"))
    assert script.planned(pods[1]) == ""
    assert any("could not be ungated: 403 Forbidden" in text for _, text in script.gang("train").telling.story)


def test_no_gate_comes_off_before_the_watch_has_shown_every_nomination() -> None:
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods, synced=False)
    core, now = script.core, script.now
    effects = [*core.handle(Synced(), now), *core.handle(Tick(), now + 1)]
    nodes = {effect.uid: effect.node for effect in effects if isinstance(effect, Nominate) and effect.node}
    for uid, node in nodes.items():
        assert not core.handle(Nominated(uid, node), now + 1)
    first, second = (replace(pod, nominated_node=nodes[pod.uid]) for pod in pods)
    assert not core.handle(PodSeen(first), now + 1)
    effects = core.handle(PodSeen(second), now + 1)
    assert [effect.uid for effect in effects if isinstance(effect, Ungate)] == [pod.uid for pod in pods]


def test_a_nomination_that_could_not_be_cleared_is_cleared_later() -> None:
    """The write may be lost for as long as it is repeated: nobody else would ever clear it."""
    pods = gang("train", 2, **GATED)
    script = Script(*cluster("a: 2x8"), *pods)
    nodes = {pod.uid: script.planned(pod) for pod in pods}
    script.see(*(replace(node, unschedulable=True) for node in cluster("a: 2x8")))
    assert not script.planned(pods[0])
    script.see(*(replace(script.pods[pod.uid], nominated_node=nodes[pod.uid]) for pod in pods))
    script.advance(60)
    assert [script.pods[pod.uid].nominated_node for pod in pods] == [None, None]


def test_a_lost_member_of_a_release_keeps_no_room_by_a_nomination_that_could_not_be_cleared() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    lost, other = list(script.bindings)
    node = script.bindings[lost].node
    script.post(script.pods[other])
    script.post(script.pods[lost], Outcome.REFUSED)
    script.see(*(replace(one, unschedulable=True) for one in cluster("a: 3x8")))
    script.change(script.pods[lost], nominated_node=node)
    script.advance(45)
    assert script.pods[lost].nominated_node is None
