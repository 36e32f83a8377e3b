"""What gangs ask of the planner, and what makes them alike to it: gangs of one shape fit or do not fit together.

Part of a shape is what the flavors that a workload was admitted with demand of the nodes of its pods.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.core.causes import Cause
from policies.model import Node, Pod, Requirement, Selection, SlotKey, Terms, Toleration
from policies.model.queues import ClusterQueue, ResourceFlavor
from policies.placement.request import Cap, MemberShape
from policies.quota.flavors import suits

Role = MemberShape


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Equal ones are one object: ``Demands`` sees to that.

    ``needed``: how many members have to be placed at once. ``roles``: how many there are of each. ``caps``: what
    kube-scheduler has refused. ``kept``: slots whose room is kept for replacements. ``tied``: what else matters
    where the topology has rules: the members' indexes, and where the others are; where other pods matter, the members'
    labels. ``related``: whether other pods matter. ``priority``: the workload's own, which decides who
    gives way to it, and its pods', which decides which pods of no gang have their room before it.
    """

    needed: int
    roles: tuple[tuple[Role, int], ...]
    caps: tuple[Cap, ...]
    kept: tuple[SlotKey, ...]
    tied: tuple[object, ...]
    related: bool = False
    priority: tuple[int, int] = 0, 0
    __weakref__: object = field(init=False, repr=False)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload asks of the planner: nodes for ``pods``, without a ``shape`` nothing. Right as of ``version``.

    ``pods``: those that stand for the slots without a node, in rank order, with what the PodGroup asks for. ``trouble``
    is what keeps it from being planned at all. ``flavors``: those that the pods are tried with, by what they demand of
    nodes; None for those that the workload has.
    """

    version: int
    trouble: Cause | None = None
    pods: tuple[Pod, ...] = ()
    shape: Shape | None = None
    flavors: Mapping[PartKey, Flavoring] | None = None

    def among(self, slots: Collection[SlotKey]) -> Demand:
        """The same for the pods that stand for these alone."""
        return replace(self, pods=tuple(pod for pod in self.pods if pod.identity in slots))


PartKey = object
"""Pods of a workload that get their flavors together: of a job those of one podset, by its name; of a gang of pods
those that ask for the same."""


def part_of(pod: Pod, *, of_job: bool) -> PartKey:
    return pod.series if of_job else (pod.requests, pod.selection)


@dataclass(frozen=True, slots=True)
class Flavoring:
    """Of one part. ``flavors``: by resource. ``labels``: what its nodes have; ``none_of``: label sets that they have
    not. ``tolerations``: what its pods get beside their own."""

    flavors: Mapping[str, str]
    labels: tuple[tuple[str, str], ...] = ()
    none_of: tuple[tuple[tuple[str, str], ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    _made: dict[Selection, Selection] = field(default_factory=dict, compare=False, repr=False)

    def confined(self, pod: Pod) -> Pod:
        """The pod, held to nodes of its flavors."""
        asked = pod.selection
        if (made := self._made.get(asked)) is None:
            made = self._made[asked] = self._confine(asked)
        return pod if made is asked else replace(pod, selection=made)

    def _confine(self, asked: Selection) -> Selection:
        """Like the node affinity of a volume: kube-scheduler does not see it in the pod, where a topology spread would
        count only the nodes that it asks for."""
        held: list[Terms] = [
            (tuple(Requirement(key, "In", (value,)) for key, value in self.labels),) if self.labels else ()
        ]
        held += [tuple((Requirement(key, "NotIn", (value,)),) for key, value in one) for one in self.none_of]
        more = tuple(terms for terms in held if terms and terms not in asked.flavors)
        tolerations = (*asked.tolerations, *(one for one in self.tolerations if one not in asked.tolerations))
        made = replace(asked, tolerations=tolerations, flavors=(*asked.flavors, *more))
        return asked if made == asked else made


def of_job(flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str]) -> Flavoring:
    """``chosen``: the flavor of each resource. A job carries its flavors, and what its pods tolerate for them."""
    some = _named(flavors, chosen)
    tolerations = dict.fromkeys(one for flavor in some for one in flavor.tolerations)
    return Flavoring(chosen, _labels(some), tolerations=tuple(tolerations))


def of_gang(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str]) -> Flavoring:
    """The flavor of a gang's pod is told from its node, which has that of the first flavor whose labels it has. Nobody
    writes tolerations on such pods."""
    before = [flavors[name] for one in chosen.values() for name in _before(queue, one) if name in flavors]
    none_of = dict.fromkeys(tuple(sorted(flavor.node_labels.items())) for flavor in before)
    return Flavoring(chosen, _labels(_named(flavors, chosen)), tuple(none_of))


def suit(flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str], selection: Selection) -> bool:
    """Whether pods that ask for such nodes could have these flavors."""
    return all(suits(flavor, selection) for flavor in _named(flavors, chosen))


def _named(flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str]) -> list[ResourceFlavor]:
    return [flavors[name] for name in dict.fromkeys(chosen.values()) if name in flavors]


def _labels(flavors: Sequence[ResourceFlavor]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(one for flavor in flavors for one in sorted(flavor.node_labels.items())))


def is_hidden(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], name: str) -> str:
    """The flavor before it in the queue whose nodes include all of its own, so that no pod of a gang is ever told to
    have it; empty if there is none."""
    own = flavors[name].node_labels.items()
    hiding = (one for one in _before(queue, name) if one in flavors and flavors[one].node_labels.items() <= own)
    return next(hiding, "")


def offered(queue: ClusterQueue, chosen: Mapping[str, str]) -> dict[str, str]:
    """The flavors that the queue has for these resources; the others are left out."""
    return {
        resource: name
        for resource, name in chosen.items()
        if any(resource in group.limited() and resource in dict(group.flavors).get(name, {}) for group in queue.groups)
    }


def told_by(node: Node, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> dict[str, str]:
    """The flavor of each resource on that node: the first one whose labels it has."""
    found: dict[str, str] = {}
    for group in queue.groups:
        for name, quotas in group.flavors:
            flavor = flavors.get(name)
            if has_labels(node, flavor):
                found |= dict.fromkeys((one for one in group.limited() if one in quotas), name)
                break
    return found


def has_labels(node: Node, flavor: ResourceFlavor | None) -> bool:
    """Whether the node may be one of that flavor."""
    return flavor is not None and flavor.node_labels.items() <= node.labels.items()


def _before(queue: ClusterQueue, name: str) -> Sequence[str]:
    for group in queue.groups:
        names = [one for one, _ in group.flavors]
        if name in names:
            return names[: names.index(name)]
    return ()
