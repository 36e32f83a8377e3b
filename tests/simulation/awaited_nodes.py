"""The referee's own book of jobs and gangs that start without a plan: their quota, and their deadlines.

Each waits for nodes exactly until its deadline. The referee recognizes such a gang by gates that come off without a
promise. A change around such a gang may end its wait, and ends it here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from extender.core.answers import JobWritten, Outcome
from extender.core.effects import Effect, Milestone, Reached, Report, StartJob, Ungate
from extender.core.events import Event, GroupGone, GroupSeen, JobGone, JobSeen, QueueGone, QueueSeen, Synced
from policies.model import GroupKey, Job, Pod, PodSet, Toleration
from policies.model.queues import ResourceFlavor
from tests.simulation.queue_plan import FLAVOR, MADE
from tests.simulation.shown import Shown
from tests.simulation.sight import slot, tolerates, tolerating

_SLOW_S = 5.0
"""A new leader has this long to plan a late job, and so has every plan once there are nodes."""
_EARLY_S = 1.0
"""The deadline is written in whole seconds."""

Tolerated = Mapping[str, tuple[Toleration, ...]]
"""The tolerations of pods for their flavors, by series."""


@dataclass(frozen=True, slots=True)
class Awaiting:
    """A job without a plan.

    ``job``: the job at its start, with its flavors.
    ``until``: its deadline.
    ``since``: when this life knew it.
    ``shown``: whether the watch shows it.
    ``sure``: whether this life knew it before it gave quota to any other workload.
    """

    job: Job
    until: float
    since: float
    shown: bool
    sure: bool = True


class JobsAwaitingNodes:
    """The jobs without a plan in one life of the extender."""

    def __init__(self) -> None:
        self.of: dict[GroupKey, Awaiting] = {}
        self._queues_changed_at = float("-inf")
        self._synced = False
        self._flavor = ResourceFlavor(MADE)
        """The flavor whose nodes are made, as it was seen last: tolerations that were written for it outlast it."""
        self._rests: dict[GroupKey, tuple[str, float]] = {}
        """The jobs that state a pause on themselves: their UID, and its end."""
        self._roomy: dict[GroupKey, float] = {}
        """The jobs for which there are nodes, and since when."""

    def hear(self, event: Event, now: float) -> None:
        match event:
            case JobSeen(job):
                self._seen(job, now)
            case JobGone(key, uid) if key in self.of and self.of[key].job.uid == uid:
                del self.of[key]
            case JobWritten(key, uid, outcome) if key in self.of and self.of[key].job.uid == uid:
                self._written(key, outcome)
            case QueueSeen(ResourceFlavor(name=name) as flavor) if name == MADE:
                self._flavor, self._queues_changed_at = flavor, now
            case QueueSeen() | QueueGone():
                self._queues_changed_at = now
            case Synced():
                self._synced = True
                self.of = {key: replace(awaiting, since=now) for key, awaiting in self.of.items()}
            case _:
                pass

    def _seen(self, job: Job, now: float) -> None:
        self._rests.pop(job.key, None)  # it has been started since
        if job.in_vain is not None:
            self._rests[job.key] = job.uid, job.in_vain.until
        known = self.of.get(job.key)
        if job.node_wait is None or job.suspended or job.finished or not job.managed:
            shown_already = known is not None and (
                known.shown or job.marked or not job.suspended or job.uid != known.job.uid
            )
            if shown_already:  # until then its start is yet to be shown
                del self.of[job.key]
        elif known is None or known.job.uid != job.uid or known.until != job.node_wait.until:
            self.of[job.key] = Awaiting(job, job.node_wait.until, now, shown=True, sure=not self._synced)
        else:
            self.of[job.key] = replace(known, shown=True)

    def _written(self, key: GroupKey, outcome: Outcome) -> None:
        if not self.of[key].shown and outcome in (Outcome.REFUSED, Outcome.UNSENT):
            del self.of[key]
        elif not self.of[key].shown and outcome is Outcome.UNKNOWN:
            self.of[key] = replace(self.of[key], sure=False)

    def tolerated(self, job: Job) -> Tolerated:
        """The tolerations that the flavors of a running job add to its pods."""
        made = (series for series, chosen in (job.flavors or {}).items() if MADE in chosen.values())
        return dict.fromkeys(made, self._flavor.tolerations)

    def start(self, effect: StartJob, now: float) -> str | None:
        """The fault of the job's start: without nodes, or with nodes after that."""
        key, node_wait = effect.job.key, effect.node_wait
        if node_wait is None:
            self.of.pop(key, None)
            return None
        self.of[key] = Awaiting(replace(effect.job, flavors=effect.flavors), node_wait.until, now, shown=False)
        uid, until = self._rests.get(key, ("", 0.0))
        if uid == effect.job.uid and now < until - _EARLY_S:
            return f"{key} is to be let go at {now:.1f} s, and rests until {until:.1f} s"
        if effect.plan:
            return f"{key} is to be let go, and with a plan: {effect.plan}"
        if MADE not in {name for by_resource in effect.flavors.values() for name in by_resource.values()}:
            return f"{key} is to be let go, and none of its flavors is made on demand: {effect.flavors}"
        if effect.awaits_s < node_wait.until - now - _EARLY_S:
            return f"{key} is to be let go until {node_wait.until:.1f} s, and is told to wait {effect.awaits_s:.1f} s"
        for podset in effect.job.podsets.podsets:
            chosen = set(effect.flavors.get(podset.name, {}).values())
            selector = dict(podset.template.selection.node_selector) | dict(effect.labels.get(podset.name, ()))
            own = tolerating(podset.template.selection, effect.tolerations.get(podset.name, ()))
            if MADE in chosen and not (selector.get(FLAVOR) == MADE and tolerates(own, self._flavor.taints)):
                return f"{key} is to be let go, and no autoscaler would make nodes of {MADE} for {podset.name!r}"
        return None

    def judge_suspension(self, key: GroupKey, job: Job, now: float) -> str | None:
        """The complaint about a job without a plan that is suspended without a cause."""
        awaiting = self.of.get(key)
        if awaiting is None or now >= awaiting.until - _EARLY_S or self._queues_changed_at >= awaiting.since:
            return None
        if job.held or _asked(job) != _asked(awaiting.job):
            return None
        return f"{key} is to be suspended at {now:.1f} s, and awaits its nodes until {awaiting.until:.1f} s"

    def late(self, waiting: Mapping[GroupKey, float], now: float) -> str | None:
        """``waiting``: those of which nothing is asked for just now, and until when each may be left alone."""
        for key, awaiting in self.of.items():
            due = max(awaiting.until, awaiting.since + _SLOW_S, waiting.get(key, 0.0)) + _SLOW_S
            if awaiting.shown and not awaiting.job.bare and key in waiting and now > due:
                return f"{key} awaits nodes, and that it did so until {awaiting.until:.1f} s only"
        return None

    def roomy(self, fitting: set[GroupKey], now: float) -> str | None:
        """The complaint about late plans. ``fitting``: the jobs for which there are nodes."""
        self._roomy = {key: self._roomy.get(key, now) for key in fitting}
        late = next((key for key, since in self._roomy.items() if now - since > _SLOW_S), None)
        return f"{late} awaits nodes, and there have been some for {_SLOW_S} s" if late is not None else None


