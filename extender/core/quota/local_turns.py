"""The workloads of one ClusterQueue that wait, in their order; where it orders by past usage, the LocalQueue that has
used least comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence

from extender.core.quota.quotas import Quotas
from extender.core.waiting.shortfalls import Amounts
from extender.core.waiting.waiting import Entry
from extender.core.workload import Workload
from policies.api import SortKey

Part = tuple[str, str, Amounts | None]
"""Namespace and name of a LocalQueue, both empty where past usage does not count, and the quota that is waited for."""


class LocalTurns:
    """``quotas`` tell what LocalQueues have used; None where that does not count. The first one stays the first until
    somebody comes or it is taken, whatever is used meanwhile."""

    def __init__(self, quotas: Quotas | None) -> None:
        self._quotas = quotas
        self._lines: dict[Part, list[Entry]] = {}
        self._chosen: Part | None = None

    def __bool__(self) -> bool:
        return bool(self._lines)

    def push(self, entry: Entry, waits_for: Amounts | None) -> None:
        """``waits_for``: for how much quota, as far as is known."""
        part: Part = "", "", waits_for
        if self._quotas is not None:
            key = entry[-1].key
            part = key.namespace, self._quotas.local_of(key), waits_for
        heapq.heappush(self._lines.setdefault(part, []), entry)
        self._chosen = None

    def take(self, entries: Sequence[Entry], waits_for: Amounts) -> None:
        """All of them come, and wait for so much quota."""
        if self._quotas is not None:
            for entry in entries:
                self.push(entry, waits_for)
            return
        line = self._lines.setdefault(("", "", waits_for), [])
        line += entries
        heapq.heapify(line)
        self._chosen = None

    @property
    def first(self) -> Entry:
        """Raises LookupError if nobody waits."""
        return self._lines[self._first()][0]

    def pop(self) -> Workload:
        """The first one leaves."""
        part = self._first()
        workload = heapq.heappop(self._lines[part])[-1]
        if not self._lines[part]:
            del self._lines[part]
        self._chosen = None
        return workload

    def leave(self, waits_for: Amounts | None) -> int:
        """Those that wait for that quota leave, if it is known. Returns how many."""
        self._chosen = None
        gone = [part for part in self._lines if part[-1] == waits_for is not None]
        return sum(len(self._lines.pop(part)) for part in gone)

    def drain(self) -> Iterator[Workload]:
        while self._lines:
            yield self.pop()

    def _first(self) -> Part:
        if self._chosen is None:
            if not self._lines:
                raise LookupError("nobody waits in the queue")
            self._chosen = min(self._lines, key=self._rank)
        return self._chosen

    def _rank(self, part: Part) -> tuple[float, tuple[SortKey, int]]:
        past = 0.0 if self._quotas is None else self._quotas.past.value(part[:2])
        return past, self._lines[part][0][:2]
