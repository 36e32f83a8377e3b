"""What the driver tells of its work to somebody who counts."""

from __future__ import annotations

from extender.core.effects import Turned


class Observer:
    """Is shown what the runner does, for metrics; this one looks away."""

    def wrote(self, kind: str, outcome: str) -> None:
        """A write to the API server has ended."""

    def retried(self, kind: str) -> None:
        """A write to the API server is sent once more."""

    def turned(self, turn: Turned) -> None:
        """A gang has come to a turning point."""

    def passed(self, seconds: float) -> None:
        """An admission pass has ended that took so long, what came in between not counted."""
