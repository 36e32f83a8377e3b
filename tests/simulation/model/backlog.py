"""kube-scheduler's queue: which pod is tried next, which backs off, which is parked, and what wakes it."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import count
from typing import assert_never

from policies.model import Node, Pod
from policies.placement.matching import admits
from tests.simulation.model import plugins
from tests.simulation.model.cache import DEVICES, FACTS, FIT, SHAPE, VOLUMES

EXTENDER = "Extender"
"""The rejector's name when the extender has refused a node that the plug-ins would have taken."""


@dataclass(frozen=True, slots=True)
class PodCame:
    """A pod was bound, or a bound one has changed, if not ``new``."""

    pod: Pod
    new: bool


@dataclass(frozen=True, slots=True)
class PodWent:
    """Room was given back: by a bound pod, or by the promise to one that only pods up to ``priority`` respect."""

    pod: Pod
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class NodeCame:
    """A node is new, or has changed."""

    node: Node
    before: Node | None


@dataclass(frozen=True, slots=True)
class NodeWent:
    """A node is no more."""

    node: Node


@dataclass(frozen=True, slots=True)
class OwnChange:
    """The waiting pod itself has changed. ``relabelled``: its labels, which no spread here means."""

    relabelled: bool = False


@dataclass(frozen=True, slots=True)
class Activated:
    """The event of a requested retry of this pod, without a change of the cluster."""


@dataclass(frozen=True, slots=True)
class StorageChanged:
    """The event of a change of volumes or claims."""


@dataclass(frozen=True, slots=True)
class DevicesChanged:
    """The event of a change of devices or of their claims."""


ClusterEvent = PodCame | PodWent | NodeCame | NodeWent | OwnChange | Activated | StorageChanged | DevicesChanged


class Place(Enum):
    GATED = auto()
    PARKED = auto()
    BACKING_OFF = auto()
    FAILED = auto()
    """Backing off after an error, which nothing shortens."""
    ACTIVE = auto()
    FLYING = auto()
    """In a scheduling cycle, or in a binding cycle after it."""


@dataclass(slots=True)
class Queued:
    """A pod in the queue.

    ``rejectors``: the plugins that refused it last.
    ``events``: the events during its cycle.
    """

    pod: Pod
    place: Place = Place.FLYING
    ticket: int = 0
    refusals: int = 0
    errors: int = 0
    rejectors: tuple[str, ...] = ()
    ready_at: float = 0.0
    events: list[ClusterEvent] = field(default_factory=list)


