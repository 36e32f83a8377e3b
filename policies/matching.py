"""May this pod run on that node at all? Selector, required affinity and taints, as kube-scheduler reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from policies.model import Node, Requirement, Selection, Taint, Toleration

_UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def admits(node: Node, selection: Selection) -> bool:
    """Whether kube-scheduler's NodeUnschedulable, TaintToleration and NodeAffinity plugins would let the pod in."""
    if not node.ready:
        return False
    taints = (*node.taints, _UNSCHEDULABLE) if node.unschedulable else node.taints
    if not all(_tolerated(taint, selection.tolerations) for taint in taints):
        return False
    if any(node.labels.get(key) != value for key, value in selection.node_selector):
        return False
    if selection.affinity is None:
        return True
    return any(term and all(_holds(node, one) for one in term) for term in selection.affinity)


def _tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    if taint.effect == "PreferNoSchedule":
        return True
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def _holds(node: Node, requirement: Requirement) -> bool:
    fields: Mapping[str, str] = {"metadata.name": node.name} if requirement.is_field else node.labels
    value = fields.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, requirement)
        case _:
            return False


def _compares(value: str | None, requirement: Requirement) -> bool:
    # Only what Go's ParseInt reads: Python's int would also take "1_000".
    numbers = [int(text) for text in (value or "", *requirement.values[:1]) if re.fullmatch(r"[+-]?[0-9]+", text)]
    if len(numbers) != 2:
        return False
    left, right = numbers
    return left > right if requirement.operator == "Gt" else left < right
