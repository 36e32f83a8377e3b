"""The acts on a job: start it, suspend it, clean it. Each is one write, which no other code asks for.

An act is decided where its cause is seen. A commit decides a start. The event that loses the plan of a started job
decides its suspension. From then on the act is ``due`` (``JobRecord``), and ``Jobs.settle`` carries it out as soon as
the job can be written to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from extender.core.effects import CleanJob, StartJob, SuspendJob
from extender.core.jobs.start import podsets_to_create
from extender.core.ledger.expected import ExpectedPods
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.workload.job import JobRecord, JobWrite
from extender.core.workload.shape import Flavoring, PodSetKey
from extender.core.workload.workload import Workload
from policies.model import InVain, NodeWait, SlotKey, Victim


@dataclass(eq=False)
class JobActs:
    """The only code that asks for a start, a suspension or a cleaning of a job."""

    _limits: Limits
    _process: Process
    _store: Store
    _outbox: Outbox
    _preemptions: Preemptions
    _expected: ExpectedPods

    def start(self, workload: Workload, record: JobRecord, nodes: Mapping[SlotKey, str], now: float) -> None:
        """Start a job with the nodes promised to its slots, or write them on a job that was started without a plan.

        The plan is in force from now on.
        """
        record.write(JobWrite.START)
        record.admit(nodes)
        workload.status.start(now)
        self._outbox.append(_started(workload, record, nodes))
        self._expected.expect(workload, record.planned)

    def start_without_nodes(
        self, workload: Workload, record: JobRecord, made: Mapping[PodSetKey, Flavoring], until: NodeWait, now: float
    ) -> None:
        """Start a job with flavors and no plan, so that an autoscaler makes nodes.

        ``until``: how long to wait for them.
        """
        workload.set_flavors(made)
        record.write(JobWrite.START)
        workload.status.start(now)
        self._outbox.append(_started(workload, record, {}, until, self._limits.elastic.within_s))
        self._store.mark_dirty(workload)

    def suspend(self, workload: Workload, record: JobRecord, why: str, now: float, rests: InVain | None) -> None:
        """Suspend a job as a whole. ``rests``: asked-for nodes did not come; until when the job asks for no others."""
        record.write(JobWrite.SUSPEND)
        wall = now - self._process.wall_offset
        evicted = self._preemptions.evictions.recent(Victim(workload.key), record.seen, wall)
        self._outbox.append(SuspendJob(record.seen, why, evicted, rests))

    def clean(self, record: JobRecord) -> None:
        """Remove Muster's marks from a job that does not run, so that none outlives its use."""
        if record.seen.marked and not record.seen.bare:
            record.write(JobWrite.CLEAN)
            self._outbox.append(CleanJob(record.seen))


def _started(
    workload: Workload,
    record: JobRecord,
    planned: Mapping[SlotKey, str],
    node_wait: NodeWait | None = None,
    awaits_s: float = 0.0,
) -> StartJob:
    """The write of a start: the plan, and the flavors of the podsets with what their pods tolerate."""
    job, flavoring, first_wave = record.seen, workload.flavoring, podsets_to_create(workload, record.seen).first_wave
    flavors = {str(podset): dict(chosen.flavors) for podset, chosen in flavoring.items() if chosen.flavors}
    tolerations = {str(podset): chosen.tolerations for podset, chosen in flavoring.items() if chosen.tolerations}
    if node_wait is not None:
        # The nodes that are made have to be of its flavors. Nodes of a plan have these labels anyway.
        labels = {str(podset): chosen.labels for podset, chosen in flavoring.items() if chosen.labels}
        return StartJob(job, {}, first_wave, flavors, tolerations, node_wait, labels, awaits_s)
    podsets = job.podsets.podsets
    nodes = {
        podset.name: tuple(planned.get(podset.slot(index), "") for index in range(podset.count)) for podset in podsets
    }
    return StartJob(job, nodes, first_wave, flavors, tolerations)
