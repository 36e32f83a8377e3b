"""What whoever leads looks after round by round: some seconds late, and off the way of every start."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from extender.kube.api.connection import ApiError, StandbyError

log = logging.getLogger("muster")
EVERY_S = 2.0
_LONGEST_PAUSE_S = 60.0


class Turns:
    """Gives each of several objects its turn in a round: one that fails costs no other its own."""

    def __init__(self) -> None:
        self._failed: Exception | None = None

    async def take(self, doing: Awaitable[None]) -> bool:
        """Return whether it was done. Raises ApiError in an outage: no other would get any further."""
        try:
            await doing
        except Exception as error:
            if not is_of_one_object(error):
                raise
            self._failed = self._failed or error
            return False
        return True

    def end(self) -> None:
        """Raises the first failure."""
        if self._failed is not None:
            raise self._failed


async def go_round(
    look: Callable[[], Awaitable[None]],
    pause: Callable[[float], Awaitable[None]],
    failed: str,
    *,
    every_s: float = EVERY_S,
) -> None:
    """Look round by round until cancelled. ``failed`` is logged when a round raises, once until one has gone well.

    No error ends it: what one object makes a round do must not end the process. After an unforeseen one the rounds
    are farther and farther apart.
    """
    failures, unforeseen = 0, 0
    while True:
        await pause(min(every_s * 2.0 ** min(unforeseen, 10), max(every_s, _LONGEST_PAUSE_S)))
        try:
            await look()
            failures, unforeseen = 0, 0
        except Exception as error:
            known = isinstance(error, ApiError)
            if not failures:
                log.log(
                    logging.WARNING if known else logging.ERROR,
                    *("%s: %s", failed, error),
                    exc_info=None if known else error,
                )
            failures, unforeseen = failures + 1, 0 if known else unforeseen + 1


def is_of_one_object(error: Exception) -> bool:
    """Whether the next object may be written although this one was not: its namespace may refuse it by a quota."""
    return not isinstance(error, ApiError) or not (
        error.passing or error.status == 401 or isinstance(error, StandbyError)
    )
