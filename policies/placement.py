"""place(): a node for every member of a gang at once, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from policies.model import Pod, Requests
from policies.snapshot import Amounts, Snapshot, slots


@dataclass(frozen=True, slots=True)
class Placed:
    """A node for each member that got one: at least as many as were needed."""

    nodes: dict[str, str]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No placement: how many members could be placed together, and what the nodes lack."""

    placed: int
    needed: int
    explanation: str


def place(members: Sequence[Pod], needed: int, snapshot: Snapshot, refused: Collection[str] = ()) -> Placed | NoRoom:
    """Place the gang: all of ``members`` if there is room, at least ``needed`` of them, or nothing.

    First fit in the order of node names, the members that are hardest to place first. ``refused`` nodes are left out.
    Greedy: with members of several shapes it can miss a placement that a full search would find.
    """
    free = snapshot.free.copy()
    order = np.argsort(snapshot.rank)
    closed = np.zeros(len(snapshot.names), dtype=np.bool_)
    closed[[snapshot.rows[name] for name in refused if name in snapshot.rows]] = True
    nodes: dict[str, str] = {}
    stuck: dict[object, Pod] = {}
    for pod in sorted(members, key=lambda pod: (_bulk(pod.requests), pod.rank)):
        shape = (pod.requests, pod.selection)
        if shape in stuck:
            continue
        row = _first_fit(pod, snapshot, free, order, closed)
        if row is None:
            stuck[shape] = pod
            continue
        _take(free, snapshot, pod.requests, row)
        nodes[pod.uid] = snapshot.names[row]
    if len(nodes) >= needed:
        return Placed(nodes)
    return NoRoom(len(nodes), needed, _explain(next(iter(stuck.values())), snapshot, closed))


def fits(wanted: dict[str, str], members: Sequence[Pod], snapshot: Snapshot) -> bool:
    """Whether every member could go to the node named for it, all together: the test of a remembered placement."""
    free = snapshot.free.copy()
    for pod in members:
        row = snapshot.rows.get(wanted[pod.uid], -1)
        demand = snapshot.demand(pod.requests)
        if row < 0 or demand is None or not snapshot.eligible(pod.selection)[row]:
            return False
        if any(free[line, row] < amount for line, amount in demand):
            return False
        _take(free, snapshot, pod.requests, row)
    return True


def _bulk(requests: Requests) -> tuple[int, ...]:
    """Sorts large requests first; extended resources weigh most because the fewest nodes have them."""
    amounts = dict(requests)
    scarce = sum(amount for name, amount in requests if "/" in name)
    return (-scarce, -amounts.get("cpu", 0), -amounts.get("memory", 0))


def _first_fit(
    pod: Pod, snapshot: Snapshot, free: Amounts, order: NDArray[np.intp], closed: NDArray[np.bool_]
) -> int | None:
    demand = snapshot.demand(pod.requests)
    if demand is None:
        return None
    usable = snapshot.eligible(pod.selection) & ~closed & (slots(free, demand) > 0)
    return next((int(row) for row in order if usable[row]), None)


def _take(free: Amounts, snapshot: Snapshot, requests: Requests, row: int) -> None:
    for line, amount in snapshot.demand(requests) or ():
        free[line, row] -= amount


def _explain(pod: Pod, snapshot: Snapshot, closed: NDArray[np.bool_]) -> str:
    """What the cluster has for one such member, in numbers a person can check with kubectl."""
    total = len(snapshot.names)
    eligible = snapshot.eligible(pod.selection)
    roomy = eligible & (snapshot.slots(pod.requests) > 0)
    parts = [f"{int(roomy.sum())} of {total} nodes have room for {_words(pod.requests)}"]
    if barred := int((~eligible).sum()):
        parts.append(f"{barred} do not match the pod's selector, affinity or tolerations or are not ready")
    if refused := int((roomy & closed).sum()):
        parts.append(f"{refused} were refused by kube-scheduler")
    return "; ".join(parts)


def _words(requests: Requests) -> str:
    named = [f"{amount / 1000:g} cpu" if name == "cpu" else f"{amount} {name}" for name, amount in requests]
    return ", ".join(text for text, (name, _) in zip(named, requests, strict=True) if name != "pods") or "a pod"
