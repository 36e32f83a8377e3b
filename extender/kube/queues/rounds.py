"""The rounds in which the leader updates objects, some seconds late; no start waits for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container

from extender.kube.api.connection import ApiError, StandbyError

log = logging.getLogger("muster")
EVERY_S = 2.0
_LONGEST_PAUSE_S = 60.0


class TurnError(Exception):
    """The turn of one object has failed; the cause says why. The other objects had theirs."""


class Turns:
    """Gives each object its turn, round after round; a failed turn costs other objects nothing.

    ``rest``: how many turns an object skips after a failed one. That many rounds are skipped after a round in which
    every turn failed.
    """

    def __init__(self, rest: int = 0) -> None:
        self._rest = rest
        self._failing: dict[object, tuple[Exception, int]] = {}
        """The error of an object's last turn, and how many more turns it skips."""
        self._pause = 0
        """How many rounds are still skipped."""
        self._done = self._failed = False
        """Whether any turn of this round succeeded, and whether any failed."""

    def begin(self) -> bool:
        """Begin a round. Returns False if it is skipped because every turn of the last round failed."""
        if self._failed and not self._done:
            self._pause = self._rest
        self._done = self._failed = False
        pauses = self._pause > 0
        self._pause -= pauses
        return not pauses

    def comes(self, name: object) -> bool:
        """Whether the object has its turn now. An object whose turn failed skips some."""
        error, left = self._failing.get(name, (None, 0))
        if error is None or not left:
            return True
        self._failing[name] = error, left - 1
        return False

    async def take(self, name: object, doing: Awaitable[None]) -> bool:
        """Take the object's turn; returns whether it succeeded. Raises ApiError in an outage, which no turn would
        survive."""
        try:
            await doing
        except Exception as error:
            if not is_of_one_object(error):
                raise
            self.fail(name, error)
            return False
        self._failing.pop(name, None)
        self._done = True
        return True

    def fail(self, name: object, error: Exception) -> None:
        """Record that the turn of the object has failed."""
        self._failing[name] = error, self._rest
        self._failed = True

    def keep_only(self, names: Container[object]) -> None:
        """Forget the objects that are not among these."""
        self._failing = {name: failure for name, failure in self._failing.items() if name in names}

    def end(self) -> None:
        """End a round. Raises TurnError while an object is failing."""
        for name, (error, _) in self._failing.items():
            raise TurnError(f"{name}: {error}") from error


async def go_round(
    look: Callable[[], Awaitable[None]],
    failed: str,
    *,
    every_s: float = EVERY_S,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Run rounds until cancelled. ``failed`` is logged when a round raises, once until a round succeeds.

    No error ends the loop, since one object must not end the process. After unforeseen errors the rounds come at
    growing intervals, except after the error of a turn.
    """
    failures, unforeseen = 0, 0
    while True:
        await pause(min(every_s * 2.0 ** min(unforeseen, 10), max(every_s, _LONGEST_PAUSE_S)))
        try:
            await look()
            failures, unforeseen = 0, 0
        except Exception as error:
            of_turn = isinstance(error, TurnError)
            known = isinstance(error.__cause__ if of_turn else error, ApiError)
            if not failures:
                log.log(
                    logging.WARNING if known else logging.ERROR,
                    *("%s: %s", failed, error),
                    exc_info=None if known else error,
                )
            failures, unforeseen = failures + 1, 0 if known or of_turn else unforeseen + 1


def is_of_one_object(error: Exception) -> bool:
    """Whether the error concerns this object alone, such as a quota of its namespace. Others may still be written."""
    return not isinstance(error, ApiError) or not (
        error.passing or error.status == 401 or isinstance(error, StandbyError)
    )
