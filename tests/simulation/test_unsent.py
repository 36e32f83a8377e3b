"""The referee's expectations of a write to a job that was abandoned before it was sent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Effect, Milestone, Reached, StartJob, SuspendJob
from extender.core.events import NodeGone
from policies.model import GroupKey
from tests.simulation.company import Company
from tests.simulation.judged_life import Life, batch
from tests.simulation.unsent import UnsentWrites

JOB = batch(2).shown()
AGAIN = StartJob(JOB, {"": ("a-0", "a-1")}, 2)


def said(life: Life, outcome: Outcome, *effects: Effect) -> str:
    it = UnsentWrites(life.admissions, Company(life.shown, life.claims).may_be_spoiled)
    it.hear(JobWritten(JOB.key, JOB.uid, outcome))
    return it.judge(effects) or ""


@pytest.mark.parametrize("effect", [replace(AGAIN, plan={"": ("a-0", "a-2")}), SuspendJob(JOB, ""), None])
def test_the_same_start_is_asked_for_again(effect: Effect | None) -> None:
    life = Life(batch(2), "a-0", "a-1")
    assert not said(life, Outcome.UNSENT, AGAIN)
    assert "was not sent" in said(life, Outcome.UNSENT, *([effect] if effect is not None else []))
    assert not said(life, Outcome.REFUSED)


def test_another_plan_may_be_right_when_a_node_has_gone_or_the_job_has_changed() -> None:
    life = Life(batch(2), "a-0", "a-1")
    life.tell(NodeGone("a-0"))
    assert not said(life, Outcome.UNSENT)
    life = Life(batch(2), "a-0", "a-1")
    life.job = batch(2)
    life.show(held=True)
    assert not said(life, Outcome.UNSENT)


@pytest.mark.parametrize(("evicted", "called_off"), [(True, True), (True, False), (False, True)])
def test_an_eviction_that_was_called_off_meanwhile_is_not_repeated(*, evicted: bool, called_off: bool) -> None:
    """Seed 5911038: the room was given up after 20 s, and only then the write of the suspension ended."""
    life = Life(batch(2), "a-0", "a-1")
    life.show(held=False)
    write = SuspendJob(life.admissions.jobs[JOB.key], "preempted", (1.0,) if evicted else ())
    life.admissions.writing[JOB.key] = write
    it = UnsentWrites(life.admissions, Company(life.shown, life.claims).may_be_spoiled)
    other = Reached(GroupKey("default", "urgent"), Milestone.UNRESERVED, 1, 0.0)
    it.judge([other] if called_off else [])
    it.hear(JobWritten(JOB.key, write.job.uid, Outcome.UNSENT))
    assert bool(it.judge([])) is not (evicted and called_off)
