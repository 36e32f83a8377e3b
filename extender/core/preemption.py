"""A workload that lacks room has others give way, where they have a lower priority and the whole of it fits then.

First what it is to have is written on it, then its victims are told, all of each; when the last of them has gone it is
planned like any other. What is written lets a restart go on.
"""

from __future__ import annotations

import math

from extender.core.candidates import candidates
from extender.core.demands import siblings
from extender.core.limits import Preempts
from extender.core.planner import Planner
from extender.core.preemptions import MOST
from extender.core.reasons import Reason
from extender.core.reservations import Reservations
from extender.core.shape import Demand, Shape
from extender.core.state import State
from extender.core.telling import turned
from extender.core.turns import Turn
from extender.core.workload import Workload
from policies.model import GroupKey
from policies.placement.request import Sibling
from policies.preemption.candidates import Limits as Protection
from policies.preemption.candidates import Request
from policies.preemption.victims import Choice, search
from policies.steps import Steps

_SEARCHES = 4
"""In one pass: each may take tens of milliseconds."""
_REST_S = 1.0
"""Whoever has begun to run may give way: that is looked at so often."""


class Preempting:
    """What the admission pass asks about preemption."""

    def __init__(self, state: State, planner: Planner, reservations: Reservations) -> None:
        self._state = state
        self._planner = planner
        self._reservations = reservations
        self._mode = state.limits.preemption
        self._vain: dict[Shape, str] = {}
        """What was found for workloads of a shape, as of this epoch."""
        self._as_of = -1
        self._looked_at = 0
        self._searches = 0
        self._rest_until = 0.0
        self._ripe_at = math.inf
        """When the next one has run for long enough to give way to somebody who was refused."""

    def due(self, at: float) -> float | None:
        """When somebody is to be looked at who may give way by then, no sooner than ``at``; None for nobody."""
        if self._mode is Preempts.OFF:
            return None
        if self._looked_at == self._state.preemptions.epoch:
            at = max(at, self._ripe_at)
        return None if at == math.inf else max(at, self._rest_until)

    def review(self, now: float) -> bool:
        """A pass begins. Returns whether everybody who waits is to be looked at because of it."""
        self._searches = 0
        if (due := self.due(now)) is None or now < due:
            return False
        if now >= self._ripe_at:
            self._ripe_at = math.inf
            self._state.preemptions.ripen()
        self._looked_at, self._rest_until = self._state.preemptions.epoch, now + _REST_S
        return True

    def wants(self, workload: Workload, shape: Shape) -> bool:
        """Whether somebody may give way to it, as far as is known."""
        preemptions = self._state.preemptions
        if self._mode is Preempts.OFF or workload.priority <= preemptions.lowest:
            return False
        if workload.key in preemptions.under_way or preemptions.spares(workload.key, shape):
            return False
        return self._as_of != preemptions.epoch or shape not in self._vain

    def is_ready(self, key: GroupKey) -> bool:
        """Whether its victims have gone: whatever was found before, it is planned now."""
        preemption = self._state.preemptions.under_way.get(key)
        return preemption is not None and preemption.ready

    def instead(self, workload: Workload, shape: Shape, why: Reason, now: float) -> Steps[Reason]:
        """It cannot be admitted: whether others give way, or what else is to be said."""
        demand, key = workload.asked, workload.key
        if self._mode is Preempts.OFF or why.code != "NoRoom" or self._state.quotas.queue_of(key) is not None:
            return why
        if (preemption := self._state.preemptions.under_way.get(key)) is not None:
            if preemption.ready:
                return self._reservations.fail(workload, f"its victims have gone, and yet {why.message}", now)
            return preemption.reason
        if demand is None or not self._may(workload, demand):
            return why
        if self._as_of != self._state.preemptions.epoch:
            self._vain, self._as_of = {}, self._state.preemptions.epoch
        if shape in self._vain or not self.wants(workload, shape) or self._searches >= _SEARCHES:
            return Reason("NoRoom", f"{why.message}{self._vain.get(shape, '')}")
        beside = yield from siblings(workload)
        if workload.asked is not demand:
            return why
        self._searches += 1
        said = self._search(workload, demand, shape, beside, now)
        yield 100 + len(self._state.pods) // 8
        return said if isinstance(said, Reason) else Reason("NoRoom", f"{why.message}{said}")

    def _may(self, workload: Workload, demand: Demand) -> bool:
        """One that has yet to start, whose PriorityClass lets it, and on which a reservation can be written."""
        started = workload.members.bound or workload.release.partial_since is not None
        written = workload.job is not None or workload.members.first is not None
        return written and not started and not workload.seated and all(pod.preempts for pod in demand.pods)

    def _search(
        self, workload: Workload, demand: Demand, shape: Shape, beside: list[Sibling], now: float
    ) -> Reason | str:
        """Have others give way; or why that is not done, to be said after why it waits."""
        state, wall = self._state, now - self._state.epoch
        found = list(candidates(state, workload.priority, wall, related=shape.related))
        lowest = min((candidate.priority for candidate, _ in found), default=workload.priority)
        state.preemptions.looked(lowest)
        request = Request(
            str(workload.key), demand.pods, shape.needed, workload.priority, caps=shape.caps, beside=beside
        )
        least = state.limits.min_runtime_s
        chosen = search(
            request,
            self._planner.view(workload),
            [one for one, _ in found],
            Protection(wall, least),
            self._planner.policies,
        )
        if not isinstance(chosen, Choice):
            self._vain[shape] = f"; {chosen.text}"
            ripe = (one.started + least for one, _ in found if one.started is not None and one.started + least > wall)
            self._ripe_at = min([self._ripe_at, *(at + state.epoch for at in ripe)])
        elif not chosen.victims or (self._mode is Preempts.ON and len(state.preemptions.under_way) >= MOST):
            return ""
        elif self._mode is Preempts.ON:
            named = {candidate.name: victim for candidate, victim in found}
            victims = [named[one.name] for one in chosen.victims]
            return self._reservations.begin(workload, demand.pods, chosen, victims, now)
        else:
            self._vain[shape] = f"; preemption is a dry run: on, it {chosen.text}"
            turned(state, workload, Turn.WOULD_PREEMPT, now, detail=chosen.text)
        return self._vain[shape]
