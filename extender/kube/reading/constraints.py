"""The demands of a pod: on its node (Selection), and on other pods (Constraints).

A Selection has the node selector, the required node affinity and the tolerations. Constraints have the host ports, the
pod (anti-)affinity and the spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from weakref import WeakKeyDictionary, ref

from extender.kube.reading.objects import (
    Affinity,
    AffinityTerm,
    Expression,
    LabelSelector,
    Meta,
    PodAffinity,
    PodSpec,
    SelectorTerm,
    SpreadConstraint,
    TaintObject,
    Tolerates,
)
from extender.kube.reading.plain import plain
from policies.model import (
    UNCONSTRAINED,
    Constraints,
    HostPort,
    Labels,
    Preferred,
    Requirement,
    Selection,
    Selector,
    Spread,
    Taint,
    Term,
    Toleration,
)
from policies.model.constraints import ANY_ADDRESS, INDIFFERENT

MOST_CONDITIONS = 128
MOST_VALUES = 256
MOST_CHARACTERS = 8192
"""Most characters in a pod's node selector, required node affinity and tolerations together."""

TOO_CHOOSY = (
    f"it has more than {MOST_CONDITIONS} node selectors, affinity terms and tolerations, {MOST_VALUES} values, or "
    f"{MOST_CHARACTERS:,} characters in them"
)

_selections: WeakKeyDictionary[Selection, ref[Selection]] = WeakKeyDictionary()
"""Equal selections are kept as one object: most pods share theirs, and it is the largest part of a pod."""


def selection_of(spec: PodSpec) -> Selection | None:
    """The pod's demands on its node; None if there are too many, since each is compared with every node."""
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required if node_affinity else None
    terms = (required.node_selector_terms if required else None) or ()
    selector, tolerations = spec.node_selector or {}, spec.tolerations or ()
    selected = [
        requirement for term in terms for requirement in (*(term.match_expressions or ()), *(term.match_fields or ()))
    ]
    parts = len(selector) + len(selected) + len(tolerations)
    if (
        max(parts, len(terms)) > MOST_CONDITIONS
        or sum(len(requirement.values or ()) for requirement in selected) > MOST_VALUES
    ):
        return None
    words = chain(
        *selector.items(),
        *((requirement.key, requirement.operator, *(requirement.values or ())) for requirement in selected),
        *((toleration.key, toleration.operator, toleration.value, toleration.effect) for toleration in tolerations),
    )
    if sum(len(word or "") for word in words) > MOST_CHARACTERS:
        return None
    known: dict[str, str] = {}
    selection = Selection(
        node_selector=tuple(sorted(selector.items())),
        affinity=None if required is None else tuple(requirements(term, known) for term in terms),
        tolerations=tolerations_of(tolerations),
    )
    known_as = _selections.setdefault(selection, ref(selection))()
    return selection if known_as is None else known_as


def tolerations_of(tolerations: Iterable[Tolerates]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            toleration.key or "", toleration.operator or "Equal", toleration.value or "", toleration.effect or ""
        )
        for toleration in tolerations
    )


def taints_of(taints: Iterable[TaintObject]) -> tuple[Taint, ...]:
    return tuple(Taint(taint.key or "", taint.value or "", taint.effect or "") for taint in taints)


def requirements(term: SelectorTerm, known: dict[str, str] | None = None) -> tuple[Requirement, ...]:
    """All requirements of a term. ``known``: texts to share, as below."""
    known = {} if known is None else known
    return (
        *_expressions(term.match_expressions or (), known),
        *_expressions(term.match_fields or (), known, is_field=True),
    )


def _expressions(
    expressions: Iterable[Expression],
    known: dict[str, str],
    *,
    is_field: bool = False,
) -> Iterator[Requirement]:
    """Yield the requirements. Each text is kept once; ``known`` has those seen before."""

    def once(text: str) -> str:
        return known.setdefault(text, text)

    for expression in expressions:
        yield Requirement(
            once(expression.key or ""),
            once(expression.operator or ""),
            tuple(map(once, expression.values or ())),
            is_field,
        )


MOST_TERMS = 16
"""Most required (anti-)affinity terms and spread constraints of a pod together: each is compared with other pods.

The same limit holds for preferred ones, node affinity included. With more, the pod prefers nothing.
"""
MOST_PORTS = 64

MOST_LABELS = 256
"""Most labels kept of a pod, the first by name."""

