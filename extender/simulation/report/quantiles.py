"""Quantiles of waiting times, some of which are infinite, and means over stretches of time."""

from __future__ import annotations

import math
from collections.abc import Sequence


def quantile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that at least that ``share`` of the values does not exceed; None if it is infinite."""
    value = sorted(values)[max(math.ceil(share * len(values)) - 1, 0)]
    return value if math.isfinite(value) else None


def spread(means: list[list[float]], begin: float, until: float, end_s: float, values: Sequence[float]) -> None:
    """Add values that held from ``begin`` to ``until`` to the means over equal stretches of 0..end_s."""
    width, last = end_s / len(means), len(means) - 1
    at = min(int(begin / width), last)
    while begin < until:
        edge = until if at == last else min(until, (at + 1) * width)
        for number, value in enumerate(values):
            means[at][number] += value * (edge - begin) / width
        begin, at = edge, min(at + 1, last)
