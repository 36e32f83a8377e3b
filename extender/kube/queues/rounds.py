"""What whoever leads looks after round by round: some seconds late, and off the way of every start."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from extender.kube.api.connection import ApiError

log = logging.getLogger("muster")
EVERY_S = 2.0


class Turns:
    """Gives each of several things its turn in a round: one that the API server refuses costs no other its own."""

    def __init__(self) -> None:
        self._refused: ApiError | None = None

    async def take(self, doing: Awaitable[None]) -> bool:
        """Whether it was done. Raises ApiError in an outage: nobody would get any further."""
        try:
            await doing
        except ApiError as error:
            if error.passing:
                raise
            self._refused = self._refused or error
            return False
        return True

    def end(self) -> None:
        """Raises ApiError for the first that was refused."""
        if self._refused is not None:
            raise self._refused


async def go_round(look: Callable[[], Awaitable[None]], pause: Callable[[float], Awaitable[None]], failed: str) -> None:
    """Until cancelled. ``failed``: what is logged when a round raises ApiError, once until one has gone well again."""
    failing = False
    while True:
        await pause(EVERY_S)
        try:
            await look()
            failing = False
        except ApiError as error:
            if not failing:
                log.warning("%s: %s", failed, error)
            failing = True
