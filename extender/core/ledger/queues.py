"""The queue objects as last seen, the ClusterQueue of each LocalQueue, and why it admits nothing.

All objects are read as one consistent snapshot, which is built again before a cycle if some have changed. Workloads
that wait in a tree without changes keep their reasons. Volcano's Queues become ClusterQueues and Cohorts, which
workloads name without a LocalQueue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from extender.core.causes import Missing, QueueInactive, QueueMissing, QueueStopped, Unusable
from extender.core.events import QueueGone, QueueSeen
from extender.core.ledger.store import Namespaces
from policies.model import Requests
from policies.model.constraints import selects
from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueObject,
    Quota,
    ResourceFlavor,
    Stop,
    TopologyObject,
    VolcanoQueue,
    title_of,
)
from policies.quota.tree import QuotaTree
from policies.quota.volcano import FLAVOR, from_volcano, misplaced

ObjectKey = tuple[str, str, str]
"""Kind, namespace (empty for a kind that has none) and name."""
_REMEMBERED = 10_000
"""Routes that are cached, at most: workloads may name any queue."""
_NOTHING = Quota(0)


class RunLimit(NamedTuple):
    """The longest run that a queue allows."""

    seconds: float
    queue: str


@dataclass(frozen=True, slots=True)
class Route:
    """The queue of a workload that names a LocalQueue.

    ``queue``: the ClusterQueue; empty if there is none.
    ``why``: why it admits nothing.
    ``drained``: why running workloads have to stop; empty if they go on.
    ``limit``: the longest run that the queues allow.
    """

    queue: str
    why: QueueMissing | QueueInactive | QueueStopped | None = None
    drained: str = ""
    limit: RunLimit | None = None


@dataclass(slots=True)
class QueueSnapshot:
    """All queue objects, as one decision sees them; built again when some have changed.

    ``problems``: why a ClusterQueue admits nothing, by its name.
    ``events``: the last event about each object, even if it was deleted since.
    ``in_force``: whether there are queues of Kueue, and of Volcano.
    """

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    locals: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    tree: QuotaTree = field(default_factory=lambda: QuotaTree(()))
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: dict[ObjectKey, QueueSeen] = field(default_factory=dict)
    in_force: tuple[bool, bool] = (False, False)


class QueueDiff(NamedTuple):
    """The difference between two snapshots.

    ``others``: the ClusterQueues of changed trees, deleted ones included; None if more than ClusterQueues and Cohorts
    changed.
    ``only_amounts_changed``: whether only amounts changed, so that no workload uses more or less.
    """

    others: Mapping[str, None] | None
    only_amounts_changed: bool


def key_of(thing: QueueObject) -> ObjectKey:
    namespace = thing.namespace if isinstance(thing, LocalQueue) else ""
    return type(thing).__name__, namespace, thing.name


class Queues:
    """The queue objects.

    ``seen``: the last event about each object, with its problems and warnings.
    ``total``: the allocatable amounts of all nodes, which Volcano's Queues share.
    ``stale``: whether something has changed since ``rebuild``; the total counts only where it is shared.
    ``builds``: how often the snapshot was built.
    """

    def __init__(self, namespaces: Namespaces | None = None) -> None:
        self.seen: dict[ObjectKey, QueueSeen] = {}
        self._namespaces = namespaces or Namespaces()
        self.total = Counter[str]()
        self._of_nodes: dict[str, Requests] = {}
        """The allocatable amounts of each node."""
        self.stale = False
        self.builds = 0
        self.snapshot = QueueSnapshot()
        self._routes: dict[tuple[str, str], Route] = {}
        self._relabelled = False
        """Whether the labels of a namespace have changed since ``rebuild``."""

    def in_force(self, name: str) -> bool:
        """Whether queues like this one exist, of Kueue or of Volcano. If none does, the name says nothing about
        quota."""
        return self.snapshot.in_force[name.startswith(VOLCANO)]

    def count_node(self, name: str, allocatable: Requests) -> None:
        """Count the allocatable amounts of a node that was added or changed. Of a deleted node there are none."""
        before = self._of_nodes.pop(name, ())
        if allocatable:
            self._of_nodes[name] = allocatable
        if before == allocatable:
            return
        for resource, amount in before:
            self.total[resource] -= amount
        for resource, amount in allocatable:
            self.total[resource] += amount
        self.stale |= self.snapshot.in_force[1]

    def relabelled(self) -> None:
        """Note that the labels of a namespace have changed."""
        self._relabelled = True
        self.stale |= bool(self.seen)

    def note(self, event: QueueSeen | QueueGone, _now: float) -> None:
        """Record a queue object that was created, changed or deleted."""
        match event:
            case QueueSeen(thing):
                self.stale |= self.seen.get(key_of(thing)) != event
                self.seen[key_of(thing)] = event
            case QueueGone(thing):
                self.stale |= self.seen.pop(key_of(thing), None) is not None

    def rebuild(self) -> QueueDiff:
        """Build the snapshot from all recorded objects. Returns what has changed."""
        events = _drawn(self.seen, +self.total)
        things = [event.object for event in events.values()]
        flavors = {thing.name: thing for thing in things if isinstance(thing, ResourceFlavor)}
        queues = {thing.name: thing for thing in things if isinstance(thing, ClusterQueue)}
        cohorts = {thing.name: thing for thing in things if isinstance(thing, Cohort)}
        locals_ = {(thing.namespace, thing.name): thing for thing in things if isinstance(thing, LocalQueue)}
        tree = QuotaTree(queues.values(), cohorts.values())
        faults = {
            name: (*events[key_of(queue)].problems, *self._of_flavors(queue, flavors), *_above(queue, tree, events))
            for name, queue in queues.items()
        }
        problems = {name: texts for name, texts in faults.items() if texts}
        of_volcano = FLAVOR.name in flavors
        in_force = bool(locals_) or any(not name.startswith(VOLCANO) for name in queues), of_volcano
        former = self.snapshot
        self.snapshot = QueueSnapshot(queues, flavors, locals_, cohorts, tree, problems, events, in_force)
        changed = [key for key in (former.events | events) if former.events.get(key) != events.get(key)]
        others = None if self._relabelled or former.in_force != in_force else _others(former, self.snapshot, changed)
        self._routes.clear()
        self.builds += 1
        self.stale = self._relabelled = False
        only_amounts = others is not None and all(_only_amounts_differ(former, self.snapshot, key) for key in changed)
        return QueueDiff(others, only_amounts)

    def tried(
        self, things: Sequence[QueueObject], more: Mapping[str, int]
    ) -> tuple[QuotaTree, Mapping[str, ClusterQueue]]:
        """Return the quota tree and its ClusterQueues with these objects added, and with the usage of now.

        ``more``: amounts of nodes in addition to those there are.
        """
        total = self.total + Counter(more)
        events = _drawn(self.seen | {key_of(thing): QueueSeen(thing) for thing in things}, total)
        queues = {thing.name: thing for event in events.values() if isinstance(thing := event.object, ClusterQueue)}
        cohorts = [thing for event in events.values() if isinstance(thing := event.object, Cohort)]
        tree = QuotaTree(queues.values(), cohorts)
        for name, node in self.snapshot.tree.queues.items():
            if name in tree.queues:
                tree.use(name, node.used)
        return tree, queues

    def route(self, namespace: str, name: str) -> Route:
        """The route of a workload of the namespace that names the LocalQueue."""
        known = self._routes.get((namespace, name))
        if known is None:
            if len(self._routes) >= _REMEMBERED:
                self._routes.clear()
            known = self._routes[namespace, name] = self._limited(self._find(namespace, name), namespace, name)
        return known

    def local(self, namespace: str, name: str) -> LocalQueue | None:
        return self.snapshot.locals.get((namespace, name))

    def is_unclear(self, queue: ClusterQueue) -> bool:
        """Whether the ClusterQueue contradicts itself, so that its borrowing cannot be determined."""
        return self.snapshot.events[key_of(queue)].unclear

    def _limited(self, route: Route, namespace: str, name: str) -> Route:
        local, queue = self.local(namespace, name), self.snapshot.queues.get(route.queue)
        titled = (local, f"LocalQueue {name}"), (queue, title_of(route.queue))
        limits = [
            RunLimit(holder.max_run_s, title) for holder, title in titled if holder and holder.max_run_s is not None
        ]
        return replace(route, limit=min(limits)) if limits else route

    def _find(self, namespace: str, name: str) -> Route:
        if name.startswith(VOLCANO):
            return self._find_volcanos(name)
        local = self.local(namespace, name)
        if local is None:
            return Route("", QueueMissing(Missing.LOCAL, name, namespace))
        queue = self.snapshot.queues.get(local.queue)
        if queue is None:
            return Route("", QueueMissing(Missing.CLUSTER, name, local.queue))
        where = f"ClusterQueue {queue.name}"
        local_faults = self.snapshot.events[key_of(local)].problems
        for what, faults in ((f"LocalQueue {name}", local_faults), (where, self.snapshot.problems.get(queue.name))):
            if faults:
                return Route(queue.name, QueueInactive(what, Unusable.BROKEN, faults[0]))
        for what, stop in ((f"LocalQueue {name}", local.stop), (where, queue.stop)):
            if stop is not Stop.NONE:
                drained = f"{what} is stopped (HoldAndDrain)" if stop is Stop.DRAIN else ""
                return Route(queue.name, QueueStopped(what, str(stop)), drained)
        if not selects(queue.namespaces, dict(self._namespaces.labels.get(namespace, ()))):
            return Route(queue.name, QueueInactive(where, Unusable.NOT_SELECTED, namespace))
        return Route(queue.name)

    def _find_volcanos(self, name: str) -> Route:
        title, queue = title_of(name), self.snapshot.queues.get(name)
        if queue is None and name in self.snapshot.cohorts:
            return Route("", QueueInactive(title, Unusable.PARENT))
        if queue is None:
            return Route("", QueueMissing(Missing.VOLCANO, title))
        if faults := self.snapshot.problems.get(name):
            return Route(name, QueueInactive(title, Unusable.BROKEN, faults[0]))
        return Route(name, None if queue.stop is Stop.NONE else QueueStopped(title))

    def _of_flavors(self, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> Iterator[str]:
        """Yield the faults of the flavors of the ClusterQueue: a missing ResourceFlavor, or a missing or faulty
        Topology."""
        for name in dict.fromkeys(name for group in queue.groups for name, _ in group.flavors):
            if (flavor := flavors.get(name)) is None:
                yield f"there is no ResourceFlavor {name}"
            elif flavor.topology:
                topology = self.seen.get((TopologyObject.__name__, "", flavor.topology))
                if topology is None:
                    yield f"there is no Topology {flavor.topology}, which ResourceFlavor {name} names"
                else:
                    yield from (f"Topology {flavor.topology}: {text}" for text in topology.problems)


def _drawn(seen: Mapping[ObjectKey, QueueSeen], total: Mapping[str, int]) -> dict[ObjectKey, QueueSeen]:
    """The events, with Volcano's Queues replaced by the ClusterQueues and Cohorts that stand for them."""
    events = {key: event for key, event in seen.items() if not isinstance(event.object, VolcanoQueue)}
    queues = {event.object.name: event.object for event in seen.values() if isinstance(event.object, VolcanoQueue)}
    wrong = misplaced(queues.values())
    for thing in (FLAVOR, *from_volcano(queues.values(), total)) if queues else ():
        name = thing.name.removeprefix(VOLCANO)
        event, why = seen.get((VolcanoQueue.__name__, "", name)), (wrong[name],) if name in wrong else ()
        problems, warnings = ((), ()) if event is None else (event.problems, event.warnings)
        events[key_of(thing)] = QueueSeen(thing, (*problems, *why), warnings)
    return events


