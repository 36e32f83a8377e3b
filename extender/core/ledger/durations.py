"""How long each workload is expected to run, how that is known, and so when those that run are expected to end.

Where nobody says it, the runs of its LocalQueue do. A run is counted when it ends by itself; the status of the
LocalQueue has them for the next life.
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
"""An end that has passed is expected again after this part of the duration, and no sooner than that."""


class End(NamedTuple):
    """``at``: by the clock of the core, always ahead. ``overruns``: it was expected earlier, and has not come."""

    at: float
    duration: Duration
    overruns: bool = False


@dataclass(eq=False)
class Durations:
    """``version`` grows with every change of what is stored."""

    _process: Process
    _quotas: Quotas

    def __post_init__(self) -> None:
        self.version = 0
        self._runs: dict[LocalKey, Runs] = {}
        self._stored: dict[LocalKey, RunTimes] = {}
        self._ended: dict[LocalKey, None] = {}
        """LocalQueues with a run that has ended since their runs were stored."""
        self._stored_at = -inf

    def of(self, workload: Workload, percent: int = 50) -> Duration | None:
        """How long it runs from its start to its end; None where nobody can tell. ``percent``: of the runs that are
        known of its LocalQueue so many took no longer."""
        limit = self._quotas.route(workload).limit
        found = expected(workload.run_terms, None if limit is None else limit.seconds)
        return self._past(workload, percent) if found is None else found

    def of_pod(self, pod: Pod) -> Duration | None:
        """The same of a pod in no gang."""
        return expected(pod.run, None)

    def end(self, workload: Workload, now: float, percent: int = 50) -> End | None:
        """When a workload ends that runs; None where nobody can tell, or it has not begun. ``percent``: as ``of``."""
        began, duration = workload.began, self.of(workload, percent)
        return None if began is None else self._end(began, duration, workload.run_terms.deadline_s, now)

    def end_of_pod(self, pod: Pod, now: float) -> End | None:
        """The same of a pod in no gang."""
        if pod.node is None:
            return None
        if pod.began is not None:
            return self._end(pod.began, self.of_pod(pod), pod.run.deadline_s, now)
        duration = self.of_pod(pod)
        return None if duration is None else End(now + duration.seconds, duration)

    def follow(self, workload: Workload, now: float) -> None:
        """It was settled: it may have begun to run, or have ended."""
        run, status = workload.run, workload.status.value
        if status is Status.RUNNING and run is None and (began := workload.began) is not None:
            workload.follow_run(Run(began, self._quotas.local_of(workload.key), workload.gpus))
        elif run is not None and status in (Status.PENDING, Status.PLANNED, Status.ENDED):
            workload.follow_run(None)
            if status is Status.ENDED and workload.has_finished:
                self._count((workload.key.namespace, run.queue), run, now - self._process.epoch)

    def next_store(self) -> float | None:
        """When runs are stored next that have ended, if there are any."""
        return self._stored_at + _STORED_EVERY_S if self._ended else None

    def store(self, now: float) -> None:
        """If it is time for it, have the runs of LocalQueues stored."""
        due = self.next_store()
        if due is None or now < due:
            return
        locals_ = self._quotas.queues.picture.locals
        self._runs = {key: runs for key, runs in self._runs.items() if key in locals_}
        for key in [key for key in self._ended if key in self._runs]:
            self._stored[key] = self._runs[key].times
            self._quotas.members.touch(locals_[key].queue)
            self.version += 1
        self._ended.clear()
        self._stored_at = now

    def stored(self, local: LocalKey) -> RunTimes:
        """What a later life has to know."""
        if (known := self._stored.get(local)) is not None:
            return known
        said = self._quotas.queues.picture.locals.get(local)
        return {} if said is None else said.runs

    def _past(self, workload: Workload, percent: int) -> Duration | None:
        runs = self._runs_of((workload.key.namespace, self._quotas.local_of(workload.key)))
        return None if runs is None else runs.expected(workload.gpus, percent)

    def _count(self, local: LocalKey, run: Run, now: float) -> None:
        if (runs := self._runs_of(local)) is not None:
            runs.add(run.gpus, now - run.began)
            self._ended[local] = None

    def _runs_of(self, local: LocalKey) -> Runs | None:
        """None where there is no such LocalQueue. The first question finds what its status says of an earlier life."""
        if (known := self._runs.get(local)) is None:
            said = self._quotas.queues.picture.locals.get(local)
            if said is None:
                return None
            known = self._runs[local] = Runs(self._stored.get(local, said.runs))
        return known

    def _end(self, began: float, duration: Duration | None, deadline_s: float | None, now: float) -> End | None:
        if duration is None:
            return None
        began += self._process.epoch
        end = began + duration.seconds
        if end > now:
            return End(end, duration)
        later = next_guess(end, duration.seconds, now)
        if deadline_s is not None and began + deadline_s > now:
            later = min(later, began + deadline_s)
        return End(later, duration, overruns=True)


def next_guess(end: float, seconds: float, now: float) -> float:
    """Return when an end is expected next that has not come: a sixteenth later, then twice as late, and so on.

    Each guess stands until it has passed, too: the same question has the same answer meanwhile.
    """
    late = max(_LEAST_STEP_S, seconds * _FIRST_STEP)
    while end + late <= now:
        late *= 2
    return end + late
