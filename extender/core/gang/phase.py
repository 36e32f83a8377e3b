"""Where a workload is in its life."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The first that holds, in this order."""

    RELEASING = "releasing"
    """Bindings of it are being written, or the last one of its release is yet to be."""
    ENDED = "ended"
    """Nobody of it waits or runs."""
    RUNNING = "running"
    """It has its quorum of bound members."""
    PARTIAL = "partial"
    """Its start broke off."""
    HOLDING = "holding"
    """Some members have reached bind."""
    PLACED = "placed"
    """Every slot has a node."""
    WAITING = "waiting"
