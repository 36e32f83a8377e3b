"""Advisory mode: kube-scheduler does as it likes, while plans, reasons and scores go on, and nobody is kept waiting.

Plans are made as ever, of the room that is really free, and promise nothing: each is only remembered for the scores.
So two gangs that wait may both be told of the same room.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from extender.core.effects import AnswerFilter, AnswerPreempt, Ungate
from extender.core.events import BindArrived, FilterCalled, PreemptCalled, Ungated
from extender.core.gang import Gang
from extender.core.gate import Gate
from extender.core.releases import DOMAIN, RANK, ranks_of
from extender.core.roster import Stage
from extender.core.state import Posting, State
from extender.core.steering import Steering
from extender.core.verdicts import Verdicts
from policies.model import GANG_GATE, Placement, Pod


class Mode(StrEnum):
    """Whether gangs start all or none, or kube-scheduler is only advised."""

    ENFORCE = "enforce"
    ADVISE = "advise"


class Advice(Verdicts):
    """Rejects nobody, and counts what enforcing would have said."""

    def filter(self, event: FilterCalled, now: float) -> None:  # noqa: ARG002
        state = self._state
        pod = state.pods.get(event.pod.uid, event.pod)
        if pod.group_key is not None and not pod.native_group:
            gang = state.gang_of(pod)
            placed = gang is not None and gang.reason.code in ("Placed", "Running")
            _count(state, "would_pass" if placed else "would_reject")
        state.out.append(AnswerFilter(event.call, event.candidates))

    def preempt(self, event: PreemptCalled) -> None:
        """Every pod is treated as a single is: it may preempt singles, and nobody preempts a gang's pod."""
        self._state.out.append(AnswerPreempt(event.call, self._allowed(event)))


class OpenGate(Gate):
    """Posts every Binding at once.

    They are no release and not stamped as one, so that no gang bound like this is ever taken for a broken one.
    """

    def _decide(self, pod: Pod, event: BindArrived, now: float) -> None:
        state = self._state
        gang = state.gang_of(pod)
        if gang is None:
            state.news.taken = True
            state.ledger.charge(pod.uid, event.node, pod.requests, assumed=True)
            self._promises.give_way(event.node, now)
            return state.post(pod, Posting(event.node, [event.call]), event.expires)
        needed = gang.min_member
        if not gang.complete and (needed is None or gang.reached(Stage.ARRIVED) + 1 < needed):
            _count(state, "would_hold")
        state.assume(gang, pod, event.node)
        gang.start_binding(pod.uid, event.node)
        state.review(gang)
        # Of a Binding whose outcome is unknown: kube-scheduler counts on that room no more.
        self._promises.give_way(event.node, now)
        marks = {RANK: str(ranks_of(gang, [pod.uid])[pod.uid])}
        if (nearest := next(state.ledger.domains(event.node), None)) is not None:
            marks[DOMAIN] = nearest[1]
        return state.post(pod, Posting(event.node, [event.call], gang.key), event.expires, marks)


class Onlooker(Steering):
    """Tells kube-scheduler nothing, and takes every gate of ours off as soon as it is seen."""

    outlook = "where each goes is up to kube-scheduler"

    def start(self, gang: Gang, members: Sequence[Pod], nodes: Placement, now: float) -> None:  # noqa: ARG002
        # Those who have a node by now keep what they were advised, for the comparison.
        gang.advised = {uid: node for uid, node in gang.advised.items() if uid in gang.roster.live} | dict(nodes)
        for pod in members:
            self.shown(gang, pod)

    def shown(self, gang: Gang, pod: Pod) -> None:
        ours = pod.scheduler in self._state.schedulers and pod.live
        if ours and GANG_GATE in pod.gates and pod.uid not in gang.ungating:
            gang.ungating[pod.uid] = False
            self._state.out.append(Ungate(pod.uid, pod.namespace, pod.name, gang.key))

    def ungated(self, event: Ungated, now: float) -> Gang | None:
        """A gate that could not be taken off is tried again when the pod is next seen or planned for."""
        if (failed := super().ungated(event, now)) is not None:
            del failed.ungating[event.uid]
        return None

    def confirm(self, gang: Gang) -> None:
        """Nothing is written on pods that are bound."""

    def sweep(self, gang: Gang, now: float) -> None:
        """Nominations are kube-scheduler's own."""


def _count(state: State, verdict: str) -> None:
    state.advised[verdict] += 1
