"""How long to wait after so many failures in a row: doubled each time up to a bound, however many there were."""

from __future__ import annotations

_MOST_DOUBLINGS = 62
"""Beyond this the power is no number that a float can hold; every bound is reached long before."""


def pause_s(times: int, first_s: float, most_s: float) -> float:
    """The pause after the ``times``-th failure in a row, counted from 1."""
    return min(first_s * 2.0 ** min(max(times - 1, 0), _MOST_DOUBLINGS), most_s)
