"""The policies that settings can name: Muster's, and the ones that installed packages offer as ``muster.policies``."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from policies.chosen import Policies
from policies.order import Drf, PriorityThenAge, Proportion
from policies.quota.shares import QueueOrder
from policies.strategies.affinity import Affinity
from policies.strategies.balanced import Balanced, EqualShares
from policies.strategies.best_fit import BestFit
from policies.strategies.first_fit import FirstFit
from policies.strategies.least_domains import LeastDomains
from policies.strategies.packing import Packing
from policies.strategies.scoring import WeightedSum
from policies.strategies.spread import Spread

ENTRY_POINTS = "muster.policies"

_OURS: Mapping[str, type] = {
    "priority-then-age": PriorityThenAge,
    "proportion": Proportion,
    "drf": Drf,
    "best-fit": BestFit,
    "balanced": Balanced,
    "equal-shares": EqualShares,
    "least-domains": LeastDomains,
    "spread": Spread,
    "first-fit": FirstFit,
    "affinity": Affinity,
    "packing": Packing,
}

_BETWEEN_QUEUES: Mapping[str, type[QueueOrder]] = {"proportion": Proportion, "drf": Drf}
"""Policies that also order queues."""


def policy(name: str, method: str) -> Any:
    """The policy of that name, which must have that method. Raises ValueError that lists the known ones."""
    factory = _OURS.get(name) or _foreign(name)
    if factory is None or not callable(getattr(factory, method, None)):
        ours = [known for known, policy in _OURS.items() if hasattr(policy, method)]
        offered = sorted(point.name for point in entry_points(group=ENTRY_POINTS))
        others = f"; installed packages offer {', '.join(offered)}" if offered else ""
        wrong = "is not a known policy" if factory is None else f"is not a policy for this: it has no {method}()"
        raise ValueError(f"{name} {wrong}; known here: {', '.join(ours)}{others}")
    try:
        return factory()
    except Exception as error:
        raise ValueError(f"{name} cannot be made: {error}") from error


def orders_queues(queue_policy: str) -> bool:
    """Whether that policy decides which of two queues comes first."""
    return queue_policy in _BETWEEN_QUEUES


def policies(queue: str, topology: str, scores: Mapping[str, int]) -> Policies:
    """The policies of these names; ``scores``: names and weights. Raises ValueError."""
    weighted = [(policy(name, "score"), weight) for name, weight in scores.items()]
    between = _BETWEEN_QUEUES[queue]() if orders_queues(queue) else None
    return Policies(policy(queue, "order"), policy(topology, "domains"), WeightedSum(weighted), between)


def _foreign(name: str) -> Any:
    for point in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return point.load()
        except Exception as error:
            raise ValueError(f"{name} ({point.value}) cannot be loaded: {error}") from error
    return None
