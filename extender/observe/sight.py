"""When the API server last said anything about each kind of object that is followed."""

from __future__ import annotations

import time
from collections.abc import Callable

DARK_S = 90.0
"""Of a kind of which nothing is heard for so long, the picture is too old to be ready: every watch ends in less than
half a minute, even if nothing changes."""


class Sight:
    """The age of the picture, by kind. Only what the API server says about a kind counts, not that a watch is open."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._heard: dict[str, float] = {}

    def heard(self, kind: str) -> None:
        """A page, a change, a bookmark, or the end of a watch in order; also called when following begins."""
        self._heard[kind] = self.clock()

    def closed(self, kind: str) -> None:
        """That kind is no longer followed."""
        self._heard.pop(kind, None)

    def ages(self) -> dict[str, float]:
        """Seconds since something was heard, by kind."""
        now = self.clock()
        return {kind: now - at for kind, at in self._heard.items()}

    def dark(self) -> dict[str, float]:
        """The kinds of which nothing has been heard for too long, with their ages."""
        return {kind: age for kind, age in self.ages().items() if age > DARK_S}
