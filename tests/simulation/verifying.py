"""The self-check at random instants of a seed: it must never find drift."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from random import Random

from extender.core.engine import Engine
from extender.runtime.compare import Difference, Kind
from extender.runtime.verification import AGAIN_S, Check, confirmed
from tests.simulation.model.process import Extender
from tests.simulation.model.world import World

_EVERY_S = 60.0
_LONGEST_SLICE = 400


class SelfChecks:
    """The self-checks, which step when a run looks around: without times of their own they change no seed."""

    def __init__(self, world: World, new_core: Callable[[], Engine], dice: Random) -> None:
        """``new_core`` makes the second core of each check."""
        self._world = world
        self._new_core = new_core
        self._dice = dice
        self._walk: Iterator[None] | None = None
        self._check: Check | None = None
        self._of: Extender | None = None
        self._first: Sequence[Difference] | None = None
        self._due = world.clock.now + _EVERY_S * dice.random()
        self.compared: Counter[Kind] = Counter()

    def look(self) -> list[Difference]:
        """Continue a check, or begin one that is due. Returns the differences that two in a row have found."""
        extender, now = self._world.extender, self._world.clock.now
        if extender is None or extender is not self._of or not extender.recovered:
            self._walk = self._check = self._first = None
            self._of = extender if extender is not None and extender.recovered else None
        if self._of is None or self._of.frozen:
            return []
        if self._check is None and now >= self._due:
            self._check = Check(self._of.core, self._new_core(), self._of.objects(), now)
            self._walk = self._check.steps()
        if self._check is None or self._walk is None:
            return []
        if self._dice.random() < 0.5:
            for _ in islice(self._walk, int(self._dice.random() * _LONGEST_SLICE)):
                pass
            return []
        for _ in self._walk:
            pass
        return self._ended(self._check, now)

    def _ended(self, check: Check, now: float) -> list[Difference]:
        differences, first, self._walk, self._check = check.comparison.differences, self._first, None, None
        self.compared += check.comparison.compared
        if first is None and differences:
            self._first, self._due = differences, now + AGAIN_S
            return []
        self._first, self._due = None, now + _EVERY_S * (0.5 + self._dice.random())
        return [] if first is None else confirmed(first, differences)
