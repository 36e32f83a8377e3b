"""Whether other pods matter to a gang, and by which facts its roles differ then."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from policies.model import UNCONSTRAINED, Pod, Selector
from policies.placement.snapshot import Snapshot
from policies.placement.tenants import Tenants

MOST_RELATED = 32
"""Most roles of a gang that other pods matter to, since each is compared with each."""


class Concern(IntEnum):
    """The relations between the pods of a gang and other pods: none, only preferences, or requirements."""

    NONE = 0
    PREFERRED = 1
    REQUIRED = 2


def concern(pods: Iterable[Pod], tenants: Tenants) -> Concern:
    """The strongest relation that any of these pods of one gang has, or may have."""
    first, strongest = True, Concern.NONE
    for pod in pods:
        # Pods without demands and preferences share one object.
        if pod.constraints is not UNCONSTRAINED:
            if pod.constraints:
                return Concern.REQUIRED
            strongest = Concern.PREFERRED
        if first and tenants.repels(pod.namespace):
            return Concern.REQUIRED
        first = False
    return strongest


def concerned(pods: Iterable[Pod], tenants: Tenants) -> bool:
    """Whether requirements hold, or may hold, between these pods of one gang and others."""
    return concern(pods, tenants) is Concern.REQUIRED


def role_key(pods: Sequence[Pod], snapshot: Snapshot, *, by_node: bool = True) -> Callable[[Pod], tuple[object, ...]]:
    """A key by which roles differ if pods have demands on others: those demands, and the labels that they concern.

    ``by_node``: False ignores what pods ask of the node itself.
    """
    keys = _keys(pods, snapshot)

    def key_of(pod: Pod) -> tuple[object, ...]:
        labels = tuple(label for label in pod.labels if label[0] in keys)
        return pod.requests, (pod.selection, pod.topology) if by_node else None, pod.constraints, labels, pod.wave

    return key_of


def _keys(pods: Sequence[Pod], snapshot: Snapshot) -> frozenset[str]:
    """The keys of labels that any selector asks for which concerns pods of the gang."""
    constraints_of = dict.fromkeys(pod.constraints for pod in pods)
    selectors: list[Selector] = [
        requirements for constraints in constraints_of for requirements in constraints.selectors()
    ]
    selectors += snapshot.others.tenants.averse_to(pods[0].namespace)
    return frozenset(requirement.key for selector in selectors for requirement in selector or ())
