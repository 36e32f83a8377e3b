"""Whether a pod may run on a node at all: selector, required affinity and taints, as kube-scheduler reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from policies.model import Node, Requirement, Selection, Taint, Terms, Toleration
from policies.placement.columns import (
    Beyond,
    Column,
    Fact,
    Field,
    Holds,
    Known,
    Label,
    Mask,
    NodeTaints,
    OneOf,
    Predicate,
    number,
)
from policies.steps import Steps, finish

Verdict = TypeVar("Verdict", bool, NDArray[np.bool_])

_COST = 5
"""The cost of one condition, evaluated for all nodes, in the units of ``policies.steps``."""


def admits(node: Node, selection: Selection) -> bool:
    """Whether kube-scheduler's NodeUnschedulable, TaintToleration and NodeAffinity plugins would admit the pod.

    Its VolumeBinding plugin counts, too, for bound volumes.
    """
    return finish(_judge(selection, lambda fact, holds: holds(fact.of(node))))


def eligible(selection: Selection, column: Callable[[Fact], Column], count: int) -> Steps[Mask]:
    """``admits`` for all nodes, one condition per step: a mask over the first ``count`` rows of the columns."""
    return _judge(selection, lambda fact, holds: column(fact).where(holds, count))


def selected(selection: Selection, column: Callable[[Fact], Column], count: int) -> Steps[Mask]:
    """The nodes that match the selector and the required affinity, whatever their taints."""
    everything = np.ones(count, dtype=np.bool_)
    return _wants(selection, everything, lambda fact, holds: column(fact).where(holds, count))


def reaches(terms: Terms, column: Callable[[Fact], Column], count: int) -> Steps[Mask]:
    """The nodes that match one of the terms."""
    none = np.zeros(count, dtype=np.bool_)
    return none | (yield from _any_of(terms, lambda fact, holds: column(fact).where(holds, count)))


def reached(node: Node, terms: Terms | None) -> bool:
    """Whether the node matches one of the terms; with None every node does."""
    return terms is None or bool(finish(_any_of(terms, lambda fact, holds: holds(fact.of(node)))))


def facts_of(selection: Selection) -> dict[Fact, None]:
    """The facts about each node that the selection asks for."""
    terms = chain(selection.affinity or (), *selection.held)
    facts = (
        *(Label(key) for key, _ in selection.node_selector),
        *(_fact(requirement) for term in terms for requirement in term),
    )
    return dict.fromkeys((NodeTaints(), *facts))


def pinned_to(selection: Selection) -> str | None:
    """The only node that the affinity names, as a pin does; None if it asks for anything else or for nothing."""
    named = nodes_named(selection)
    return named[0] if len(named) == 1 else None


def nodes_named(selection: Selection) -> tuple[str, ...]:
    """The nodes that the affinity names, as a pin does; empty if it asks for anything else."""
    names: list[str] = []
    for term in selection.affinity or ():
        match term:
            case (Requirement("metadata.name", "In", (node,), True),):
                names.append(node)
            case _:
                return ()
    return tuple(names)


def _judge(selection: Selection, test: Callable[[Fact, Predicate], Verdict]) -> Steps[Verdict]:
    """Evaluate the rules, for one node or for all, by ``test``."""
    verdict = test(NodeTaints(), Holds(partial(_lets_in, selection.tolerations)))
    yield _COST + len(selection.tolerations)
    for terms in selection.held:
        verdict = verdict & (yield from _any_of(terms, test))
    return (yield from _wants(selection, verdict, test))


def _wants(selection: Selection, verdict: Verdict, test: Callable[[Fact, Predicate], Verdict]) -> Steps[Verdict]:
    for key, value in selection.node_selector:
        verdict = verdict & test(Label(key), OneOf((value,)))
        yield _COST
    return verdict if selection.affinity is None else verdict & (yield from _any_of(selection.affinity, test))


def _any_of(terms: Terms, test: Callable[[Fact, Predicate], Verdict]) -> Steps[Verdict | bool]:
    """Whether any term holds. An empty term matches nothing."""
    verdict: Verdict | bool = False
    for term in terms:
        held: Verdict | bool = bool(term)
        for requirement in term:
            held = held & test(_fact(requirement), _predicate(requirement))
            yield _COST
        verdict = verdict | held
    return verdict


def _lets_in(tolerations: tuple[Toleration, ...], taints: tuple[Taint, ...] | None) -> bool:
    if taints is None:
        return False
    hard = (taint for taint in taints if taint.effect != "PreferNoSchedule")
    return all(tolerates(tolerations, taint) for taint in hard)


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Whether one of them tolerates the taint."""
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
        case "In" | "NotIn":
            return OneOf(values, negated=requirement.operator == "NotIn")
        case "Exists" | "DoesNotExist":
            return Known(negated=requirement.operator == "DoesNotExist")
        case "Gt" | "Lt":
            return Beyond(number(values[0]) if values else None, below=requirement.operator == "Lt")
        case _:
            return OneOf(())
