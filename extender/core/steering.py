"""Carrying a placement out: how kube-scheduler learns of the planned nodes, and when the gates come off."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from extender.core.effects import Confirm, Nominate, Ungate
from extender.core.events import Nominated, Ungated
from extender.core.gang import Gang
from extender.core.state import State
from policies.model import GANG_GATE, Placement, Pod
from policies.placement.rules import Unclear, rules_of

_LARGEST_PIN = 64
"""Nodes that a pin may name: each costs 100 bytes of the pod, for as long as it lives."""

_CONFIRMED = 2
"""Members that say that their release is whole."""


class SteeringMode(StrEnum):
    """What makes kube-scheduler look at the planned nodes only.

    A nomination is a second write for each pod, and can be taken back. A pin is part of the write that ungates, and is
    for ever: if its nodes refuse the pod, only deleting the pod helps. Pods that were never gated are always nominated,
    as are pods with node affinity terms of their own.
    """

    NOMINATE = "nominate"
    PIN_DOMAIN = "pin-domain"
    PIN_NODE = "pin-node"


class Steering:
    """What kube-scheduler is told about promised nodes. A gate cannot be put back, so it comes off last."""

    outlook = "kube-scheduler is carrying it out"
    """What becomes of a placement, for the reason of its gang."""

    def __init__(self, state: State, mode: SteeringMode = SteeringMode.NOMINATE) -> None:
        self._state = state
        self._mode = mode

    def start(self, gang: Gang, members: Sequence[Pod], nodes: Placement, now: float) -> None:
        """Assume a node for each member that has one in ``nodes``, and tell kube-scheduler."""
        state = self._state
        for pod in members:
            node = nodes.get(pod.uid)
            if node is None:
                continue
            state.assume(gang, pod, node)
            if self._pin(gang, pod, node):
                continue
            gang.nominated[pod.uid] = gang.unconfirmed[pod.uid] = node
            # The nomination wakes a pod that was tried and refused. One that already reads so would change nothing.
            renew = pod.nominated_node == node and not pod.gates
            state.out.append(Nominate(pod.uid, pod.namespace, pod.name, node, renew, gang.key))
        gang.plan_deadline = now + state.limits.plan_s
        state.watch_plan(gang, gang.plan_deadline)
        self.ungate(gang)

    def nominated(self, event: Nominated, now: float) -> Gang | None:
        """A nomination was written, or could not be: then the gang whose placement cannot go on is returned."""
        pod = self._state.pods.get(event.uid)
        gang = self._state.gang_of(pod) if pod else None
        if gang is None or gang.unconfirmed.get(event.uid) != event.node:
            return None
        if event.detail:
            return gang
        del gang.unconfirmed[event.uid]
        # Only now can kube-scheduler take it up, however long the write was in the queue.
        gang.plan_deadline = now + self._state.limits.plan_s
        if pod is not None and pod.gates and pod.nominated_node != event.node:
            gang.unshown[event.uid] = None
        self.ungate(gang)
        return None

    def shown(self, gang: Gang, pod: Pod) -> None:
        """The watch shows a member's nomination.

        Gates wait for that: the API server begins the next write to the pod from its watch cache, and does it twice
        when the cache is behind.
        """
        if pod.uid in gang.unshown and pod.nominated_node == gang.nominated.get(pod.uid):
            del gang.unshown[pod.uid]
            self.ungate(gang)

    def ungated(self, event: Ungated, now: float) -> Gang | None:
        """A gate came off, or could not be taken off: then the gang whose placement cannot go on is returned."""
        pod = self._state.pods.get(event.uid)
        gang = self._state.gang_of(pod) if pod else None
        if gang is None or gang.ungating.get(event.uid, True):
            return None
        if event.detail:
            return gang
        gang.ungating[event.uid] = True
        gang.plan_deadline = now + self._state.limits.plan_s
        return None

    def unled(self, gang: Gang, uid: str, why: str) -> None:
        """A write could not be made while the gang is being released, when no promise is taken back."""
        if uid not in gang.holds and uid not in gang.posting and uid not in gang.doubtful:
            gang.unled[uid] = why
            return
        # kube-scheduler has taken this member up without it.
        gang.unconfirmed.pop(uid, None)
        if uid in gang.ungating:
            gang.ungating[uid] = True
        self.ungate(gang)

    def ungate(self, gang: Gang) -> None:
        """Take our gate off every placed member, once all nominations are known to be written."""
        if gang.unconfirmed or gang.unshown or gang.promising:
            return
        for uid, node in gang.placement.items():
            pod = self._state.pods.get(uid)
            if pod is not None and pod.live and GANG_GATE in pod.gates and uid not in gang.ungating:
                gang.ungating[uid] = False
                self._state.out.append(Ungate(uid, pod.namespace, pod.name, gang.key, self._pin(gang, pod, node)))

    def settle(self, gang: Gang, uid: str) -> None:
        """A member is bound, and is led nowhere any more: the others may have waited for its nomination."""
        for index in (gang.nominated, gang.unconfirmed, gang.unshown, gang.ungating):
            index.pop(uid, None)
        self.ungate(gang)

    def stop(self, gang: Gang, uid: str) -> None:
        """The promise to this member ends: a nomination left behind would keep room from others."""
        pod = self._state.pods.get(uid)
        gang.unconfirmed.pop(uid, None)
        gang.unshown.pop(uid, None)
        gang.ungating.pop(uid, None)
        nominated = gang.nominated.pop(uid, None)
        # kube-scheduler clears the nomination of a failed bind itself.
        if nominated and pod is not None and pod.live and not pod.node and uid not in gang.holds:
            self._state.out.append(Nominate(uid, pod.namespace, pod.name, None, group=gang.key))

    def sweep(self, gang: Gang, now: float) -> None:
        """Take back nominations of members that are promised nothing: each keeps room from others.

        kube-scheduler tries once to clear that of a failed bind. Others are left over from an earlier life of ours.
        """
        state = self._state
        left = [
            pod
            for pod in gang.live
            if pod.nominated_node
            and not pod.node
            and pod.uid not in gang.placement
            and pod.scheduler in state.schedulers
        ]
        for pod in left:
            state.out.append(Nominate(pod.uid, pod.namespace, pod.name, None, group=gang.key))
        if left:
            # Even this may fail.
            state.watch_nominations(gang, now)

    def confirm(self, gang: Gang) -> None:
        """Have it stand on two bound members, on two nodes if there are, that their release is whole.

        The last Binding writes it on one. If that one is lost, a restart must not take the others for what is left of a
        release that broke off.
        """
        if not gang.complete or gang.releasing or len(gang.roster.confirmed) >= _CONFIRMED:
            return
        bound = gang.roster.bound
        known = dict(gang.roster.confirmed) | {uid: bound[uid] for uid in gang.confirming if uid in bound}
        while len(known) < _CONFIRMED:
            nodes = {pod.node for pod in known.values()}
            same = [pod for pod in bound.values() if pod.stamp and pod.stamp.release == gang.release]
            others = [pod for pod in same if pod.uid not in known]
            chosen = min(others, key=lambda pod: (pod.node in nodes, pod.rank), default=None)
            if chosen is None:
                return
            known[chosen.uid] = chosen
            gang.confirming[chosen.uid] = None
            self._state.out.append(Confirm(chosen.uid, chosen.namespace, chosen.name, gang.key))

    def _pin(self, gang: Gang, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes to pin it to; none if it is nominated instead."""
        # Terms that are there already can be narrowed only one by one: leave them to their owner.
        if GANG_GATE not in pod.gates or pod.selection.affinity is not None:
            return ()
        match self._mode:
            case SteeringMode.PIN_NODE:
                return (node,)
            case SteeringMode.PIN_DOMAIN:
                return self._domain(gang.asking(pod), node)
        return ()

    def _domain(self, pod: Pod, node: str) -> tuple[str, ...]:
        """The nodes of the domain that it has to stay in, or of the largest one inside that is small enough for a pin.

        What asks for no level gets the domain of the nearest. None where there is no such domain.
        """
        view = self._state.ledger.snapshot()
        row, rules = view.rows.get(node), rules_of([pod], view)
        if row is None or isinstance(rules, Unclear):
            return ()
        for level in reversed(view.levels[: rules.widest + 1]):
            code = int(level.codes[row])
            rows = level.domain(code).rows if code >= 0 else ()
            if 0 < len(rows) <= _LARGEST_PIN:
                return tuple(sorted(view.names[one] for one in rows))
        return ()
