"""What whoever leads looks after round by round: some seconds late, and off the way of every start."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from extender.kube.api.connection import ApiError

log = logging.getLogger("muster")
EVERY_S = 2.0


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
