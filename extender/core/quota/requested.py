"""What the workloads of each ClusterQueue use and ask for: orders between queues divide by that."""

from __future__ import annotations

from collections import Counter

from extender.core.state import State
from policies.quota.shares import Requested


def requested(state: State) -> Requested:
    """Who is not known to be plannable asks for nothing."""
    found: dict[str, Counter[str]] = {}
    for name, node in state.quotas.queues.picture.tree.queues.items():
        total = found[name] = Counter[str]()
        for (_, resource), amount in node.used.items():
            total[resource] += amount
        for key in state.quotas.members.of(name):
            demand = state.workloads[key].asked if key in state.waiting.keys else None
            for (requests, *_), count in demand.shape.roles if demand is not None and demand.shape is not None else ():
                for resource, amount in requests:
                    total[resource] += amount * count
    return found
