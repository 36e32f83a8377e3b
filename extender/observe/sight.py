"""When the API server last sent anything about each followed kind of object."""

from __future__ import annotations

import time
from collections.abc import Callable

DARK_S = 90.0
"""Seconds of silence about a kind after which the replica is not ready.

Every watch ends in less than half a minute, even without changes.
"""


class Sight:
    """The age of what is known, by kind. Only answers of the API server about a kind count, not an open watch."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._heard: dict[str, float] = {}

    def heard(self, kind: str) -> None:
        """Record a page, a change, a bookmark, or the normal end of a watch; also called when following begins."""
        self._heard[kind] = self.clock()

    def closed(self, kind: str) -> None:
        """Stop counting a kind that is no longer followed."""
        self._heard.pop(kind, None)

    def ages(self) -> dict[str, float]:
        """Seconds since the last answer about each kind."""
        now = self.clock()
        return {kind: now - at for kind, at in self._heard.items()}

    def dark(self) -> dict[str, float]:
        """The kinds without an answer for too long, with their ages."""
        return {kind: age for kind, age in self.ages().items() if age > DARK_S}
