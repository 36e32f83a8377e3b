"""Recover after a restart: what bound pods and nominations tell of an earlier life, workload by workload.

A nomination is a hint: it is taken where the whole gang still fits, else cleared. A gang whose release broke off is
planned before all others and completed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.core.explain.hints import Hints
from extender.core.gate.steering import Steering
from extender.core.ledger.pending import Pending
from extender.core.ledger.process import Process
from extender.core.ledger.waiting import Changes
from extender.core.lifecycle import Lifecycle
from extender.core.preemption.kube_preemption import KubePreemption
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.steps import Steps

_LOOK = 2


@dataclass(eq=False)
class Recovery:
    """Walked through in slices. Events come in between: of their workloads everything is found out first."""

    _process: Process
    _workloads: Mapping[GroupKey, Workload]
    _pending: Pending
    _changes: Changes
    _lifecycle: Lifecycle
    _steering: Steering
    _hints: Hints
    _kube_preemption: KubePreemption

    def __post_init__(self) -> None:
        self._unheard: dict[GroupKey, None] = {}

    def begin(self, epoch: float, now: float) -> None:
        """Every list is in."""
        self._process.sync(epoch, now)
        self._unheard = dict.fromkeys(self._workloads)

    def find_out(self, key: GroupKey | None, now: float) -> None:
        """Bound pods are the truth: what those of the workload tell of it, unless that is known."""
        if key is None or key not in self._unheard:
            return
        del self._unheard[key]
        if (workload := self._workloads.get(key)) is None:
            return
        subject, self._process.subject = self._process.subject, key
        self._lifecycle.recover(workload, now)
        self._lifecycle.settle(workload, now)
        self._process.subject = subject
        if workload.release.complete or not (workload.members.live or workload.job is not None):
            # It has started before: that was told then.
            workload.begin(None)
            if workload.group is None or not workload.group.starting:
                workload.telling.reported(now)

    def all(self, now: float) -> Steps[None]:
        """Find out about every workload."""
        for key in list(self._unheard):
            workload = self._workloads.get(key)
            self.find_out(key, now)
            yield _LOOK + (len(workload.members) if workload is not None else 0)

    def end(self, now: float) -> Steps[None]:
        """Calls are answered from now on. What plans of an earlier life leave is for pods of jobs that replace others
        which are yet to go."""
        self._kube_preemption.restore(now)
        self._process.recovered = True
        self._changes.take()
        # Of jobs that cannot all have been started, the one whose turn came last was not: it is judged first.
        jobs = [(key, one) for key, one in self._workloads.items() if one.job is not None]
        for key, workload in sorted(jobs, key=lambda one: (one[1].priority, -one[1].created)):
            job = workload.job
            if self._workloads.get(key) is not workload or job is None:
                continue
            if job.unproven or job.awaits_nodes or (workload.admitted and key in self._pending.keys):
                self._process.subject = key
                self._lifecycle.settle(workload, now)
                self._process.subject = None
                yield _LOOK + len(workload.members)

    def clear(self, now: float) -> Steps[None]:
        """Nominations are hints: whatever is left of them that nobody is promised is cleared."""
        for key in list(self._workloads):
            if (workload := self._workloads.get(key)) is not None:
                self._steering.sweep(workload, now)
                yield _LOOK + len(workload.members) // 4
        yield from self._hints.recover(now)
