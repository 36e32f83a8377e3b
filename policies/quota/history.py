"""The past use of each LocalQueue: in a ClusterQueue the LocalQueue that used least comes first.

The formulas are those of Kueue's admission fair sharing (KEP-4136): usage fades by half in each half-life. A start
counts at once, before a sample shows it: its penalty is added to the consumption of the last sample. So only the
consumption and the time of its sample have to be stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf


@dataclass(frozen=True, slots=True)
class Sampling:
    """How usage is sampled and fades.

    ``half_life_s``: after this time half of an amount is forgotten; 0: no history is kept.
    ``weights``: by resource; 1 for a resource without an entry.
    """

    half_life_s: float
    interval_s: float = 300.0
    weights: Mapping[str, float] = field(default_factory=dict)

    def faded(self, elapsed_s: float) -> float:
        """Return the fraction of an amount that fades in this time: 0..1."""
        return 1 - 0.5 ** (max(0.0, elapsed_s) / self.half_life_s) if self.half_life_s else 0.0


NO_HISTORY = Sampling(half_life_s=0.0)


class History:
    """The past use of one LocalQueue.

    ``weight``: use is divided by it, so a queue of weight 2 may use twice as much; 0: the queue comes last.
    """

    def __init__(
        self, sampling: Sampling, weight: float = 1.0, now: float = 0.0, consumed: Mapping[str, float] | None = None
    ) -> None:
        self.weight = weight
        self.consumed = dict(consumed or {})
        self.sampled_at = now
        self._sampling = sampling
        self._penalties: dict[str, dict[str, float]] = {}
        """Penalties by workload, for starts that are not known to have succeeded."""

    def sample(self, used: Mapping[str, int], now: float) -> None:
        """Take a sample: the queue's admitted workloads use this much now."""
        if not self._sampling.half_life_s:
            self.consumed.clear()
            return
        fraction = self._sampling.faded(now - self.sampled_at)
        for name in {**self.consumed, **used}:
            self.consumed[name] = (1 - fraction) * self.consumed.get(name, 0.0) + fraction * used.get(name, 0)
        self.sampled_at = max(now, self.sampled_at)

    def started(self, workload: str, requests: Mapping[str, int]) -> None:
        """Count a start from now on; a second call for the same workload changes nothing."""
        fraction = self._sampling.faded(self._sampling.interval_s)
        self._penalties.setdefault(workload, {name: fraction * amount for name, amount in requests.items()})

    def failed(self, workload: str) -> None:
        """Drop the penalty of a workload that has not started after all."""
        self._penalties.pop(workload, None)

    def settled(self, workload: str) -> bool:
        """Move the penalty of a workload that is known to have started into the consumption. Returns whether it had
        one."""
        penalty = self._penalties.pop(workload, {})
        for name, amount in penalty.items():
            self.consumed[name] = self.consumed.get(name, 0.0) + amount
        return bool(penalty)

    @property
    def value(self) -> float:
        """The queue's use divided by its weight; the queue with the lowest value comes first."""
        if self.weight <= 0:
            return inf
        total = dict(self.consumed)
        for penalty in self._penalties.values():
            for name, amount in penalty.items():
                total[name] = total.get(name, 0.0) + amount
        # Summed in a fixed order, so that equal histories give equal sums.
        return sum(self._sampling.weights.get(name, 1.0) * total[name] for name in sorted(total)) / self.weight
