"""Promises of room that end before they are kept: forgotten with the whole gang, or lost with one member."""

from __future__ import annotations

from extender.core.backoff import pause_s
from extender.core.gang import Gang, Kept, kept_for
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.steering import Steering
from extender.core.turns import DEADLINES, Cause, Turn


class Promises:
    """Takes room back. What is held or nominated for its sake ends with it."""

    def __init__(self, state: State, steering: Steering) -> None:
        self._state = state
        self._steering = steering

    def forget(self, gang: Gang, why: str, now: float, cause: Cause, *, penalty: bool = False) -> None:
        """Take every promise back: held binds fail, assumed room is free, nominations are cleared."""
        state = self._state
        gang.note(now, f"forgotten: {why}")
        if gang.holds:
            # kube-scheduler clears their nominations, or fails to: time to look.
            state.watch_nominations(gang, now)
        if gang.placement or gang.holds:
            state.turned(gang, Turn.FORGOTTEN, now, cause=cause, detail=why)
        for uid in [uid for uid in gang.placement if uid not in gang.posting and uid not in gang.doubtful]:
            state.unassume(gang, uid)
            self._steering.stop(gang, uid)
        for uid in list(gang.holds):
            if (hold := gang.let_go(uid)) is not None:
                state.answer(hold.call, why)
        gang.final = None
        if penalty:
            gang.failures += 1
            gang.not_before = now + pause_s(gang.failures, 1.0, state.limits.retry_max_s)
            state.set_timer(gang.not_before, gang.key)
        if gang.roster.lacks and not gang.whole:
            state.explain(gang, Reason("Forgotten", why), now)
            if cause in DEADLINES:
                state.report(gang, now)
        state.review(gang)

    def keep(self, gang: Gang, uid: str) -> None:
        """The member is bound."""
        gang.unpromise(uid)
        self._steering.settle(gang, uid)

    def lose(self, gang: Gang, uid: str, now: float) -> None:
        """Take the room of a lost member back, unless part of its gang is bound: then its replacement gets the room."""
        state = self._state
        charge = state.ledger.charges.get(uid) if uid in gang.placement else None
        state.unassume(gang, uid)
        self._steering.stop(gang, uid)
        # The others may have waited for this one's nomination.
        self._steering.ungate(gang)
        started = gang.roster.started or gang.posting
        if charge is not None and started and not gang.complete and uid not in gang.kept:
            until = now + state.limits.partial_s
            gang.kept[uid] = Kept(charge.node, charge.requests, until)
            state.ledger.charge(kept_for(uid), charge.node, charge.requests, assumed=True)
            state.set_timer(until, gang.key)

    def give_way(self, node: str, now: float) -> None:
        """Somebody took planned room (a pod of higher priority, another scheduler): the youngest promises give way."""
        state = self._state
        for uid in reversed(list(state.ledger.assumed_on(node))):
            pod = state.pods.get(uid)
            gang = state.gang_of(pod) if pod else None
            if gang is None or pod is None or uid not in gang.placement:
                continue
            if not state.ledger.overcommitted(node, pod.requests):
                continue
            if gang.releasing or uid in gang.doubtful:
                gang.unsettled[node] = None
            else:
                self.forget(gang, f"the room planned on node {node} was taken by another pod", now, Cause.ROOM_TAKEN)

    def lapse(self, gang: Gang, now: float) -> None:
        """Room that was kept for a replacement long enough is anybody's, and so is what nobody is promised."""
        self._steering.sweep(gang, now)
        for uid, kept in list(gang.kept.items()):
            if now >= kept.until:
                del gang.kept[uid]
                gang.demand = None
                self._state.uncharge(kept_for(uid))

    def extend(self, gang: Gang, now: float) -> None:
        """kube-scheduler has a full plan's time again to take the placement up."""
        gang.plan_deadline = now + self._state.limits.plan_s
        self._state.watch_plan(gang, gang.plan_deadline)
