"""Whether other pods matter to a gang, and what tells its roles apart where they do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from policies.model import UNCONSTRAINED, Pod, Selector
from policies.placement.snapshot import Snapshot
from policies.placement.tenants import Tenants

MOST_RELATED = 32
"""Roles of one gang that are looked at where other pods matter: each is compared with each."""


class Concern(IntEnum):
    """What there is between the pods of a gang and other pods: nothing, what is only preferred, what must hold."""

    NONE = 0
    PREFERRED = 1
    REQUIRED = 2


def concern(pods: Iterable[Pod], tenants: Tenants) -> Concern:
    """Whether any of these pods of one gang has relations, or may have."""
    first, found = True, Concern.NONE
    for pod in pods:
        # The pods that demand and prefer nothing share one object.
        if pod.constraints is not UNCONSTRAINED:
            if pod.constraints:
                return Concern.REQUIRED
            found = Concern.PREFERRED
        if first and tenants.repels(pod.namespace):
            return Concern.REQUIRED
        first = False
    return found


def concerned(pods: Iterable[Pod], tenants: Tenants) -> bool:
    """Whether something must hold between these pods of one gang and others, or may have to."""
    return concern(pods, tenants) is Concern.REQUIRED


def telling(pods: Sequence[Pod], snapshot: Snapshot, *, by_node: bool = True) -> Callable[[Pod], tuple[object, ...]]:
    """What tells roles apart where pods demand something of others: those demands, and the labels they are about.

    Not ``by_node``: what they ask of the node itself makes no difference.
    """
    keys = _keys(pods, snapshot)

    def tell(pod: Pod) -> tuple[object, ...]:
        labels = tuple(one for one in pod.labels if one[0] in keys)
        return pod.requests, (pod.selection, pod.topology) if by_node else None, pod.constraints, labels, pod.wave

    return tell


def _keys(pods: Sequence[Pod], snapshot: Snapshot) -> frozenset[str]:
    """Of the labels that anybody asks about who demands something of pods of the gang."""
    asked = dict.fromkeys(pod.constraints for pod in pods)
    selectors: list[Selector] = [one for constraints in asked for one in constraints.selectors()]
    selectors += snapshot.others.tenants.averse_to(pods[0].namespace)
    return frozenset(one.key for selector in selectors for one in selector or ())
