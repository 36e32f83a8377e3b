"""Why nodes are closed to a pod: each node counts for the first cause that kube-scheduler would name for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

import numpy as np

from policies.model import Node, Requirement, Selection, Taint, Terms, Toleration
from policies.model.devices import DOMAIN_LABEL
from policies.placement.columns import UNSCHEDULABLE, Label, Mask, NodeTaints, OneOf
from policies.placement.matching import reaches, tolerates
from policies.placement.snapshot import Snapshot
from policies.steps import Steps
from policies.words import counted, listed, many

_COST = 5
"""The cost of a condition that is evaluated for all nodes, in the units of ``policies.steps``."""
_NAMED, _CAUSES, _TERMS, _LONGEST = 2, 6, 3, 200
_APART = 16
"""How many taints, those of most nodes, get a cause of their own. Users may give each node a different taint."""


class Barrier(Enum):
    """Causes that keep a pod off a node, room apart."""

    NOT_READY = "not ready"
    CORDONED = "cordoned"
    TAINT = "taint"
    SELECTOR = "selector"
    AFFINITY = "affinity"
    VOLUMES = "volumes"
    FLAVOR = "flavor"
    DEVICES = "devices"
    DOMAIN = "compute domain"
    OTHER = "other taints"


class Cause(NamedTuple):
    """A cause with its details: the taint that is not tolerated, the selected label that is missing, or the terms that
    none of these nodes matches."""

    barrier: Barrier
    taint: Taint = UNSCHEDULABLE
    label: tuple[str, str] = ("", "")
    terms: Terms = ()


@dataclass(frozen=True, slots=True)
class Closed:
    """The nodes that one cause keeps a pod from."""

    cause: Cause
    rows: Mask

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.rows))


def closed(selection: Selection, snapshot: Snapshot) -> Steps[list[Closed]]:
    """The causes that close nodes to such a pod, in the order in which kube-scheduler checks."""
    count, others = len(snapshot.names), snapshot.others
    groups: list[Closed] = []
    still = np.ones(count, dtype=np.bool_)

    def close(cause: Cause, lets_in: Mask) -> None:
        nonlocal still
        rows = still & ~lets_in
        if rows.any():
            groups.append(Closed(cause, rows))
            still = still & lets_in

    column = others.fact(NodeTaints())
    first = [_first(selection.tolerations, taints) for taints in (*column.values, None)]
    causes = list(dict.fromkeys(cause for cause in first if cause is not None))
    number = {cause: at for at, cause in enumerate(causes)}
    codes = np.array([-1 if cause is None else number[cause] for cause in first])[column.codes(count)]
    yield _COST + len(first) // 8
    counts = np.bincount(codes + 1, minlength=len(causes) + 1)[1:].tolist()
    order = {barrier: at for at, barrier in enumerate(Barrier)}
    ordered = sorted(range(len(causes)), key=lambda at: (-counts[at], order[causes[at].barrier], causes[at].taint))
    for at in ordered[:_APART]:
        close(causes[at], codes != at)
    if len(ordered) > _APART:
        close(Cause(Barrier.OTHER), ~np.isin(codes, ordered[_APART:]))
    for key, value in selection.node_selector:
        close(Cause(Barrier.SELECTOR, label=(key, value)), others.fact(Label(key)).where(OneOf((value,)), count))
        yield _COST
    matching = partial(reaches, column=others.fact, count=count)
    held = [(Barrier.VOLUMES, terms) for terms in selection.volumes]
    held += [(Barrier.FLAVOR, terms) for terms in selection.flavors]
    held += [(_barrier_of(terms), terms) for terms in selection.devices]
    wanted = [] if selection.affinity is None else [(Barrier.AFFINITY, selection.affinity)]
    for barrier, terms in (*wanted, *held):
        close(Cause(barrier, terms=terms), (yield from matching(terms)))
    return groups


def describe(causes: Sequence[Closed], snapshot: Snapshot) -> Iterator[str]:
    """Yield a sentence for each cause with its number of nodes, that of most nodes first."""
    ordered = sorted(causes, key=lambda group: -group.count)
    # A pod may have many volumes; they share one sentence.
    far = sum(group.count for group in ordered if group.cause.barrier is Barrier.VOLUMES)
    rest = [group for group in ordered if group.cause.barrier is not Barrier.VOLUMES]
    for group in rest[:_CAUSES]:
        yield _sentence(group, snapshot)
    if more := sum(group.count for group in rest[_CAUSES:]):
        yield f"{counted(more, 'node', 'is', 'are')} closed to it for other reasons of that sort"
    if far:
        yield f"{counted(far, 'node', 'does', 'do')} not reach its volumes"


def _sentence(group: Closed, snapshot: Snapshot) -> str:
    cause, count = group.cause, group.count
    match cause.barrier:
        case Barrier.NOT_READY | Barrier.CORDONED:
            return f"{counted(count, 'node', 'is', 'are')} {cause.barrier.value} ({_names(group, snapshot)})"
        case Barrier.TAINT:
            taint = taint_text(cause.taint)
            return f"{counted(count, 'node', 'has', 'have')} taint {taint}, which its pods do not tolerate"
        case Barrier.OTHER:
            return f"{counted(count, 'node', 'has', 'have')} other taints, which its pods do not tolerate"
        case Barrier.SELECTOR:
            label = "=".join(cause.label)
            lacks = counted(count, "node", "does not have", "do not have")
            return f"{lacks} label {label}, which its node selector asks for"
        case Barrier.AFFINITY:
            match_ = counted(count, "node", "does not match", "do not match")
            return f"{match_} its required node affinity ({terms_text(cause.terms)})"
        case Barrier.DEVICES:
            reach = counted(count, "node", "does not reach", "do not reach")
            return f"{reach} the devices that its claims have"
        case Barrier.DOMAIN:
            is_ = counted(count, "node", "is", "are")
            return f"{is_} prepared for another ComputeDomain ({_names(group, snapshot)}: label {DOMAIN_LABEL})"
        case _:
            lacks = counted(count, "node", "does not have", "do not have")
            return f"{lacks} the labels of its flavor ({terms_text(cause.terms)})"


def _barrier_of(terms: Terms) -> Barrier:
    return (
        Barrier.DOMAIN
        if any(requirement.key == DOMAIN_LABEL for term in terms for requirement in term)
        else Barrier.DEVICES
    )


def _names(group: Closed, snapshot: Snapshot) -> str:
    rows = np.flatnonzero(group.rows)
    first = rows[np.argsort(snapshot.rank[rows])][:_NAMED].tolist()
    named = ", ".join(snapshot.names[row] for row in first)
    return named + (f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else "")


def taint_text(taint: Taint) -> str:
    """The taint as ``kubectl taint`` takes it: ``"team=blue:NoSchedule"``."""
    return f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}"


def terms_text(terms: Terms) -> str:
    """The terms in the words of a label selector of kubectl: ``"zone in (a,b),!spot or pool=blue"``."""
    alternatives = [",".join(map(_requirement_text, term)) for term in terms[:_TERMS]] or ["nothing"]
    text = " or ".join(alternatives) + (f" or {many(len(terms) - _TERMS, 'more term')}" if len(terms) > _TERMS else "")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _requirement_text(requirement: Requirement) -> str:
    values = listed(requirement.values, 3)
    match requirement.operator:
        case "In" | "NotIn" if len(requirement.values) == 1:
            return f"{requirement.key}{'=' if requirement.operator == 'In' else '!='}{values}"
        case "Exists":
            return requirement.key
        case "DoesNotExist":
            return f"!{requirement.key}"
        case "Gt" | "Lt":
            return f"{requirement.key}{'>' if requirement.operator == 'Gt' else '<'}{values}"
        case _:
            return f"{requirement.key} {requirement.operator.lower()} ({values})"


def why_closed(node: Node | None, selection: Selection) -> str:
    """Why one node takes none of the pods; ``node`` None: it is gone."""
    if node is None:
        return "is gone"
    cause = _first(selection.tolerations, NodeTaints().of(node))
    match None if cause is None else cause.barrier:
        case Barrier.NOT_READY:
            return "is not ready"
        case Barrier.CORDONED:
            return "is cordoned"
        case Barrier.TAINT if cause is not None:
            return f"has taint {taint_text(cause.taint)}, which its pods do not tolerate"
        case _:
            return "has other labels than its pods ask for"


def _first(tolerations: Sequence[Toleration], taints: tuple[Taint, ...] | None) -> Cause | None:
    """The cause that keeps a pod with these tolerations off a node with these taints; None without one."""
    if taints is None:
        return Cause(Barrier.NOT_READY)
    hard = [taint for taint in taints if taint.effect != "PreferNoSchedule" and not tolerates(tolerations, taint)]
    if any(taint.key == UNSCHEDULABLE.key for taint in hard):
        return Cause(Barrier.CORDONED)
    return Cause(Barrier.TAINT, hard[0]) if hard else None
