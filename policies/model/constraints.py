"""A pod's demands on its node that concern other pods: host ports, pod (anti-)affinity and topology spread.

Required and preferred ones have the semantics of kube-scheduler's NodePorts, InterPodAffinity and PodTopologySpread
plugins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from policies.model.node import Requirement

Labels = tuple[tuple[str, str], ...]
"""The labels of a pod, sorted by key."""

Selector = tuple[Requirement, ...] | None
"""A label selector: all requirements must hold. An empty one selects every pod, None selects no pod."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - a value that pods ask for; nothing here listens
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has."""


class HostPort(NamedTuple):
    """A port of the node that a container takes for itself."""

    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def conflicts(self, other: HostPort) -> bool:
        """Whether both have the same port and protocol on one address; 0.0.0.0 is every address."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


class Term(NamedTuple):
    """A pod affinity term: the pods that ``selector`` selects in these namespaces, in one domain of the label ``key``.

    ``namespaces``: names; the pod's own if the term names none.
    ``elsewhere``: a selector of further namespaces by their labels.
    """

    key: str
    selector: Selector
    namespaces: tuple[str, ...]
    elsewhere: Selector = None

    def matches(self, namespace: str, labels: Mapping[str, str], about: Mapping[str, str]) -> bool:
        """Whether the term selects a pod with these labels. ``about``: the labels of the pod's namespace."""
        known = namespace in self.namespaces or (self.elsewhere is not None and selects(self.elsewhere, about))
        return known and selects(self.selector, labels)


HOSTNAME = "kubernetes.io/hostname"
"""The label whose domains are single nodes."""


class Spread(NamedTuple):
    """A topology spread constraint on the domains of the label ``key``.

    No domain may have more than ``max_skew`` selected pods more than the domain with the fewest. Only nodes that the
    pod's affinity (``honors_affinity``) or tolerations (``honors_taints``) allow count as domains. With fewer domains
    than
    ``min_domains`` the fewest count as 0. Pods that are being deleted do not count.
    """

    key: str
    max_skew: int
    selector: Selector
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    @property
    def needs_choice(self) -> bool:
        """Whether a node affinity that leaves the pod few nodes could break a constraint that holds without it.

        Only domains and pods of the allowed nodes count. With fewer than ``min_domains`` of them the fewest count as 0.
        With domains of several nodes, one domain may lose some of its pods, and another none.
        """
        return self.honors_affinity and (self.min_domains > 1 or self.key != HOSTNAME)

    def counts(self, labels: Mapping[str, str]) -> bool:
        """Whether a pod of the same namespace counts. kube-scheduler counts none for an empty selector."""
        return bool(self.selector) and selects(self.selector, labels)


class Preferred(NamedTuple):
    """A pod's preferences with their weights: they score nodes, and are never a reason to wait.

    ``nodes``: requirements that a node meets together.
    ``pods``: affinity; anti-affinity with a negative weight.
    ``spread``: constraints with ScheduleAnyway.
    """

    nodes: tuple[tuple[int, tuple[Requirement, ...]], ...] = ()
    pods: tuple[tuple[int, Term], ...] = ()
    spread: tuple[Spread, ...] = ()


INDIFFERENT = Preferred()
"""No preference."""


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Constraints:
    """All demands on other pods, required and preferred; true if any is required. The hash is cached."""

    ports: tuple[HostPort, ...] = ()
    affinity: tuple[Term, ...] = ()
    anti_affinity: tuple[Term, ...] = ()
    spread: tuple[Spread, ...] = ()
    preferred: Preferred = INDIFFERENT
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self._all))

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        return bool(self.ports or self.affinity or self.anti_affinity or self.spread)

    def __reduce__(self) -> tuple[type[Constraints], tuple[object, ...]]:
        """Leave out the hash: another process hashes strings differently."""
        return Constraints, self._all

    @property
    def _all(self) -> tuple[object, ...]:
        return self.ports, self.affinity, self.anti_affinity, self.spread, self.preferred

    @property
    def required(self) -> Constraints:
        """The same without preferences."""
        return self if self.preferred == INDIFFERENT else replace(self, preferred=INDIFFERENT)

    def selectors(self) -> tuple[Selector, ...]:
        """The selectors of the pods that the demands concern."""
        terms = (*self.affinity, *self.anti_affinity)
        return (*(term.selector for term in terms), *(spread.selector for spread in self.spread))


UNCONSTRAINED = Constraints()
"""No demand and no preference about other pods."""


def selects(selector: Selector, labels: Mapping[str, str]) -> bool:
    """Whether the labels satisfy the selector, as apimachinery's labels.Selector decides it."""
    return selector is not None and all(_holds(requirement, labels.get(requirement.key)) for requirement in selector)


def _holds(requirement: Requirement, value: str | None) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            return False
