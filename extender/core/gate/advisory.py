"""Advisory mode: kube-scheduler does as it likes, while plans, reasons and scores go on, and nobody is kept waiting.

Plans are made as ever, of the room that is really free, and promise nothing: each is only remembered for the scores.
So two gangs that wait may both be told of the same room.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from extender.core.effects import AnswerFilter
from extender.core.events import BindArrived, FilterCalled
from extender.core.gate.revocations import Revocations
from extender.core.gate.stamps import DOMAIN, RANK, ranks_of
from extender.core.ledger.claims import Claims
from extender.core.ledger.pending import Changes
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
    """Answers the calls of kube-scheduler: rejects no pod, holds none, and counts what enforcing would have said."""

    _counts: Counts
    _store: Store
    _room: Room
    _outbox: Outbox
    _claims: Claims
    _changes: Changes
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
        """Post the Binding at once. It is not stamped as a release: the gang is never taken for a broken one."""
        marks: dict[str, str] = {}
        binding = Binding(event.node, [event.call])
        if (found := self._store.member(pod.uid)) is not None:
            workload, member = found
            binding.workload = workload.key
            workload.members.move(member, MemberState.BINDING, event.node)
            if not (workload.release.complete or workload.has_quorum(Stage.ARRIVED)):
                self._counts.advised["would_hold"] += 1
            marks[RANK] = str(ranks_of(workload, [pod.uid])[pod.uid])
            if (nearest := next(self._claims.domains(event.node), None)) is not None:
                marks[DOMAIN] = nearest[1]
            self._store.mark_dirty(workload)
            workload.status.plan(now)
        self._changes.taken = True
        self._claims.assume(pod, event.node)
        # Of a Binding whose outcome is unknown: kube-scheduler counts on that room no more.
        self._revocations.give_way(event.node, now)
        self._room.crowd_out(event.node)
        self._outbox.post(pod, binding, event.expires, marks)
