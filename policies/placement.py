"""place(): a node for every member of a gang at once, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from policies.api import Choice, ScorePolicy
from policies.ask import Ask, Role, Sibling, roles_of, rows_of
from policies.chosen import OURS, Policies
from policies.columns import Codes
from policies.fewest import fewest
from policies.model import Pod
from policies.rules import NONE_ASKED, Unclear
from policies.shortage import Miss, explain, nearest_miss
from policies.snapshot import Counts, Domain, Rows, Snapshot, slots
from policies.terrain import reach, rooms

_DOMAINS = 64
"""How many domains of a required level are looked into for as many members as possible."""

Taken = tuple[Role, Rows, Counts]
"""Room that a role has got: how many of its members each of these nodes takes."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A node for each member that got one: at least as many as were needed."""

    nodes: dict[str, str]


@dataclass(frozen=True, slots=True)
class NoRoom:
    """No placement: how many members could be placed together, and what the nodes lack.

    ``miss``: which domain comes nearest to a level that is required. ``unclear``: what is asked for is not understood,
    so no room was looked for.
    """

    placed: int
    needed: int
    explanation: str
    miss: Miss | None = None
    unclear: bool = False


def place(
    members: Sequence[Pod],
    needed: int,
    snapshot: Snapshot,
    refused: Collection[str] = (),
    beside: Sequence[Sibling] = (),
    policies: Policies = OURS,
) -> Placed | NoRoom:
    """Place the gang: all of ``members`` if there is room, else as many as fit if they are ``needed``, or nothing.

    ``refused`` nodes are left out. ``beside`` are the gang's other members. Domains are tried in the order of the
    topology policy; whatever it proposes, no required level is broken and no slice is cut. Inside a domain a role gets
    the fewest nodes, of those the fullest, and members get consecutive slots in rank order, node by node.

    Members of one shape are placed whenever that is possible at all. Several shapes are placed one role after the
    other, the largest requests first, and where that fails in the cluster as a whole the smallest first. That is
    greedy: it misses a placement if neither role may have its fewest nodes first (3 of 1,000 random gangs of two shapes
    on up to 5 nearly full nodes), it may miss that a clique would hold all roles, and a role placed later may get more
    nodes than it needs.
    """
    asked = roles_of(members, refused, snapshot, beside)
    if isinstance(asked, Unclear):
        return NoRoom(0, needed, asked.explanation, unclear=True)
    cut = [(role, reach(role, snapshot)) for role in asked]
    roles = tuple(role.cut(count) for role, count in cut if count)
    rows = rows_of([node for _, node in beside], snapshot)
    if len(roles) > 1:
        # Most often the first choice holds all. If not, what the roles leave to each other is worth a look.
        if _count(roles) >= needed and len(nodes := _try(roles, rows, snapshot, policies, 1)) == _count(roles):
            return Placed(nodes)
        roles = _within_reach(roles, needed, snapshot, policies.scoring)
    placed = {pod.uid for role in roles for pod in role.pods}
    if len(placed) >= needed:
        nodes = _try(roles, rows, snapshot, policies)
        if len(nodes) >= needed:
            return Placed(nodes)
        placed = set(nodes)
    stuck = next(role for role in asked if any(pod.uid not in placed for pod in role.pods))
    want = stuck.count if len(asked) > 1 else min(stuck.count, needed)
    return NoRoom(len(placed), needed, explain(stuck.pods[0], snapshot, refused), nearest_miss(stuck, want, snapshot))


def fits(wanted: dict[str, str], members: Sequence[Pod], snapshot: Snapshot) -> bool:
    """Whether every member could go to the node named for it, all together: the test of a remembered placement."""
    taken: dict[tuple[int, int], int] = {}
    for pod in members:
        row = snapshot.rows.get(wanted[pod.uid])
        demand = snapshot.demand(pod.requests)
        if row is None or demand is None or not snapshot.eligible(pod.selection)[row]:
            return False
        for line, amount in demand:
            taken[line, row] = taken.get((line, row), 0) + amount
    return all(snapshot.free[place] >= amount for place, amount in taken.items())


def _count(roles: Sequence[Role]) -> int:
    return sum(role.count for role in roles)


def _within_reach(roles: tuple[Role, ...], needed: int, snapshot: Snapshot, scoring: ScorePolicy) -> tuple[Role, ...]:
    """The members that there is room for at once, by role: in the cluster, or in a domain that the first role requires.

    Roles that require nothing come in the order in which the most of them are placed. Where a level is required and
    nobody can be spared, there is nothing to be found out.
    """
    required = roles[0].rules.required
    orders: tuple[tuple[Role, ...], ...] = (roles,)
    if all(role.rules == NONE_ASKED for role in roles):
        orders = (roles, roles[::-1])
    elif required is None or _count(roles) <= needed:
        return roles
    best: tuple[Role, ...] = ()
    for choice in _widest(roles, required, snapshot):
        for order in orders:
            found = _fill(order, choice, snapshot, scoring)
            if len(found) > _count(best):
                placed = [(role, sum(pod.uid in found for pod in role.pods)) for role in order]
                best = tuple(role.cut(count) for role, count in placed if count)
            if len(found) == _count(roles):
                return best
    return best


