"""What each LocalQueue has used in the past, so that of one ClusterQueue's the one that used least comes first.

The formulas are those of Kueue's admission fair sharing (KEP-4136): usage fades by half in each half-life, and a start
counts at once, before it shows in a sample. What a start counts for is added to what was consumed as of the last
sample, so that what is consumed, and when it was sampled, are all that has to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class Sampling:
    """``half_life_s``: 0 is no history at all. ``weights``: of resources, 1 where nothing is said."""

    half_life_s: float
    interval_s: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)

    def faded(self, elapsed_s: float) -> float:
        """How much of an amount is gone after so long: 0..1."""
        return 1 - 0.5 ** (max(0.0, elapsed_s) / self.half_life_s) if self.half_life_s else 0.0


NO_HISTORY = Sampling(half_life_s=0.0)


class History:
    """Of one LocalQueue. ``weight``: so many times as much as others it may use; 0: it comes last."""

    def __init__(
        self, sampling: Sampling, weight: float = 1.0, now: float = 0.0, consumed: Mapping[str, float] | None = None
    ) -> None:
        self.weight = weight
        self.consumed = dict(consumed or {})
        self.sampled_at = now
        self._sampling = sampling
        self._penalties: dict[str, dict[str, float]] = {}
        """What starts count for that are not known to have succeeded, by workload."""

    def sample(self, used: Mapping[str, int], now: float) -> None:
        """Its admitted workloads use so much now."""
        if not self._sampling.half_life_s:
            self.consumed.clear()
            return
        part = self._sampling.faded(now - self.sampled_at)
        for name in {**self.consumed, **used}:
            self.consumed[name] = (1 - part) * self.consumed.get(name, 0.0) + part * used.get(name, 0)
        self.sampled_at = max(now, self.sampled_at)

    def started(self, workload: str, requests: Mapping[str, int]) -> None:
        """It counts from now on; a second time it changes nothing."""
        part = self._sampling.faded(self._sampling.interval_s)
        self._penalties.setdefault(workload, {name: part * amount for name, amount in requests.items()})

    def failed(self, workload: str) -> None:
        """It has not started after all."""
        self._penalties.pop(workload, None)

    def settled(self, workload: str) -> bool:
        """It is known to have started: what it counts for is part of what was consumed. Returns whether it was not
        known before."""
        penalty = self._penalties.pop(workload, {})
        for name, amount in penalty.items():
            self.consumed[name] = self.consumed.get(name, 0.0) + amount
        return bool(penalty)

    @property
    def value(self) -> float:
        """What the queue has used, by weight: the lowest comes first."""
        if self.weight <= 0:
            return inf
        total = dict(self.consumed)
        for penalty in self._penalties.values():
            for name, amount in penalty.items():
                total[name] = total.get(name, 0.0) + amount
        # In one order, so that equal histories give equal sums.
        return sum(self._sampling.weights.get(name, 1.0) * total[name] for name in sorted(total)) / self.weight
