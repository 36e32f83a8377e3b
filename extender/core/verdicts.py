"""What kube-scheduler's questions are answered: which candidates a pod may use, and whom it may preempt."""

from __future__ import annotations

from extender.core.effects import AnswerFilter, AnswerPreempt
from extender.core.events import FilterCalled, PreemptCalled
from extender.core.gate import Gate
from extender.core.refusals import GANG_WAITS
from extender.core.singles import Singles
from extender.core.state import State


class Verdicts:
    """Answers from what is promised; the same question gets the same answer until an event changes the facts."""

    def __init__(self, state: State, gate: Gate, singles: Singles) -> None:
        self._state = state
        self._gate = gate
        self._singles = singles

    def filter(self, event: FilterCalled, now: float) -> None:
        """O(1) for a gang's pod: the node planned for it, or nothing."""
        state = self._state
        pod = state.pods.get(event.pod.uid, event.pod)
        if pod.native_group:
            state.out.append(AnswerFilter(event.call, event.candidates))
            return
        if pod.group_key is None:
            self._singles.filter(event, pod)
            return
        gang = state.gang_of(pod)
        node = pod.node or (gang.placement.get(pod.uid) if gang else None)
        if node is not None and node in event.candidates:
            state.out.append(AnswerFilter(event.call, (node,)))
            return
        # A one-node list is the nominated node alone; a stale nomination says nothing about the planned node.
        asked_widely = event.candidates != (event.pod.nominated_node,)
        if gang is not None and pod.uid in gang.placement and pod.uid not in gang.posting and asked_widely:
            self._gate.refused(gang, pod, now)
        state.out.append(AnswerFilter(event.call, (), event.candidates, GANG_WAITS))

    def preempt(self, event: PreemptCalled) -> None:
        """Until whole gangs can be preempted for: a gang's pod preempts nobody, and nobody preempts a gang's pod."""
        pod = self._state.pods.get(event.pod.uid, event.pod)
        if pod.group_key is not None and not pod.native_group:
            self._state.out.append(AnswerPreempt(event.call, {}))
            return
        self._state.out.append(AnswerPreempt(event.call, self._allowed(event)))

    def _allowed(self, event: PreemptCalled) -> dict[str, tuple[str, ...]]:
        """The candidates where singles alone would have to go."""
        return {
            node: uids for node, uids in event.victims.items() if uids and all(self._is_single(uid) for uid in uids)
        }

    def _is_single(self, uid: str) -> bool:
        pod = self._state.pods.get(uid)
        return pod is not None and pod.group_key is None