class Backlog:
    """The queue.

    Backoff doubles from ``first_s`` to ``longest_s``. Parked pods are never flushed: nothing may depend on it.
    ``admits``: whether a pod without gates may be tried at all (PreEnqueue).
    """

    def __init__(
        self, now: Callable[[], float], admits: Callable[[Pod], bool], first_s: float = 1.0, longest_s: float = 10.0
    ) -> None:
        self.pods: dict[str, Queued] = {}
        self._now = now
        self._admits = admits
        self._first_s = first_s
        self._longest_s = longest_s
        self._tickets = count(1)
        self._parked: dict[str, Queued] = {}
        self._flying: Queued | None = None
        # Heaps keep entries of pods that have moved on since: their tickets tell.
        self._active: list[tuple[float, int, Queued]] = []
        self._backing_off: list[tuple[float, int, Queued]] = []
        self._failed: list[tuple[float, int, Queued]] = []

    def add(self, pod: Pod) -> None:
        """A pod without a node is new or has changed."""
        queued = self.pods.get(pod.uid)
        if queued is None:
            queued = self.pods[pod.uid] = Queued(pod)
            return self._move(queued, Place.ACTIVE if self._may_enter(pod) else Place.GATED)
        change = OwnChange(relabelled=queued.pod.labels != pod.labels)
        queued.pod = pod
        if queued.place is Place.GATED and self._may_enter(pod):
            self._move(queued, Place.ACTIVE)
        elif queued.place is Place.FLYING:
            queued.events.append(change)
        elif queued.place is Place.PARKED:
            self._wake(queued, change)
        return None

    def remove(self, uid: str) -> None:
        queued = self.pods.pop(uid, None)
        if queued is not None:
            self._move(queued, Place.FLYING)
            if self._flying is queued:
                self._flying = None

    def pop(self) -> Queued | None:
        """The next pod to try. With no active pod, pods that back off after a refusal are tried early."""
        self._flush()
        for heap in (self._active, self._backing_off):
            while heap:
                _, ticket, queued = heapq.heappop(heap)
                if queued.ticket == ticket:
                    self._move(queued, Place.FLYING)
                    queued.events.clear()
                    self._flying = queued
                    return queued
        return None

    def refused(self, queued: Queued, rejectors: tuple[str, ...]) -> None:
        """Park the pod, whose cycle has found no node, unless an event meanwhile may help it."""
        self._flying = None
        queued.refusals += 1
        queued.errors = 0
        queued.rejectors = rejectors
        self._back_off(queued, queued.refusals)
        if not rejectors:
            self._move(queued, Place.FAILED)
        elif any(_helps(event, queued) for event in queued.events):
            self._move(queued, Place.BACKING_OFF)
        else:
            self._move(queued, Place.PARKED)

    def failed(self, queued: Queued) -> None:
        """Record an error of the pod's cycle or bind: it is tried again after its backoff, whatever happens."""
        if self._flying is queued:
            self._flying = None
        self.pods[queued.pod.uid] = queued
        queued.errors += 1
        self._back_off(queued, queued.errors)
        self._move(queued, Place.FAILED)

    def tell(self, event: ClusterEvent) -> None:
        """Wake every parked pod that this may help."""
        if self._flying is not None:
            self._flying.events.append(event)
        for queued in list(self.pods.values()) if isinstance(event, DevicesChanged) else ():
            if queued.place is Place.GATED and self._may_enter(queued.pod):
                self._move(queued, Place.ACTIVE)
        for queued in list(self._parked.values()):
            self._wake(queued, event)

    def activate(self, uid: str) -> None:
        """Try it at once, or once more when its cycle has ended."""
        queued = self.pods.get(uid)
        if queued is None:
            return
        if queued.place is Place.FLYING:
            queued.events.append(Activated())
        elif queued.place in (Place.PARKED, Place.BACKING_OFF, Place.FAILED):
            self._move(queued, Place.ACTIVE)

    def next_ready(self) -> float | None:
        """When to try ``pop`` again if it finds no pod now; None if only an event can help."""
        while self._failed and self._failed[0][2].ticket != self._failed[0][1]:
            heapq.heappop(self._failed)
        return self._failed[0][0] if self._failed else None

    def _may_enter(self, pod: Pod) -> bool:
        return not pod.gates and self._admits(pod)

    def _wake(self, queued: Queued, event: ClusterEvent) -> None:
        if _helps(event, queued):
            self._move(queued, Place.BACKING_OFF if self._now() < queued.ready_at else Place.ACTIVE)

    def _flush(self) -> None:
        """Make the pods active whose backoff has ended."""
        now = self._now()
        for heap in (self._backing_off, self._failed):
            while heap and heap[0][0] <= now:
                _, ticket, queued = heapq.heappop(heap)
                if queued.ticket == ticket:
                    self._move(queued, Place.ACTIVE)

    def _back_off(self, queued: Queued, times: int) -> None:
        # Backoffs end at whole seconds, when kube-scheduler looks.
        queued.ready_at = math.ceil(self._now() + min(self._first_s * 2 ** min(times - 1, 30), self._longest_s))

    def _move(self, queued: Queued, place: Place) -> None:
        if queued.place is Place.PARKED:
            self._parked.pop(queued.pod.uid, None)
        queued.place = place
        queued.ticket = next(self._tickets)
        match place:
            case Place.PARKED:
                self._parked[queued.pod.uid] = queued
            case Place.ACTIVE:
                heapq.heappush(self._active, (-queued.pod.priority, queued.ticket, queued))
            case Place.BACKING_OFF:
                heapq.heappush(self._backing_off, (queued.ready_at, queued.ticket, queued))
            case Place.FAILED:
                heapq.heappush(self._failed, (queued.ready_at, queued.ticket, queued))
            case _:
                pass


def _helps(event: ClusterEvent, queued: Queued) -> bool:
    """Whether the event may help the pod.

    The queueing hint of its rejector decides; for the extender every event may.
    """
    pod, rejectors = queued.pod, queued.rejectors
    match event:
        case PodCame(other, new):
            known = EXTENDER in rejectors or FACTS in rejectors
            return known or (new and any(plugins.helped_by_coming(rejector, pod, other) for rejector in rejectors))
        case PodWent(other, priority):
            within = priority is None or pod.priority <= priority
            return within and any(_helped_by_going(rejector, pod, other) for rejector in rejectors)
        case NodeCame(node, before):
            return EXTENDER in rejectors or FACTS in rejectors or _node_helps(pod, node, before, rejectors)
        case NodeWent(node):
            return any(plugins.helped_by_node_going(rejector, pod, node) for rejector in rejectors)
        case OwnChange(relabelled):
            return EXTENDER in rejectors or (relabelled and plugins.NEAR in rejectors)
        case StorageChanged():
            return EXTENDER in rejectors or VOLUMES in rejectors
        case DevicesChanged():
            return EXTENDER in rejectors or DEVICES in rejectors
        case Activated():
            return True
        case _:
            assert_never(event)


def _helped_by_going(rejector: str, pod: Pod, other: Pod) -> bool:
    if rejector in plugins.PLUGINS:
        return plugins.helped_by_going(rejector, pod, other)
    return rejector != SHAPE


def _node_helps(pod: Pod, node: Node, before: Node | None, rejectors: tuple[str, ...]) -> bool:
    if SHAPE in rejectors and admits(node, pod.selection) and (before is None or not admits(before, pod.selection)):
        return True
    if any(plugins.helped_by_node(rejector, pod, node, before) for rejector in rejectors):
        return True
    if FIT not in rejectors:
        return False
    room, had = dict(node.allocatable), dict(before.allocatable) if before else {}
    fits = all(amount <= room.get(name, 0) for name, amount in pod.requests)
    return fits and any(room.get(name, 0) > had.get(name, 0) for name, _ in pod.requests)
