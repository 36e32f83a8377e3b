"""Acts that are skipped: a decision is forgotten, or its outcome is not recognized."""

from __future__ import annotations

import pytest

from extender.core.jobs.jobs import Jobs
from extender.core.lifecycle import Lifecycle
from extender.core.workload.job import JobRecord
from extender.core.workload.workload import Workload


def broken_starts_are_never_completed(patch: pytest.MonkeyPatch) -> None:
    """The replacements of a gang are bound, and it counts as started in part all the same."""
    real = Lifecycle._complete

    def complete(self: Lifecycle, workload: Workload, now: float) -> None:
        if workload.release.partial_since is None:
            real(self, workload, now)

    patch.setattr(Lifecycle, "_complete", complete)


def jobs_that_lose_their_plan_are_not_suspended(patch: pytest.MonkeyPatch) -> None:
    """The pods of such a job wait on for nodes that they do not get."""
    real = Jobs._stop

    def stop(self: Jobs, workload: Workload, record: JobRecord, why: str, now: float) -> None:
        if record.plan is None:
            real(self, workload, record, why, now)

    patch.setattr(Jobs, "_stop", stop)


def suspended_jobs_keep_their_plan(patch: pytest.MonkeyPatch) -> None:
    """The watch shows the suspension, and the start is not taken for over."""
    patch.setattr(Jobs, "_end_stop", lambda self, workload, record, now: None)


def committed_plans_start_no_job(patch: pytest.MonkeyPatch) -> None:
    """The slots of a job are promised their nodes, and it stays suspended."""
    patch.setattr(JobRecord, "decide_start", lambda self, why: None)
