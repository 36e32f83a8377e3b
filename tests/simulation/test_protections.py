"""The workloads that the referee protects from eviction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.events import JobGone, JobSeen
from policies.model import Reservation, Victim
from tests.builders import key
from tests.simulation.judged_life import batch
from tests.simulation.protections import Protections
from tests.simulation.shown import Shown
from tests.simulation.terms import Terms


@pytest.mark.parametrize(
    ("now", "gone", "protected"), [(200.0, "", True), (200.0, "uid", False), (200.0, "old", True), (4000.0, "", False)]
)
def test_a_job_gives_way_once_an_hour_as_long_as_it_is_there(*, now: float, gone: str, protected: bool) -> None:
    """``gone``: the UID of a deleted job of that name, whose own record of evictions is lost."""
    judge, job = Protections(Shown(), Terms(calm=True, evictions_per_hour=1)), batch(1).shown()
    judge.hear(JobSeen(replace(job, evicted=(100.0,))))
    if gone:
        judge.hear(JobGone(job.key, gone))
    wrong = list(judge.judge(key("urgent"), Reservation((), (Victim(job.key),), now + 60), (), now))
    assert any("times in an hour" in text for text in wrong) is protected
