"""Trials: dry-run creations of one pod of a shape that is new, which tell what the API server makes of it.

The core asks, at most five times a second, and goes on by the template where no answer comes. Additions to the pod are
learnt as from a real one. A refusal is the reason why its jobs wait. It is tried again after a minute, or after 15 s if
a ResourceQuota is used up, or a webhook does not answer.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from extender.core.answers import Verdict
from extender.core.reasons import Reason
from policies.model import GroupKey, PodSets

_EACH_S = 0.2
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
TRYING = Reason("Trying", "the API server is asked by a dry run what it makes of its pods", warning=False)
_FIRST = "nobody is evicted for it before the API server has been asked about its pods"
_REMEDIES = (
    ("there is a pod muster-trial", "delete that pod"),
    ("PodSecurity", "change its pod template, or the pod-security labels of its namespace"),
    ("service account", "create the ServiceAccount, or name another one in its pod template"),
    ("usage per", "ask for what the LimitRanges of its namespace allow"),
    ("exceeded quota", "it is tried again when other pods of its namespace may have ended; or raise the quota"),
    ("failed quota", "say in its pod template what the ResourceQuota counts, or have a LimitRange say it"),
    ("tolerations", "take the toleration out of its pod template, or let the namespace have it"),
    ("calling webhook", "the webhook has to answer, or to be taken out"),
)
_KEPT = (Verdict.REFUSED, Verdict.NOT_NOW)
_REMEDY = "change its pod template, or what refuses it"


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

    @property
    def idle(self) -> bool:
        """Whether there is nothing to ask for, and nothing to wait for."""
        return not (self._urgent or self._line or self._ends)

    def keeps(self, key: GroupKey, podsets: PodSets, now: float, *, planned: bool, recovered: bool) -> Reason | None:
        """Why the workload is not planned: the API server refuses its pods, or is being asked. Asks where nobody has.
        ``planned``: it has nodes already, so it is not held up by a question. Nor does it wait for one that is asked
        before the core has ``recovered``: another workload would get the room that is kept for it, or its turn.
        """
        why, refused = None, None
        for shape, trial in self._shapes(key, podsets, now, recovered=recovered):
            if trial.verdict is None or trial.verdict in _KEPT or now >= trial.again:
                trial.wanted[key] = None
            if trial.verdict is None or now >= trial.again:
                self._urge(shape, trial)
            if trial.verdict in _KEPT and refused is None:
                refused = _refused(trial.detail)
            if trial.verdict is None and now < trial.begun + _WAIT_S and self._answers and not planned:
                why = TRYING
        return refused or why

    def spares(self, key: GroupKey, podsets: PodSets, now: float) -> str:
        """Why nobody is evicted for the workload now; empty if others may be. Its pods are tried for it once more if
        that was long ago."""
        pending = ""
        for shape, trial in self._shapes(key, podsets, now):
            if trial.verdict in _KEPT:
                trial.wanted[key] = None
                return f"nobody is evicted for it, because the API server would refuse its pods: {trial.detail}"
            if trial.verdict is not None and now < trial.at + _FRESH_S:
                continue
            trial.wanted[key] = None
            self._urge(shape, trial)
            pending = _FIRST
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
            self._next = now + _EACH_S
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


def _refused(detail: str) -> Reason:
    remedy = next((text for word, text in _REMEDIES if word in detail), _REMEDY)
    return Reason("PodsRefused", f"the API server refuses its pods: {detail}; {remedy}")
