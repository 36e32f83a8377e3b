"""Instants that are read from objects, where anybody may have written them."""

from __future__ import annotations

from datetime import UTC, datetime

_FIRST = datetime(1, 1, 1, tzinfo=UTC).timestamp()
_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC).timestamp()
"""Whatever lies between them can be written again in UTC. A time zone moves an instant of the year 9999 out of it."""


def instant_of(text: str) -> float | None:
    """Return an RFC 3339 text in seconds since 1970. None without a time zone, or where it cannot be written again."""
    try:
        instant = datetime.fromisoformat(text[:64])
    except ValueError:
        return None
    if instant.tzinfo is None:
        return None
    at = instant.timestamp()
    return at if _FIRST <= at <= _LAST else None
