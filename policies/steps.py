"""Work in steps: a generator that yields its costs since the last yield, and returns its result.

Costs are in units of about 5 microseconds on a cluster of 5,000 nodes. The caller may do other work between two
steps. No step may cost more than some hundreds of units, whatever pods ask for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import islice
from typing import Any, TypeVar

P = TypeVar("P")
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Steps = Generator[int, None, T]

BUDGET = 20_000
"""Most units for a search of the best among very many answers; after that a good one is taken."""
AT_ONCE = 256
"""How many members, or gangs, are handled in one step."""


def _into(results: list[T], steps: Steps[T]) -> Steps[None]:
    """The same steps, whose result is added to the list: a loop over them may do anything at each step."""
    results.append((yield from steps))


def finish(steps: Steps[T]) -> T:
    """Run all steps now; returns the result."""
    results: list[T] = []
    for _ in _into(results, steps):
        pass
    return results[0]


def with_pauses(steps: Steps[T], pause: P) -> Generator[P, None, T]:
    """Yield ``pause`` after each step, for a generator that yields other things than costs. Returns the result."""
    results: list[T] = []
    for _ in _into(results, steps):
        yield pause
    return results[0]


def quickly(value: T) -> Steps[T]:
    """Steps with a known result."""
    yield 0
    return value


def metered(steps: Steps[T]) -> Steps[tuple[T, int]]:
    """The same steps, whose result also has the total cost."""
    total, results = 0, list[T]()
    for cost in _into(results, steps):
        total += cost
        yield cost
    return results[0], total


def batched(items: Iterable[T], size: int = AT_ONCE) -> Iterator[list[T]]:
    """Yield the items in batches for one step each."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def chosen(items: Sequence[T], question: Callable[[T], bool]) -> Steps[list[T]]:
    """The items for which the answer is yes, batch by batch."""
    matching: list[T] = []
    for batch in batched(items):
        matching += filter(question, batch)
        yield AT_ONCE // 4
    return matching


def ordered(items: Sequence[T], key: Callable[[T], Any]) -> Steps[list[T]]:
    """``sorted``, batch by batch. Cheap for items that are in order already."""
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
    merged, in_order = merge(*runs, key=key), []
    for batch in batched(merged):
        in_order += batch
        yield AT_ONCE
    return in_order


def grouped(items: Sequence[T], key: Callable[[T], K]) -> Steps[dict[K, list[T]]]:
    """The items by key, batch by batch; keys and items stay in the given order."""
    groups: dict[K, list[T]] = {}
    last, group = None, list[T]()
    for at in range(0, len(items), AT_ONCE):
        for item in items[at : at + AT_ONCE]:
            # Most often the key equals the last one, and comparing costs less than hashing.
            if (this := key(item)) != last:
                last, group = this, groups.setdefault(this, [])
            group.append(item)
        if len(items) > AT_ONCE:
            yield AT_ONCE // 2
    return groups