def on_flavor(podset: PodSet, job: Job) -> Pod:
    """The template of its pods. In a job without a plan it has the labels of its flavor's nodes."""
    own, chosen = podset.template.selection, [*(job.flavors or {}).get(podset.name, {}).values()]
    if not chosen or job.node_wait is None or job.suspended:
        return podset.template
    selector = dict(own.node_selector) | {FLAVOR: chosen[0]}
    return replace(podset.template, selection=replace(own, node_selector=tuple(selector.items())))


def pods_of(job: Job, tolerated: Tolerated) -> list[Pod]:
    """The pods that have to start together, with the labels of their flavors' nodes."""
    return [pod for podset in job.podsets.podsets for pod in islice(_on_flavor(job, podset, tolerated), podset.minimum)]


def _on_flavor(job: Job, podset: PodSet, tolerated: Tolerated) -> Iterator[Pod]:
    chosen = [*(job.flavors or {}).get(podset.name, {}).values()]
    labels = {FLAVOR: chosen[0]} if chosen else {}
    for pod in podset.pods():
        selector = tuple((dict(pod.selection.node_selector) | labels).items())
        own = tolerating(pod.selection, tolerated.get(podset.name, ()))
        yield replace(pod, selection=replace(own, node_selector=selector))


def _asked(job: Job) -> object:
    return job.queue, job.podsets


