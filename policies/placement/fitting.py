"""Check a known placement: a plan, or a remembered one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from policies.model import Pod, Requests, Selection
from policies.placement.concern import concerned, role_key
from policies.placement.one_by_one import accepted
from policies.placement.relations import Hindrance, hindrances_of
from policies.placement.snapshot import Snapshot
from policies.placement.tenants import Apart
from policies.steps import finish


def fits(
    wanted: Mapping[str, str], members: Sequence[Pod], snapshot: Snapshot, *, accepted_as_is: bool = False
) -> bool:
    """Whether every member could go to its node, all together.

    ``accepted_as_is``: their demands on each other and on other pods are known to hold, and are not checked.
    """
    by_shape: dict[tuple[Requests, Selection], list[int]] = {}
    last, rows = None, list[int]()
    for pod in members:
        row = snapshot.rows.get(wanted[pod.uid])
        if row is None:
            return False
        if (this := (pod.requests, pod.selection)) != last:
            # Most often all ask for the same.
            last, rows = this, by_shape.setdefault(this, [])
        rows.append(row)
    if not _have_room(by_shape, snapshot):
        return False
    if accepted_as_is or not concerned(members, snapshot.others.tenants):
        return True
    return accepted([(pod, wanted[pod.uid]) for pod in members], snapshot)


def _have_room(by_shape: Mapping[tuple[Requests, Selection], Sequence[int]], snapshot: Snapshot) -> bool:
    """Whether pods of these shapes fit on these nodes, given by row, all together."""
    taken: dict[int, dict[int, int]] = {}
    for (requests, selection), rows in by_shape.items():
        demand, counts = snapshot.demand(requests), Counter(rows)
        if demand is None or not snapshot.eligible(selection)[list(counts)].all():
            return False
        for line, amount in demand:
            here = taken.setdefault(line, {})
            for row, count in counts.items():
                here[row] = here.get(row, 0) + amount * count
    for line, here in taken.items():
        free = snapshot.free[line]
        if any(free.item(row) < amount for row, amount in here.items()):
            return False
    return True


def lets_in(placed: Sequence[tuple[Pod, str]], snapshot: Snapshot, but: Sequence[Pod]) -> bool:
    """Whether kube-scheduler would admit all of these, as far as it depends on each other and on existing pods.

    ``but``: existing pods that do not count.
    """
    if not concerned([pod for pod, _ in placed], snapshot.others.tenants):
        return True
    return accepted(placed, snapshot.among(Apart(snapshot.others.tenants, but)))


def tenant_conflict(placed: Sequence[tuple[Pod, str]], snapshot: Snapshot, gone: Iterable[Pod] = ()) -> str | None:
    """The pod that has come into conflict with these members on their nodes, by port or anti-affinity; None without
    one.

    Members do not conflict with each other here, nor with pods that have ``gone``.
    """
    pods = [pod for pod, _ in placed]
    if not concerned(pods, snapshot.others.tenants):
        return None
    view = snapshot.among(Apart(snapshot.others.tenants, (*pods, *gone)))
    key_of = role_key(pods, snapshot, by_node=False)
    known: dict[tuple[object, ...], list[Hindrance]] = {}
    for pod, node in placed:
        if (key := key_of(pod)) not in known:
            known[key] = finish(hindrances_of(pod, view))
        row = view.rows.get(node)
        for obstacle in known[key] if row is not None else ():
            if obstacle.rows[row]:
                return f"node {node} is closed to pod {pod.name} by now: {obstacle.text}"
    return None
