"""Pods of no gang in the admission pass: the room for those whose turn comes before a gang's is not planned with."""

from __future__ import annotations

from extender.core.gang.shape import Role
from extender.core.planner import Planner
from extender.core.singles.waiting import WaitingSingle
from extender.core.state import State
from extender.core.waiting.line import Line
from policies.api import PolicyError
from policies.model import Pod
from policies.placement.request import shape_of
from policies.steps import AT_ONCE, Steps

_LOOK = 2


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
