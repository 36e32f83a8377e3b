"""Requests of gangs to the planner, and the shapes that make gangs alike: those of one shape fit or fail together.

The node labels and tolerations of the flavors that a workload was admitted with are part of its shape.
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
    """Everything about a workload that decides whether it fits. Equal shapes are one object, which ``Demands`` ensures.

    ``needed``: how many members have to be placed at once.
    ``roles``: how many members there are of each role.
    ``caps``: what kube-scheduler has refused.
    ``reserved``: slots whose room is kept for replacements.
    ``tied``: what else matters. Where the topology has rules: the members' indexes and the places of the other
    members. Where other pods matter: the members' labels.
    ``related``: whether other pods matter.
    ``priority``: the workload's own, which decides what it may evict, and that of its pods, which decides which
    pods without a gang have their room before it.
    """

    needed: int
    roles: tuple[tuple[Role, int], ...]
    caps: tuple[Cap, ...]
    reserved: tuple[SlotKey, ...]
    tied: tuple[object, ...]
    related: bool = False
    priority: tuple[int, int] = 0, 0
    __weakref__: object = field(init=False, repr=False)


@dataclass(frozen=True, slots=True)
class Demand:
    """A workload's request to the planner: nodes for ``pods``. Without a ``shape`` it asks for nothing.

    ``version``: the version of the workload that this was worked out for.
    ``trouble``: why the workload cannot be planned at all.
    ``pods``: a pod or template for each slot without a node, in rank order, with what the PodGroup asks for.
    ``flavors``: the flavors that the pods are tried with, as demands on nodes; None: the workload's own.
    """

    version: int
    trouble: Cause | None = None
    pods: tuple[Pod, ...] = ()
    shape: Shape | None = None
    flavors: Mapping[PodSetKey, Flavoring] | None = None

    def among(self, slots: Collection[SlotKey]) -> Demand:
        """The same demand for the pods of these slots alone."""
        return replace(self, pods=tuple(pod for pod in self.pods if pod.identity in slots))


PodSetKey = object
"""Key of the pods of a workload that get their flavors together.

For a job the name of a podset. For a gang of pods what the pods request: equal requests, equal key.
"""


def podset_key(pod: Pod, *, of_job: bool) -> PodSetKey:
    return pod.series if of_job else (pod.requests, pod.selection)


@dataclass(frozen=True, slots=True)
class Flavoring:
    """The flavors of one part of a workload, as demands on the nodes of its pods.

    ``flavors``: flavor by resource.
    ``labels``: labels that the nodes have.
    ``none_of``: sets of labels that the nodes do not have.
    ``tolerations``: what the pods tolerate beside their own tolerations.
    """

    flavors: Mapping[str, str]
    labels: tuple[tuple[str, str], ...] = ()
    none_of: tuple[tuple[tuple[str, str], ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    _made: dict[Selection, Selection] = field(default_factory=dict, compare=False, repr=False)

    def confined(self, pod: Pod) -> Pod:
        """The pod, restricted to nodes of these flavors."""
        selection = pod.selection
        if (made := self._made.get(selection)) is None:
            made = self._made[selection] = self._confine(selection)
        return pod if made is selection else replace(pod, selection=made)

    def _confine(self, selection: Selection) -> Selection:
        """Restrict a selection as the node affinity of a volume does: beside the pod, not in it.

        kube-scheduler does not see this restriction. In the pod it would change which nodes a topology spread counts.
        """
        held: list[Terms] = [
            (tuple(Requirement(key, "In", (value,)) for key, value in self.labels),) if self.labels else ()
        ]
        held += [tuple((Requirement(key, "NotIn", (value,)),) for key, value in labels) for labels in self.none_of]
        more = tuple(terms for terms in held if terms and terms not in selection.flavors)
        tolerations = (
            *selection.tolerations,
            *(toleration for toleration in self.tolerations if toleration not in selection.tolerations),
        )
        made = replace(selection, tolerations=tolerations, flavors=(*selection.flavors, *more))
        return selection if made == selection else made


def of_job(flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str]) -> Flavoring:
    """The flavoring of a podset of a job; ``chosen``: the flavor of each resource. Its pods tolerate their taints."""
    flavors_named = _named(flavors, chosen)
    tolerations = dict.fromkeys(toleration for flavor in flavors_named for toleration in flavor.tolerations)
    return Flavoring(chosen, _labels(flavors_named), tolerations=tuple(tolerations))


def of_gang(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str]) -> Flavoring:
    """The flavoring of a gang's pods; ``chosen``: the flavor of each resource.

    The node of such a pod determines its flavor: the first flavor in the queue whose labels the node has. So nodes of
    earlier flavors are excluded. The pods get no tolerations, since Muster writes none on them.
    """
    before = [
        flavors[name] for name_chosen in chosen.values() for name in _before(queue, name_chosen) if name in flavors
    ]
    none_of = dict.fromkeys(tuple(sorted(flavor.node_labels.items())) for flavor in before)
    return Flavoring(chosen, _labels(_named(flavors, chosen)), tuple(none_of))


def suit(flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str], selection: Selection) -> bool:
    """Whether pods with this node selection can have these flavors."""
    return all(suits(flavor, selection) for flavor in _named(flavors, chosen))


def _named(flavors: Mapping[str, ResourceFlavor], chosen: Mapping[str, str]) -> list[ResourceFlavor]:
    return [flavors[name] for name in dict.fromkeys(chosen.values()) if name in flavors]


def _labels(flavors: Sequence[ResourceFlavor]) -> tuple[tuple[str, str], ...]:
    return tuple(dict.fromkeys(node_label for flavor in flavors for node_label in sorted(flavor.node_labels.items())))


def is_hidden(queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor], name: str) -> str:
    """The earlier flavor of the queue that hides this one from pods of a gang; empty if none does.

    It hides the other if its nodes include all nodes of the other: then no node ever determines the other flavor.
    """
    own = flavors[name].node_labels.items()
    hiding = (
        earlier
        for earlier in _before(queue, name)
        if earlier in flavors and flavors[earlier].node_labels.items() <= own
    )
    return next(hiding, "")


def offered(queue: ClusterQueue, chosen: Mapping[str, str]) -> dict[str, str]:
    """The chosen flavors that the queue has for their resources; the others are left out."""
    return {
        resource: name
        for resource, name in chosen.items()
        if any(resource in group.limited and resource in dict(group.flavors).get(name, {}) for group in queue.groups)
    }


def flavors_of_node(node: Node, queue: ClusterQueue, flavors: Mapping[str, ResourceFlavor]) -> dict[str, str]:
    """The flavor of each resource on that node: the first one in the queue whose labels the node has."""
    names: dict[str, str] = {}
    for group in queue.groups:
        for name, quotas in group.flavors:
            flavor = flavors.get(name)
            if has_labels(node, flavor):
                names |= dict.fromkeys((resource for resource in group.limited if resource in quotas), name)
                break
    return names


def has_labels(node: Node, flavor: ResourceFlavor | None) -> bool:
    """Whether the node has the labels of the flavor."""
    return flavor is not None and flavor.node_labels.items() <= node.labels.items()


def _before(queue: ClusterQueue, name: str) -> Sequence[str]:
    for group in queue.groups:
        names = [name_of_flavor for name_of_flavor, _ in group.flavors]
        if name in names:
            return names[: names.index(name)]
    return ()
