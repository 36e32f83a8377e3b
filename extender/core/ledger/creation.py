"""Pods of jobs before they exist: tried by dry runs, awaited, or refused.

A trial is the dry-run creation of one pod of a new shape. The core asks for at most five trials a second, and uses the
template where no answer comes. Fields that admission adds to the pod are learnt as from a real one. A refusal is the
reason why the jobs of that shape wait. It is tried again after a minute, or after 15 s if a ResourceQuota is used up or
a webhook does not answer.

kube-controller-manager makes the pods of all admitted jobs. By default it sends 20 requests a second, so four gangs of
512 take 100 s to exist.

Where a ResourceQuota, a missing ServiceAccount or an admission policy refuses the pods of a job, the job is planned
after all others and evicts no other workload. Other jobs of its namespace go after those of other namespaces, and hold
room for less long while others wait. With the same or a higher priority they evict no other workload either.
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
"""Time between two trials."""
TRIAL_S = 1.0
"""Time for the answers of trials before a job is suspended whose pods were not created in time."""
_WAIT_S = 2.0
"""Time for which a job is not planned while its pods are to be tried."""
_AGAIN_S = 60.0
_SOON_AGAIN_S = 15.0
_TAKEN_UP_S = 0.5
"""Time that the API server may take to see a change of a namespace that Muster has seen."""
_FRESH_S = 30.0
"""Age of a trial above which it is repeated before a victim is evicted for the workload."""
_REMEMBERED = 10_000
_LASTING = (Verdict.REFUSED, Verdict.NOT_NOW)


@dataclass(slots=True)
class _Trial:
    """The trial of one shape.

    ``wanted``: the workloads that wait for the answer.
    ``begun``: when the trial was first asked for.
    ``verdict``: the last answer; None before the first one.
    ``at``: when the last answer came.
    ``again``: from when on the trial is to be repeated.
    ``pending``: whether the trial is queued, or asked for and not answered.
    """

    namespace: str
    begun: float
    wanted: dict[GroupKey, None] = field(default_factory=dict)
    verdict: Verdict | None = None
    detail: str = ""
    at: float = -math.inf
    again: float = math.inf
    pending: bool = True


class Trials:
    """The trials by shape.

    ``enabled``: whether the settings allow trials. Whether the API server answers them, the first answer shows.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._known: dict[str, _Trial] = {}
        self._urgent: dict[str, None] = {}
        """Shapes of workloads that may evict victims once they have the answer."""
        self._line: dict[str, dict[str, None]] = {}
        """Shapes by namespace. Each namespace gets its turn, however many shapes it has."""
        self._ends: list[tuple[float, str]] = []
        self._next = self._quiet_until = -math.inf
        self._unavailable_until = -math.inf
        self._answers = True
        """Whether the last trial was answered. If not, no workload waits for a trial."""

    def learn(self, known: Trials) -> None:
        """Take over every answer that another core has had."""
        answered = {shape: trial for shape, trial in known._known.items() if trial.verdict is not None}
        self._known |= {shape: replace(trial, wanted={}, pending=False) for shape, trial in answered.items()}

    @property
    def idle(self) -> bool:
        """Whether no trial is to be asked for and none is awaited."""
        return not (self._urgent or self._line or self._ends)

    def why_unplannable(
        self, key: GroupKey, podsets: PodSets, now: float, *, planned: bool, recovered: bool
    ) -> PodsRefused | Trying | None:
        """Why the workload is not planned: the API server refuses its pods, or their trial is open. None if it may be.

        Begins a trial for each shape without one.

        ``planned``: the workload has nodes already, so it does not wait for a trial.
        ``recovered``: whether the core has recovered. A trial asked for before delays no workload: another one would
        get the room that is kept for it, or its turn.
        """
        why: Trying | None = None
        refused: PodsRefused | None = None
        for shape, trial in self._shapes(key, podsets, now, recovered=recovered):
            if trial.verdict is None or trial.verdict in _LASTING or now >= trial.again:
                trial.wanted[key] = None
            if trial.verdict is None or now >= trial.again:
                self._urge(shape, trial)
            if trial.verdict in _LASTING and refused is None:
                refused = PodsRefused(trial.detail)
            if trial.verdict is None and now < trial.begun + _WAIT_S and self._answers and not planned:
                why = Trying()
        return refused or why

    def why_untried(self, key: GroupKey, podsets: PodSets, now: float) -> Untried | None:
        """Why no victim may be evicted for the workload now; None if victims may be. Old trials of its shapes are
        repeated."""
        pending = None
        for shape, trial in self._shapes(key, podsets, now):
            if trial.verdict in _LASTING:
                trial.wanted[key] = None
                return Untried(trial.detail)
            if self._repeat_older(key, shape, trial, now - _FRESH_S):
                pending = Untried("")
        return pending

    def try_again(self, key: GroupKey, podsets: PodSets, now: float) -> bool:
        """Repeat the trials of the workload's shapes at once, but for those just answered: its pods were not created
        in time.

        The others may use up a ResourceQuota until they are deleted. Returns whether a trial is repeated.
        """
        since = now - 2 * TRIAL_S
        repeated = [
            shape for shape, trial in self._shapes(key, podsets, now) if self._repeat_older(key, shape, trial, since)
        ]
        return bool(repeated)

    def due(self, now: float) -> Iterator[tuple[str, tuple[GroupKey, ...]]]:
        """Yield the shapes to be tried now, each with the workloads that wait for it.

        The caller calls ``drop_shape`` for a shape that no workload has any more.
        """
        while now >= self._next and (shape := self._first()) is not None:
            trial = self._known.get(shape)
            if trial is None:
                continue
            self._next = now + _TRIAL_EACH_S
            yield shape, tuple(trial.wanted)

    def drop_shape(self, shape: str) -> None:
        """Forget the shape, and make the next one due at once."""
        self._known.pop(shape, None)
        self._next = -math.inf

    def answered(self, shape: str, verdict: Verdict, detail: str, now: float) -> tuple[GroupKey, ...]:
        """Record the answer of a trial. Returns the workloads that waited for it."""
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
        """The workloads that have waited for their first answer for long enough.

        Repeats trials that are due and that a workload waits for. A refusal is valid until the next answer.
        """
        keys: list[GroupKey] = []
        while self._ends and self._ends[0][0] <= now:
            _, shape = heapq.heappop(self._ends)
            if (trial := self._known.get(shape)) is None:
                continue
            if trial.verdict is None:
                keys += trial.wanted
            elif now >= trial.again and trial.wanted:
                self._urge(shape, trial)
        return keys

    def namespace_changed(self, namespace: str, now: float) -> None:
        """Repeat the trials of the namespace: admission may depend on its labels. A refusal is valid until the next
        answer."""
        there = [shape for shape, trial in self._known.items() if trial.namespace == namespace]
        if there and now >= self._quiet_until:
            self._quiet_until = now + _TAKEN_UP_S
            self._next = max(self._next, self._quiet_until)
        for shape in there:
            trial = self._known[shape]
            if trial.verdict in _LASTING:
                self._urge(shape, trial)
            elif not trial.pending:
                del self._known[shape]

    def next_end(self) -> float | None:
        """When the next trial is to be asked for, or its answer is no longer waited for."""
        instants = [self._next] if self._urgent or self._line else []
        instants += [self._ends[0][0]] if self._ends else []
        return min(instants, default=None)

    def _shapes(
        self, key: GroupKey, podsets: PodSets, now: float, *, recovered: bool = True
    ) -> Iterator[tuple[str, _Trial]]:
        if not self._enabled or now < self._unavailable_until:
            return
        for shape in dict.fromkeys(podset.shape for podset in podsets.podsets if podset.shape and podset.size):
            trial = self._known.get(shape) or self._begin(shape, key.namespace, now if recovered else now - _WAIT_S)
            yield shape, trial

    def _begin(self, shape: str, namespace: str, begun: float) -> _Trial:
        trial = self._known[shape] = _Trial(namespace, begun)
        self._line.setdefault(namespace, {})[shape] = None
        heapq.heappush(self._ends, (begun + _WAIT_S, shape))
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return trial

    def _repeat_older(self, key: GroupKey, shape: str, trial: _Trial, since: float) -> bool:
        """Repeat the trial for the workload unless it was answered after that instant. Returns whether it is
        repeated."""
        if trial.at > since:
            return False
        trial.wanted[key] = None
        self._urge(shape, trial)
        return True

    def _urge(self, shape: str, trial: _Trial) -> None:
        if not trial.pending:
            self._urgent[shape] = None
            trial.pending = True

    def _first(self) -> str | None:
        """Take the next shape out of the queue and return it."""
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
        """Stop trials for a minute: pods cannot be tried. Returns all workloads that waited, which are planned by the
        template."""
        self._unavailable_until, self._answers = now + _AGAIN_S, False
        waiting = dict.fromkeys(key for trial in self._known.values() for key in trial.wanted)
        self._known = {shape: trial for shape, trial in self._known.items() if trial.verdict is Verdict.PASSED}
        self._urgent.clear()
        self._line.clear()
        self._ends.clear()
        return tuple(waiting)


