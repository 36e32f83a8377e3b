"""Advisory mode: plans, reasons and scores are made, but kube-scheduler decides alone and no pod is kept waiting.

Plans are made as ever, from the room that is free, and promise nothing. Each is remembered for the scores only. So two
waiting gangs may both be planned into the same room.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.core.effects import AnswerFilter
from extender.core.events import BindArrived, FilterCalled
from extender.core.gate.revocations import Revocations
from extender.core.gate.stamps import DOMAIN, RANK, ranks_of
from extender.core.ledger.claims import Claims
from extender.core.ledger.room import Room
from extender.core.ledger.store import Counts, Outbox, Store
from extender.core.workload.members import MemberState
from extender.core.workload.release import Binding
from extender.core.workload.slots import Stage
from extender.core.workload.status import Status
from policies.model import Pod


class Mode(StrEnum):
    """Whether gangs start all or none, or kube-scheduler is only advised."""

    ENFORCE = "enforce"
    ADVISE = "advise"


@dataclass(eq=False)
class Advisory:
    """Answers kube-scheduler's calls: rejects and holds no pod, and counts what enforcing would have answered."""

    _counts: Counts
    _store: Store
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _revocations: Revocations

    def filter(self, event: FilterCalled, pod: Pod) -> None:
        """Allow every candidate."""
        if pod.group_key is not None and not pod.native_group:
            workload = self._store.workload_of(pod)
            runs = workload is not None and workload.status.value is Status.RUNNING
            passes = workload is not None and (pod.uid in workload.advised or runs)
            self._counts.advised["would_pass" if passes else "would_reject"] += 1
        self._outbox.append(AnswerFilter(event.call, event.candidates))

    def bind(self, pod: Pod, event: BindArrived, now: float) -> None:
        """Post the Binding at once. It carries no stamp of a release, so the gang is never taken for a broken one."""
        marks: dict[str, str] = {}
        entry = self._store.member(pod.uid)
        binding = Binding(event.node, [event.call], None if entry is None else entry[0].key)
        if entry is not None:
            workload, member = entry
            workload.members.move(member, MemberState.BINDING, event.node)
            if not (workload.release.complete or workload.has_quorum(Stage.ARRIVED)):
                self._counts.advised["would_hold"] += 1
            marks[RANK] = str(ranks_of(workload, [pod.uid])[pod.uid])
            if (nearest := next(self._claims.domains(event.node), None)) is not None:
                marks[DOMAIN] = nearest[1]
            self._store.mark_dirty(workload)
            workload.status.plan(now)
        self._room.assume_alone(pod, event.node)
        # Room that is promised for a Binding with unknown outcome: kube-scheduler does not count on it any more.
        self._revocations.revoke_newest(event.node, now)
        self._room.drop_displaced(event.node)
        self._outbox.post(pod, binding, event.expires, marks)
