"""A refused request that no call waits for is repeated: after some time alone, and as long as it is wanted."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from extender.core.answers import Nominated, Reserved, Ungated, Unwritten
from extender.core.effects import Confirm, Effect, Hint, Nominate, Reserve, Ungate, Wake
from extender.core.events import Event, NamespaceGone, NamespaceSeen
from extender.core.gate.advisory import Mode
from policies.model import GANG_GATE, Controller, Reservation
from tests.builders import cluster, gang, single
from tests.core.jobs import Controlled, job
from tests.core.preempting import Cluster, running
from tests.core.script import Script

RESERVED = Reservation((("a-0", (("nvidia.com/gpu", 8),)),), (), 2000.0)


class Refused(Script):
    """Confirmations and nominations leave the pods as they are."""

    def _note(self, effect: Effect) -> None:
        if not isinstance(effect, Confirm | Nominate):
            super()._note(effect)


def asked(script: Script, kind: type[Effect]) -> int:
    return sum(isinstance(effect, kind) for effect in script.effects)


def course(script: Script, event: Event, kind: type[Effect], seconds: int = 600) -> list[int]:
    """After how many seconds it is asked for again, if it is refused each time."""
    tried_after, known = list[int](), asked(script, kind)
    script.feed(event)
    for second in range(seconds):
        script.advance(1)
        if asked(script, kind) > known:
            known = asked(script, kind)
            tried_after.append(second + 1)
            script.feed(event)
    return tried_after


def assert_backs_off(instants: list[int]) -> None:
    pauses = [later - earlier for earlier, later in pairwise([0, *instants])]
    assert 5 <= len(pauses) <= 8
    assert all(later >= 1.5 * earlier for earlier, later in pairwise(pauses))


def test_a_pod_that_is_to_be_woken() -> None:
    script = Script(*cluster("a: 1x8"), alone := single("alone", gpus=16))
    assert_backs_off(course(script, Unwritten(Wake(alone.uid, alone.namespace, alone.name)), Wake))


def test_nobody_is_woken_who_has_a_node_by_then() -> None:
    script = Script(*cluster("a: 1x8"), alone := single("alone", gpus=1))
    script.feed(Unwritten(Wake(alone.uid, alone.namespace, alone.name)))
    script.change(alone, node="a-0")
    script.advance(1000)
    assert not asked(script, Wake)
    assert script.core.next_wake() is None


def test_a_release_that_is_to_be_confirmed() -> None:
    pods = gang("train", 3)
    script = Refused(*cluster("a: 3x8"), *pods, nominates=False)
    for pod in pods:
        script.feed(Nominated(pod.uid, script.planned(pod)))
    script.run(pods)
    (confirm,) = [effect for effect in script.effects if isinstance(effect, Confirm)]
    assert_backs_off(course(script, Unwritten(confirm), Confirm))


def test_a_member_that_ends_before_it_is_seen_to_confirm_is_replaced_by_another() -> None:
    """Seed 700000037 of the campaign: a restart confirmed a member that the life before it had missed."""
    pods = gang("train", 3)
    script = Refused(*cluster("a: 3x8"), *pods, nominates=False)
    for pod in pods:
        script.feed(Nominated(pod.uid, script.planned(pod)))
    script.run(pods)
    (confirm,) = [effect for effect in script.effects if isinstance(effect, Confirm)]
    script.change(script.pods[confirm.uid], phase="Failed")
    assert asked(script, Confirm) == 2


def test_a_nomination_that_is_to_come_off_a_pod_of_no_gang() -> None:
    alone = replace(single("alone", gpus=16), nominated_node="a-0")
    script = Refused(*cluster("a: 1x8"), alone)
    off = Nominate(alone.uid, alone.namespace, alone.name, None)
    assert_backs_off(course(script, Unwritten(off), Nominate))
    before = asked(script, Nominate)
    script.feed(Unwritten(off))
    script.change(alone, nominated_node="")
    script.advance(1000)
    assert asked(script, Nominate) == before


def test_a_hint() -> None:
    script = Script(*cluster("a: 1x8"), alone := replace(single("alone", gpus=16), hint="nothing reads it"))
    (hint,) = [effect for effect in script.effects if isinstance(effect, Hint)]
    assert_backs_off(course(script, Unwritten(hint), Hint))
    script.change(alone, hint=None)
    script.feed(Unwritten(hint))
    before = asked(script, Hint)
    script.advance(1000)
    assert asked(script, Hint) == before


def test_a_reservation_that_could_not_be_taken_off() -> None:
    script = Cluster(*cluster("a: 2x8"), writes=False)
    running(script, "low", 2)
    high = gang("high", 2, priority=10)
    script.see(high)
    script.write(script.written[0])
    script.see(*cluster("b: 2x8"))
    (off,) = [effect for effect in script.written if effect.reservation is None]
    assert off.pod is not None
    script.change(high[0], reservation=RESERVED)
    assert_backs_off(course(script, Reserved(off.key, off.pod, None, None, "403 Forbidden"), Reserve))
    script.change(high[0], reservation=None)
    before = asked(script, Reserve)
    script.advance(1000)
    assert asked(script, Reserve) == before


@pytest.mark.parametrize("write", ["nomination", "ungating"])
def test_a_job_that_runs_is_not_suspended_because_its_next_pod_could_not_be_led(write: str) -> None:
    """Seed 27266 of the campaign: one 403 while the gate of a replacement came off started the whole job over."""
    script = Refused(*cluster("a: 2x8"), nominates=False)
    train = Controlled(script, job(2))
    first, _ = train.run()
    script.change(script.pods[first.uid], phase="Failed")
    del train.pods[first.uid]
    (again,) = train.create(only=1, gates=(GANG_GATE,))
    if write == "ungating":
        script.feed(Nominated(again.uid, script.planned(again)))
        script.change(again, nominated_node=script.planned(again))
        event: Event = Ungated(again.uid, "403 Forbidden")
        kind: type[Effect] = Ungate
    else:
        event, kind = Nominated(again.uid, script.planned(again), "403 Forbidden"), Nominate
    assert_backs_off(course(script, event, kind))
    assert not train.stops


def test_a_gate_in_advisory_mode() -> None:
    (pod,) = gang("train", 1, min_member=2, gates=(GANG_GATE,))
    script = Script(*cluster("a: 1x8"), pod, mode=Mode.ADVISE)
    assert_backs_off(course(script, Ungated(pod.uid, "403 Forbidden"), Ungate))


LEFT_OUT = Hint("", "a", "train", "it is left out", Controller("batch/v1", "Job", "train", "uid-1"), "LeftOut")


def test_what_is_told_of_an_object_without_a_pod_ends_with_its_namespace() -> None:
    script = Script(*cluster("a: 1x8"))
    script.feed(NamespaceSeen("a", ()))
    script.feed(Unwritten(LEFT_OUT))
    script.feed(NamespaceGone("a"))
    script.advance(900)
    assert asked(script, Hint) == 0


def test_objects_of_one_name_are_each_told_of() -> None:
    script = Script(*cluster("a: 1x8"))
    assert LEFT_OUT.owner is not None
    others = replace(LEFT_OUT, namespace="b"), replace(LEFT_OUT, owner=LEFT_OUT.owner._replace(kind="JobSet"))
    for hint in (LEFT_OUT, *others):
        script.feed(Unwritten(hint))
    script.advance(10)
    assert [effect for effect in script.effects if isinstance(effect, Hint)] == [LEFT_OUT, *others]
