"""Whether what the decision by quota is asked about makes sense."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from policies.checks import (
    check_amount,
    check_amounts,
    check_name,
    check_number,
    check_once,
    check_priority,
    check_queues,
    check_usage,
)

if TYPE_CHECKING:
    from policies.quota.decide import Incoming, World


def check(world: World, incoming: Sequence[Incoming]) -> None:
    """Raises a ValueError that says what to do."""
    check_queues(world.queues, world.cohorts)
    for name, flavor in world.flavors.items():
        if flavor.name != name:
            raise ValueError(f"flavor {flavor.name!r} is there as {name!r}: give each by its own name")
    for at, runs in enumerate(world.admitted):
        check_usage(f"what workload {at} of those admitted to queue {runs.queue} uses", runs.usage)
    for one in incoming:
        check_name("the UID of a workload", one.uid)
        check_priority(f"the priority of workload {one.uid}", one.priority)
        check_number(f"since of workload {one.uid}", one.since)
        check_once(f"workload {one.uid}: podset", (podset.name for podset in one.podsets))
        for podset in one.podsets:
            what = f"podset {podset.name} of workload {one.uid}"
            check_amount(f"the count of {what}", podset.count)
            if podset.minimum is not None:
                check_amount(f"the minimum of {what}", podset.minimum, least=1)
            check_amounts(f"the requests of {what}", podset.requests)
    check_once("workload", (one.uid for one in incoming))