WOKEN = "muster.dev/woken"
"""A label that Muster writes on a waiting pod, because a change of labels wakes it. Its value has no meaning."""

TOO_ENTANGLED = (
    f"it has more than {MOST_TERMS} pod affinity terms and topology spread constraints, {MOST_VALUES} requirements "
    f"and values in them, or {MOST_PORTS} host ports"
)

_constraints: WeakKeyDictionary[Constraints, ref[Constraints]] = WeakKeyDictionary()
"""Equal constraints are kept as one object."""


def constraints_of(meta: Meta, spec: PodSpec) -> Constraints | None:
    """The pod's demands on other pods; None if there are too many."""
    ports = tuple(sorted(set(_ports(spec))))
    affinity = spec.affinity
    near = _required(affinity.pod_affinity if affinity else None)
    apart = _required(affinity.pod_anti_affinity if affinity else None)
    spreads = spec.topology_spread_constraints or ()
    namespace, labels = meta.namespace or "", meta.labels or {}
    spread = tuple(islice(required_spread(spreads, labels), MOST_TERMS + 1))
    preferred = _preferred(affinity or Affinity(), spreads, namespace, labels) if affinity or spreads else INDIFFERENT
    if not (ports or near or apart or spread or preferred is not INDIFFERENT):
        return UNCONSTRAINED
    constraints = Constraints(
        ports[: MOST_PORTS + 1],
        tuple(_term(affinity_term, namespace, labels) for affinity_term in near[: MOST_TERMS + 1]),
        tuple(_term(affinity_term, namespace, labels) for affinity_term in apart[: MOST_TERMS + 1]),
        spread,
        preferred,
    )
    terms = len(near) + len(apart) + len(spread)
    if len(ports) > MOST_PORTS or terms > MOST_TERMS or _words(constraints) > MOST_VALUES:
        return None
    known = _constraints.setdefault(constraints, ref(constraints))()
    return constraints if known is None else known


def labels_of(meta: Meta) -> Labels:
    """The pod's labels. Equal pairs of different pods are one object."""
    label = sorted((meta.labels or {}).items())[:MOST_LABELS]
    return tuple(_pair(pair) for pair in label if pair[0] != WOKEN)


def keys_of(selectors: Iterable[LabelSelector | None]) -> frozenset[str]:
    """The label keys by which these selectors select."""
    return frozenset(requirement.key for selector in selectors for requirement in selector_of(selector) or ())


def selected_keys(specs: Iterable[PodSpec]) -> frozenset[str]:
    """The label keys by which these pods select others."""
    keys: set[str] = set()
    for spec in specs:
        affinity = spec.affinity
        terms = (*_required(affinity.pod_affinity if affinity else None),)
        terms += (*_required(affinity.pod_anti_affinity if affinity else None),)
        terms += tuple(term for _, term in _weighted(affinity or Affinity()))
        keys |= keys_of(term.label_selector for term in (*terms, *(spec.topology_spread_constraints or ())))
        keys.update(key for spread in spec.topology_spread_constraints or () for key in spread.match_label_keys or ())
        keys.update(
            key for term in terms for key in (*(term.match_label_keys or ()), *(term.mismatch_label_keys or ()))
        )
    return frozenset(keys)


@lru_cache(maxsize=16384)
def _pair(pair: tuple[str, str]) -> tuple[str, str]:
    return pair


def _ports(spec: PodSpec) -> Iterator[HostPort]:
    """Yield the host ports of containers that run as long as the pod.

    On the host's network a container's port is a host port. The API server writes that into pods, but not into
    templates.
    """
    sidecars = [
        init_container for init_container in spec.init_containers or () if init_container.restart_policy == "Always"
    ]
    for port in (port for container in (*sidecars, *(spec.containers or ())) for port in container.ports or ()):
        number = port.host_port or (port.container_port if spec.host_network else 0) or 0
        if number > 0:
            yield HostPort(number, plain(port.protocol or "TCP"), plain(port.host_ip or ANY_ADDRESS))


