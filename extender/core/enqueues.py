"""PodGroups whose job makes no pods until a scheduler has taken them up: each is taken up as soon as it is seen.

Volcano's scheduler leaves some of them for later, so that fewer pods wait in the cluster. Here pods that wait are
gated, and cost kube-scheduler nothing.
"""

from __future__ import annotations

from extender.core.backoff import pause_s
from extender.core.effects import Enqueue
from extender.core.events import Enqueued
from extender.core.state import State
from extender.core.timers import Timers
from policies.model import Dialect, GroupKey, PodGroup

_FIRST_S, _LONGEST_S = 5.0, 900.0


class Enqueues:
    """Asks once for each PodGroup, as it is, and again later where that could not be carried out."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._failures: dict[GroupKey, int] = {}
        self._retries = Timers()

    def see(self, group: PodGroup) -> None:
        """It is new, or has changed."""
        if group.job is not None and group.pending and not group.deleting and self._state.synced:
            self._state.out.append(Enqueue(group.key, group.uid, group.job))

    def begin(self) -> None:
        """Every list is in."""
        for group in self._state.groups.values():
            self.see(group)

    def ended(self, event: Enqueued, now: float) -> None:
        if not event.detail:
            self._failures.pop(event.key, None)
            return
        times = self._failures[event.key] = self._failures.get(event.key, 0) + 1
        self._retries.set(event.key, now + pause_s(times, _FIRST_S, _LONGEST_S))

    def retry(self, now: float) -> None:
        """Those whose pause is over, if they still wait for it."""
        for key in self._retries.due(now):
            group = self._state.groups.get((key, Dialect.VOLCANO))
            if group is not None and group.pending:
                self.see(group)
            else:
                self._failures.pop(key, None)

    def next_retry(self) -> float | None:
        return self._retries.first()
