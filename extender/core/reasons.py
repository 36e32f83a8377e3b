"""Why a workload is where it is, and when that is worth a report: once it has lasted, new numbers ever less often."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from extender.core.instants import pause_s
from policies.model import PodGroup

_PASSING = ("New", "Trying", "Placed", "Holding", "Releasing")
"""Steps of a start: never reported. Each has a deadline, and an Event costs the API server half of a Binding."""
_AGAIN_S, _AGAIN_MAX_S = 60.0, 900.0


class Reason(NamedTuple):
    """Why the gang is where it is: a CamelCase code that is stable, and a sentence with the current numbers.

    ``quiet``: shown to those who ask, and written nowhere, because the gang is somebody else's.
    """

    code: str
    message: str
    warning: bool = True
    quiet: bool = False


NEW = Reason("New", "the gang has just been seen", warning=False)


@dataclass(frozen=True, slots=True)
class Told:
    """The last report, and how many there were with its code in a row."""

    reason: Reason
    at: float
    times: int

    def then(self, reason: Reason, now: float) -> Told:
        return Told(reason, now, self.times + 1 if reason.code == self.reason.code else 1)


NOTHING = Told(Reason("", ""), 0.0, 0)


@dataclass(slots=True)
class Telling:
    """The one current reason of a workload, what was reported of it, and what has happened to it.

    ``surplus``: why members beyond the quorum of a running gang wait, as found last. ``story``: the last turns of its
    life, with their instants.
    """

    reason: Reason = NEW
    since: float = 0.0
    surplus: Reason | None = None
    told: Told = NOTHING
    story: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=32))
    ends_with_reason: bool = False
    """Whether the last turn of the story is that it got its reason."""

    def note(self, now: float, text: str) -> None:
        self.story.append((now, text))
        self.ends_with_reason = False

    def explain(self, reason: Reason, now: float, *, noted: bool = False) -> bool:
        """Make this the reason. Returns whether it is another one. ``noted``: the story says it already."""
        if reason is self.reason or reason == self.reason:
            return False
        text, renewed = f"{reason.code}: {reason.message}", reason.code == self.reason.code
        if renewed and self.ends_with_reason:
            # Other numbers of what happened last: the story says those of now.
            self.story[-1] = self.story[-1][0], text
        elif not renewed:
            self.since = now
            if not noted:
                self.note(now, text)
                self.ends_with_reason = True
        self.reason = reason
        return True

    def explain_surplus(self, reason: Reason | None) -> None:
        self.surplus = reason

    def reported(self, now: float) -> None:
        """Somebody was told, or knows already."""
        self.told = self.told.then(self.reason, now)

    def follow(self, before: PodGroup | None, group: PodGroup | None) -> None:
        """Its PodGroup was ``before``. On another one, or while it was pending, nothing was written."""
        if group is not None and (before is None or before.uid != group.uid or before.pending > group.pending):
            self.told = NOTHING

    def untold(self) -> None:
        """It could not be written: it is told again, as one that is told too often."""
        self.told = replace(self.told, reason=self.told.reason._replace(message=""))

    def when(self, lasts_s: float) -> float:
        """The instant at which the reason is to be reported: never when there is nothing to tell."""
        reason, told = self.reason, self.told
        if reason is told.reason or reason.quiet or reason.code in _PASSING or reason == told.reason:
            return inf
        at = self.since + lasts_s
        if reason.code != told.reason.code:
            return at
        return max(at, told.at + pause_s(told.times, _AGAIN_S, _AGAIN_MAX_S))
