"""May this pod run on that node at all? Selector, required affinity and taints, as kube-scheduler reads them."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from functools import partial, reduce
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from policies.columns import Column, Fact, Field, Label, Mask, OneOf, Predicate, Standing
from policies.model import Node, Requirement, Selection, Taint, Toleration

_INTEGER = re.compile(r"[+-]?[0-9]{1,100}", re.ASCII)
Verdict = TypeVar("Verdict", bool, NDArray[np.bool_])


def admits(node: Node, selection: Selection) -> bool:
    """Whether kube-scheduler's NodeUnschedulable, TaintToleration and NodeAffinity plugins would let the pod in."""
    return _judge(selection, lambda fact, holds: holds(fact.of(node)))


def eligible(selection: Selection, column: Callable[[Fact], Column], count: int) -> Mask:
    """``admits`` of all nodes at once: a mask over the first ``count`` rows of the columns."""
    return _judge(selection, lambda fact, holds: column(fact).where(holds, count))


def _judge(selection: Selection, test: Callable[[Fact, Predicate], Verdict]) -> Verdict:
    """The rules, for one node or for all of them, as ``test`` has it."""
    verdict = test(Standing(), partial(_lets_in, selection.tolerations))
    for key, value in selection.node_selector:
        verdict = verdict & test(Label(key), OneOf((value,)))
    if selection.affinity is not None:
        terms = [
            reduce(operator.and_, [test(_fact(one), _predicate(one)) for one in term])
            for term in selection.affinity
            if term
        ]
        verdict = verdict & (reduce(operator.or_, terms) if terms else False)
    return verdict


def _lets_in(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...] | None) -> bool:
    return taints is not None and all(_tolerated(taint, tolerations) for taint in taints)


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


def _fact(requirement: Requirement) -> Fact:
    return Field(requirement.key) if requirement.is_field else Label(requirement.key)


def _predicate(requirement: Requirement) -> Predicate:
    values = requirement.values
    match requirement.operator:
        case "In":
            return OneOf(values)
        case "NotIn":
            named = frozenset(values)
            return lambda value: value not in named
        case "Exists":
            return lambda value: value is not None
        case "DoesNotExist":
            return lambda value: value is None
        case "Gt" | "Lt":
            return partial(_compares, requirement)
        case _:
            return lambda _: False


def _compares(requirement: Requirement, value: str | None) -> bool:
    # Only what Go's ParseInt reads: Python's int would also take "1_000", and raise for some thousands of digits.
    numbers = [int(text) for text in (value or "", *requirement.values[:1]) if _INTEGER.fullmatch(text)]
    if len(numbers) != 2 or not all(-(1 << 63) <= number < 1 << 63 for number in numbers):
        return False
    left, right = numbers
    return left > right if requirement.operator == "Gt" else left < right
