"""Partial admission: of the pods that a workload can start without, as many as there is quota for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from policies.quota.flavors import Assignment, Fit
from policies.quota.parts import PodSetRequest


def most(extra: int, assign: Callable[[int], Assignment], enough: Fit = Fit.FITS) -> tuple[int, Assignment]:
    """How many of ``extra`` pods, but not all, can be had beside those that have to start, and with what; 0, and what
    keeps it, if not even these can. Found by halving, as in Kueue: whoever can have more can have fewer.
    """
    best = assign(0)
    if best.fit < enough:
        return 0, best
    least, limit = 0, extra
    while least < limit - 1:
        middle = (least + limit) // 2
        found = assign(middle)
        if found.fit >= enough:
            least, best = middle, found
        else:
            limit = middle
    return least, best


def whole_or_part(
    podsets: Sequence[PodSetRequest], assign: Callable[[Sequence[PodSetRequest]], Assignment]
) -> Assignment:
    """For all pods, also by preempting; else for as many as there is quota for, and ``counts`` says how many: the first
    podsets have theirs before the others. If even the minimum is too much, that is what the reason is about.
    """
    whole = assign(podsets)
    extra = sum(one.count - one.least for one in podsets)
    if whole.fit >= Fit.PREEMPT or not extra:
        return whole
    count, part = most(extra, lambda some: assign(_with(podsets, some)), Fit.PREEMPT)
    if part.fit < Fit.PREEMPT:
        return part
    return replace(part, counts={one.name: one.count for one in _with(podsets, count)})


def _with(podsets: Sequence[PodSetRequest], extra: int) -> list[PodSetRequest]:
    """Of each its minimum, and so many more in all."""
    found = []
    for one in podsets:
        more = min(extra, one.count - one.least)
        found.append(replace(one, count=one.least + more))
        extra -= more
    return found
