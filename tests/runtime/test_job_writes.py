"""Writes to one job are sent one after the other, and a replaced write is not repeated."""

from __future__ import annotations

from dataclasses import replace

from extender.core.answers import JobWritten, Outcome, Reserved
from extender.core.effects import CleanJob, Reserve, StartJob, SuspendJob
from extender.runtime.requests import OK
from policies.model import Reservation, Victim
from tests.builders import key
from tests.core.jobs import job
from tests.runtime.driven import World
from tests.runtime.test_driver import DOWN

JOB = job(2)
OTHER = key("other")
KEPT = Reservation((("a", (("cpu", 1),)),), (Victim(key("low")),), 60.0)
START, SUSPEND, CLEAN = StartJob(JOB, {"": ("a", "b")}, 2), SuspendJob(JOB, "lost"), CleanJob(JOB)


def sent(world: World) -> list[object]:
    return [send.call for send in world.sent]


def done(outcome: Outcome = Outcome.DONE) -> JobWritten:
    return JobWritten(JOB.key, JOB.uid, outcome)


def leave_unread(world: World) -> None:
    """The job cannot be read, however often it is tried."""
    world.answer(replace(DOWN, unsent=True))
    while not world.told:
        world.wake()
        world.answer(replace(DOWN, unsent=True))


def test_the_second_is_sent_when_the_first_has_ended_and_the_core_is_told_of_the_second() -> None:
    world = World()
    world.ask(START)
    world.ask(SUSPEND)
    assert sent(world) == [START]
    world.answer(OK)
    assert sent(world) == [SUSPEND]
    assert world.told == []
    world.answer(OK)
    assert world.told == [done()]
    world.ask(CLEAN)
    assert sent(world) == [CLEAN]


def test_a_start_that_was_not_answered_is_not_repeated_after_the_job_is_to_be_suspended() -> None:
    world = World()
    world.ask(START)
    world.answer(DOWN)
    world.ask(SUSPEND)
    world.wake()
    assert sent(world) == [SUSPEND]


def test_what_the_core_asks_for_when_it_is_told_is_sent_at_once() -> None:
    world = World()
    world.ask(START)
    world.core.asks = [SUSPEND]
    world.answer(OK)
    assert world.told == [done()]
    assert sent(world) == [SUSPEND]


def test_what_nobody_answered_before_anything_was_sent_is_not_in_doubt() -> None:
    """The job is read first."""
    world = World()
    world.ask(START)
    leave_unread(world)
    assert world.told == [replace(done(Outcome.UNSENT), detail=DOWN.detail)]


def test_what_was_sent_once_without_an_answer_stays_in_doubt() -> None:
    world = World()
    world.ask(START)
    world.answer(DOWN)
    world.wake()
    leave_unread(world)
    assert world.told == [replace(done(Outcome.UNKNOWN), detail=DOWN.detail)]


def test_a_reservation_is_taken_off_when_the_write_of_it_has_ended() -> None:
    world = World()
    kept, off, other = (Reserve(of, None, JOB, what) for of, what in ((JOB.key, KEPT), (JOB.key, None), (OTHER, KEPT)))
    world.ask(kept, off, other)
    assert sent(world) == [kept, other]
    world.answer(DOWN)
    world.wake()
    assert sent(world) == [other, kept]
    world.answer(OK, 1)
    assert world.told == [Reserved(JOB.key, None, JOB, KEPT)]
    assert sent(world) == [other, off]
