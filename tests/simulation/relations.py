"""The referee's reading of the demands of pods on each other: host ports, affinity, anti-affinity and hard spread.

It looks at every pod and node each time, and knows nothing of how the core or the model of kube-scheduler count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from policies.model import HostPort, Node, Pod, Requirement, Spread, Term
from tests.simulation.sight import tolerates

Nodes = Mapping[str, Node]
Seats = Sequence[tuple[Pod, str]]
"""Pods, and the nodes that they are on or are to be on."""

_HOLDS: Mapping[str, Callable[[Requirement, Mapping[str, str]], bool]] = {
    "In": lambda requirement, labels: labels.get(requirement.key) in requirement.values,
    "Exists": lambda requirement, labels: requirement.key in labels,
}

_MOST_ORDERS = 3000
"""The most steps in the search for an order; without a result after these the referee does not complain."""


def related(pods: Iterable[Pod], there: Seats) -> bool:
    """Whether other pods matter to any of these."""
    return any(pod.constraints for pod in pods) or any(other.constraints.anti_affinity for other, _ in there)


def lets_in(pod: Pod, name: str, nodes: Nodes, there: Seats) -> bool:
    """Whether kube-scheduler takes the node for the pod beside these pods, room and taints aside."""
    return (
        not in_each_others_way(pod, name, nodes, there)
        and _is_near(pod, name, nodes, there)
        and all(_stays_level(spread, pod, name, nodes, there) for spread in pod.constraints.spread)
    )


def in_each_others_way(pod: Pod, name: str, nodes: Nodes, there: Seats) -> list[str]:
    """The pods that block this one on that node: they have its port, or one of both keeps the other away."""
    demands = bool(pod.constraints)
    return [
        other.uid
        for other, where in there
        if (demands or other.constraints.anti_affinity)
        and where in nodes
        and (
            (where == name and _one_port(pod, other))
            or any(_same(key, name, where, nodes) for key in (*_keeps_away(pod, other), *_keeps_away(other, pod)))
        )
    ]


def in_some_order(seats: Seats, nodes: Nodes, there: Seats) -> bool:
    """Whether kube-scheduler accepts each of these on its node, one after the other, in some order.

    Pods of a wave come after all pods of earlier waves.
    """
    kinds: dict[object, list[tuple[Pod, str]]] = {}
    for pod, name in seats:
        kinds.setdefault((pod.namespace, pod.labels, pod.constraints, pod.selection, pod.wave, name), []).append(
            (pod, name)
        )
    groups, dead, steps = list(kinds.values()), set[tuple[int, ...]](), 0
    stack = [tuple(0 for _ in groups)]
    while stack:
        done, steps = stack.pop(), steps + 1
        if sum(done) == len(seats) or steps > _MOST_ORDERS:
            return True
        if done in dead:
            continue
        dead.add(done)
        now = [*there, *(seat for group, count in zip(groups, done, strict=True) for seat in group[:count])]
        wave = min(group[0][0].wave for group, count in zip(groups, done, strict=True) if count < len(group))
        for at, group in enumerate(groups):
            if done[at] < len(group) and group[0][0].wave == wave and lets_in(*group[done[at]], nodes, now):
                stack.append((*done[:at], done[at] + 1, *done[at + 1 :]))
    return False


def matters(other: Pod, pod: Pod) -> bool:
    """Whether the other pod can block the pod, or be the one that the pod wants to be near."""
    terms = pod.constraints.affinity
    apart = _one_port(pod, other) or _keeps_away(pod, other) or _keeps_away(other, pod)
    return bool(apart) or any(_means(term, other) for term in terms) or counts_for(pod, (other,))


def counts_for(pod: Pod, others: Iterable[Pod]) -> bool:
    """Whether any of these counts for a spread of the pod."""
    return any(selects(spread.selector or (), other) for spread in pod.constraints.spread for other in others)


def selects(selector: tuple[Requirement, ...], pod: Pod) -> bool:
    labels = dict(pod.labels)
    return all(_HOLDS[requirement.operator](requirement, labels) for requirement in selector)


def _one_port(pod: Pod, other: Pod) -> bool:
    return any(_clash(mine, its) for mine in pod.constraints.ports for its in other.constraints.ports)


def _clash(first: HostPort, two: HostPort) -> bool:
    addresses = {first.address, two.address}
    return (first.port, first.protocol) == (two.port, two.protocol) and (len(addresses) == 1 or "0.0.0.0" in addresses)  # noqa: S104


def _keeps_away(pod: Pod, other: Pod) -> list[str]:
    """The labels of whose domains the pod wants to be in without the other."""
    return [term.key for term in pod.constraints.anti_affinity if _means(term, other)]


def _is_near(pod: Pod, name: str, nodes: Nodes, there: Seats) -> bool:
    terms = pod.constraints.affinity
    if not terms:
        return True
    if any(term.key not in nodes[name].labels for term in terms):
        return False
    friends = [where for other, where in there if where in nodes and all(_means(term, other) for term in terms)]
    friends = [where for where in friends if any(term.key in nodes[where].labels for term in terms)]
    if not friends:
        return all(_means(term, pod) for term in terms)  # it is the first of them
    return all(any(_same(term.key, name, where, nodes) for where in friends) for term in terms)


def _stays_level(spread: Spread, pod: Pod, name: str, nodes: Nodes, there: Seats) -> bool:
    if spread.key not in nodes[name].labels:
        return False
    level = {where: node.labels[spread.key] for where, node in nodes.items() if _is_levelled(spread, pod, node)}
    heads = Counter(dict.fromkeys(level.values(), 0))
    for other, where in there:
        alike = other.namespace == pod.namespace and selects(spread.selector or (), other)
        if where in level and alike and not other.deleting:
            heads[level[where]] += 1
    lowest = min(heads.values(), default=0) if len(heads) >= spread.min_domains else 0
    return heads[nodes[name].labels[spread.key]] + selects(spread.selector or (), pod) <= lowest + spread.max_skew


def _is_levelled(spread: Spread, pod: Pod, node: Node) -> bool:
    """Whether the node's domain counts for the spread."""
    if any(each.key not in node.labels for each in pod.constraints.spread):
        return False
    pins, chosen = pod.selection.affinity, pod.selection.node_selector
    named = pins is None or any(node.name in pin.values for term in pins for pin in term)
    if spread.honors_affinity and not (named and all(node.labels.get(key) == value for key, value in chosen)):
        return False
    if not spread.honors_taints:
        return True
    return node.ready and not node.unschedulable and tolerates(pod.selection, node.taints)


def _means(term: Term, pod: Pod) -> bool:
    return pod.namespace in term.namespaces and selects(term.selector or (), pod)


def _same(key: str, name: str, where: str, nodes: Nodes) -> bool:
    return key in nodes[name].labels and nodes[name].labels[key] == nodes[where].labels.get(key)
