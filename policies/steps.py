"""Work in steps: a generator that yields what it has cost since the last time, and that returns what it has found.

Costs are in units of about 5 microseconds on a cluster of 5,000 nodes. The caller may do other work between
two steps; no step may cost more than some hundreds of units, whatever pods ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Steps = Generator[int, None, T]

BUDGET = 20_000
"""What a search for the best of very many answers may cost. Then a good one has to do."""
AT_ONCE = 256
"""How many members, or gangs, are looked at in one step."""


def finish(steps: Steps[T]) -> T:
    """Do all of it now."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


def quickly(found: T) -> Steps[T]:
    """What is known already."""
    yield 0
    return found


def metered(steps: Steps[T]) -> Steps[tuple[T, int]]:
    """The same, and what it has cost in all."""
    total = 0
    while True:
        try:
            cost = next(steps)
        except StopIteration as end:
            return end.value, total
        total += cost
        yield cost


def batched(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """So many of them as are looked at in one step."""
    for at in range(0, len(items), AT_ONCE):
        yield items[at : at + AT_ONCE]


def chosen(items: Sequence[T], question: Callable[[T], bool]) -> Steps[list[T]]:
    """Those for which the answer is yes, some at a time."""
    found: list[T] = []
    for some in batched(items):
        found += filter(question, some)
        yield AT_ONCE // 4
    return found


def ordered(items: Sequence[T], key: Callable[[T], Any]) -> Steps[list[T]]:
    """``sorted``, some items at a time. Costs little for what is in order already."""
    if len(items) <= AT_ONCE:
        return sorted(items, key=key)
    runs: list[list[T]] = []
    for at in range(0, len(items), AT_ONCE):
        run = sorted(items[at : at + AT_ONCE], key=key)
        if runs and not key(run[0]) < key(runs[-1][-1]):
            runs[-1] += run
        else:
            runs.append(run)
        yield AT_ONCE // 2
    if len(runs) == 1:
        return runs[0]
    merged, found = merge(*runs, key=key), []
    while some := list(islice(merged, AT_ONCE)):
        found += some
        yield AT_ONCE
    return found


def grouped(items: Sequence[T], key: Callable[[T], K]) -> Steps[dict[K, list[T]]]:
    """The items by key, some at a time; the keys and the items of each are in the order given."""
    groups: dict[K, list[T]] = {}
    last, group = None, list[T]()
    for at in range(0, len(items), AT_ONCE):
        for item in items[at : at + AT_ONCE]:
            # Most often it is that of the one before: to compare costs less than to hash.
            if (this := key(item)) != last:
                last, group = this, groups.setdefault(this, [])
            group.append(item)
        if len(items) > AT_ONCE:
            yield AT_ONCE // 2
    return groups
