"""Which workloads remember that kube-scheduler would not have a member of theirs on a node, and when they forget it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.core.claim import Claim
from extender.core.workload import Workload
from policies.model import GroupKey


class Refusing:
    """An index by node of what is remembered in ``Workload.retries``."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[GroupKey, None]] = {}

    def remember(self, node: str, key: GroupKey) -> None:
        """It would not have a member of that one there."""
        self._by_node.setdefault(node, {})[key] = None

    def forget(self, node: str, given_back: Claim | None, workloads: Mapping[GroupKey, Workload]) -> Iterator[Workload]:
        """The node has changed, or somebody has given room on it back: who may try it again by that.

        Room that was only promised is no reason for haste, and none at all for whom it was promised to or who is
        refused again and again: two would send each other back for ever.
        """
        promise = given_back if given_back is not None and given_back.promised else None
        for key in self._by_node.pop(node, {}):
            workload = workloads.get(key)
            if workload is not None and promise is not None and (workload.retries.resting or promise.workload == key):
                self.remember(node, key)
            elif workload is not None:
                workload.retries.forgive(node, at_once=promise is None)
                yield workload
