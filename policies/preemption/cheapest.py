"""Of some candidates those whose eviction costs least, as far as that can be found out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from policies.preemption.costs import Cost, Costed, cost, levels_of
from policies.preemption.trial import Trial
from policies.steps import Steps, metered

MOST_TO_COMPARE = 24
"""Of up to so many candidates every choice is worth a look."""
EXCHANGES = 64
"""How many exchanges of one victim for another are tried where there are more candidates."""


def cheapest(
    trial: Trial, orders: Iterable[Sequence[int]], home: Collection[int], effort: int
) -> Steps[list[Costed] | None]:
    """The best that is found; None if nobody's eviction helps. Everybody is put back in the end.

    ``orders`` in which candidates are given up are tried out, and of a few candidates every choice, as long as that
    costs no more than the ``effort``, in units of ``policies.steps``. So of a few candidates it is the best there is.
    """
    best: list[Costed] | None = None
    for order in orders:
        found = yield from _in_order(trial, order)
        trial.put_all_back()
        if found is not None and (best is None or cost(found, home) < cost(best, home)):
            best = found
    if len(trial.options) > MOST_TO_COMPARE:
        return None if best is None else (yield from _exchanged(trial, best, home))
    every = _Every(trial, best, home, effort)
    yield from every.search()
    trial.put_all_back()
    return every.best


def _in_order(trial: Trial, order: Sequence[int]) -> Steps[list[Costed] | None]:
    """One after the other goes until there is room. Then whoever is not needed is put back, the last one first: so
    nobody who comes late in the order goes where any number of those before it do."""
    fits, checks = False, 1
    for number in order:
        if number not in trial.gone and trial.may(number):
            trial.take(number)
            if len(trial.gone) >= checks:
                checks *= 2
                if fits := (yield from trial.fits()):
                    break
    if not fits and not (yield from trial.fits()):
        return None
    yield from _fill_back(trial, [number for number in reversed(order) if number in trial.gone])
    return trial.chosen() if trial.allowed() else None


def _fill_back(trial: Trial, order: Sequence[int]) -> Steps[None]:
    """Put back whoever is not needed. It is tried with several at once: most often most of them are not."""
    at, block = 0, 1
    while at < len(order):
        back = [number for number in order[at : at + block] if trial.put_back(number)]
        if not back or (yield from trial.fits()):
            at, block = at + block, block * 2
            continue
        for number in reversed(back):
            trial.take(number)
        at, block = (at + 1, 1) if block == 1 else (at, block // 2)


def _exchanged(trial: Trial, best: list[Costed], home: Collection[int]) -> Steps[list[Costed]]:
    """Exchange victims for candidates that lose as much and are better to give up, as smaller ones are.

    The victim that is given up last is exchanged first. Workloads with a surplus are left as they are.
    """
    options, left, price = trial.options, EXCHANGES, cost(best, home)
    fixed = {*trial.rest, *trial.rest.values()}
    victims = [at for at, one in enumerate(options) if one in best]
    for number in victims:
        trial.take(number)
    replaceable = [at for at in victims if at not in fixed]
    for number in sorted(replaceable, key=lambda at: options[at].value, reverse=True):
        mine = options[number]
        loss = mine.priority, mine.unit, mine.hours
        others = [
            at
            for at, one in enumerate(options)
            if (one.priority, one.unit, one.hours) == loss
            and one.merit < mine.merit
            and at not in trial.gone
            and at not in fixed
        ]
        for other in sorted(others, key=lambda at: options[at].value)[:left]:
            left -= 1
            trial.put_back(number)
            if trial.may(other):
                trial.take(other)
                found = trial.chosen()
                if cost(found, home) < price and (yield from trial.fits()) and trial.allowed():
                    best, price = found, cost(found, home)
                    break
                trial.put_back(other)
            trial.take(number)
    trial.put_all_back()
    return best


class _Every:
    """Every choice that may be better than the best so far. Without any of the rest there must be room."""

    def __init__(self, trial: Trial, best: list[Costed] | None, home: Collection[int], effort: int) -> None:
        self.best = best
        self._trial = trial
        self._home = home
        self._cost: Cost | None = None if best is None else cost(best, home)
        self._left = effort
        options = trial.options
        by_value = sorted(range(len(options)), key=lambda at: options[at].value, reverse=True)
        # The rest of a workload is decided before its surplus.
        self._order = sorted(by_value, key=lambda at: at in trial.rest)

    def search(self) -> Steps[None]:
        for number in self._order:
            self._trial.take(number)
        if (yield from self._trial.fits()):
            yield from self._from(0, [])

    def _from(self, at: int, chosen: list[Costed]) -> Steps[None]:
        """All choices for those from this one on in the order; the ones before it are decided, the others are gone."""
        self._left -= 1
        if self._left < 0 or (self._cost is not None and levels_of(chosen) > self._cost[1]):
            return
        if at == len(self._order):
            self._note(chosen)
            return
        number = self._order[at]
        if self._trial.put_back(number):
            fits, spent = yield from metered(self._trial.fits())
            self._left -= spent
            if fits:
                yield from self._from(at + 1, chosen)
            self._trial.take(number)
        yield from self._from(at + 1, [*chosen, self._trial.options[number]])

    def _note(self, chosen: list[Costed]) -> None:
        found = cost(chosen, self._home)
        if (self._cost is None or found < self._cost) and self._trial.allowed():
            self.best, self._cost = chosen, found