def _above(queue: ClusterQueue, tree: QuotaTree, events: Mapping[ObjectKey, QueueSeen]) -> tuple[str, ...]:
    """Faults of the cohorts of the ClusterQueue."""
    if queue.name in tree.problems:
        return (tree.problems[queue.name],)
    above = [node.name for node in tree.queues[queue.name].path()][1:]
    cohorts = [(name, events.get((Cohort.__name__, "", name))) for name in above]
    return tuple(f"{_cohort(name)}: {text}" for name, event in cohorts if event for text in event.problems)


def _cohort(name: str) -> str:
    return title_of(name) if name.startswith(VOLCANO) else f"Cohort {name}"


def _others(former: QueueSnapshot, now: QueueSnapshot, changed: Sequence[ObjectKey]) -> dict[str, None] | None:
    """``QueueDiff.others`` for these changes."""
    queues, cohorts = (
        dict.fromkeys(name for kind, _, name in changed if kind == of.__name__) for of in (ClusterQueue, Cohort)
    )
    if len(queues) + len(cohorts) < len(changed) or former.tree.problems or now.tree.problems:
        return None
    others = dict(queues)
    for tree in (former.tree, now.tree):
        for name, node in tree.queues.items():
            if name in queues or (cohorts and any(at.is_cohort and at.name in cohorts for at in node.path())):
                others |= dict.fromkeys(tree.below(tree.root_of(name)))
    return others


def _only_amounts_differ(former: QueueSnapshot, now: QueueSnapshot, key: ObjectKey) -> bool:
    """Whether nothing but the amounts of the object has changed."""
    before, after = former.events.get(key), now.events.get(key)
    return before is not None and after is not None and _without_amounts(before) == _without_amounts(after)


def _without_amounts(event: QueueSeen) -> QueueSeen:
    thing = event.object
    if not isinstance(thing, ClusterQueue | Cohort):
        return event
    groups = tuple(
        replace(group, flavors=tuple((flavor, dict.fromkeys(quotas, _NOTHING)) for flavor, quotas in group.flavors))
        for group in thing.groups
    )
    return replace(event, object=replace(thing, groups=groups))
