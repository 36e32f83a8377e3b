"""The referee's own book of what nodes are asked for: not for longer than they are awaited, no more once they are
denied, and after that not again before the pause."""

from __future__ import annotations

from collections.abc import Sequence

from extender.core.answers import CapacityAnswered
from extender.core.events import Event, JobSeen
from extender.core.jobs.elastic import CapacityAsk
from policies.model import GroupKey

_SLOW_S = 5.0
_PAUSE_S = 60.0
_EARLY_S = 1.0
"""What a job says is in whole seconds."""


class AskedNodes:
    """One life of the extender. ``within_s``: so long are nodes awaited, and once more when they are granted."""

    def __init__(self, within_s: float) -> None:
        self._within_s = within_s
        self._since: dict[CapacityAsk, float] = {}
        self._denied: dict[tuple[GroupKey, int], float] = {}
        self._rests: dict[GroupKey, tuple[str, float]] = {}
        """Whose job says that it rests, also to a new leader: its UID, and until when."""

    def hear(self, event: Event, now: float) -> None:
        if isinstance(event, CapacityAnswered) and not event.granted:
            self._denied[event.key, event.attempt] = now
        if isinstance(event, JobSeen):
            job = event.job
            self._rests[job.key] = job.uid, 0.0 if job.in_vain is None else job.in_vain.until

    def look(self, asks: Sequence[CapacityAsk], now: float) -> str | None:
        """To be called every second or so."""
        for ask in asks:
            uid, until = self._rests.get(ask.key, ("", 0.0))
            if ask not in self._since and ask.job.uid == uid and now < until - _EARLY_S:
                return f"{ask.key} asks for nodes at {now:.1f} s, and rests until {until:.1f} s"
            before = self._denied.get((ask.key, ask.attempt - 1), float("-inf"))
            if ask not in self._since and now - before < _PAUSE_S - _SLOW_S:
                return f"{ask.key} asks for nodes again, {now - before:.1f} s after there were none"
        self._since = {ask: self._since.get(ask, now) for ask in asks}
        for ask, since in self._since.items():
            if since < self._denied.get((ask.key, ask.attempt), float("-inf")):
                return f"{ask.key} asks for nodes, and was told that there are none"
            if now - since > 2 * self._within_s + _SLOW_S:
                return f"{ask.key} asks for nodes since {since:.1f} s"
        return None
