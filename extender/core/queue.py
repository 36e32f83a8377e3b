"""The admission pass: who is looked at, in which order, and when. A pass is walked in slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from extender.core.gang import Gang
from extender.core.news import Freed, News, concerns
from extender.core.planner import LOOK, SEAT, Planner
from extender.core.recovery import Recovery
from extender.core.state import State
from policies.api import QueuePolicy
from policies.model import GroupKey
from policies.steps import AT_ONCE, Steps, metered, ordered

_REST_S, _REST_MAX_S = 2e-5, 2.0
"""Whatever news of room comes after a walk waits so long for each unit that the walk has spent in vain."""


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
        self._walk: Steps[None] | None = None
        self._began = 0.0
        self._due: float | None = None
        self._rest_until = 0.0
        self._refresh_at = 0.0

    @property
    def walking(self) -> bool:
        return self._walk is not None

    def wake(self) -> float | None:
        """The instant by which a Tick is wanted; at once while a walk is under way."""
        return self._due if self._walk is None else self._began

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
        self._planner.now = now
        if self._walk is None and self._due is not None and now >= self._due:
            self._due = None
            self._begin(now)
        return self._go_on()

    def recover(self, now: float, recovery: Recovery) -> None:
        """After a restart, in slices: find out about each gang, take over the plans that hold, have calls answered from
        then on, plan the others, and clear what is left of plans that do not hold.
        """
        self._planner.now = self._began = now
        self._walk = self._recovering(recovery)
        self._go_on()

    def _go_on(self) -> bool:
        left = self._state.limits.slice_units
        while self._walk is not None and left > 0:
            try:
                left -= next(self._walk)
            except StopIteration:
                self._walk = None
                self.passes += 1
                return True
        if self._walk is not None:
            # A plan may be half made: what it has seen of the nodes stays as it is until it is done.
            self._state.ledger.lend()
        return False

    def _begin(self, now: float) -> None:
        state, news, planner = self._state, self._state.news, self._planner
        if news.hopeful and now < self._rest_until:
            return
        planner.vain, self._began = 0, now
        refresh = news.taken and now >= self._refresh_at
        freed: list[Freed] = []
        everybody = False
        if news.hopeful or refresh:
            state.news = News()
            if news.nodes or refresh:
                planner.verdicts.clear()
                self._refresh_at = now + state.limits.refresh_s
                everybody = True
            else:
                freed = news.in_the_end(state.ledger)
        self._walk = self._pass(freed, everybody=everybody)

    def _pass(self, freed: list[Freed], *, everybody: bool) -> Steps[None]:
        """Look at old verdicts in the light of the news, then at the gangs that have none.

        Unless for ``everybody`` nothing has changed for those who have a verdict.
        """
        state, planner = self._state, self._planner
        for shape in list(planner.verdicts) if freed else ():
            concerned, cost = yield from metered(concerns(freed, shape, state.ledger))
            if concerned:
                planner.verdicts.pop(shape, None)
                everybody = True
            planner.vain += cost
        yield from self._drop_verdicts_of_nobody()
        gangs = yield from self._in_order(list(state.waiting if everybody else state.stale))
        excess: Counter[str] = Counter()
        for gang in gangs:
            if state.gangs.get(gang.key) is not gang or gang.key not in state.waiting:
                yield LOOK
            elif excess[gang.key.namespace] > state.limits.excess_units:
                state.stale[gang.key] = None
                yield LOOK
            else:
                excess[gang.key.namespace] += yield from planner.plan(gang)
        self._rest_until = planner.now + min(_REST_S * planner.vain, _REST_MAX_S)
        yield LOOK

    def _recovering(self, recovery: Recovery) -> Steps[None]:
        state, planner = self._state, self._planner
        yield from recovery.all(planner.now)
        for gang in (yield from self._in_order(list(state.waiting))):
            yield from planner.resume(gang)
            yield LOOK + SEAT * len(gang.placement)
        state.recovered = True
        state.news = News()
        self._refresh_at = planner.now + state.limits.refresh_s
        yield from self._pass([], everybody=True)
        yield from recovery.clear(planner.now)

    def _in_order(self, keys: Sequence[GroupKey]) -> Steps[list[Gang]]:
        """Those that may find something out. A half-released gang goes first: it holds room, and only being completed
        ends that."""
        state, planner = self._state, self._planner
        found: list[Gang] = []
        for at in range(0, len(keys), AT_ONCE):
            some = [gang for key in keys[at : at + AT_ONCE] if (gang := state.gangs.get(key)) is not None]
            found += [gang for gang in some if gang.key in state.stale or planner.is_open(gang)]
            planner.vain += len(some)
            yield len(some)
        return (yield from ordered(found, lambda gang: (gang.partial_since is None, self._policy.order(gang))))

    def _drop_verdicts_of_nobody(self) -> Steps[None]:
        """Shapes that no waiting gang has any more."""
        state, verdicts = self._state, self._planner.verdicts
        if len(verdicts) <= len(state.waiting):
            return
        yield len(state.waiting) // 8
        demands = [state.gangs[key].demand for key in state.waiting]
        asked = {demand.shape: None for demand in demands if demand is not None}
        for shape in [shape for shape in verdicts if shape not in asked]:
            del verdicts[shape]