def _preferred(
    affinity: Affinity, spreads: Sequence[SpreadConstraint], namespace: str, labels: Mapping[str, str]
) -> Preferred:
    """The pod's preferences. Terms without a weight, or without a demand on the node, make no difference."""
    wanted = (affinity.node_affinity.preferred if affinity.node_affinity else None) or ()
    nodes = [
        (preferred_term.weight, preferred_term.preference)
        for preferred_term in wanted
        if preferred_term.weight and preferred_term.preference
    ]
    weighted = list(_weighted(affinity))
    spread = [spread for spread in spreads if spread.when_unsatisfiable == "ScheduleAnyway"]
    if not 0 < len(nodes) + len(weighted) + len(spread) <= MOST_TERMS:
        return INDIFFERENT
    terms = [(weight, requirements(term)) for weight, term in nodes]
    preferred = Preferred(
        tuple((weight, wanted) for weight, wanted in terms if wanted),
        tuple((weight, _term(affinity_term, namespace, labels)) for weight, affinity_term in weighted),
        tuple(_spread(constraint, labels) for constraint in spread),
    )
    return INDIFFERENT if preferred == INDIFFERENT or _preferred_words(preferred) > MOST_VALUES else preferred


def _weighted(affinity: Affinity) -> Iterator[tuple[int, AffinityTerm]]:
    """Yield the preferred terms about other pods; those of anti-affinity get negative weights."""
    for sign, pod_affinity in (1, affinity.pod_affinity), (-1, affinity.pod_anti_affinity):
        for weighted_term in (pod_affinity.preferred if pod_affinity else None) or ():
            if weighted_term.weight and weighted_term.pod_affinity_term:
                yield sign * weighted_term.weight, weighted_term.pod_affinity_term


def _required(affinity: PodAffinity | None) -> Sequence[AffinityTerm]:
    return (affinity.required if affinity else None) or ()


def _term(term: AffinityTerm, namespace: str, labels: Mapping[str, str]) -> Term:
    """Convert a term. It concerns the pod's own namespace by default; an empty namespace selector means all."""
    selector = selector_of(term.label_selector)
    selector = _merged(selector, term.match_label_keys or (), "In", labels)
    selector = _merged(selector, term.mismatch_label_keys or (), "NotIn", labels)
    namespaces = tuple(sorted(set(term.namespaces or ())))
    own = (namespace,) if not namespaces and term.namespace_selector is None else namespaces
    return Term(term.topology_key or "", selector, own, selector_of(term.namespace_selector))


def required_spread(spreads: Iterable[SpreadConstraint], labels: Mapping[str, str]) -> Iterator[Spread]:
    """The spread constraints that can keep a pod off a node. ``labels``: the pod's own."""
    return (_spread(spread, labels) for spread in spreads if spread.when_unsatisfiable == "DoNotSchedule")


def _spread(spread: SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    return Spread(
        key=spread.topology_key or "",
        max_skew=spread.max_skew or 0,
        selector=_merged(selector_of(spread.label_selector), spread.match_label_keys or (), "In", labels),
        min_domains=1 if spread.min_domains is None else spread.min_domains,
        honors_affinity=(spread.node_affinity_policy or "Honor") == "Honor",
        honors_taints=(spread.node_taints_policy or "Ignore") == "Honor",
    )


def selector_of(selector: LabelSelector | None) -> Selector:
    """Convert a label selector. An absent one selects nothing, an empty one everything."""
    if selector is None:
        return None
    exact = [Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items())]
    by_expressions = [
        Requirement(expression.key or "", expression.operator or "", tuple(expression.values or ()))
        for expression in selector.match_expressions or ()
    ]
    return (*exact, *by_expressions)


def _merged(selector: Selector, keys: Iterable[str], operator: str, labels: Mapping[str, str]) -> Selector:
    """The selector with the pod's own values of these labels, which the API server writes into pods alone."""
    if selector is None:
        return None
    there = {requirement.key for requirement in selector}
    more = [Requirement(key, operator, (labels[key],)) for key in keys if key in labels and key not in there]
    return (*selector, *more)


def _words(constraints: Constraints) -> int:
    return _counted((*constraints.affinity, *constraints.anti_affinity), constraints.spread)


def _preferred_words(preferred: Preferred) -> int:
    return _counted(
        [term for _, term in preferred.pods], preferred.spread, *(selector for _, selector in preferred.nodes)
    )


def _counted(terms: Sequence[Term], spread: Sequence[Spread], *others: Selector) -> int:
    """The number of requirements, values and namespaces."""
    selectors = [term.selector for term in terms] + [term.elsewhere for term in terms]
    selectors += [constraint.selector for constraint in spread] + [*others]
    conditions = sum(1 + len(requirement.values) for selector in selectors for requirement in selector or ())
    return conditions + sum(len(term.namespaces) for term in terms)
