"""Partial admission: admit as many of a workload's optional pods as there is quota for."""

from __future__ import annotations

from collections.abc import Callable

from policies.quota.flavors import Assignment, Fit


def most_admitted(extra: int, assign: Callable[[int], Assignment], enough: Fit = Fit.FITS) -> tuple[int, Assignment]:
    """Find how many of the ``extra`` pods can be admitted beside the mandatory ones, but not all, and their assignment.

    0, with the reason, if not even the mandatory pods fit. Found by halving, as in Kueue: if more pods fit, fewer do,
    too.
    """
    best = assign(0)
    if best.fit < enough:
        return 0, best
    least, limit = 0, extra
    while least < limit - 1:
        middle = (least + limit) // 2
        assignment = assign(middle)
        if assignment.fit >= enough:
            least, best = middle, assignment
        else:
            limit = middle
    return least, best
