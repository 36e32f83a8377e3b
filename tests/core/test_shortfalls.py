"""Refusals are remembered by cause and scope, and the line is asked for one workload after the other."""

from __future__ import annotations

from extender.core.causes import NOBODY, LaterWave, NoRoom, Short
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.pending import Turns
from extender.core.ledger.queues import QueueSnapshot
from extender.core.ledger.state import State
from extender.core.queue.line import Line, QueueLines
from extender.core.queue.shortfalls import Lack, Shortfalls
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.api import SortKey, WaitingGang
from policies.guard import GuardedQueue
from tests.builders import key
from tests.effort import calls

NO_ROOM, OTHER = NoRoom(Short(0, 2, grows=False, near="", holders=NOBODY, detail="")), NoRoom(LaterWave())


def fresh() -> Shortfalls:
    return Shortfalls(lambda _: None)


def shape() -> Shape:
    return Shape(1, (), (), (), ())


def test_what_one_queue_lacks_says_nothing_about_another() -> None:
    known, wanted = fresh(), shape()
    known.cache(Lack.ROOM, wanted, NO_ROOM, scope="team-a")
    assert known.get(wanted, "team-a") is NO_ROOM
    assert known.get(wanted, "team-b") is None
    assert known.get(wanted) is None


def test_what_everybody_lacks_every_queue_lacks() -> None:
    known, wanted = fresh(), shape()
    known.cache(Lack.ROOM, wanted, NO_ROOM)
    assert known.get(wanted, "team-a") is known.get(wanted) is NO_ROOM


def test_a_scope_is_dropped_by_itself() -> None:
    known, wanted = fresh(), shape()
    known.cache(Lack.ROOM, wanted, NO_ROOM)
    known.cache(Lack.ROOM, wanted, OTHER, scope="team-a")
    known.drop(Lack.ROOM, wanted)
    assert known.get(wanted, "team-a") is OTHER
    assert known.get(wanted, "team-b") is None
    known.drop(Lack.ROOM, wanted, "team-a")
    assert known.get(wanted, "team-a") is None
    assert not len(known)


def test_room_is_cleared_without_a_look_at_what_lacks_quota() -> None:
    known, wanted = fresh(), shape()
    for cached in (wanted, *(shape() for _ in range(1000))):
        known.cache(Lack.QUOTA, cached, OTHER, "team-a")
    known.cache(Lack.ROOM, wanted, NO_ROOM)
    assert calls(lambda: known.clear(Lack.ROOM)) < 20
    assert known.get(wanted, "team-b") is None
    assert known.get(wanted, "team-a") is OTHER


def test_shapes_that_nobody_asks_for_are_forgotten() -> None:
    known, wanted, other = fresh(), shape(), shape()
    for cached in (wanted, other):
        known.cache(Lack.ROOM, cached, NO_ROOM)
    known.retain([wanted])
    assert known.get(wanted) is NO_ROOM
    assert known.get(other) is None
    known.clear(Lack.ROOM)
    assert not len(known)


def test_what_rests_on_a_shape_that_may_have_room_is_dropped_with_it() -> None:
    known, wanted, tried = fresh(), shape(), shape()
    known.cache(Lack.ROOM, tried, NO_ROOM)
    known.cache(Lack.ROOM, wanted, OTHER, "team-a", [tried])
    known.retain([wanted])
    assert known.get(tried) is NO_ROOM, "what asked for rests on it"
    known.drop(Lack.ROOM, tried)
    assert known.get(wanted, "team-a") is None
    known.cache(Lack.ROOM, tried, NO_ROOM)
    known.retain([wanted])
    assert known.get(tried) is None


GPUS = (("gpus", "nvidia.com/gpu"), 8)


def test_what_was_given_back_and_others_have_nobody_who_waits_for_it_has() -> None:
    known, first, other, smaller = fresh(), shape(), shape(), shape()
    for cached, amount in ((first, 8), (other, 8), (smaller, 4)):
        known.cache(Lack.QUOTA, cached, NO_ROOM, "team-a", waits_for=((GPUS[0], amount),))
    assert known.reopen("team-a", lambda _, amount: amount <= 4) == {smaller: ((GPUS[0], 4),)}
    assert known.reopen("team-a", lambda *_: True) == dict.fromkeys((first, other), (GPUS,)) | {
        smaller: ((GPUS[0], 4),)
    }
    assert not any(known.get(cached, "team-a") for cached in (first, other, smaller))
    assert known.confirm(first, "team-a", lambda *_: True) is None
    assert known.confirm(first, "team-a", lambda *_: False) is NO_ROOM
    assert known.get(other, "team-a") is NO_ROOM, "it waits for the same"
    assert known.get(smaller, "team-a") is None


def test_what_lacks_room_as_well_waits_for_more_than_quota() -> None:
    known, wanted, other = fresh(), shape(), shape()
    known.cache(Lack.ROOM, wanted, NO_ROOM, "team-a", waits_for=(GPUS,))
    known.cache(Lack.QUOTA, wanted, OTHER, "team-a", waits_for=(GPUS,))
    known.cache(Lack.QUOTA, other, OTHER, "team-a")
    assert known.reopen("team-a", lambda *_: True) == {wanted: None, other: None}
    assert known.get(wanted, "team-a") is known.get(other, "team-a") is None


NO_QUEUES = QueueLines(State().quotas, QueueSnapshot(), lambda: 0, lambda _: None)


class Numbers:
    """The order by the number in the name; text after all numbers."""

    def order(self, gang: WaitingGang) -> SortKey:
        return (int(gang.key.name),) if gang.key.name.isdecimal() else (gang.key.name,)


def test_the_line_says_who_is_next_while_others_come() -> None:
    line = Line(Turns(FailedCreation(), GuardedQueue(Numbers())), NO_QUEUES)
    for number, name in enumerate(("3", "b", "1", "a")):
        line.add(Workload(key(name)), number)
    first = line.next()
    assert first is not None
    assert first.key.name == "1"
    line.add(Workload(key("2")), 4)
    named = [workload.key.name for workload in iter(line.next, None) if isinstance(workload, Workload)]
    assert named == ["2", "3", "a", "b"]


def test_a_broken_start_goes_first() -> None:
    line, broken = Line(Turns(FailedCreation(), GuardedQueue(Numbers())), NO_QUEUES), Workload(key("9"))
    broken.release.break_off(0.0, 1)
    line.add(Workload(key("1")), 1)
    line.add(broken, 2)
    assert line.next() is broken
