"""Namespaces that had jobs whose pods were not created: a ResourceQuota, a missing ServiceAccount or an admission
policy refuses them. Their jobs go after those of other namespaces, hold room for less long while others wait, and
evict nobody by that priority or a higher one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

PROBATION_S = 5.0
"""Time for the next pod of a started job of such a namespace while others wait."""
_REMEMBERED_S = 600.0
_MOST = 1_000
"""Namespaces that are remembered."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """``until``: so long it is remembered. ``cured``: all pods of some job of the namespace were created since.
    ``priorities``: of the jobs that failed, those that no job of the same or a higher priority has had its pods with
    since. A ResourceQuota may allow one PriorityClass and refuse another."""

    until: float
    cured: bool = False
    priorities: tuple[int, ...] = ()


class FailedCreation:
    """Remembers a namespace for some time after a job there had the full time for its pods, and they did not come. A
    job that had less time renews nothing: so a slow controller has the full time again."""

    def __init__(self) -> None:
        self._of: dict[str, _Failure] = {}

    def fail(self, namespace: str, priority: int, now: float, *, in_full: bool, again: bool = False) -> bool:
        """Pods of a job there were not created. ``again``: the job goes last anyway; if it had the full time, no other
        waited, and the failure says nothing of the namespace. Returns whether the jobs of the namespace go after others
        from now on, and did not before."""
        before = self._of.pop(namespace, None)
        until = now + _REMEMBERED_S if in_full or before is None else before.until
        went_last = before is not None and not before.cured
        cured = again and in_full and not went_last
        priorities = () if before is None else before.priorities
        if priority not in priorities:
            priorities = (*priorities, priority)
        self._of[namespace] = _Failure(until, cured, priorities)
        if len(self._of) > _MOST:
            del self._of[next(iter(self._of))]
        return not (went_last or cured)

    def cure(self, namespace: str, priority: int) -> bool:
        """All pods of a job there were created. Returns whether its jobs went after others, or might not evict anybody,
        until now."""
        before = self._of.get(namespace)
        if before is None:
            return False
        still = tuple(one for one in before.priorities if one > priority)
        self._of[namespace] = after = _Failure(before.until, cured=True, priorities=still)
        return after != before

    def namespace_gone(self, namespace: str) -> None:
        """Forget a namespace that was deleted, and with it the reason why pods were not created."""
        self._of.pop(namespace, None)

    def go_last(self, namespace: str) -> bool:
        """Whether its jobs go after those of other namespaces."""
        failure = self._of.get(namespace)
        return failure is not None and not failure.cured

    def may_evict(self, namespace: str, priority: int) -> bool:
        """Whether others may be evicted for a job there that has no pods yet."""
        failure = self._of.get(namespace)
        return failure is None or all(priority < one for one in failure.priorities)

    def on_probation(self, namespace: str) -> bool:
        """Whether its jobs hold room for less long while others wait."""
        return namespace in self._of

    def lapse(self, now: float) -> Iterator[str]:
        """Forget what is long ago. Yields the namespaces whose jobs may now do what they might not."""
        for namespace, failure in [one for one in self._of.items() if now >= one[1].until]:
            del self._of[namespace]
            if not failure.cured or failure.priorities:
                yield namespace
