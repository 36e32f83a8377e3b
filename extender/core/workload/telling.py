"""The one current cause of a workload, and when that is worth a report: once it has lasted, new facts less and less."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from math import inf

from extender.core.causes import PASSING, Cause, New, is_quiet
from extender.core.instants import pause_s
from policies.model import PodGroup

_AGAIN_S, _AGAIN_MAX_S = 60.0, 900.0


@dataclass(frozen=True, slots=True)
class Told:
    """The cause of the last report, and how many there were of its kind in a row. ``failed``: it was not written."""

    cause: Cause | None
    at: float
    times: int
    failed: bool = False

    def then(self, cause: Cause, now: float) -> Told:
        return Told(cause, now, self.times + 1 if type(cause) is type(self.cause) else 1)


NOTHING = Told(None, 0.0, 0)


@dataclass(slots=True)
class Telling:
    """The one current cause of a workload, what was reported of it, and what has happened to it.

    ``surplus``: why members beyond the quorum of a running gang wait, as found last. ``story``: the last turns of its
    life, with their instants: a cause, or what else has happened.
    """

    cause: Cause = field(default_factory=New)
    since: float = 0.0
    surplus: Cause | None = None
    told: Told = NOTHING
    story: deque[tuple[float, str | Cause]] = field(default_factory=lambda: deque(maxlen=32))
    ends_with_cause: bool = False
    """Whether the last turn of the story is that it got its cause."""

    def note(self, now: float, text: str) -> None:
        self.story.append((now, text))
        self.ends_with_cause = False

    def explain(self, cause: Cause, now: float, *, noted: bool = False) -> bool:
        """Make this the cause. Returns whether it is another one. ``noted``: the story says it already."""
        if cause == self.cause:
            return False
        renewed = type(cause) is type(self.cause)
        if renewed and self.ends_with_cause:
            # Other numbers of what happened last: the story says those of now.
            self.story[-1] = self.story[-1][0], cause
        elif not renewed:
            self.since = now
            if not noted:
                self.story.append((now, cause))
                self.ends_with_cause = True
        self.cause = cause
        return True

    def explain_surplus(self, cause: Cause | None) -> None:
        self.surplus = cause

    def reported(self, now: float) -> None:
        """Somebody was told, or knows already."""
        self.told = self.told.then(self.cause, now)

    def follow(self, before: PodGroup | None, group: PodGroup | None) -> None:
        """Its PodGroup was ``before``. On another one, or while it was pending, nothing was written."""
        if group is not None and (before is None or before.uid != group.uid or before.pending > group.pending):
            self.told = NOTHING

    def untold(self) -> None:
        """It could not be written: it is told again, as one that is told too often."""
        self.told = replace(self.told, failed=True)

    def when(self, lasts_s: float) -> float:
        """The instant at which the cause is to be reported: never when there is nothing to tell."""
        cause, told = self.cause, self.told
        if isinstance(cause, PASSING) or is_quiet(cause) or (cause == told.cause and not told.failed):
            return inf
        at = self.since + lasts_s
        if type(cause) is not type(told.cause):
            return at
        return max(at, told.at + pause_s(told.times, _AGAIN_S, _AGAIN_MAX_S))
