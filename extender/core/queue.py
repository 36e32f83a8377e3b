"""The admission pass: who is looked at, in which order, and when. A pass is walked in slices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from extender.core.gang import Gang
from extender.core.news import Freed, News, concerns
from extender.core.planner import LOOK, Planner
from extender.core.shape import Shape
from extender.core.state import State
from policies.api import QueuePolicy
from policies.model import GroupKey

_REST_S, _REST_MAX_S = 2e-5, 2.0
"""Whatever news of room comes after a walk waits so long for each unit that the walk has spent in vain."""


@dataclass(slots=True)
class Walk:
    """A pass under way. It looks at old verdicts in the light of the news, then at the gangs that have none."""

    began: float
    everybody: bool = False
    """Otherwise nothing has changed for those who have a verdict, and only gangs without one are looked at."""
    freed: list[Freed] = field(default_factory=list)
    doubted: list[Shape] = field(default_factory=list)
    gangs: list[Gang] | None = None
    """Those still to be looked at, the next one last; None until the verdicts have been seen to."""


class Queue:
    """Plans gangs. One pass looks at every waiting gang once; a gang without room does not block those behind it.

    A pass starts a moment after the change that calls for it. Each Tick walks a slice, so that other events get in
    between; what they change is for the next pass. What was found for a shape of gang stands until room comes free
    that can matter to it, so a pass over thousands who wait costs nothing where nothing has changed for them.
    """

    def __init__(self, state: State, policy: QueuePolicy, planner: Planner) -> None:
        self._state = state
        self._policy = policy
        self._planner = planner
        self.passes = 0
        self._walk: Walk | None = None
        self._due: float | None = None
        self._rest_until = 0.0
        self._refresh_at = 0.0

    @property
    def walking(self) -> bool:
        return self._walk is not None

    def wake(self) -> float | None:
        """The instant by which a Tick is wanted; at once while a walk is under way."""
        return self._due if self._walk is None else self._walk.began

    def listen(self, now: float) -> None:
        """After every event: see whether it calls for a walk, and when."""
        state = self._state
        if self._walk is not None or not state.synced:
            return
        if not state.waiting:
            # Whoever comes is looked at for the first time, so nothing of the past matters any more.
            self._planner.verdicts.clear()
            state.news = News()
        at = now + state.limits.coalesce_s
        if state.news.hopeful:
            at = max(at, self._rest_until)
        elif not state.stale and not state.reopened:
            if not state.news.taken:
                return
            at = max(at, self._refresh_at)
        if self._due is None or at < self._due:
            self._due = at

    def tick(self, now: float) -> bool:
        """Walk on, or start a walk that is due. Returns whether one has ended: what is free now, nobody wanted."""
        if self._walk is None and self._due is not None and now >= self._due:
            self._due = None
            self._walk = self._begin(now)
        left = self._state.limits.slice_units
        while self._walk is not None and left > 0:
            left -= self._step(self._walk, now)
            if self._walk is None:
                return True
        return False

    def recover(self, now: float) -> None:
        """Look at everybody at once; nominations found on the pods are taken as the plan where they still hold."""
        for gang in self._in_order(self._state.waiting):
            self._planner.plan(gang, now, recovering=True)
        self._state.news = News()
        self._refresh_at = now + self._state.limits.refresh_s

    def _begin(self, now: float) -> Walk | None:
        state, news, planner = self._state, self._state.news, self._planner
        if news.hopeful and now < self._rest_until:
            return None
        planner.vain = 0
        refresh = news.taken and now >= self._refresh_at
        if not news.hopeful and not refresh:
            return Walk(now)
        state.news = News()
        if news.nodes or refresh:
            planner.verdicts.clear()
            self._refresh_at = now + state.limits.refresh_s
            return Walk(now, everybody=True)
        freed = news.in_the_end(state.ledger)
        return Walk(now, freed=freed, doubted=list(planner.verdicts) if freed else [])

    def _step(self, walk: Walk, now: float) -> int:
        """Do the next thing. Returns what it cost, in units."""
        state, planner = self._state, self._planner
        if walk.gangs:
            gang = walk.gangs.pop()
            return planner.plan(gang, now) if state.gangs.get(gang.key) is gang else LOOK
        if walk.doubted:
            shape, cost = walk.doubted.pop(), 1 + len(walk.freed) // 4
            if concerns(walk.freed, shape, state.ledger):
                planner.verdicts.pop(shape, None)
                walk.everybody = True
            planner.vain += cost
            return cost
        if walk.gangs is None:
            self._drop_verdicts_of_nobody()
            chosen = state.waiting if walk.everybody else state.stale
            walk.gangs = self._in_order(key for key in chosen if planner.is_open(state.gangs[key], now))
            walk.gangs.reverse()
            planner.vain += len(chosen)
            return len(chosen)
        self._rest_until = now + min(_REST_S * planner.vain, _REST_MAX_S)
        self._walk = None
        self.passes += 1
        return LOOK

    def _in_order(self, keys: Iterable[GroupKey]) -> list[Gang]:
        """A half-released gang goes first: it holds room, and only being completed ends that."""
        gangs = [self._state.gangs[key] for key in keys]
        return sorted(gangs, key=lambda gang: (gang.partial_since is None, self._policy.order(gang)))

    def _drop_verdicts_of_nobody(self) -> None:
        """Shapes that no waiting gang has any more."""
        state, verdicts = self._state, self._planner.verdicts
        if len(verdicts) <= len(state.waiting):
            return
        demands = [state.gangs[key].demand for key in state.waiting]
        asked = {demand.shape: None for demand in demands if demand is not None}
        for shape in [shape for shape in verdicts if shape not in asked]:
            del verdicts[shape]
