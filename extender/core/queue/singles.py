"""Pods of no gang: kube-scheduler's business, except where room is promised to a gang, or theirs comes before one."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.effects import AnswerFilter, Wake
from extender.core.events import FilterCalled
from extender.core.ledger.claims import Owner
from extender.core.ledger.preemptions import key_of, room_of
from extender.core.ledger.singles import WaitingSingle
from extender.core.ledger.state import State
from extender.core.queue.line import Line
from extender.core.queue.planner import Planner
from extender.core.workload.shape import Role
from policies.api import PolicyError
from policies.model import Pod, Requests, Selection
from policies.placement.relations import hindrances_of
from policies.placement.request import shape_of
from policies.steps import AT_ONCE, Steps, finish

ROOM_KEPT = "Muster: the room here is kept for a gang that is starting"
"""Constant on purpose: kube-scheduler retries a pod at once when the text of its refusal changes."""
_LOOK = 2


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
        roomy = (view.slots(state.devices.listed(pod.requests, view)) > 0).tolist()
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

    def may_preempt(self, pod: Pod, node: str, victims: Iterable[Owner], *, surely: bool = False) -> bool:
        """Say whether the pod fits on the node, beside what is promised, once the victims are gone.

        Evicting them is useless where ``filter`` rejects the pod, or where another preemptor gets their room. Where
        nothing is promised to others, kube-scheduler decides about room, unless the pod has to fit ``surely``.
        """
        claims, preemptions = self._state.claims, self._state.preemptions
        if not preemptions.pods.isdisjoint(uids := (pod.uid, *victims)):
            return False
        leaving: dict[Owner, None] = dict.fromkeys((*uids, room_of(key_of(pod), node)))
        unpromised = not surely and claims.promised_nodes.get(node, {}).keys() <= leaving.keys()
        return (unpromised or self._has_room(pod, node, leaving)) and not self._is_hindered(pod, node, leaving)

    def _has_room(self, pod: Pod, node: str, leaving: Iterable[Owner]) -> bool:
        claims = self._state.claims
        room = claims.room(node)
        for owner in leaving:
            if (claim := claims.get(owner)) is not None and claim.node == node:
                room |= {name: room.get(name, 0) + amount for name, amount in claim.requests}
        return all(room.get(name, 0) >= amount for name, amount in pod.requests if amount)

    def _is_hindered(self, pod: Pod, node: str, leaving: Iterable[Owner]) -> bool:
        """Say whether a pod that stays keeps it away, by ports or anti-affinity. Only this check sees promised members:
        kube-scheduler sees them once they are bound."""
        claims = self._state.claims
        if not claims.promised_nodes:
            return False
        view = claims.without(leaving)
        row = view.rows.get(node)
        return row is not None and any(one.rows[row] for one in finish(hindrances_of(pod, view)))

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


class Ahead:
    """kube-scheduler chooses their nodes and binds them as ever. Room is kept for ``plan_s`` at most, and on while it
    takes others that were before them in its queue: whoever has not taken it by then is refused for a reason that
    Muster does not know, and is left aside for a while.
    """

    def __init__(self, state: State, planner: Planner) -> None:
        self._state = state
        self._planner = planner
        self._short: dict[Role, None] = {}
        """Those that the walk has found no room for: none comes free while it lasts."""

    def join(self, line: Line, now: float) -> Steps[None]:
        """Those that there may be room for stand in the line. Where no gang does they are no concern of ours."""
        state, self._short = self._state, {}
        state.singles.line_up()
        if not line.gangs:
            return
        for role, pods in state.singles.roles():
            yield AT_ONCE // 8
            yield from state.claims.snapshot().evaluated(role[1])
            if not state.claims.snapshot().room(role[0], role[1]).any():
                continue
            for at in range(0, len(pods), AT_ONCE):
                for pod in pods[at : at + AT_ONCE]:
                    if not state.singles.rests_at(pod.uid, now):
                        self._join(line, pod)
                yield AT_ONCE

    def _join(self, line: Line, pod: Pod) -> None:
        try:
            line.join(WaitingSingle(pod))
        except PolicyError as error:
            self._state.blame(error.policy)

    def keep(self, uid: str, now: float) -> Steps[None]:
        """Its turn has come: the room that is kept for it, or that it finds now, is for nobody behind it. Those behind
        it lose what an earlier walk has kept for them there, if that leaves too little.
        """
        state, pod = self._state, self._state.singles.get(uid)
        if pod is None or state.claims.get(uid) is not None:
            yield _LOOK  # it is bound, or is being bound
            return
        state.singles.take_turn(uid)
        role = shape_of(pod)
        if uid in state.singles.kept or role in self._short:
            yield _LOOK
            return
        try:
            node = yield from self._planner.seat(pod)
        except PolicyError as error:
            state.blame(error.policy)
            return
        if node is None:
            self._short[role] = None
        elif state.singles.get(uid) is pod and state.claims.get(uid) is None:
            state.singles.keep(pod, node, now + state.limits.plan_s)
            state.claims.expect(pod, node)
            state.crowd_out(node)

    def lapse(self, now: float) -> None:
        """Give back what was kept for too long."""
        state, plan_s, queue = self._state, self._state.limits.plan_s, self._state.kube_queue
        for uid in state.singles.late(now):
            pod = state.singles.get(uid)
            if pod is not None and now < queue.taken_at + plan_s and queue.has_yet_to_try(pod):
                state.singles.keep_on(uid, now + plan_s)
                continue
            node = state.singles.kept[uid].node
            state.end_kept(uid)
            state.singles.rest(uid, node, now, plan_s)
