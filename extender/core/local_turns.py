"""The workloads of one ClusterQueue that wait, in their order; where it orders by past usage, the LocalQueue that has
used least comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from extender.core.past_usage import LocalKey
from extender.core.workload import Workload
from policies.api import SortKey

Entry = tuple[SortKey, int, Workload]


class LocalTurns:
    """``value``: what a LocalQueue has used; None where that does not count. The first one stays the first until
    somebody comes or it is taken, whatever is used meanwhile."""

    def __init__(self, value: Callable[[LocalKey], float] | None) -> None:
        self._value = value
        self._lines: dict[LocalKey, list[Entry]] = {}
        self._chosen: LocalKey | None = None

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, local: LocalKey, entry: Entry) -> None:
        key = local if self._value is not None else ("", "")
        heapq.heappush(self._lines.setdefault(key, []), entry)
        self._chosen = None

    @property
    def first(self) -> Entry:
        """Raises LookupError if nobody waits."""
        return self._lines[self._first()][0]

    def pop(self) -> Workload:
        """The first one leaves."""
        key = self._first()
        workload = heapq.heappop(self._lines[key])[-1]
        if not self._lines[key]:
            del self._lines[key]
        self._chosen = None
        return workload

    def drain(self) -> Iterator[Workload]:
        while self._lines:
            yield self.pop()

    def _first(self) -> LocalKey:
        if self._chosen is None:
            if not self._lines:
                raise LookupError("nobody waits in the queue")
            value = self._value or _nothing
            self._chosen = min(self._lines, key=lambda key: (value(key), self._lines[key][0][:2]))
        return self._chosen


def _nothing(_: LocalKey) -> float:
    return 0.0
