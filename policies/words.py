"""Lists in sentences that people read, of which nobody knows how long they are."""

from __future__ import annotations

from collections.abc import Iterable

_NAMED = 5


def listed(words: Iterable[str]) -> str:
    """``"a, b, c, d, e and 37 more"``; empty for none."""
    known = list(words)
    return ", ".join(known[:_NAMED]) + (f" and {len(known) - _NAMED} more" if len(known) > _NAMED else "")
