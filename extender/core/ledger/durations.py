"""How long each workload is expected to run, how that is known, and so when those that run are expected to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Process
from extender.core.workload.workload import Workload
from policies.model import Duration, Pod
from policies.model.duration import expected

_FIRST_STEP, _LEAST_STEP_S = 1 / 16, 60.0
"""An end that has passed is expected again after this part of the duration, and no sooner than that."""


class End(NamedTuple):
    """``at``: by the clock of the core, always ahead. ``overruns``: it was expected earlier, and has not come."""

    at: float
    duration: Duration
    overruns: bool = False


@dataclass(eq=False)
class Durations:
    """The expectations of one workload after another: nothing is kept here but what they rest on."""

    _process: Process
    _quotas: Quotas

    def of(self, workload: Workload) -> Duration | None:
        """How long it runs from its start to its end; None where nobody can tell."""
        limit = self._quotas.route(workload).limit
        return expected(workload.run_terms, None if limit is None else limit.seconds)

    def of_pod(self, pod: Pod) -> Duration | None:
        """The same of a pod in no gang."""
        return expected(pod.run, None)

    def end(self, workload: Workload, now: float) -> End | None:
        """When a workload ends that runs; None where nobody can tell, or it has not begun."""
        began = workload.began
        return None if began is None else self._end(began, self.of(workload), workload.run_terms.deadline_s, now)

    def end_of_pod(self, pod: Pod, now: float) -> End | None:
        """The same of a pod in no gang."""
        began = pod.created if pod.stamp is None else pod.stamp.at or pod.created
        return None if pod.node is None else self._end(began, self.of_pod(pod), pod.run.deadline_s, now)

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
