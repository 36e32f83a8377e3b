"""The replica that may act: the one whose kube-scheduler holds the Lease. The clock is checked before every write.

Muster holds no election of its own. It serves the kube-scheduler of its own pod, so the Lease's holder is compared with
the pod's host name.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

MARGIN = 2 / 3
"""The part of the Lease's duration after which an unrenewed holder must stop.

kube-scheduler by default gives up after the same part (10 s of 15 s), and no other replica acquires the Lease before
all of it is over.
"""
_NAME = r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$"


class LeaderElection(BaseModel):
    """The setting ``leader_election``: kube-scheduler's own ``leaderElection``, for the Muster beside it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    enabled: bool = Field(
        default=False,
        description="Act only while the kube-scheduler of the same pod holds the Lease. Needed for more than one "
        "replica, as is leaderElection.leaderElect of kube-scheduler.",
    )
    namespace: str = Field(default="kube-system", pattern=_NAME, description="leaderElection.resourceNamespace.")
    name: str = Field(default="muster", pattern=_NAME, description="leaderElection.resourceName.")
    identity: str = Field(
        default="",
        max_length=253,
        description="Host name of this replica's kube-scheduler: the Lease's holder is that, an underscore and a "
        "UUID. Default: the host name here, which is the same inside a pod.",
    )


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as the API server shows it.

    ``renewed_at``: seconds since the epoch by the holder's clock. If the holder is in this pod, that clock is ours,
    too.
    """

    holder: str
    renewed_at: float
    duration_s: float


class Leadership:
    """Whether this replica leads, as far as is known now. ``clock`` never goes back; ``wall`` is the Lease's clock."""

    def __init__(
        self,
        identity: str = "",
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.holder = ""
        """The holder of the Lease as last seen; empty for none."""
        self._identity = identity or socket.gethostname()
        self._clock = clock
        self._wall = wall
        self._until = 0.0
        self._news = asyncio.Event()

    def seen(self, lease: Lease | None) -> None:
        """Record that the Lease was created, renewed, passed on, given up, or (None) deleted."""
        self.holder = "" if lease is None else lease.holder
        if lease is None or self.holder.rpartition("_")[0] != self._identity:
            self._until = 0.0
        else:
            # A renewal can arrive late, above all after the process has stood still. The instant of the renewal counts.
            age = max(0.0, self._wall() - lease.renewed_at)
            self._until = self._clock() - age + lease.duration_s * MARGIN
        self._news.set()

    def holds(self) -> bool:
        """Whether this pod's kube-scheduler holds the Lease and has renewed it recently enough."""
        return self._clock() < self._until

    async def change(self, *, held: bool) -> None:
        """Return as soon as ``holds()`` differs from ``held``."""
        while self.holds() == held:
            self._news.clear()
            left = self._until - self._clock() if held else None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left)
