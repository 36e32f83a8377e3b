"""Pods of jobs before they exist: tried by dry runs, yet to be created, or refused.

A trial is the dry-run creation of one pod of a shape that is new. The core asks for it, at most five times a second,
and goes on by the template where no answer comes. Additions to the pod are learnt as from a real one. A refusal is the
reason why its jobs wait. It is tried again after a minute, or after 15 s if a ResourceQuota is used up, or a webhook
does not answer.

kube-controller-manager makes the pods of all admitted jobs. By default it sends 20 requests a second, so four gangs of
512 take 100 s to exist.

Where a ResourceQuota, a missing ServiceAccount or an admission policy refuses the pods of a job, it goes after all
others and evicts no other workload. Other jobs of its namespace go after those of other namespaces and hold room for
less long while others wait. With the same or a higher priority they evict no other workload either.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from extender.core.answers import Verdict
from extender.core.causes import Creating, PodsRefused, Trying, Untried
from policies.model import GroupKey, PodSets

_TRIAL_EACH_S = 0.2
"""Between one trial and the next."""
_WAIT_S = 2.0
"""A job is not planned for so long while its pods are to be tried."""
_AGAIN_S = 60.0
_SOON_AGAIN_S = 15.0
_TAKEN_UP_S = 0.5
"""The API server may see a change of a namespace later than Muster does."""
_FRESH_S = 30.0
"""Before others are evicted, pods are tried again whose last trial is longer ago."""
_REMEMBERED = 10_000
_KEPT = (Verdict.REFUSED, Verdict.NOT_NOW)


@dataclass(slots=True)
class _Trial:
    """``wanted``: the workloads that wait for the answer. ``begun``: when it was first asked for. ``verdict``: None
    before the first answer. The last one came ``at``. ``again``: from when on it is asked for once more.
    ``pending``: it is in line, or has been asked for and not been answered."""

    namespace: str
    begun: float
    wanted: dict[GroupKey, None] = field(default_factory=dict)
    verdict: Verdict | None = None
    detail: str = ""
    at: float = -math.inf
    again: float = math.inf
    pending: bool = True


class Trials:
    """``enabled``: whether pods may be tried at all; whether they can be, the first answer says."""

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._known: dict[str, _Trial] = {}
        self._urgent: dict[str, None] = {}
        """Shapes of workloads that may evict others as soon as they have the answer."""
        self._line: dict[str, dict[str, None]] = {}
        """Shapes by namespace: each namespace has its turn, however many shapes it has."""
        self._ends: list[tuple[float, str]] = []
        self._next = self._quiet_until = -math.inf
        self._unavailable_until = -math.inf
        self._answers = True
        """Whether pods could be tried when that was asked for last: else nobody is held up by a question."""

    def learn(self, known: Trials) -> None:
        """Take over every answer that another core has had."""
        answered = {shape: trial for shape, trial in known._known.items() if trial.verdict is not None}
        self._known |= {shape: replace(trial, wanted={}, pending=False) for shape, trial in answered.items()}

    @property
    def idle(self) -> bool:
        """Whether there is nothing to ask for, and nothing to wait for."""
        return not (self._urgent or self._line or self._ends)

    def keeps(
        self, key: GroupKey, podsets: PodSets, now: float, *, planned: bool, recovered: bool
    ) -> PodsRefused | Trying | None:
        """Why the workload is not planned: the API server refuses its pods, or is being asked. Asks where nobody has.
        ``planned``: it has nodes already, so it is not held up by a question. Nor does it wait for one that is asked
        before the core has ``recovered``: another workload would get the room that is kept for it, or its turn.
        """
        why: Trying | None = None
        refused: PodsRefused | None = None
        for shape, trial in self._shapes(key, podsets, now, recovered=recovered):
            if trial.verdict is None or trial.verdict in _KEPT or now >= trial.again:
                trial.wanted[key] = None
            if trial.verdict is None or now >= trial.again:
                self._urge(shape, trial)
            if trial.verdict in _KEPT and refused is None:
                refused = PodsRefused(trial.detail)
            if trial.verdict is None and now < trial.begun + _WAIT_S and self._answers and not planned:
                why = Trying()
        return refused or why

    def spares(self, key: GroupKey, podsets: PodSets, now: float) -> Untried | None:
        """Why nobody is evicted for the workload now; None if others may be. Its pods are tried for it once more if
        that was long ago."""
        pending = None
        for shape, trial in self._shapes(key, podsets, now):
            if trial.verdict in _KEPT:
                trial.wanted[key] = None
                return Untried(trial.detail)
            if trial.verdict is not None and now < trial.at + _FRESH_S:
                continue
            trial.wanted[key] = None
            self._urge(shape, trial)
            pending = Untried("")
        return pending

    def fail_creation(self, key: GroupKey, podsets: PodSets, now: float) -> None:
        """Pods of the workload were not created in time. Have one of each shape tried at once: others of them may be
        there yet, and use up a ResourceQuota."""
        for shape, trial in self._shapes(key, podsets, now):
            trial.wanted[key] = None
            self._urge(shape, trial)

    def due(self, now: float) -> Iterator[tuple[str, tuple[GroupKey, ...]]]:
        """The shapes that are to be tried now, and who wants them. The caller says if nobody does any more."""
        while now >= self._next and (shape := self._first()) is not None:
            trial = self._known.get(shape)
            if trial is None:
                continue
            self._next = now + _TRIAL_EACH_S
            yield shape, tuple(trial.wanted)

    def nobody_wants(self, shape: str) -> None:
        """Forget it, and have the next one tried in its place."""
        self._known.pop(shape, None)
        self._next = -math.inf

    def answered(self, shape: str, verdict: Verdict, detail: str, now: float) -> tuple[GroupKey, ...]:
        """A trial has ended. Returns the workloads that go on by it."""
        if verdict is Verdict.UNAVAILABLE:
            return self._stop(now)
        self._answers = True
        if (trial := self._known.get(shape)) is None:
            return ()
        trial.verdict, trial.detail, trial.at, trial.pending = verdict, detail, now, False
        pauses = {Verdict.REFUSED: _AGAIN_S, Verdict.UNANSWERED: _AGAIN_S, Verdict.NOT_NOW: _SOON_AGAIN_S}
        trial.again = now + pauses.get(verdict, math.inf)
        if trial.again < math.inf:
            heapq.heappush(self._ends, (trial.again, shape))
        waiting = tuple(trial.wanted)
        trial.wanted.clear()
        return waiting

    def expired(self, now: float) -> list[GroupKey]:
        """The workloads that have waited for their first answer for long enough. What somebody still waits for is tried
        once more, and a refusal stands until the next answer."""
        found: list[GroupKey] = []
        while self._ends and self._ends[0][0] <= now:
            _, shape = heapq.heappop(self._ends)
            if (trial := self._known.get(shape)) is None:
                continue
            if trial.verdict is None:
                found += trial.wanted
            elif now >= trial.again and trial.wanted:
                self._urge(shape, trial)
        return found

    def namespace_changed(self, namespace: str, now: float) -> None:
        """Have all shapes tried again there: admission may go by what the namespace says. A refusal stands until the
        next answer."""
        there = [shape for shape, one in self._known.items() if one.namespace == namespace]
        if there and now >= self._quiet_until:
            self._quiet_until = now + _TAKEN_UP_S
            self._next = max(self._next, self._quiet_until)
        for shape in there:
            trial = self._known[shape]
            if trial.verdict in _KEPT:
                self._urge(shape, trial)
            elif not trial.pending:
                del self._known[shape]

    def next_end(self) -> float | None:
        """When a trial is to be asked for, or is no longer waited for."""
        instants = [self._next] if self._urgent or self._line else []
        instants += [self._ends[0][0]] if self._ends else []
        return min(instants, default=None)

    def _shapes(
        self, key: GroupKey, podsets: PodSets, now: float, *, recovered: bool = True
    ) -> Iterator[tuple[str, _Trial]]:
        if not self._enabled or now < self._unavailable_until:
            return
        for shape in dict.fromkeys(one.shape for one in podsets.podsets if one.shape and one.size):
            trial = self._known.get(shape) or self._begin(shape, key.namespace, now if recovered else now - _WAIT_S)
            yield shape, trial

    def _begin(self, shape: str, namespace: str, begun: float) -> _Trial:
        trial = self._known[shape] = _Trial(namespace, begun)
        self._line.setdefault(namespace, {})[shape] = None
        heapq.heappush(self._ends, (begun + _WAIT_S, shape))
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return trial

    def _urge(self, shape: str, trial: _Trial) -> None:
        if not trial.pending:
            self._urgent[shape] = None
            trial.pending = True

    def _first(self) -> str | None:
        """The next in line, taken out of it."""
        if self._urgent:
            shape = next(iter(self._urgent))
            del self._urgent[shape]
            return shape
        if not self._line:
            return None
        namespace, shapes = next(iter(self._line.items()))
        shape = next(iter(shapes))
        del self._line[namespace], shapes[shape]
        if shapes:
            self._line[namespace] = shapes
        return shape

    def _stop(self, now: float) -> tuple[GroupKey, ...]:
        """Pods cannot be tried. All workloads go on by the template."""
        self._unavailable_until, self._answers = now + _AGAIN_S, False
        waiting = dict.fromkeys(key for trial in self._known.values() for key in trial.wanted)
        self._known = {shape: one for shape, one in self._known.items() if one.verdict is Verdict.PASSED}
        self._urgent.clear()
        self._line.clear()
        self._ends.clear()
        return tuple(waiting)


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
    def cause(self) -> Creating:
        """Why another job waits."""
        return Creating(self.awaited, round(self.rate))

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
        if self.due is None or now >= self.due:
            self._refused.clear()
            self._refused_at = now
        self._refused[key] = None

    @property
    def due(self) -> float | None:
        """The instant at which those who were refused are looked at again, if there are any."""
        if not self._refused:
            return None
        return self._refused_at + min(_MOST_PAUSE_S, max(_PAUSE_S, _EACH_S * len(self._refused)))

    def rests_until(self, key: GroupKey) -> float:
        """Return the instant at which a workload that was refused is looked at again."""
        return self.due if key in self._refused and self.due is not None else 0.0


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

    @property
    def any(self) -> bool:
        """Whether anything is remembered."""
        return bool(self._jobs or self._of)

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
