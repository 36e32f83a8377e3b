"""Carrying a placement out: every member is nominated, and when all nominations are in, the gates come off."""

from __future__ import annotations

from extender.core.effects import Nominate, Ungate
from extender.core.events import Nominated
from extender.core.gang import Gang
from extender.core.state import State
from policies.model import GANG_GATE, Placement, Pod


class Steering:
    """What kube-scheduler is told about promised nodes. A gate cannot be put back, so it comes off last."""

    def __init__(self, state: State) -> None:
        self._state = state

    def start(self, gang: Gang, members: list[Pod], nodes: Placement, now: float) -> None:
        """Assume a node for each member that has one in ``nodes``, and have it nominated."""
        state = self._state
        for pod in members:
            node = nodes.get(pod.uid)
            if node is None:
                continue
            state.assume(gang, pod, node)
            gang.nominated[pod.uid] = gang.unconfirmed[pod.uid] = node
            # The nomination wakes a pod that was tried and refused. One that already reads so would change nothing.
            renew = pod.nominated_node == node and not pod.gates
            state.out.append(Nominate(pod.uid, pod.namespace, pod.name, node, renew))
        gang.plan_deadline = now + state.limits.plan_s
        state.set_timer(gang.plan_deadline, gang.key)

    def nominated(self, event: Nominated, now: float) -> Gang | None:
        """A nomination was written, or could not be: then the gang whose placement cannot go on is returned."""
        pod = self._state.pods.get(event.uid)
        gang = self._state.gang_of(pod) if pod else None
        if gang is None or gang.unconfirmed.get(event.uid) != event.node:
            return None
        if event.detail:
            return gang
        del gang.unconfirmed[event.uid]
        if not gang.unconfirmed:
            # Only now can kube-scheduler take it up, however long the writes were in the queue.
            gang.plan_deadline = now + self._state.limits.plan_s
            self._state.set_timer(gang.plan_deadline, gang.key)
        self.ungate(gang)
        return None

    def ungate(self, gang: Gang) -> None:
        """Take our gate off every placed member, once all of them are known to be nominated."""
        if gang.unconfirmed:
            return
        for uid in gang.placement:
            pod = self._state.pods.get(uid)
            if pod is not None and pod.live and GANG_GATE in pod.gates and uid not in gang.ungating:
                gang.ungating[uid] = None
                self._state.out.append(Ungate(uid, pod.namespace, pod.name))

    def stop(self, gang: Gang, uid: str) -> None:
        """The promise to this member ends: a nomination left behind would keep room from others."""
        pod = self._state.pods.get(uid)
        gang.unconfirmed.pop(uid, None)
        gang.ungating.pop(uid, None)
        nominated = gang.nominated.pop(uid, None)
        # kube-scheduler clears the nomination of a failed bind itself.
        if nominated and pod is not None and pod.live and not pod.node and uid not in gang.holds:
            self._state.out.append(Nominate(uid, pod.namespace, pod.name, None))
