"""How far this process is in its life, and what it counts for the metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from policies.model import GroupKey


@dataclass(slots=True)
class Process:
    """From the start, by way of the first lists and of recovery, to answering calls."""

    synced: bool = False
    synced_at: float = 0.0
    """When every list was in."""
    recovered: bool = False
    """What the objects tell of an earlier life of ours is known: calls can be answered."""
    paused_until: float = -inf
    """Before this instant nothing is planned that is not planned yet."""
    epoch: float = 0.0
    """The instant of the core's clock at which the epoch of the wall clock was, by the last that was heard."""
    subject: str | GroupKey | None = None
    """The pod or the workload that is being taken up, for whoever has to find out what the core has failed on."""

    def sync(self, epoch: float, now: float) -> None:
        """Note that every list is in."""
        self.epoch, self.synced, self.synced_at = epoch, True, now


@dataclass(slots=True)
class Counts:
    """What the core counts for the metrics and decides nothing by."""

    advised: Counter[str] = field(default_factory=Counter)
    """In advisory mode: how often enforcing would have said what (``extender.core.gate.advisory``)."""
    unpinned: int = 0
    """How many pods of started jobs came without their pin."""
    policy_errors: Counter[str] = field(default_factory=Counter)

    def blame(self, policy: str) -> None:
        """Count a failure of the policy."""
        self.policy_errors[policy] += 1
