"""Virtual clusters of a trace as ClusterQueues of one cohort, with nominal quota by their share of the GPU time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from extender.core.events import QueueSeen
from extender.simulation.replay.arrivals import Arrival
from extender.simulation.replay.shape import GPU, InputError
from policies.model.queues import ClusterQueue, LocalQueue, Preemption, Quota, ResourceFlavor, ResourceGroup

COHORT, FLAVOR = "trace", "default"
NOBODY = Preemption()


def virtual_clusters(
    arrivals: Sequence[Arrival], gpus: int, borrowing: int | None, rules: Preemption = NOBODY
) -> list[QueueSeen]:
    """A ClusterQueue, and a LocalQueue of the same name, for each queue that the jobs name. ``borrowing``: so many GPUs
    each may borrow; None: no limit. ``rules``: whom the jobs of each may evict. Raises InputError.

    The weight for fair sharing is the nominal quota: what is lent is divided in that proportion, as entitlement is."""
    found = [QueueSeen(ResourceFlavor(FLAVOR))]
    for name, nominal in nominal_quotas(arrivals, gpus).items():
        group = ResourceGroup((GPU, "pods"), ((FLAVOR, {GPU: Quota(nominal, borrowing)}),))
        weight = Fraction(nominal)
        found.append(QueueSeen(ClusterQueue(name, (group,), COHORT, weight=weight, namespaces=(), preemption=rules)))
        found.append(QueueSeen(LocalQueue("default", name, name)))
    return found


def nominal_quotas(arrivals: Iterable[Arrival], gpus: int) -> dict[str, int]:
    """All GPUs, by the GPU time that the jobs of each queue ask for, and at least what its largest job needs, so that
    every job could run on its own quota. Raises InputError."""
    asked: dict[str, float] = {}
    least: dict[str, int] = {}
    for one in arrivals:
        asked[one.queue] = asked.get(one.queue, 0.0) + one.all_gpus * one.run_s
        least[one.queue] = max(least.get(one.queue, 0), one.needed * one.gpus)
    if sum(least.values()) > gpus:
        raise InputError(
            f"the largest jobs of the {len(least)} virtual clusters need {sum(least.values()):,} GPUs together, "
            f"and the cluster has {gpus:,}"
        )
    shared = sorted(asked)
    quotas = dict(least)
    while True:
        left = gpus - sum(quotas[name] for name in asked if name not in shared)
        total = sum(asked[name] for name in shared)
        small = [name for name in shared if asked[name] * left < least[name] * total]
        if not small:
            break
        shared = [name for name in shared if name not in small]
    exact = {name: asked[name] * left / total for name in shared}
    quotas |= {name: int(amount) for name, amount in exact.items()}
    by_rest = sorted(shared, key=lambda name: (quotas[name] - exact[name], name))
    for name in by_rest[: gpus - sum(quotas.values())]:
        quotas[name] += 1
    return dict(sorted(quotas.items()))
