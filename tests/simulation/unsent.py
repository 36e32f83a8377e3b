"""A write to a job that was not sent, because the job could not even be read, changes nothing: it is repeated at once.

A start has the same nodes, unless other pods have come in the way of its pods. An eviction that is called off while its
write is under way is not repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import CleanJob, Effect, JobEffect, Milestone, Reached, StartJob, SuspendJob
from extender.core.events import Event
from tests.simulation.admissions import Admissions


class UnsentWrites:
    """The unsent writes in one life of the extender.

    ``spoiled``: whether other pods may have come in the way of a start's pods.
    """

    def __init__(self, admissions: Admissions, spoiled: Callable[[StartJob], bool]) -> None:
        self._admissions = admissions
        self._spoiled = spoiled
        self._owed: JobEffect | None = None
        self._called_off: list[SuspendJob] = []
        """The evictions under way when the room for which jobs were evicted was given up."""

    def hear(self, event: Event) -> None:
        """Before ``admissions`` knows of it."""
        self._owed = None
        if isinstance(event, JobWritten) and event.outcome is Outcome.UNSENT:
            write = self._admissions.writing.get(event.key)
            if write is not None and write.job.uid == event.uid and self._stands(write):
                self._owed = write

    def judge(self, effects: Sequence[Effect]) -> str | None:
        """``effects``: all that the event has led to."""
        owed = self._owed
        if any(isinstance(effect, Reached) and effect.milestone is Milestone.UNRESERVED for effect in effects):
            writing = self._admissions.writing.values()
            self._called_off = [write for write in writing if isinstance(write, SuspendJob) and write.evicted]
        if owed is None or any(_is_the_same(effect, owed) for effect in effects):
            return None
        return f"{owed.job.key} waits for a {type(owed).__name__} that was not sent, and is not asked for again at once"

    def _stands(self, write: JobEffect) -> bool:
        """Whether no event calls for another write, or another plan.

        A job that starts without a plan, or that gets the nodes it has awaited, waits again instead.
        """
        key = write.job.key
        if write in self._called_off:
            return False
        if isinstance(write, StartJob) and (
            write.node_wait is not None or not write.job.suspended or self._spoiled(write)
        ):
            return False
        admission = self._admissions.slots.of.get(key)
        return self._admissions.jobs.get(key) == write.job and (admission is None or not admission.trouble)


def _is_the_same(effect: Effect, owed: JobEffect) -> bool:
    match effect, owed:
        case (StartJob(job, plan=plan), StartJob()):
            return job.uid == owed.job.uid and plan == owed.plan
        case (SuspendJob(job), SuspendJob()) | (CleanJob(job), CleanJob()):
            return job.uid == owed.job.uid
        case _:
            return False
