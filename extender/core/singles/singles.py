"""Pods of no gang: kube-scheduler's business, except where room is promised to a gang."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.claim import Owner
from extender.core.effects import AnswerFilter, Wake
from extender.core.events import FilterCalled
from extender.core.state import State
from extender.core.victims.preemptions import key_of, room_of
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
        promised = state.claims.promised_nodes
        if not promised:
            state.out.append(AnswerFilter(event.call, event.candidates))
            return
        view = state.claims.snapshot()
        roomy = (view.slots(pod.requests) > 0).tolist()
        own = state.preemptions.of_pod(pod)
        refused = {
            node: None
            for node in event.candidates
            if node in promised
            and pod.uid not in promised[node]
            and not ((row := view.rows.get(node)) is not None and roomy[row])
            and (own is None or state.preemptions.keeps_out(pod, node))
        }
        if refused:
            state.kept_out.add(pod)
            state.singles.wake(pod.uid)
        passed = tuple(node for node in event.candidates if node not in refused)
        state.out.append(AnswerFilter(event.call, passed, tuple(refused), ROOM_KEPT))

    def may_preempt(self, pod: Pod, node: str, victims: Iterable[str]) -> bool:
        """Whether it fits there beside what is promised once these are gone: they would go for nothing where ``filter``
        keeps it out, or where they give way to somebody else. Where nothing is promised to others, room is
        kube-scheduler's business.
        """
        claims, preemptions = self._state.claims, self._state.preemptions
        if not preemptions.pods.isdisjoint(uids := (pod.uid, *victims)):
            return False
        leaving = {*uids, room_of(key_of(pod), node)}
        return claims.promised_nodes.get(node, {}).keys() <= leaving or self.fits_without(pod, node, uids)

    def fits_without(self, pod: Pod, node: str, victims: Iterable[str]) -> bool:
        """Whether it fits there, as far as is known, once these are gone."""
        claims = self._state.claims
        room = claims.room(node)
        leaving: dict[Owner, None] = dict.fromkeys((pod.uid, *victims, room_of(key_of(pod), node)))
        for owner in leaving:
            if (claim := claims.get(owner)) is not None and claim.node == node:
                room |= {name: room.get(name, 0) + amount for name, amount in claim.requests}
        return all(room.get(name, 0) >= amount for name, amount in pod.requests if amount)

    def wake(self) -> None:
        """Touch, once, each that was kept out and that some room would take whose promise has ended."""
        state = self._state
        reopened = state.kept_out.take_reopened()
        takes: dict[tuple[Requests, Selection], bool] = {}
        for uid, shown in list(state.kept_out.pods.items()) if reopened else ():
            pod = state.pods.get(uid, shown)
            if pod.node or not pod.live:
                state.kept_out.drop(uid)
                continue
            kind = pod.requests, pod.selection
            if kind not in takes:
                takes[kind] = any(
                    state.claims.fits(node, pod.requests) and state.claims.admits(node, pod.selection)
                    for node in reopened
                )
            if takes[kind]:
                state.kept_out.drop(uid)
                state.out.append(Wake(uid, pod.namespace, pod.name))
