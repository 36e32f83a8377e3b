"""Advisory mode: kube-scheduler does as it likes, while plans, reasons and scores go on, and nobody is kept waiting.

Plans are made as ever, of the room that is really free, and promise nothing: each is only remembered for the scores.
So two gangs that wait may both be told of the same room.
"""

from __future__ import annotations

from enum import StrEnum

from extender.core.answers import Ungated
from extender.core.effects import AnswerFilter, Ungate
from extender.core.events import BindArrived, FilterCalled
from extender.core.explain.telling import Reporter
from extender.core.gate.revocations import Revocations
from extender.core.gate.stamps import DOMAIN, RANK, ranks_of
from extender.core.gate.steering import Steering
from extender.core.ledger.claims import Claims
from extender.core.ledger.namespaces import Namespaces
from extender.core.ledger.outbox import Outbox
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.process import Counts
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.records import Records
from extender.core.ledger.room import Room
from extender.core.ledger.store import Store
from extender.core.ledger.waiting import Changes
from extender.core.limits import Limits
from extender.core.workload.members import Member, MemberState, Step
from extender.core.workload.release import Binding
from extender.core.workload.slots import Stage
from extender.core.workload.workload import Phase, Workload
from policies.model import GANG_GATE, Pod


class Mode(StrEnum):
    """Whether gangs start all or none, or kube-scheduler is only advised."""

    ENFORCE = "enforce"
    ADVISE = "advise"


class Advisory(Steering):
    """Rejects nobody, counts what enforcing would have said, and steers nobody."""

    outlook = "where each goes is up to kube-scheduler"

    def __init__(
        self,
        schedulers: tuple[str, ...],
        limits: Limits,
        counts: Counts,
        store: Store,
        room: Room,
        records: Records,
        outbox: Outbox,
        claims: Claims,
        quotas: Quotas,
        preemptions: Preemptions,
        namespaces: Namespaces,
        changes: Changes,
        reporter: Reporter,
    ) -> None:
        self._schedulers = schedulers
        self._counts = counts
        self._store = store
        self._room = room
        self._outbox = outbox
        self._claims = claims
        self._changes = changes
        super().__init__(schedulers, limits, store, room, records, outbox, claims)
        self._revocations = Revocations(
            limits, store, room, outbox, claims, quotas, preemptions, namespaces, reporter, self
        )

    def filter(self, event: FilterCalled, pod: Pod) -> None:
        """Everywhere."""
        if pod.group_key is not None and not pod.native_group:
            workload = self._store.workload_of(pod)
            passes = workload is not None and (pod.uid in workload.advised or workload.phase is Phase.RUNNING)
            self._counts.advised["would_pass" if passes else "would_reject"] += 1
        self._outbox.append(AnswerFilter(event.call, event.candidates))

    def bind(self, pod: Pod, event: BindArrived, now: float) -> None:
        """At once. It is no release and not stamped as one, so that no gang bound so is ever taken for a broken one."""
        marks = {}
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
            self._store.touch(workload)
            workload.status.plan(now)
        self._changes.taken = True
        self._claims.assume(pod, event.node)
        # Of a Binding whose outcome is unknown: kube-scheduler counts on that room no more.
        self._revocations.give_way(event.node, now)
        self._room.crowd_out(event.node)
        self._outbox.post(pod, binding, event.expires, marks)

    def await_uptake(self, workload: Workload, now: float) -> None:
        """Nothing is to be taken up."""

    def lead(self, workload: Workload, member: Member, node: str, turn: int = 0) -> None:  # noqa: ARG002
        """Only remember the node. Those who have one by now keep what they were advised, for the comparison."""
        workload.advise(member.uid, node)
        self.shown(workload, member)

    def tell(self, workload: Workload, member: Member) -> None:
        """Nobody is nominated."""

    def shown(self, workload: Workload, member: Member) -> None:
        """Take every gate of ours off as soon as it is seen."""
        pod = member.pod
        ours = pod.scheduler in self._schedulers and pod.live
        if ours and GANG_GATE in pod.gates and member.step is Step.NONE:
            workload.members.step(member, Step.UNGATING)
            self._outbox.append(Ungate(pod.uid, pod.namespace, pod.name, workload.key))

    def ungated(self, event: Ungated, now: float) -> Workload | None:  # noqa: ARG002
        """A gate that could not be taken off is tried again when the pod is next seen or planned for."""
        found = self._store.member(event.uid)
        if found is not None and found[1].step is Step.UNGATING:
            found[0].members.step(found[1], Step.NONE if event.detail else Step.LED)
        return None

    def again(self, workload: Workload, member: Member) -> None:
        """No write leads anybody on."""

    def stop(self, workload: Workload, member: Member) -> None:
        """Nobody is led anywhere."""

    def confirm(self, workload: Workload) -> None:
        """Nothing is written on pods that are bound."""

    def sweep(self, workload: Workload, now: float) -> None:
        """Nominations are kube-scheduler's own."""

    def sweep_later(self, workload: Workload, now: float) -> None:
        """Nominations are kube-scheduler's own."""
