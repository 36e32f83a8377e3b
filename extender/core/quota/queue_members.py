"""The workloads of each queue, waiting or not."""

from __future__ import annotations

from collections.abc import Iterable

from policies.model import GroupKey


class QueueMembers:
    """``names``: the LocalQueue of each workload that has one. ``moved_on``: ClusterQueues of which some workload has
    left, or stands otherwise, since that was taken."""

    def __init__(self) -> None:
        self.names: dict[GroupKey, str] = {}
        self.moved_on: dict[str, None] = {}
        self._of: dict[str, dict[GroupKey, None]] = {}
        self._queue_of: dict[GroupKey, str] = {}
        self._states: dict[GroupKey, object] = {}
        self._versions: dict[str, int] = {}

    def touch(self, queue: str) -> None:
        """Something that a report says of it may have changed."""
        self._versions[queue] = self._versions.get(queue, 0) + 1

    def version(self, queues: Iterable[str]) -> int:
        """It is another one whenever one of them was touched."""
        return sum(self._versions.get(queue, 0) for queue in queues)

    def of(self, queue: str) -> Iterable[GroupKey]:
        """Those of that ClusterQueue."""
        return self._of.get(queue, ())

    def queue_of(self, key: GroupKey) -> str | None:
        """The ClusterQueue that it is counted in."""
        return self._queue_of.get(key)

    def name(self, key: GroupKey, name: str) -> None:
        """It names that LocalQueue, or none if that is empty."""
        if name:
            self.names[key] = name
        else:
            self.names.pop(key, None)
            self._states.pop(key, None)

    def enter(self, key: GroupKey, queue: str) -> None:
        """It belongs to that ClusterQueue, and to no other."""
        self.touch(queue)
        self._queue_of[key] = queue
        self._of.setdefault(queue, {})[key] = None

    def leave(self, key: GroupKey) -> None:
        """It belongs to no ClusterQueue any more."""
        if (queue := self._queue_of.pop(key, None)) is not None:
            self.touch(queue)
            self.moved_on[queue] = None
            self._of[queue].pop(key)
            if not self._of[queue]:
                del self._of[queue]

    def stand(self, key: GroupKey, state: object) -> bool:
        """That is how it stands now. Returns whether it has stood otherwise."""
        if self._states.get(key) == state:
            return False
        self._states[key] = state
        queue = self._queue_of.get(key, "")
        self.touch(queue)
        self.moved_on[queue] = None
        return True

    def take_moved_on(self) -> dict[str, None]:
        """Those since the last time."""
        moved_on, self.moved_on = self.moved_on, {}
        return moved_on
