"""The interface by which the driver reports its work for metrics."""

from __future__ import annotations

from extender.core.effects import Reached


class Observer:
    """Is told what the runner does; this one ignores it."""

    def wrote(self, kind: str, outcome: str) -> None:
        """A write to the API server has ended."""

    def retried(self, kind: str) -> None:
        """A write to the API server is sent once more."""

    def reached(self, effect: Reached) -> None:
        """A gang has reached a step of its lifecycle."""

    def passed(self, seconds: float) -> None:
        """An admission pass has ended that took so long, what came in between not counted."""
