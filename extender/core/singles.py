"""Pods of no gang: kube-scheduler's business, except where room is promised to a gang."""

from __future__ import annotations

from extender.core.effects import AnswerFilter, Wake
from extender.core.events import BindArrived, FilterCalled
from extender.core.state import Posting, State
from policies.model import Pod, Requests, Selection

ROOM_KEPT = "Muster: the room here is kept for a gang that is starting"
"""Constant on purpose: kube-scheduler retries a pod at once when the text of its refusal changes."""


class Singles:
    """Keeps them out of promised room, and wakes those who were kept out when a promise of such room ends."""

    def __init__(self, state: State) -> None:
        self._state = state

    def filter(self, event: FilterCalled, pod: Pod) -> None:
        """Every node that has room beside what is promised; whatever else is to be said is kube-scheduler's to say."""
        state = self._state
        promised = state.ledger.assumed_nodes
        if not promised:
            state.out.append(AnswerFilter(event.call, event.candidates))
            return
        view = state.ledger.snapshot()
        roomy = (view.slots(pod.requests) > 0).tolist()
        refused = {
            node: None
            for node in event.candidates
            if node in promised
            and pod.uid not in promised[node]
            and not ((row := view.rows.get(node)) is not None and roomy[row])
        }
        if refused:
            state.kept_out[pod.uid] = None
        passed = tuple(node for node in event.candidates if node not in refused)
        state.out.append(AnswerFilter(event.call, passed, tuple(refused), ROOM_KEPT))

    def bind(self, pod: Pod, event: BindArrived) -> None:
        """Post it at once."""
        state = self._state
        promised = state.ledger.assumed_nodes.get(event.node, {})
        if promised and pod.uid not in promised and not state.ledger.fits(event.node, pod.requests):
            # It passed filter before the gang was planned.
            return state.answer(event.call, f"the room on {event.node} is kept for a gang that is starting")
        state.news.taken = True
        state.ledger.charge(pod.uid, event.node, pod.requests, assumed=True)
        return state.post(pod, Posting(event.node, [event.call]), event.expires)

    def wake(self) -> None:
        """Touch, once, each that was kept out and that some room would take whose promise has ended."""
        state = self._state
        reopened, state.reopened = state.reopened, {}
        takes: dict[tuple[Requests, Selection], bool] = {}
        for uid in list(state.kept_out) if reopened else ():
            pod = state.pods.get(uid)
            if pod is None or pod.node or not pod.live:
                del state.kept_out[uid]
                continue
            kind = pod.requests, pod.selection
            if kind not in takes:
                takes[kind] = any(
                    state.ledger.fits(node, pod.requests) and state.ledger.admits(node, pod.selection)
                    for node in reopened
                )
            if takes[kind]:
                del state.kept_out[uid]
                state.out.append(Wake(uid, pod.namespace, pod.name))