_WITH_A_PLAN = (Milestone.PLANNED, Milestone.RELEASED, Milestone.STARTED)
"""A running gang waits for nodes no longer. Later members are planned without a milestone."""


class GangsAwaitingNodes:
    """The gangs without a plan in one life of the extender.

    ``within_s``: how long they await nodes; 0: no gang does.
    """

    def __init__(self, shown: Shown, within_s: float) -> None:
        self._shown = shown
        self._within_s = within_s
        self._until: dict[GroupKey, float] = {}
        self._as_it_was: dict[GroupKey, object] = {}
        self._planned: set[GroupKey] = set()
        self._free: dict[GroupKey, set[str]] = {}

    def hear(self, event: Event) -> None:
        match event:
            case QueueSeen() | QueueGone() | Synced():
                self._until.clear()
            case GroupSeen(group):
                self._until.pop(group.key, None)
            case GroupGone(key):
                self._until.pop(key, None)
            case _:
                pass

    def watch(self, effects: Iterable[Effect], jobs: Mapping[GroupKey, object], now: float) -> list[GroupKey]:
        """The gangs that these effects of one event ungate without a plan."""
        unplanned: dict[GroupKey, set[str]] = {}
        for effect in effects:
            match effect:
                case Reached(milestone=Milestone.UNRESERVED):
                    pass  # it has a plan, or continues to wait
                case Reached(key, milestone):
                    self._until.pop(key, None)
                    self._planned.discard(key)
                    if milestone in _WITH_A_PLAN:
                        self._planned.add(key)
                case Report(key, code=code) if code != "AwaitingNodes":
                    self._until.pop(key, None)
                case Ungate(uid, pin=(), group=GroupKey() as key) if self._within_s and key not in jobs:
                    unplanned.setdefault(key, set()).add(uid)
        if unplanned:
            self._planned = {key for key in self._planned if self._members(key)}
        newly_awaiting = [
            key for key in unplanned if not (key in self._planned or key in self._until or self._is_repeated(key))
        ]
        for key in newly_awaiting:
            self._until[key], self._as_it_was[key] = now + self._within_s, self._seen(key)
            self._free[key] = unplanned[key] | {pod.uid for pod in self._members(key) if not pod.gates}
        return newly_awaiting

    def _is_repeated(self, key: GroupKey) -> bool:
        """Whether gates of this gang came off before. A write that failed may be sent again, long after the gang began
        to await nodes: until when it awaits them is not known."""
        return any(pod.uid in self._free.get(key, ()) for pod in self._members(key))

    def pods(self, now: float) -> Iterator[Pod]:
        """All that have quota of the flavor that is made. Of two pods of one index one has."""
        for key, until in self._until.items():
            if now < until and self._as_it_was[key] == self._seen(key):
                free = (pod for pod in self._members(key) if pod.uid in self._free[key])
                slots = {slot(pod): pod for pod in free}
                yield from (pod for pod in slots.values() if dict(pod.selection.node_selector).get(FLAVOR) == MADE)

    def _members(self, key: GroupKey) -> list[Pod]:
        return list(self._shown.members.get(key, {}).values())

    def _seen(self, key: GroupKey) -> object:
        """The facts of the gang's pods, without the fields that kube-scheduler and the gate change."""
        return {
            pod.uid: (pod.queue, pod.requests, pod.selection, pod.priority, pod.group, pod.live, pod.node)
            for pod in self._members(key)
        }
