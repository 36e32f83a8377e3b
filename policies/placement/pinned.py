"""Members that are pinned to one node each, as a restart or a forgotten plan finds them: there is nothing to choose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from policies.chosen import OURS, Policies
from policies.model import Pod
from policies.placement.matching import pinned_to
from policies.placement.place import Placed, Shortfall, placing
from policies.placement.request import Cap, Sibling, shape_of
from policies.placement.rules import keeps
from policies.placement.seating import accepted
from policies.placement.snapshot import Amounts, Snapshot
from policies.steps import Steps

_AT_ONCE, _COST = 16, 20


def placing_pinned(
    members: Sequence[Pod],
    needed: int,
    snapshot: Snapshot,
    caps: Sequence[Cap] = (),
    beside: Sequence[Sibling] = (),
    policies: Policies = OURS,
) -> Steps[Placed | Shortfall]:
    """``placing`` for a gang with many pinned members: those first, each of which would be a role of its own."""
    nodes, left = yield from _seated([pod for pod in members if pinned_to(pod.selection)], snapshot, caps)
    seated = [(pod, nodes[pod.uid]) for pod in members if pod.uid in nodes]
    if rest := [pod for pod in members if not pinned_to(pod.selection)]:
        lacking, view = max(1, needed - len(nodes)), replace(snapshot, free=left)
        found = yield from placing(rest, lacking, view, caps, [*beside, *seated], policies)
        if isinstance(found, Placed):
            nodes |= found.nodes
        elif len(nodes) < needed:
            return replace(found, placed=len(nodes) + found.placed, needed=needed)
    if len(nodes) < needed:
        return Shortfall(len(nodes), needed, "the others are pinned to nodes that are full, gone or closed to them")
    if not keeps([(pod, nodes[pod.uid]) for pod in members if pod.uid in nodes], snapshot):
        return Shortfall(
            0, needed, "the nodes that its members are pinned to do not have the topology that it requires"
        )
    if not accepted([(pod, nodes[pod.uid]) for pod in members if pod.uid in nodes], snapshot):
        return Shortfall(0, needed, "other pods keep its members off the nodes that they are pinned to")
    return Placed(nodes)


def _seated(pods: Sequence[Pod], snapshot: Snapshot, caps: Sequence[Cap]) -> Steps[tuple[dict[str, str], Amounts]]:
    """Those of them that have room, in their order, and what they leave free."""
    nodes: dict[str, str] = {}
    left, closed = snapshot.free.copy(), {(cap.node, cap.shape) for cap in caps if not cap.most}
    for number, pod in enumerate(pods):
        if number % _AT_ONCE == 0:
            yield _AT_ONCE * _COST
        node = pinned_to(pod.selection) or ""
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
