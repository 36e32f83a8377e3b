"""Hints about annotations that nothing reads, and about pods without their pin: their rate is limited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.core.effects import Hint
from extender.core.ledger.outbox import Outbox
from extender.core.ledger.process import Counts, Process
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Job, Pod
from policies.steps import AT_ONCE, Steps

UNPINNED = (
    "it was created without the node that its job is planned on: the admission policy muster-job-pods is not "
    "installed, or has failed on it. {}"
)
_LED = "Muster's filter leads it to that node"
_NOT_LED = "its scheduler {} does not ask Muster where it may go"
_REMEMBERED = 1024
_AT_ONCE, _EACH_S = 20.0, 3.0
"""Hints at once, and the seconds for each further one. `muster doctor` finds all annotations that nothing reads."""


@dataclass(eq=False)
class Hints:
    """Tells of pods of our schedulers that wait; those that run have been told, or Muster was not there, unless
    what they say has changed."""

    _schedulers: tuple[str, ...]
    _process: Process
    _counts: Counts
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _outbox: Outbox

    def __post_init__(self) -> None:
        self._told: dict[tuple[str, str], None] = {}
        self._left, self._as_of = _AT_ONCE, 0.0

    def see(self, pod: Pod, now: float, *, changed: bool = False) -> None:
        """The pod is new, or what it says has ``changed``."""
        if pod.unpinned and not changed:
            self._see_unpinned(pod, now)
        if pod.hint is None or not pod.live or not self._process.synced or pod.scheduler not in self._schedulers:
            return
        if pod.node and not changed:
            return
        template = pod.owner or pod.uid, pod.hint
        self._tell(template, Hint(pod.uid, pod.namespace, pod.name, pod.hint, pod.controller), now)

    def _see_unpinned(self, pod: Pod, now: float) -> None:
        """Count a new pod that lacks its pin, and report it by an Event on the pod."""
        if not (pod.live and self._process.synced):
            return
        self._counts.unpinned += 1
        if self._may(now):
            led = _LED if pod.scheduler in self._schedulers else _NOT_LED.format(pod.scheduler)
            text = UNPINNED.format(led)
            self._outbox.append(Hint(pod.uid, pod.namespace, pod.name, text, None, "Unpinned", once=True))

    def see_job(self, job: Job, now: float) -> None:
        """The job is new or has changed: its pods are yet to come, or do not say what it says."""
        if job.hint is not None and job.suspended and self._process.synced:
            self._tell((job.uid, job.hint), Hint("", job.key.namespace, job.owner.name, job.hint, job.owner), now)

    def _tell(self, template: tuple[str, str], hint: Hint, now: float) -> None:
        if template in self._told or not self._may(now):
            return
        self._told[template] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        self._outbox.append(hint)

    def recover(self, now: float) -> Steps[None]:
        """Give hints once every pod is known after a restart. Bound pods had theirs before the restart."""
        pods = list(self._pods)
        for at in range(0, len(pods), AT_ONCE):
            for uid in pods[at : at + AT_ONCE]:
                if (pod := self._pods.get(uid)) is not None and not pod.node:
                    self.see(pod, now)
            yield AT_ONCE // 8
        for workload in list(self._workloads.values()):
            if workload.job is not None:
                self.see_job(workload.job.seen, now)

    def _may(self, now: float) -> bool:
        self._left, self._as_of = min(_AT_ONCE, self._left + (now - self._as_of) / _EACH_S), now
        if self._left < 1:
            return False
        self._left -= 1
        return True