DEFAULT_RATE = 20.0
"""Pods a second, until a rate has been observed."""
_WINDOW_S = 5.0
_SLOWEST, _FASTEST = 1.0, 10_000.0
_GAP_S = 2.0
"""A gap between two pods that says nothing about the rate: no job had pods to create."""
_QUIET_S = 10.0
"""Time without any new pod after which awaited pods are taken not to be created, so that no other job waits for
them."""
_PAUSE_S, _MOST_PAUSE_S = 1.0, 5.0
"""Shortest and longest time until refused workloads are considered again."""
_EACH_S = 1e-3
"""Time until then for each refused workload, so that thousands of them cost a few percent of the time at most."""


@dataclass(frozen=True, slots=True)
class _First:
    """The workload that was refused first.

    ``since``: when it was refused first.
    ``last_at``: when it asked last.
    """

    key: GroupKey
    since: float
    last_at: float


class Creation:
    """The pods of admitted jobs that are being created, and the rate at which they come.

    ``awaited``: how many pods of admitted jobs have yet to come.
    ``rate``: pods a second, as observed.

    A job whose pods are refused, by a ResourceQuota for example, delays others for a limited time.
    """

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

    def wait_for(self, key: GroupKey, pods: int, now: float, *, may_never_come: bool = False) -> None:
        """Expect that many more pods of the workload. ``may_never_come``: then no other job waits for them."""
        if self._stuck.get(key) == pods:
            return
        self._stuck.pop(key, None)
        before = self._of.pop(key, 0)
        if may_never_come and pods:
            self._stuck[key], pods = pods, 0
        self.awaited += pods - before
        if pods:
            self._of[key] = pods
        if pods > before:
            self._moved = now
        if not self.awaited:
            self._began = None

    def forget(self, key: GroupKey) -> None:
        """Expect no more pods of the workload."""
        self.wait_for(key, 0, self._moved)

    def stop_waiting(self, namespace: str) -> None:
        """Stop other jobs from waiting for the awaited pods of a namespace: they may never come."""
        for key in [key for key in self._of if key.namespace == namespace]:
            self._stuck[key] = pods = self._of.pop(key)
            self.awaited -= pods
        if not self.awaited:
            self._began = None

    def others_may_never_come(self, key: GroupKey) -> bool:
        """Whether another workload awaits pods that may never come."""
        return any(other != key for other in self._stuck)

    def count_created(self, now: float) -> None:
        """Record that an awaited pod was created."""
        if self._began is None or now - self._came_at > _GAP_S:
            self._began, self._came = now, 0
        self._came_at = self._moved = now
        self._came += 1
        if now - self._began >= _WINDOW_S:
            # The latest window has half of the weight.
            observed = self._came / (now - self._began)
            self.rate = min(_FASTEST, max(_SLOWEST, (self.rate + observed) / 2))
            self._began, self._came = now, 0

    @property
    def cause(self) -> Creating:
        """Why another job waits."""
        return Creating(self.awaited, round(self.rate))

    def takes_s(self) -> float:
        """Seconds until all awaited pods are there, at the observed rate."""
        return self.awaited / self.rate

    def allows(self, key: GroupKey, pods: int, now: float, most_s: float) -> bool:
        """Whether a workload with that many pods may start now: its pods would be there within ``most_s`` seconds.

        A job too large for that starts when no other pods are awaited. Nothing overtakes a job that was refused for
        longer than ``most_s``.
        """
        if self.awaited and now - self._moved > _QUIET_S:
            self._stuck |= self._of
            self._of.clear()
            self.awaited, self._began = 0, None
        first = self._first
        if first is not None and now - first.last_at > most_s + _MOST_PAUSE_S:
            first = None  # it waits for something else, or is gone
        passes_by = first is not None and first.key != key and now - first.since > most_s
        if not passes_by and (not self.awaited or (self.awaited + pods) / self.rate <= most_s):
            self._first = None if first is None or first.key == key else first
            return True
        if first is None or first.key == key:
            self._first = _First(key, now if first is None else first.since, now)
        self.refuse(key, now)
        return False

    def refuse(self, key: GroupKey, now: float) -> None:
        """Have the workload considered again after a pause."""
        if self.due is None or now >= self.due:
            self._refused.clear()
            self._refused_at = now
        self._refused[key] = None

    @property
    def due(self) -> float | None:
        """The instant at which refused workloads are considered again; None if there are none."""
        if not self._refused:
            return None
        return self._refused_at + min(_MOST_PAUSE_S, max(_PAUSE_S, _EACH_S * len(self._refused)))

    def rests_until(self, key: GroupKey) -> float:
        """Return the instant at which a refused workload is considered again; 0 if it was not refused."""
        return self.due if key in self._refused and self.due is not None else 0.0


