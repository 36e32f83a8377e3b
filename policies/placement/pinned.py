"""Members that each have only one possible node, by a pin or a volume: there is nothing to choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from policies.chosen import OURS, Policies
from policies.model import Pod
from policies.placement.concern import concerned
from policies.placement.matching import pinned_to
from policies.placement.one_by_one import accepted
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.request import Cap, Sibling, shape_of
from policies.placement.rules import is_bound_by_rules, meets_requirements
from policies.placement.snapshot import Amounts, Snapshot
from policies.placement.tenants import Beside
from policies.steps import Steps

_AT_ONCE, _COST = 16, 20
_PINNED = "pinned to, or have volumes on,"


def placing_pinned(
    members: Sequence[Pod],
    needed: int,
    snapshot: Snapshot,
    caps: Sequence[Cap] = (),
    beside: Sequence[Sibling] = (),
    policies: Policies = OURS,
) -> Steps[Placed | Shortfall]:
    """Place a gang with many pinned members, like ``placing``. Pinned ones, each a role of its own, go first."""
    homes = yield from _homes(members, snapshot)
    nodes, left = yield from _place_pinned([pod for pod in members if pod.uid in homes], homes, snapshot, caps)
    placed = [(pod, nodes[pod.uid]) for pod in members if pod.uid in nodes]
    there = [sibling for sibling in beside if sibling[1] in snapshot.rows]
    if any(is_bound_by_rules(pod) for pod, _ in placed) and not meets_requirements([*there, *placed], snapshot):
        return Shortfall(0, needed, f"its members are {_PINNED} nodes that do not have the topology that it requires")
    if rest := [pod for pod in members if pod.uid not in homes]:
        lacking, view, tenants = max(1, needed - len(nodes)), replace(snapshot, free=left), snapshot.others.tenants
        if concerned(members, tenants):
            view = view.among(Beside(tenants, placed))
        outcome = yield from placing(rest, lacking, view, caps, [*beside, *placed], policies)
        if isinstance(outcome, Placed):
            nodes |= outcome.nodes
        elif len(nodes) < needed:
            return replace(outcome, placed=len(nodes) + outcome.placed, needed=needed)
    if len(nodes) < needed:
        return Shortfall(len(nodes), needed, f"the others are {_PINNED} nodes that are full, gone or closed to them")
    if not accepted([(pod, nodes[pod.uid]) for pod in members if pod.uid in nodes], snapshot):
        return Shortfall(0, needed, f"its members are {_PINNED} nodes that other pods keep them off")
    return Placed(nodes)


def _homes(pods: Sequence[Pod], snapshot: Snapshot) -> Steps[dict[str, str]]:
    """The only node that each pod may use, for pods with at most one; empty for a pod with none."""
    homes: dict[str, str] = {}
    for pod in pods:
        if (node := pinned_to(pod.selection)) is not None:
            homes[pod.uid] = node
        elif pod.selection.held:
            yield from snapshot.evaluated(pod.selection)
            yield len(snapshot.names) // 200
            rows = np.flatnonzero(snapshot.eligible(pod.selection)).tolist()
            if len(rows) < 2:
                homes[pod.uid] = "".join(snapshot.names[row] for row in rows)
    return homes


def _place_pinned(
    pods: Sequence[Pod], homes: Mapping[str, str], snapshot: Snapshot, caps: Sequence[Cap]
) -> Steps[tuple[dict[str, str], Amounts]]:
    """The nodes of those pods that have room, in order, and the amounts left free."""
    nodes: dict[str, str] = {}
    left, closed = snapshot.free.copy(), {(cap.node, cap.shape) for cap in caps if not cap.most}
    for number, pod in enumerate(pods):
        if number % _AT_ONCE == 0:
            yield _AT_ONCE * _COST
        node = homes[pod.uid]
        row, demand = snapshot.rows.get(node), snapshot.demand(pod.requests)
        if (
            row is None
            or demand is None
            or (node, shape_of(pod)) in closed
            or not snapshot.eligible(pod.selection)[row]
        ):
            continue
        if all(left[line, row] >= amount for line, amount in demand):
            nodes[pod.uid] = node
            for line, amount in demand:
                left[line, row] -= amount
    return nodes, left
