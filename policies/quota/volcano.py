"""Volcano's Queues as cohorts and ClusterQueues: one tree, in which they share the amounts of all nodes.

Their meaning is that of Volcano's plugins ``proportion`` and ``capacity`` (``pkg/scheduler/plugins`` at ed72c7c).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    Evicts,
    Preemption,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Stop,
    VolcanoQueue,
)
from policies.words import listed

FLAVOR = ResourceFlavor(f"{VOLCANO}nodes")
"""The single flavor, which stands for all nodes."""
_ROOT = "root"
"""Volcano's name of the queue that contains all others."""
_ALWAYS = ("cpu", "memory")
_RULES = Preemption(within=Evicts.LOWER, reclaim=Evicts.ANY)


def from_volcano(queues: Iterable[VolcanoQueue], total: Mapping[str, int]) -> list[ClusterQueue | Cohort]:
    """Convert Volcano's Queues.

    A queue with children becomes a cohort. ``root`` is a cohort even if no such object exists. Queues that are
    ``misplaced`` become children of ``root``.

    ``total``: the sum of all nodes, by resource.
    """
    volcano_queues = {queue.name: queue for queue in queues}
    wrong = misplaced(volcano_queues.values())
    root = volcano_queues.pop(_ROOT, VolcanoQueue(_ROOT))
    below: dict[str, list[VolcanoQueue]] = {}
    for name, volcano_queue in sorted(volcano_queues.items()):
        below.setdefault(_ROOT if name in wrong else volcano_queue.parent or _ROOT, []).append(volcano_queue)
    return list(_Tree(below, _resources([root, *volcano_queues.values()], total), total).objects(root))


def misplaced(queues: Iterable[VolcanoQueue]) -> dict[str, str]:
    """Explain for each queue with an invalid parent why it is invalid."""
    parents = {queue.name: queue.parent or _ROOT for queue in queues if queue.name != _ROOT}
    problems: dict[str, str] = {}
    for name in parents:
        way = [name]
        while (above := parents.get(way[-1], _ROOT)) != _ROOT and above not in way and above in parents:
            way.append(above)
        if above in way:
            problems[name] = f"its parents are below each other: {listed(sorted(way[way.index(above) :]))}"
        elif parents[name] not in (_ROOT, *parents):
            problems[name] = f"there is no Queue {parents[name]}, which is its parent"
    return problems


def _resources(queues: Iterable[VolcanoQueue], total: Mapping[str, int]) -> tuple[str, ...]:
    """The resources that are counted: all that queues name, devices, cpu and memory."""
    declared = {name for queue in queues for of in (queue.capability, queue.deserved, queue.guarantee) for name in of}
    return tuple(sorted({*_ALWAYS, *declared, *(name for name in total if "/" in name)}))


@dataclass(frozen=True, slots=True)
class _Has:
    """The amount of one resource that a queue has together with its children.

    ``lent``: the part that other queues may use while it is free.
    ``reserved``: the part that no other queue may use.
    """

    lent: int = 0
    reserved: int = 0


class _Tree:
    """The tree of Volcano's Queues. ``below``: the children of each queue, by its name."""

    def __init__(
        self, below: Mapping[str, Sequence[VolcanoQueue]], resources: Sequence[str], total: Mapping[str, int]
    ) -> None:
        self._below = below
        self._resources = resources
        self._total = total

    def objects(self, root: VolcanoQueue) -> Iterator[ClusterQueue | Cohort]:
        quotas = {name: self._of_root(root, name) for name in self._resources}
        yield Cohort(_named(root), groups=_groups(quotas))
        yield from self._within(root)

    def _within(self, above: VolcanoQueue) -> Iterator[ClusterQueue | Cohort]:
        for queue in self._below.get(above.name, ()):
            quotas = {name: self._quota(queue, name)[0] for name in self._resources}
            if queue.name in self._below:
                yield Cohort(_named(queue), _named(above), _groups(quotas), queue.weight)
                yield from self._within(queue)
            else:
                yield ClusterQueue(
                    _named(queue),
                    groups=_groups(quotas),
                    cohort=_named(above),
                    weight=queue.weight,
                    namespaces=(),
                    stop=Stop.HOLD if queue.closed else Stop.NONE,
                    preemption=_RULES,
                    reclaimable=queue.reclaimable,
                    open=True,
                    priority=queue.priority,
                )

    def _quota(self, queue: VolcanoQueue, name: str) -> tuple[Quota, _Has]:
        """The quota of a queue for one resource, and the amounts that it and its children have.

        Nominal quota is the deserved amount minus that of the children. Amounts that the children keep are not in it.
        """
        others = self._sum(queue, name)
        most, deserved = queue.capability.get(name), queue.deserved.get(name)
        reserved, own = max(queue.guarantee.get(name, 0), others.reserved), self._own(queue, name)
        whole = max(reserved, own if most is None else min(own, most))
        own = max(0, whole - others.reserved - others.lent)
        subtree, local = own + others.lent, reserved - others.reserved
        quota = Quota(
            own,
            borrowing=None if most is None else most - others.reserved - subtree,
            lending=subtree - local if local else None,
            deserved=None if deserved is None else whole - others.reserved,
        )
        return quota, _Has(subtree - local, reserved)

    def _own(self, queue: VolcanoQueue, name: str) -> int:
        """The deserved amount of a queue; if the queue sets amounts for other resources alone, the total."""
        speaks = (queue.deserved or queue.guarantee) and name not in queue.guarantee
        return queue.deserved.get(name, self._total.get(name, 0) if speaks else 0)

    def _of_root(self, root: VolcanoQueue, name: str) -> Quota:
        """The quota of ``root``: the amount that belongs to no queue; negative where queues have more than there is.

        It is a hard limit only if some queue has a guarantee. Otherwise the nodes limit use already, and nodes that are
        gone would look like a lack of quota.
        """
        most, has, total = root.capability.get(name), self._sum(root, name), self._total.get(name, 0)
        there = total if most is None else min(most, total)
        return Quota(there - has.reserved - has.lent, soft=most is None and not has.reserved)

    def _sum(self, above: VolcanoQueue, name: str) -> _Has:
        quotas = [self._quota(volcano_queue, name)[1] for volcano_queue in self._below.get(above.name, ())]
        return _Has(sum(quota.lent for quota in quotas), sum(quota.reserved for quota in quotas))


def _named(queue: VolcanoQueue) -> str:
    return f"{VOLCANO}{queue.name}"


def _groups(quotas: Mapping[str, Quota]) -> tuple[ResourceGroup, ...]:
    return (ResourceGroup(tuple(quotas), ((FLAVOR.name, quotas),)),)
