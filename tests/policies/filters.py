"""kube-scheduler's filters for one pod and one node, read off its source, and a search through all orders and nodes.

It shares nothing with the planner but the nouns: no arrays, no indexes, no counts that are kept up to date.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from policies.model import Node, Pod, Requirement, Selector, Spread, Term

There = list[tuple[Pod, Node]]
"""The pods that are on nodes."""


def lets_in(
    pod: Pod, node: Node, nodes: Sequence[Node], on_nodes: Sequence[tuple[Pod, Node]], nominated: Sequence[Pod] = ()
) -> bool:
    """Whether kube-scheduler would find the node feasible, given the bound pods and those nominated for the node."""
    there = [*on_nodes, *((other, node) for other in nominated)]
    free = dict(node.allocatable)
    for other, where in there:
        if where.name == node.name:
            for name, amount in other.requests:
                free[name] = free.get(name, 0) - amount
    return (
        all(free.get(name, 0) >= amount for name, amount in pod.requests)
        and admits(node, pod)
        and _has_free_ports(pod, node, there)
        and _stays_apart(pod, node, there)
        and _is_near(pod, node, there)
        and all(_keeps_even(spread, pod, node, nodes, on_nodes, nominated) for spread in pod.constraints.spread)
    )


def admits(node: Node, pod: Pod) -> bool:
    """Whether the node is one that the pod asks for, and has no taint that keeps it away."""
    return _is_asked_for(node, pod) and _tolerates_all(node, pod)


def can_start(pods: Sequence[Pod], nodes: Sequence[Node], there: There) -> bool:
    """Whether kube-scheduler accepts all of them in some order and with some choice of nodes, wave by wave."""
    seen: set[frozenset[tuple[str, str]]] = set()

    def go_on(rest: tuple[Pod, ...], now: There) -> bool:
        known = frozenset((pod.uid, node.name) for pod, node in now)
        if known in seen:
            return False
        seen.add(known)
        if not rest:
            return True
        tried: list[Pod] = []
        wave = min(pod.wave for pod in rest)
        for at, pod in enumerate(rest):
            if pod.wave > wave:
                continue
            if any(_alike(pod, other) for other in tried):
                continue
            tried.append(pod)
            others = rest[:at] + rest[at + 1 :]
            if any(lets_in(pod, node, nodes, now) and go_on(others, [*now, (pod, node)]) for node in nodes):
                return True
        return False

    return go_on(tuple(pods), there)


def refusals(
    chance: Random,
    seats: Sequence[tuple[Pod, Node]],
    nodes: Sequence[Node],
    there: There,
    rounds: Sequence[Sequence[int]] | None,
) -> Iterator[str]:
    """The members of a plan that kube-scheduler refuses when it hears of them, by number, in these rounds.

    In each round the members come in any order, and all of them are nominated. kube-scheduler accepts a pod that is
    feasible both with and without the pods that are nominated for the node. Members of a later wave are created when
    the others run.
    """
    now = list(there)
    if rounds is None or sorted(number for those in rounds for number in those) != list(range(len(seats))):
        yield f"{len(seats)} members come in rounds of {rounds}"
    for those in rounds or ():
        this = [seats[number] for number in those]
        chance.shuffle(this)
        this.sort(key=lambda seat: seat[0].wave)
        while this:
            (pod, where), *this = this
            nominated = [other for other, place in this if place.name == where.name and other.wave == pod.wave]
            for beside in ((), nominated):
                if not lets_in(pod, where, nodes, now, beside):
                    yield f"kube-scheduler refuses {pod.uid} on {where.name} in rounds of {rounds}"
            now.append((pod, where))


def _alike(pod: Pod, other: Pod) -> bool:
    def what(compared: Pod) -> object:
        return compared.requests, compared.selection, compared.labels, compared.constraints

    return what(pod) == what(other)


def _has_free_ports(pod: Pod, node: Node, there: There) -> bool:
    taken = [port for other, where in there if where.name == node.name for port in other.constraints.ports]
    for port in pod.constraints.ports:
        for other in taken:
            same = (port.port, port.protocol) == (other.port, other.protocol)
            if same and (port.address == other.address or "0.0.0.0" in (port.address, other.address)):  # noqa: S104
                return False
    return True


def _stays_apart(pod: Pod, node: Node, there: There) -> bool:
    for other, where in there:
        mine = [term.key for term in pod.constraints.anti_affinity if _means(term, other)]
        theirs = [term.key for term in other.constraints.anti_affinity if _means(term, pod)]
        for key in mine + theirs:
            if key in node.labels and node.labels[key] == where.labels.get(key):
                return False
    return True


def _is_near(pod: Pod, node: Node, there: There) -> bool:
    terms = pod.constraints.affinity
    if any(term.key not in node.labels for term in terms):
        return False
    meant = [where for other, where in there if terms and all(_means(term, other) for term in terms)]
    pairs = {(term.key, where.labels[term.key]) for where in meant for term in terms if term.key in where.labels}
    if all((term.key, node.labels[term.key]) in pairs for term in terms):
        return True
    return not pairs and all(_means(term, pod) for term in terms)


def _keeps_even(
    one: Spread,
    pod: Pod,
    node: Node,
    nodes: Sequence[Node],
    there: Sequence[tuple[Pod, Node]],
    nominated: Sequence[Pod],
) -> bool:
    """An empty selector selects no pod that is there, and every pod that is nominated for the node."""
    if one.key not in node.labels:
        return False
    counts: dict[str, int] = {}
    for where in nodes:
        if any(other.key not in where.labels for other in pod.constraints.spread):
            continue
        if one.honors_affinity and not _is_asked_for(where, pod):
            continue
        if one.honors_taints and not _tolerates_all(where, pod):
            continue
        counts.setdefault(where.labels[one.key], 0)
        for other, place in there:
            counting = bool(one.selector) and not other.deleting and other.namespace == pod.namespace
            if place.name == where.name and counting and _selected(one.selector, other):
                counts[where.labels[one.key]] += 1
        if where.name == node.name:
            alike = [other for other in nominated if other.namespace == pod.namespace]
            counts[where.labels[one.key]] += sum(_selected(one.selector, other) for other in alike)
    least = min(counts.values()) if counts and len(counts) >= one.min_domains else 0
    return counts.get(node.labels[one.key], 0) + _selected(one.selector, pod) - least <= one.max_skew


def _is_asked_for(node: Node, pod: Pod) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.selection.node_selector):
        return False
    terms = pod.selection.affinity
    return terms is None or any(
        term and all(_holds(requirement, node.labels) for requirement in term) for term in terms
    )


def _tolerates_all(node: Node, pod: Pod) -> bool:
    for taint in node.taints:
        for toleration in pod.selection.tolerations:
            means_it = toleration.key in ("", taint.key) and toleration.effect in ("", taint.effect)
            if means_it and (toleration.operator == "Exists" or toleration.value == taint.value):
                break
        else:
            return False
    return True


def _means(term: Term, pod: Pod) -> bool:
    """A namespace has its name for a label; any but default is of the tier gold."""
    labels = {"kubernetes.io/metadata.name": pod.namespace} | ({} if pod.namespace == "default" else {"tier": "gold"})
    elsewhere = term.elsewhere is not None and all(_holds(requirement, labels) for requirement in term.elsewhere)
    return (pod.namespace in term.namespaces or elsewhere) and _selected(term.selector, pod)


def _selected(selector: Selector, pod: Pod) -> bool:
    return selector is not None and all(_holds(requirement, dict(pod.labels)) for requirement in selector)


def _holds(one: Requirement, labels: Mapping[str, str]) -> bool:
    match one.operator:
        case "In" | "NotIn":
            return (labels.get(one.key) in one.values) == (one.operator == "In")
        case "Exists" | "DoesNotExist":
            return (one.key in labels) == (one.operator == "Exists")
        case other:
            raise AssertionError(other)
