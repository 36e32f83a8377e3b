"""Why a gang is where it is, and when that is worth a report: once it has lasted, and new numbers ever less often."""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.backoff import pause_s

_PASSING = ("New", "Releasing")
_AGAIN_S, _AGAIN_MAX_S = 60.0, 900.0


@dataclass(frozen=True, slots=True)
class Reason:
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


def when_to_tell(reason: Reason, since: float, told: Told, lasts_s: float) -> float | None:
    """The instant for a report of a reason whose code has stood ``since``; None when there is nothing to tell."""
    if reason.quiet or reason.code in _PASSING or reason == told.reason:
        return None
    at = since + lasts_s
    if reason.code != told.reason.code:
        return at
    return max(at, told.at + pause_s(told.times, _AGAIN_S, _AGAIN_MAX_S))
