"""Pods of admitted jobs that are yet to be created, how fast they come, and the jobs whose pods did not come.

kube-controller-manager makes all of them. By default it sends 20 requests a second, so four gangs of 512 take 100 s to
exist.

Where a ResourceQuota, a missing ServiceAccount or an admission policy refuses the pods of a job, it goes after all
others and evicts no other workload. Other jobs of its namespace go after those of other namespaces and hold room for
less long while others wait. With the same or a higher priority they evict no other workload either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.core.reasons import Reason
from policies.model import GroupKey

DEFAULT_RATE = 20.0
"""Pods a second, until it has been observed otherwise."""
_WINDOW_S = 5.0
_SLOWEST, _FASTEST = 1.0, 10_000.0
_GAP_S = 2.0
"""When no pod has come for so long, nobody was making any all that time: it says nothing about the rate."""
_QUIET_S = 10.0
"""After so long without any pod, those that are awaited are not being made: others need not wait for them."""
_PAUSE_S, _MOST_PAUSE_S = 1.0, 5.0
"""After so long, those who were refused are looked at again: some pods have come."""
_EACH_S = 1e-3
"""Or after so long for each of them, so that thousands do not cost more than a few of each hundred seconds."""


@dataclass(frozen=True, slots=True)
class _First:
    """Who was refused first, since when, and when it asked last."""

    key: GroupKey
    since: float
    asked: float


class Creation:
    """``awaited``: how many pods of admitted jobs are yet to come and may be being made. ``rate``: as observed, in pods
    a second. A job whose pods somebody refuses, a ResourceQuota say, holds up others only so long."""

    def __init__(self) -> None:
        self.awaited = 0
        self.rate = DEFAULT_RATE
        self._refused: dict[GroupKey, None] = {}
        self._refused_at = 0.0
        self._of: dict[GroupKey, int] = {}
        self._stuck: dict[GroupKey, int] = {}
        self._moved = 0.0
        self._began: float | None = None
        self._came, self._came_at = 0, 0.0
        self._first: _First | None = None

    def wait_for(self, key: GroupKey, pods: int, now: float, *, doubtful: bool = False) -> None:
        """Expect so many more pods of that workload. ``doubtful``: they may never come, and no other job waits for
        them."""
        if self._stuck.get(key) == pods:
            return
        self._stuck.pop(key, None)
        before = self._of.pop(key, 0)
        if doubtful and pods:
            self._stuck[key], pods = pods, 0
        self.awaited += pods - before
        if pods:
            self._of[key] = pods
        if pods > before:
            self._moved = now
        if not self.awaited:
            self._began = None

    def forget(self, key: GroupKey) -> None:
        """No pod of that workload is yet to come."""
        self.wait_for(key, 0, self._moved)

    def doubt(self, namespace: str) -> None:
        """The pods that jobs of a namespace await may never come."""
        for key in [key for key in self._of if key.namespace == namespace]:
            self._stuck[key] = pods = self._of.pop(key)
            self.awaited -= pods
        if not self.awaited:
            self._began = None

    def in_doubt(self, key: GroupKey) -> bool:
        """Whether another workload awaits pods that may never come."""
        return any(other != key for other in self._stuck)

    def came(self, now: float) -> None:
        """A pod that was awaited is there."""
        if self._began is None or now - self._came_at > _GAP_S:
            self._began, self._came = now, 0
        self._came_at = self._moved = now
        self._came += 1
        if now - self._began >= _WINDOW_S:
            # The latest window counts for half.
            observed = self._came / (now - self._began)
            self.rate = min(_FASTEST, max(_SLOWEST, (self.rate + observed) / 2))
            self._began, self._came = now, 0

    @property
    def reason(self) -> Reason:
        """Why another job waits."""
        text = f"{self.awaited} pods of jobs that were started before it are yet to be created"
        return Reason("Creating", f"{text}, at {self.rate:.0f} a second", warning=False)

    def takes_s(self) -> float:
        """How long it takes until all are there."""
        return self.awaited / self.rate

    def lets(self, key: GroupKey, pods: int, now: float, most_s: float) -> bool:
        """Whether a workload with so many more may start: they would be there in time. What is too large by itself
        goes when nobody else is awaited. Whoever has been refused for so long is passed by nobody any more."""
        if self.awaited and now - self._moved > _QUIET_S:
            self._stuck |= self._of
            self._of.clear()
            self.awaited, self._began = 0, None
        first = self._first
        if first is not None and now - first.asked > most_s + _MOST_PAUSE_S:
            first = None  # it waits for something else by now, or is gone
        passes_by = first is not None and first.key != key and now - first.since > most_s
        if not passes_by and (not self.awaited or (self.awaited + pods) / self.rate <= most_s):
            self._first = None if first is None or first.key == key else first
            return True
        if first is None or first.key == key:
            self._first = _First(key, now if first is None else first.since, now)
        self.refuse(key, now)
        return False

    def refuse(self, key: GroupKey, now: float) -> None:
        """Have the workload looked at again in a moment."""
        if not self._refused:
            self._refused_at = now
        self._refused[key] = None

    @property
    def due(self) -> float | None:
        """The instant at which those who were refused are looked at again, if there are any."""
        if not self._refused:
            return None
        return self._refused_at + min(_MOST_PAUSE_S, max(_PAUSE_S, _EACH_S * len(self._refused)))

    def take_refused(self, now: float) -> list[GroupKey]:
        """Those who were refused, when they are to be looked at again."""
        if self.due is None or now < self.due:
            return []
        refused = list(self._refused)
        self._refused.clear()
        return refused


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
