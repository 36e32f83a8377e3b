"""The queue objects of a replay: the queues of its jobs, and the part of the GPUs that each ClusterQueue is entitled
to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from extender.core.events import Event, NamespaceSeen, QueueSeen
from extender.core.explain.reasons import text_of
from extender.core.ledger.queues import ObjectKey, Queues, key_of
from extender.core.ledger.store import Namespaces
from extender.simulation.replay.arrivals import Arrival
from extender.simulation.replay.shape import GPU, InputError
from policies.model import Node
from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    LocalQueue,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    VolcanoQueue,
)
from policies.quota.proportion import Deserved
from policies.quota.tree import UNLIMITED, QuotaNode

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label by which a namespaceSelector can choose a namespace by its name."""


TITLES = {"TopologyObject": "Topology", "VolcanoQueue": "Queue"}
"""Kinds whose name differs from that of their class."""
COHORT, FLAVOR = "trace", "default"
NOBODY = Preemption()


@dataclass(frozen=True, slots=True)
class Stake:
    """The GPUs of a ClusterQueue.

    ``nominal``: its quota; for a Queue of Volcano, what it deserves while all queues ask for more than there is.
    ``most``: what it can use with everything that it may borrow.
    """

    nominal: int
    most: int


@dataclass(frozen=True, slots=True)
class Partition:
    """ClusterQueues that lend each other quota, or one without a cohort: they share ``gpus``."""

    gpus: int
    stakes: Mapping[str, Stake]


def remarks(seen: Iterable[QueueSeen]) -> dict[ObjectKey, list[str]]:
    """The problems of each object, and the warnings about what its author may not have meant."""
    queues = Queues()
    for queue_seen in seen:
        queues.note(queue_seen, 0.0)
    queues.rebuild()
    remarks_by_key: dict[ObjectKey, list[str]] = {}
    for key, event in queues.seen.items():
        queue_seen, name = queues.snapshot.events.get(key, event), key[2]
        problems = queues.snapshot.problems.get(name, ()) if isinstance(queue_seen.object, ClusterQueue) else ()
        title = f"{TITLES.get(key[0], key[0])} {'/'.join(filter(None, key[1:]))}"
        remarks_by_key[key] = [
            f"{title} cannot be used: {text}" for text in dict.fromkeys((*queue_seen.problems, *problems))
        ]
        remarks_by_key[key] += [f"warning: {title}: {text}" for text in queue_seen.warnings]
    return remarks_by_key


