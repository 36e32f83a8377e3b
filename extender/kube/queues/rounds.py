"""What whoever leads looks after round by round: some seconds late, and off the way of every start."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container

from extender.kube.api.connection import ApiError, StandbyError

log = logging.getLogger("muster")
EVERY_S = 2.0
_LONGEST_PAUSE_S = 60.0


class TurnError(Exception):
    """The turn of an object has failed, for the reason that is the cause. The other objects had theirs."""


class Turns:
    """Gives each of several objects its turn, round after round: one that fails costs no other its own.

    ``rest``: how many turns an object is left out after its own has failed. As many rounds are left out after a round
    in which every turn has failed.
    """

    def __init__(self, rest: int = 0) -> None:
        self._rest = rest
        self._failing: dict[object, tuple[Exception, int]] = {}
        """How the last turn of an object failed, and how many more turns it is left out of."""
        self._pause = 0
        """Rounds that are yet to be left out."""
        self._done = self._failed = False
        """Whether some turn of the round was done, and whether some failed."""

    def begin(self) -> bool:
        """Begin a round. Return False if it is left out, because every turn of the last round has failed."""
        if self._failed and not self._done:
            self._pause = self._rest
        self._done = self._failed = False
        pauses = self._pause > 0
        self._pause -= pauses
        return not pauses

    def comes(self, name: object) -> bool:
        """Return whether the object has its turn now. One that has failed is left out of some."""
        error, left = self._failing.get(name, (None, 0))
        if error is None or not left:
            return True
        self._failing[name] = error, left - 1
        return False

    async def take(self, name: object, doing: Awaitable[None]) -> bool:
        """Return whether it was done. Raises ApiError in an outage: no other would get any further."""
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
        """Note that the turn of the object has failed."""
        self._failing[name] = error, self._rest
        self._failed = True

    def keep_only(self, names: Container[object]) -> None:
        """Forget the objects that are not among these."""
        self._failing = {name: one for name, one in self._failing.items() if name in names}

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
    """Look round by round until cancelled. ``failed`` is logged when a round raises, once until one has gone well.

    No error ends it: what one object makes a round do must not end the process. After an unforeseen one the rounds
    are farther and farther apart, unless it is the error of a turn.
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
    """Whether the next object may be written although this one was not: its namespace may refuse it by a quota."""
    return not isinstance(error, ApiError) or not (
        error.passing or error.status == 401 or isinstance(error, StandbyError)
    )