PROBATION_S = 5.0
"""Seconds for the next pod of a started job of a namespace with failed creations, while other jobs wait."""
_REMEMBERED_S = 600.0
_MOST = 1_000
"""Namespaces that are remembered, at most."""


@dataclass(frozen=True, slots=True)
class _Failure:
    """The failed creations of a namespace.

    ``until``: when they are forgotten.
    ``cured``: whether all pods of some job of the namespace were created since.
    ``priorities``: of the failed jobs, unless all pods of a job with the same or a higher priority were created since.
    A ResourceQuota may allow one PriorityClass and refuse another.
    """

    until: float
    cured: bool = False
    priorities: tuple[int, ...] = ()


class FailedCreation:
    """The jobs and namespaces whose pods were not created.

    A job is remembered until all of its pods come, its author edits it, or it is deleted. A namespace is remembered for
    ten minutes after a job there had the full time for its pods, and they did not come. A job that had less time does
    not extend that, so a slow controller gets the full time again.
    """

    def __init__(self) -> None:
        self._jobs: dict[GroupKey, None] = {}
        self._of: dict[str, _Failure] = {}

    def fail(self, key: GroupKey, priority: int, now: float, *, in_full: bool, job: bool = True) -> bool:
        """Record that pods of a workload were not created in time.

        ``job``: whether it is a job that may be started again.
        ``in_full``: whether it had the full time for its pods.

        A job that has failed before is planned last, so with the full time no other job waited. Its failure then says
        nothing about the namespace. Returns whether the jobs of the namespace go after others from now on, and did not
        before.
        """
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

    def learn(self, known: FailedCreation) -> None:
        """Take over every failure that another core has seen."""
        self._jobs |= known._jobs
        self._of |= known._of

    def cure(self, key: GroupKey, priority: int) -> bool:
        """Record that all pods of a workload were created.

        Returns whether that changes what jobs of the namespace may do: go in their normal order, or evict victims.
        """
        self.forget(key)
        namespace = key.namespace
        before = self._of.get(namespace)
        if before is None:
            return False
        still = tuple(other for other in before.priorities if other > priority)
        self._of[namespace] = after = _Failure(before.until, cured=True, priorities=still)
        return after != before

    def forget(self, key: GroupKey) -> None:
        """Forget that pods of the job were not created: it is gone, or its author has changed it."""
        self._jobs.pop(key, None)

    def namespace_gone(self, namespace: str) -> None:
        """Forget a namespace that was deleted, and with it the reason why pods were not created."""
        self._of.pop(namespace, None)

    def has_failed(self, key: GroupKey) -> bool:
        """Return whether pods of this job were not created at its last start."""
        return key in self._jobs

    def go_last(self, namespace: str) -> bool:
        """Whether the jobs of the namespace are planned after those of other namespaces."""
        failure = self._of.get(namespace)
        return failure is not None and not failure.cured

    def may_evict(self, namespace: str, priority: int) -> bool:
        """Whether victims may be evicted for a job of the namespace that has no pods yet."""
        failure = self._of.get(namespace)
        return failure is None or all(priority < other for other in failure.priorities)

    def on_probation(self, namespace: str) -> bool:
        """Whether the jobs of the namespace hold room for less long while others wait."""
        return namespace in self._of

    def lapse(self, now: float) -> Iterator[str]:
        """Forget namespaces whose time is over. Yields those whose jobs are less restricted from now on."""
        for namespace, failure in [item for item in self._of.items() if now >= item[1].until]:
            del self._of[namespace]
            if not failure.cured or failure.priorities:
                yield namespace
