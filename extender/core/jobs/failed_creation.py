"""Jobs whose pods were not created, and their namespaces: a ResourceQuota, a missing ServiceAccount or an admission
policy refuses the pods. Such a job goes after all others and evicts no other workload. Other jobs of its namespace go
after those of other namespaces and hold room for less long while others wait. With the same or a higher priority they
evict no other workload either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from policies.model import GroupKey

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
    """Remembers a job until all of its pods come, its author edits it, or it goes. Remembers a namespace for some time
    after a job there had the full time for its pods, and they did not come. A job that had less time renews nothing: so
    a slow controller has the full time again."""

    def __init__(self) -> None:
        self._jobs: dict[GroupKey, None] = {}
        self._of: dict[str, _Failure] = {}

    def fail(self, key: GroupKey, priority: int, now: float, *, in_full: bool, job: bool = True) -> bool:
        """Pods of a workload were not created; ``job``: it is a job that may be started again. If that had failed
        before, it went last anyway: with the full time no other waited, and the failure says nothing of the namespace.
        Returns whether the jobs of the namespace go after others from now on, and did not before."""
        namespace, again = key.namespace, key in self._jobs
        if job:
            self._jobs[key] = None
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

    def cure(self, key: GroupKey, priority: int) -> bool:
        """All pods of a workload were created. Returns whether the jobs of its namespace went after others, or might
        not evict anybody, until now."""
        self.forget(key)
        namespace = key.namespace
        before = self._of.get(namespace)
        if before is None:
            return False
        still = tuple(one for one in before.priorities if one > priority)
        self._of[namespace] = after = _Failure(before.until, cured=True, priorities=still)
        return after != before

    def forget(self, key: GroupKey) -> None:
        """Forget that pods of the job were not created: it is gone, or its author has changed it."""
        self._jobs.pop(key, None)

    def namespace_gone(self, namespace: str) -> None:
        """Forget a namespace that was deleted, and with it the reason why pods were not created."""
        self._of.pop(namespace, None)

    def has_failed(self, key: GroupKey) -> bool:
        """Return whether pods of the job itself were not created when it was started last."""
        return key in self._jobs

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
