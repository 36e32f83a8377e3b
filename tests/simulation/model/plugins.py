"""The verdicts of kube-scheduler's plugins NodePorts, PodTopologySpread and InterPodAffinity on a pod beside others.

Read off their source (1.36): the counts before the nodes are looked at, and the pods that are nominated for a node,
which are looked at twice. Also the hints that tell which event may help a pod that they have refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from policies.model import HostPort, Node, Pod, Requirement, Selector, Spread, Taint, Term
from tests.simulation.sight import tolerated

PORTS, SPREAD, NEAR = "NodePorts", "PodTopologySpread", "InterPodAffinity"
PLUGINS = (PORTS, SPREAD, NEAR)

Pair = tuple[str, str]
Pods = Mapping[str, Mapping[str, Pod]]
"""Node -> the pods on it by UID."""


class PreFilter:
    """The counts of the plugins for one pod before it looks at any node. ``pods``: bound and assumed ones."""

    def __init__(self, pod: Pod, nodes: Mapping[str, Node], pods: Pods) -> None:
        self._pod = pod
        self._nodes = nodes
        self._pods = pods
        self._repelled: Counter[Pair] = Counter()
        self._apart: Counter[Pair] = Counter()
        self._near: Counter[Pair] = Counter()
        self._even = [dict[str, int]() for _ in pod.constraints.spread]
        for name, node in nodes.items():
            for number, spread in enumerate(pod.constraints.spread):
                if self._counts(spread, node):
                    self._even[number].setdefault(node.labels[spread.key], 0)
            for other in pods.get(name, {}).values():
                self._add(other, node, terminating=other.deleting)

    def refusal(self, node: str, nominated: Iterable[Pod] = ()) -> str | None:
        """The plugin that refuses the node: with the pods that are nominated for it, or without them."""
        beside = list(nominated)
        if beside:
            counted = PreFilter.__new__(PreFilter)
            counted._pod, counted._nodes, counted._pods = self._pod, self._nodes, self._pods
            counted._repelled, counted._apart, counted._near = +self._repelled, +self._apart, +self._near
            counted._even = [dict(counts) for counts in self._even]
            for other in beside:
                counted._add(other, self._nodes[node], terminating=False, nominated=True)
            if (refuser := counted._filter(node, beside)) is not None:
                return refuser
        return self._filter(node, [])

    def _add(self, other: Pod, node: Node, *, terminating: bool, nominated: bool = False) -> None:
        """An empty selector counts no pod that is there, and every pod that is nominated."""
        constraints = self._pod.constraints
        for term in other.constraints.anti_affinity:
            if _means(term, self._pod) and term.key in node.labels:
                self._repelled[term.key, node.labels[term.key]] += 1
        for term in constraints.anti_affinity:
            if _means(term, other) and term.key in node.labels:
                self._apart[term.key, node.labels[term.key]] += 1
        if _mean_all(constraints.affinity, other):
            for term in constraints.affinity:
                if term.key in node.labels:
                    self._near[term.key, node.labels[term.key]] += 1
        for spread, counts in zip(constraints.spread, self._even, strict=True):
            counts_at_all = bool(spread.selector) or (nominated and spread.selector is not None)
            same = counts_at_all and other.namespace == self._pod.namespace and not terminating
            if same and _selects(spread.selector, other) and self._counts(spread, node):
                counts[node.labels[spread.key]] += 1

    def _counts(self, spread: Spread, node: Node) -> bool:
        """Whether the node counts for the spread."""
        if any(spread.key not in node.labels for spread in self._pod.constraints.spread):
            return False
        if spread.honors_affinity and not _is_asked_for(node, self._pod):
            return False
        # A cordon and a silent kubelet both come with a taint.
        is_open = node.ready and not node.unschedulable and all(_tolerated(taint, self._pod) for taint in node.taints)
        return is_open or not spread.honors_taints

    def _filter(self, name: str, nominated: Iterable[Pod]) -> str | None:
        labels, constraints = self._nodes[name].labels, self._pod.constraints
        there = (*self._pods.get(name, {}).values(), *nominated)
        if any(_same_port(self._pod, other) for other in there):
            return PORTS
        for spread, counts in zip(constraints.spread, self._even, strict=True):
            if spread.key not in labels:
                return SPREAD
            least = min(counts.values(), default=0) if len(counts) >= spread.min_domains else 0
            itself = _selects(spread.selector, self._pod)
            if counts.get(labels[spread.key], 0) + itself - least > spread.max_skew:
                return SPREAD
        return None if self._stands(labels) else NEAR

    def _stands(self, labels: Mapping[str, str]) -> bool:
        """Whether the affinity in all its directions is satisfied."""
        constraints = self._pod.constraints
        if any(term.key not in labels for term in constraints.affinity):
            return False
        if not all(self._near[term.key, labels[term.key]] > 0 for term in constraints.affinity):
            begins = not +self._near and _mean_all(constraints.affinity, self._pod)
            if not begins:
                return False
        if any(self._apart[term.key, labels.get(term.key, "")] > 0 for term in constraints.anti_affinity):
            return False
        return not any(self._repelled[pair] > 0 for pair in labels.items())


def helped_by_coming(refuser: str, pod: Pod, other: Pod) -> bool:
    """The queueing hint for a pod that has got a node."""
    if refuser == NEAR:
        return _mean_all(pod.constraints.affinity, other)
    return refuser == SPREAD and _is_levelled(pod, other)


def helped_by_going(refuser: str, pod: Pod, other: Pod) -> bool:
    """The queueing hint for a pod that has left a node, or is nominated for one no longer."""
    if refuser == PORTS:
        return _same_port(pod, other)
    if refuser == NEAR:
        return _mean_all(pod.constraints.anti_affinity, other) or _mean_all(other.constraints.anti_affinity, pod)
    return refuser == SPREAD and _is_levelled(pod, other)


def helped_by_node(refuser: str, pod: Pod, node: Node, before: Node | None) -> bool:
    """The queueing hint for a node that is new or has changed. Labels of nodes do not change here."""
    if refuser == PORTS:
        return before is None
    if refuser == NEAR:
        near = any(term.key in node.labels for term in pod.constraints.affinity)
        return before is None and (near or bool(pod.constraints.anti_affinity))
    keyed = refuser == SPREAD and all(spread.key in node.labels for spread in pod.constraints.spread)
    return keyed and (before is None or _taints(before) != _taints(node))


def helped_by_node_going(refuser: str, pod: Pod, node: Node) -> bool:
    """The queueing hint for a node that is no more: it may have been the emptiest."""
    return refuser == SPREAD and all(spread.key in node.labels for spread in pod.constraints.spread)


def _taints(node: Node) -> tuple[object, ...]:
    """The values that kube-scheduler sees as taints, including those of a cordon and of a silent kubelet."""
    return node.taints, node.unschedulable, node.ready


def _is_levelled(pod: Pod, other: Pod) -> bool:
    selected = any(_selects(spread.selector, other) for spread in pod.constraints.spread)
    return pod.namespace == other.namespace and selected


def _same_port(pod: Pod, other: Pod) -> bool:
    return any(_collide(own, two) for own in pod.constraints.ports for two in other.constraints.ports)


def _collide(first: HostPort, two: HostPort) -> bool:
    """0.0.0.0 stands for every address."""
    everywhere = "0.0.0.0" in (first.address, two.address)  # noqa: S104
    return first[:2] == two[:2] and (everywhere or first.address == two.address)


def _is_asked_for(node: Node, pod: Pod) -> bool:
    """Whether the pod selects the node. The campaign's pods have only selectors, and pins that name nodes."""
    chosen, pins = pod.selection.node_selector, pod.selection.affinity
    named = pins is None or any(all(node.name in expression.values for expression in term) for term in pins)
    return named and all(node.labels.get(key) == value for key, value in chosen)


def _mean_all(terms: tuple[Term, ...], pod: Pod) -> bool:
    return bool(terms) and all(_means(term, pod) for term in terms)


def _means(term: Term, pod: Pod) -> bool:
    return pod.namespace in term.namespaces and _selects(term.selector, pod)


def _selects(selector: Selector, pod: Pod) -> bool:
    labels = dict(pod.labels)
    return selector is not None and all(_holds(requirement, labels) for requirement in selector)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    match requirement.operator:
        case "Exists":
            return requirement.key in labels
        case "DoesNotExist":
            return requirement.key not in labels
        case "NotIn":
            return labels.get(requirement.key) not in requirement.values
        case _:
            return requirement.key in labels and labels[requirement.key] in requirement.values


def _tolerated(taint: Taint, pod: Pod) -> bool:
    return any(tolerated(taint, toleration) for toleration in pod.selection.tolerations)