def _widest(roles: Sequence[Role], required: int | None, snapshot: Snapshot) -> Iterator[Choice]:
    """The whole cluster, or the domains of a level with the most room for the roles, each before everything else."""
    if required is None:
        yield (Domain("", np.arange(len(snapshot.names))),)
        return
    level = snapshot.levels[required]
    room = np.sum([np.minimum(rooms(role, required, snapshot.levels), role.count) for role in roles], axis=0)
    for code in [code for code in np.argsort(-room, kind="stable")[:_DOMAINS].tolist() if room[code]]:
        inside = level.codes == code
        yield Domain(level.names[code], np.flatnonzero(inside)), Domain("", np.flatnonzero(~inside))


def _try(
    roles: tuple[Role, ...], beside: Rows, snapshot: Snapshot, policies: Policies, choices: int | None = None
) -> dict[str, str]:
    """The first of so many choices that holds all, else the one that holds the most."""
    best: dict[str, str] = {}
    for choice in islice(policies.topology.domains(Ask(roles, beside), snapshot), choices):
        nodes = _fill(roles, choice, snapshot, policies.scoring)
        if len(nodes) == _count(roles):
            return nodes
        best = max(best, nodes, key=len)
    return best


def _fill(roles: Sequence[Role], choice: Choice, snapshot: Snapshot, scoring: ScorePolicy) -> dict[str, str]:
    """Place one role after the other in the domains, as many members as fit."""
    nodes: dict[str, str] = {}
    taken: list[Taken] = []
    anchor: int | None = None
    for role in roles:
        room = _room_left(role, taken, snapshot)
        if role.rules.required is not None:
            codes = snapshot.levels[role.rules.required].codes
            anchor = _anchor(codes, choice[0].rows, room) if anchor is None else anchor
            room[codes != codes[anchor]] = 0
        pods = iter(role.pods)
        for rows, counts in _seats(role, choice, room, snapshot, scoring, limited=role is roles[0]):
            names = [snapshot.names[row] for row in np.repeat(rows, counts).tolist()]
            nodes |= {pod.uid: name for name, pod in zip(names, pods, strict=False)}
            taken.append((role, rows, counts))
    return nodes


def _anchor(codes: Codes, rows: Rows, room: Counts) -> int:
    """A node of the domain that has the most room among these nodes: those who require the level go there."""
    rooms = np.bincount(codes[rows] + 1, room[rows], 1)
    rooms[:1] = -1
    best = np.flatnonzero(codes[rows] == int(rooms.argmax()) - 1)
    return int(rows[best[0]]) if len(best) else 0


def _seats(
    role: Role, choice: Choice, room: Counts, snapshot: Snapshot, scoring: ScorePolicy, *, limited: bool
) -> Iterator[tuple[Rows, Counts]]:
    """Nodes for the role, domain by domain, and how many members each takes. Takes that room away."""
    rest = role.count
    for domain in choice:
        most = rest if domain.most is None or not limited else min(rest, domain.most)
        for part in _parts(role, domain.rows, snapshot):
            here = int(room[part].sum())
            unit = role.rules.slice_size
            want = min(most, here // unit * unit if unit else here)
            if not want:
                continue
            rows = _pick(role.pods[0], part, room, want, snapshot, scoring)
            counts = np.minimum(room[rows], np.maximum(want - np.cumsum(room[rows]) + room[rows], 0))
            room[rows] -= counts
            most, rest = most - want, rest - want
            yield rows, counts
        if not rest:
            return


def _parts(role: Role, rows: Rows, snapshot: Snapshot) -> Iterator[Rows]:
    """The nodes at once, or for a sliced role by the domains in which slices have to stay whole."""
    if not role.rules.slice_size:
        yield rows
        return
    codes = snapshot.levels[role.rules.slice_level].codes[rows]
    for code in np.unique(codes[codes >= 0]).tolist():
        yield rows[codes == code]


def _pick(pod: Pod, rows: Rows, room: Counts, rest: int, snapshot: Snapshot, scoring: ScorePolicy) -> Rows:
    """The fewest of these nodes that hold the rest of a role, by name; all that have room if they do not hold it."""
    here = room[rows]
    if here.sum() > rest:
        poor = 100 - np.clip(scoring.score(pod, rows, snapshot), 0, 100)
        rows = rows[fewest(here, rest, poor * len(snapshot.names) + snapshot.rank[rows])]
    else:
        rows = rows[here > 0]
    return rows[np.argsort(snapshot.rank[rows])]


def _room_left(role: Role, taken: Sequence[Taken], snapshot: Snapshot) -> Counts:
    """The role's room beside the roles of the same gang that were placed before it."""
    room = role.room.copy()
    demand = snapshot.demand(role.requests)
    if not taken or demand is None:
        return room
    rows = np.unique(np.concatenate([rows for _, rows, _ in taken]))
    free = snapshot.free[:, rows]
    for other, where, counts in taken:
        for line, amount in snapshot.demand(other.requests) or ():
            free[line, np.searchsorted(rows, where)] -= amount * counts
    room[rows] = np.minimum(room[rows], slots(free, demand))
    return room
