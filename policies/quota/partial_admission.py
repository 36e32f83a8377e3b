"""Partial admission: of the pods that a workload can start without, as many as there is quota for."""

from __future__ import annotations

from collections.abc import Callable

from policies.quota.flavors import Assignment, Fit


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
