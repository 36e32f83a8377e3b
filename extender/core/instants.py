"""Instants as annotations have them, which any client may have written, and pauses that double."""

from __future__ import annotations

from datetime import UTC, datetime

_EARLIEST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
LATEST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""The earliest and the latest instant that can be written in UTC. A time zone can move one of the year 9999 out of
that."""


def instant_of(text: str) -> float | None:
    """Return an RFC 3339 text in seconds since 1970. None without a time zone, or where it cannot be written again."""
    try:
        instant = datetime.fromisoformat(text[:64])
    except ValueError:
        return None
    if instant.tzinfo is None:
        return None
    at = instant.timestamp()
    return at if _EARLIEST <= at <= LATEST else None


_MOST_DOUBLINGS = 62
"""Doublings up to which the power is a finite float. Every bound is reached long before."""


def pause_s(times: int, first_s: float, most_s: float) -> float:
    """The pause after the ``times``-th failure in a row, counted from 1."""
    return min(first_s * 2.0 ** min(max(times - 1, 0), _MOST_DOUBLINGS), most_s)