@dataclass(slots=True)
class Queueing:
    """The queue objects of a replay. ``seen``: their events. Without any, quota does not count."""

    seen: Sequence[QueueSeen] = ()
    _namespaces: Namespaces = field(default_factory=Namespaces)
    _queues: Queues = field(init=False)

    def __post_init__(self) -> None:
        self._queues = Queues(self._namespaces)

    def named(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """The jobs with complete queue names. A name that is no LocalQueue of the namespace is Volcano's, if there is
        one."""
        things = [queue_seen.object for queue_seen in self.seen]
        locals_ = {(thing.namespace, thing.name) for thing in things if isinstance(thing, LocalQueue)}
        volcanos = {thing.name for thing in things if isinstance(thing, VolcanoQueue)}
        return [
            replace(arrival, queue=f"{VOLCANO}{arrival.queue}")
            if arrival.queue in volcanos and (arrival.namespace, arrival.queue) not in locals_
            else arrival
            for arrival in arrivals
        ]

    def check(self, arrivals: Iterable[Arrival], nodes: Sequence[Node]) -> None:
        """Check the objects; call this first. Raises InputError for a job whose queue cannot admit it, for two objects
        of one name, and for a flavor without nodes."""
        if not self.seen:
            return
        names: set[object] = set()
        for queue_seen in self.seen:
            if (key := key_of(queue_seen.object)) in names:
                raise InputError(f"two objects are {' '.join(filter(None, key))}")
            names.add(key)
        arrivals = list(arrivals)
        for event in self.facts(arrivals):
            match event:
                case QueueSeen():
                    self._queues.note(event, 0.0)
                case NamespaceSeen():
                    self._namespaces.note(event)
        for node in nodes:
            self._queues.count_node(node.name, node.allocatable)
        self._queues.rebuild()
        for job in arrivals:
            if job.queue and (why := self._queues.route(job.namespace, job.queue).why) is not None:
                raise InputError(f"job {job.name}: {text_of(why)}")
        self._check_flavors(nodes)

    def facts(self, arrivals: Iterable[Arrival]) -> list[Event]:
        """The events that the core sees before it begins."""
        if not self.seen:
            return []
        namespaces = dict.fromkeys(arrival.namespace for arrival in arrivals)
        return [*(NamespaceSeen(name, ((NAMESPACE_NAME, name),)) for name in namespaces), *self.seen]

    def queue_of(self, arrival: Arrival) -> str:
        """The job's ClusterQueue; empty for a job that names none."""
        return self._queues.route(arrival.namespace, arrival.queue).queue if arrival.queue and self.seen else ""

    def partitions(self) -> list[Partition]:
        """All ClusterQueues, in groups that share quota."""
        roots: dict[str, list[QuotaNode]] = {}
        tree = self._queues.snapshot.tree
        deserved = Deserved(tree, {name: {GPU: UNLIMITED} for name in tree.queues if name.startswith(VOLCANO)})
        for node in tree.queues.values():
            roots.setdefault(node.root.name if node.parent else f"/{node.name}", []).append(node)
        return [
            Partition(_gpus(quota_nodes[0].root), {node.name: _stake(node, deserved) for node in quota_nodes})
            for quota_nodes in roots.values()
        ]

    def _check_flavors(self, nodes: Sequence[Node]) -> None:
        snapshot = self._queues.snapshot
        used = {name for queue in snapshot.queues.values() for group in queue.groups for name, _ in group.flavors}
        for flavor in (snapshot.flavors[name] for name in sorted(used) if name in snapshot.flavors):
            if not any(flavor.node_labels.items() <= node.labels.items() for node in nodes):
                labels = ", ".join(f"{key}={value}" for key, value in flavor.node_labels.items())
                raise InputError(f"no node of the cluster has the labels of ResourceFlavor {flavor.name}: {labels}")


def _gpus(node: QuotaNode) -> int:
    return sum(amount for (_, resource), amount in node.subtree.items() if resource == GPU)


def _stake(node: QuotaNode, deserved: Deserved) -> Stake:
    nominal = sum(quota.nominal for (_, resource), quota in node.quotas.items() if resource == GPU)
    if node.name.startswith(VOLCANO):
        nominal = max(nominal, int(deserved(node, GPU)))
    return Stake(nominal, sum(node.potential(what, there=True) for what in node.root.subtree if what[1] == GPU))


def virtual_clusters(
    arrivals: Sequence[Arrival], gpus: int, borrowing: int | None, rules: Preemption = NOBODY
) -> list[QueueSeen]:
    """A ClusterQueue, and a LocalQueue of the same name, for each queue that the jobs name. Raises InputError.

    ``borrowing``: how many GPUs each queue may borrow; None: no limit.
    ``rules``: which jobs the jobs of each queue may evict.
    The weight for fair sharing is the nominal quota, so that lent GPUs are divided in the proportion of entitlements.
    """
    queue_seens = [QueueSeen(ResourceFlavor(FLAVOR))]
    for name, nominal in nominal_quotas(arrivals, gpus).items():
        group = ResourceGroup((GPU, "pods"), ((FLAVOR, {GPU: Quota(nominal, borrowing)}),))
        weight = Fraction(nominal)
        queue_seens.append(
            QueueSeen(ClusterQueue(name, (group,), COHORT, weight=weight, namespaces=(), preemption=rules))
        )
        queue_seens.append(QueueSeen(LocalQueue("default", name, name)))
    return queue_seens


def nominal_quotas(arrivals: Iterable[Arrival], gpus: int) -> dict[str, int]:
    """All GPUs, divided by the GPU time that the jobs of each queue ask for. Raises InputError.

    Each queue gets at least the GPUs of its largest job, so that every job could run on its own quota.
    """
    demanded: dict[str, float] = {}
    least: dict[str, int] = {}
    for arrival in arrivals:
        demanded[arrival.queue] = demanded.get(arrival.queue, 0.0) + arrival.all_gpus * arrival.run_s
        least[arrival.queue] = max(least.get(arrival.queue, 0), arrival.needed * arrival.gpus)
    if sum(least.values()) > gpus:
        raise InputError(
            f"the largest jobs of the {len(least)} virtual clusters need {sum(least.values()):,} GPUs together, "
            f"and the cluster has {gpus:,}"
        )
    shared = sorted(demanded)
    quotas = dict(least)
    while True:
        left = gpus - sum(quotas[name] for name in demanded if name not in shared)
        total = sum(demanded[name] for name in shared)
        small = [name for name in shared if demanded[name] * left < least[name] * total]
        if not small:
            break
        shared = [name for name in shared if name not in small]
    exact = {name: demanded[name] * left / total for name in shared}
    quotas |= {name: int(amount) for name, amount in exact.items()}
    by_rest = sorted(shared, key=lambda name: (quotas[name] - exact[name], name))
    for name in by_rest[: gpus - sum(quotas.values())]:
        quotas[name] += 1
    return dict(sorted(quotas.items()))
