"""The queue objects as last seen, and which ClusterQueue a LocalQueue leads to, or why nothing is admitted there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from extender.core.events import NamespaceGone, NamespaceSeen, QueueGone, QueueSeen
from extender.core.reasons import Reason
from policies.model import Labels
from policies.model.constraints import selects
from policies.model.queues import ClusterQueue, Cohort, LocalQueue, QueueObject, ResourceFlavor, Stop, TopologyObject
from policies.quota.tree import QuotaTree

ObjectKey = tuple[str, str, str]
"""Kind, namespace (empty for a kind that has none) and name."""
_REMEMBERED = 10_000
"""Routes that are kept: workloads may name anything."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a workload that names a LocalQueue belongs. ``queue``: the ClusterQueue, or empty where none can be told.
    ``why``: what keeps it from being admitted there. ``drained``: what runs is to stop, for that reason."""

    queue: str
    why: Reason | None = None
    drained: str = ""


@dataclass(slots=True)
class Picture:
    """All objects as one decision sees them: it is made anew when some of them have changed. ``said``: each with what
    was said of it, also while it is gone already. ``problems``: why a ClusterQueue admits nothing, by its name."""

    queues: Mapping[str, ClusterQueue] = field(default_factory=dict)
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    locals: Mapping[tuple[str, str], LocalQueue] = field(default_factory=dict)
    cohorts: Mapping[str, Cohort] = field(default_factory=dict)
    tree: QuotaTree = field(default_factory=lambda: QuotaTree(()))
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    said: dict[ObjectKey, QueueSeen] = field(default_factory=dict)


def key_of(thing: QueueObject) -> ObjectKey:
    namespace = thing.namespace if isinstance(thing, LocalQueue) else ""
    return type(thing).__name__, namespace, thing.name


class Queues:
    """``seen``: the objects, each with its problems and warnings. ``stale``: they have changed since ``redraw``."""

    def __init__(self) -> None:
        self.seen: dict[ObjectKey, QueueSeen] = {}
        self.namespaces: dict[str, Labels] = {}
        self.stale = False
        self.picture = Picture()
        self._routes: dict[tuple[str, str], Route] = {}
        self._relabelled = False
        """Whether the labels of a namespace have changed since ``redraw``."""

    @property
    def in_force(self) -> bool:
        """Where nobody has made a queue, naming one says nothing about quota."""
        return bool(self.picture.queues or self.picture.locals)

    def note(self, event: QueueSeen | QueueGone | NamespaceSeen | NamespaceGone, _now: float) -> None:
        """An object was made, changed or deleted."""
        match event:
            case QueueSeen(thing):
                self.stale |= self.seen.get(key_of(thing)) != event
                self.seen[key_of(thing)] = event
            case QueueGone(thing):
                self.stale |= self.seen.pop(key_of(thing), None) is not None
            case NamespaceSeen(name, labels):
                self._relabelled |= self.namespaces.get(name) != labels
                self.stale |= self._relabelled and bool(self.seen)
                self.namespaces[name] = labels
            case NamespaceGone(name):
                self.namespaces.pop(name, None)

    def redraw(self) -> Mapping[str, None] | None:
        """Take all that was noted into account. Returns the ClusterQueues of the trees that are others by that, those
        that are gone included; None if more than ClusterQueues and Cohorts has changed."""
        things = [event.object for event in self.seen.values()]
        flavors = {one.name: one for one in things if isinstance(one, ResourceFlavor)}
        queues = {one.name: one for one in things if isinstance(one, ClusterQueue)}
        cohorts = {one.name: one for one in things if isinstance(one, Cohort)}
        locals_ = {(one.namespace, one.name): one for one in things if isinstance(one, LocalQueue)}
        tree = QuotaTree(queues.values(), cohorts.values())
        problems = {
            name: found
            for name, one in queues.items()
            if (found := (*self.seen[key_of(one)].problems, *self._of_flavors(one, flavors), *self._above(one, tree)))
        }
        former, in_force = self.picture, self.in_force
        self.picture = Picture(queues, flavors, locals_, cohorts, tree, problems, dict(self.seen))
        others = None if self._relabelled or in_force is not self.in_force else _others(former, self.picture)
        self._routes.clear()
        self.stale = self._relabelled = False
        return others

    def route(self, namespace: str, name: str) -> Route:
        """Of a workload of that namespace that names that LocalQueue."""
        known = self._routes.get((namespace, name))
        if known is None:
            if len(self._routes) >= _REMEMBERED:
                self._routes.clear()
            known = self._routes[namespace, name] = self._find(namespace, name)
        return known

    def local(self, namespace: str, name: str) -> LocalQueue | None:
        return self.picture.locals.get((namespace, name))

    def _find(self, namespace: str, name: str) -> Route:
        local = self.local(namespace, name)
        if local is None:
            return Route("", Reason("QueueMissing", f"there is no LocalQueue {name} in namespace {namespace}"))
        queue = self.picture.queues.get(local.queue)
        if queue is None:
            text = f"LocalQueue {name} points to ClusterQueue {local.queue or 'of no name'}, which does not exist"
            return Route("", Reason("QueueMissing", text))
        where = f"ClusterQueue {queue.name}"
        said_of_local = self.picture.said[key_of(local)].problems
        for what, said in ((f"LocalQueue {name}", said_of_local), (where, self.picture.problems.get(queue.name))):
            if said:
                return Route(queue.name, Reason("QueueInactive", f"{what} cannot be used: {said[0]}"))
        for what, stop in ((f"LocalQueue {name}", local.stop), (where, queue.stop)):
            if stop is not Stop.NONE:
                drained = f"{what} is stopped (HoldAndDrain)" if stop is Stop.DRAIN else ""
                return Route(queue.name, Reason("QueueStopped", f"{what} is stopped (stopPolicy {stop})"), drained)
        if not selects(queue.namespaces, dict(self.namespaces.get(namespace, ()))):
            text = f"the namespaceSelector of {where} does not select namespace {namespace}"
            return Route(queue.name, Reason("QueueInactive", text))
        return Route(queue.name)

    def _of_flavors(self, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> Iterator[str]:
        """What is wrong with the flavors that it names: there is none, or no Topology of the name that it says."""
        for name in dict.fromkeys(name for group in queue.groups for name, _ in group.flavors):
            if (flavor := flavors.get(name)) is None:
                yield f"there is no ResourceFlavor {name}"
            elif flavor.topology:
                topology = self.seen.get((TopologyObject.__name__, "", flavor.topology))
                if topology is None:
                    yield f"there is no Topology {flavor.topology}, which ResourceFlavor {name} names"
                else:
                    yield from (f"Topology {flavor.topology}: {text}" for text in topology.problems)

    def _above(self, queue: ClusterQueue, tree: QuotaTree) -> tuple[str, ...]:
        """What is wrong with the cohorts that it is in."""
        if queue.name in tree.problems:
            return (tree.problems[queue.name],)
        above = [node.name for node in tree.queues[queue.name].path()][1:]
        events = [(name, self.seen.get((Cohort.__name__, "", name))) for name in above]
        return tuple(f"Cohort {name}: {text}" for name, event in events if event for text in event.problems)


def _others(former: Picture, now: Picture) -> dict[str, None] | None:
    """As ``Queues.redraw`` returns it."""
    changed = [key for key in (former.said | now.said) if former.said.get(key) != now.said.get(key)]
    queues, cohorts = ({name for kind, _, name in changed if kind == of.__name__} for of in (ClusterQueue, Cohort))
    if len(queues) + len(cohorts) < len(changed) or former.tree.problems or now.tree.problems:
        return None
    found = dict.fromkeys(queues)
    for tree in (former.tree, now.tree):
        for name, node in tree.queues.items():
            if name in queues or (cohorts and any(at.is_cohort and at.name in cohorts for at in node.path())):
                found |= dict.fromkeys(tree.below(tree.root_of(name)))
    return found
