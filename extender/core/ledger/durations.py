"""How long each workload is expected to run, the source of that, and when running workloads are expected to end.

Without a declared duration, past runs of the LocalQueue count. A run is counted when it ends by itself; the status of
the LocalQueue keeps the runs for the next process.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from extender.core.ledger.quotas import LocalKey, Quotas
from extender.core.ledger.store import Process
from extender.core.workload.status import Status
from extender.core.workload.workload import Run, Workload
from policies.model import Duration, Pod
from policies.model.duration import expected
from policies.quota.runs import Runs, RunTimes

_STORED_EVERY_S = 60.0
_FIRST_STEP, _LEAST_STEP_S = 1 / 16, 60.0
"""The first delay of an end that has passed: this part of the duration, and at least that long."""


class End(NamedTuple):
    """The expected end of a run.

    ``at``: by the core's clock, always in the future.
    ``has_begun``: False for a run that is taken to begin now, so that its end moves with the time.
    ``overruns``: whether an earlier expected end has passed.
    """

    at: float
    duration: Duration
    has_begun: bool = True
    overruns: bool = False


@dataclass(eq=False)
class Durations:
    """The expected durations of workloads and pods."""

    _process: Process
    _quotas: Quotas

    def __post_init__(self) -> None:
        self._stores = 0
        """How often runs were stored."""
        self._runs: dict[LocalKey, Runs] = {}
        self._stored: dict[LocalKey, RunTimes] = {}
        self._ended: dict[LocalKey, None] = {}
        """LocalQueues with runs that have ended since the last ``store``."""
        self._stored_at = -inf

    @property
    def version(self) -> int:
        """A number that grows with every change of stored runs and of the queues, whose limits count."""
        return self._stores + self._quotas.queues.builds

    def of(self, workload: Workload, percent: int = 50) -> Duration | None:
        """How long the workload runs from its start to its end; None if that is not known.

        ``percent``: where past runs count, that many percent of them took no longer.
        """
        limit = self._quotas.route(workload).limit
        duration = expected(workload.run_terms, None if limit is None else limit.seconds)
        return self._past(workload, percent) if duration is None else duration

    def of_pod(self, pod: Pod) -> Duration | None:
        """How long a single pod runs; None if that is not known."""
        return expected(pod.run, None)

    def end(self, workload: Workload, now: float, percent: int = 50) -> End | None:
        """When a running workload is expected to end; None if it has not begun or that is not known. ``percent``: as in
        ``of``."""
        began, duration = workload.began, self.of(workload, percent)
        return None if began is None else self._end(began, duration, workload.run_terms.deadline_s, now)

    def end_of_pod(self, pod: Pod, now: float) -> End | None:
        """When a single pod on a node is expected to end; None if that is not known."""
        if pod.node is None:
            return None
        if pod.began is not None:
            return self._end(pod.began, self.of_pod(pod), pod.run.deadline_s, now)
        duration = self.of_pod(pod)
        return None if duration is None else End(now + duration.seconds, duration, has_begun=False)

    def follow(self, workload: Workload, now: float) -> None:
        """Follow a workload that was settled: begin its run, or count it when it has ended."""
        run, status = workload.run, workload.status.value
        release = workload.release.name
        if (
            status is Status.RUNNING
            and (run is None or run.release != release)
            and (began := workload.began) is not None
        ):
            workload.follow_run(Run(release, began, self._quotas.local_of(workload.key), workload.gpus))
        elif run is not None and status in (Status.PENDING, Status.PLANNED, Status.ENDED):
            workload.follow_run(None)
            if status is Status.ENDED and workload.has_finished:
                self._count((workload.key.namespace, run.queue), run, now - self._process.wall_offset)

    def next_store(self) -> float | None:
        """When ended runs are stored next; None if there are none."""
        return self._stored_at + _STORED_EVERY_S if self._ended else None

    def store(self, now: float) -> None:
        """Have the runs of LocalQueues stored in their statuses, if that is due."""
        due = self.next_store()
        if due is None or now < due:
            return
        locals_ = self._quotas.queues.snapshot.locals
        self._runs = {key: runs for key, runs in self._runs.items() if key in locals_}
        for key in [key for key in self._ended if key in self._runs]:
            self._stored[key] = self._runs[key].times
            self._quotas.members.touch(locals_[key].queue)
            self._stores += 1
        self._ended.clear()
        self._stored_at = now

    def stored(self, local: LocalKey) -> RunTimes:
        """The runs to write to the LocalQueue's status, which a restart reads."""
        if (known := self._stored.get(local)) is not None:
            return known
        local_queue = self._quotas.queues.snapshot.locals.get(local)
        return {} if local_queue is None else local_queue.runs

    def _past(self, workload: Workload, percent: int) -> Duration | None:
        runs = self._runs_of((workload.key.namespace, self._quotas.local_of(workload.key)))
        return None if runs is None else runs.expected(workload.gpus, percent)

    def _count(self, local: LocalKey, run: Run, now: float) -> None:
        if (runs := self._runs_of(local)) is not None:
            runs.add(run.gpus, now - run.began)
            self._ended[local] = None

    def _runs_of(self, local: LocalKey) -> Runs | None:
        """The runs of the LocalQueue, at first from its status; None if there is no such LocalQueue."""
        if (known := self._runs.get(local)) is None:
            local_queue = self._quotas.queues.snapshot.locals.get(local)
            if local_queue is None:
                return None
            known = self._runs[local] = Runs(self._stored.get(local, local_queue.runs))
        return known

    def _end(self, began: float, duration: Duration | None, deadline_s: float | None, now: float) -> End | None:
        if duration is None:
            return None
        began += self._process.wall_offset
        end = began + duration.seconds
        if end > now:
            return End(end, duration)
        later = next_guess(end, duration.seconds, now)
        if deadline_s is not None and began + deadline_s > now:
            later = min(later, began + deadline_s)
        return End(later, duration, overruns=True)


def next_guess(end: float, seconds: float, now: float) -> float:
    """Return when an overdue end is expected next: a sixteenth of the duration later, then twice as late, and so on.

    Each guess is valid until it has passed, so the same question has the same answer meanwhile.
    """
    late = max(_LEAST_STEP_S, seconds * _FIRST_STEP)
    while end + late <= now:
        late *= 2
    return end + late
