"""The order in which waiting gangs are served."""

from __future__ import annotations

from policies.api import SortKey, WaitingGang


class PriorityThenAge:
    """Higher priority first, then the older gang, then by name so that the order is total."""

    def order(self, gang: WaitingGang) -> SortKey:
        return (-gang.priority, gang.created, gang.key.namespace, gang.key.name)
