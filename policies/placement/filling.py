"""Fill domains with a gang: one role after the other, the fewest nodes for each, members in rank order."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from policies.api import Choice, ScorePolicy
from policies.placement.capacity import sliced_room
from policies.placement.one_by_one import letting_in
from policies.placement.related import fill_related
from policies.placement.relations import Relations
from policies.placement.request import Role, confine
from policies.placement.rules import Slice
from policies.placement.snapshot import PLENTY, Amounts, Counts, Rows, Snapshot, slots
from policies.placement.wishes import BEST
from policies.steps import Steps


def fill(
    roles: Sequence[Role],
    choice: Choice,
    snapshot: Snapshot,
    scoring: ScorePolicy,
    given: Mapping[str, str] = MappingProxyType({}),
) -> Steps[dict[str, str]]:
    """Place one role after the other in the domains, as many members as fit; returns a node for each that got one.

    ``given``: the nodes of the first roles, if known.
    Demands that caps on nodes cannot express are left to ``fill_related``, and so are wishes that change with each
    member.
    """
    if (relations := roles[0].relations) is not None and (
        related(roles) or any(role.wishes is not None and role.wishes.mutual for role in roles)
    ):
        return (yield from _fill_in_waves(roles, choice, snapshot, scoring, relations))
    nodes: dict[str, str] = {}
    left = snapshot.free.copy() if len(roles) > 1 else snapshot.free
    home: int | None = None
    for role in roles:
        if role.pods[0].uid in given:
            names = [given[pod.uid] for pod in role.pods]
            nodes |= {pod.uid: name for pod, name in zip(role.pods, names, strict=True)}
            rows, counts = np.unique([snapshot.rows[name] for name in names], return_counts=True)
            for line, amount in snapshot.demand(role.requests) or ():
                left[line, rows] -= amount * counts
            if role.rules.required is not None and home is None:
                home = int(rows[0])
            continue
        room = role.room.copy() if role is roles[0] else _room_left(role, left, snapshot)
        if role.rules.required is not None:
            home = confine(role, roles, room, home, choice[0].rows, snapshot)
        yield 5 + len(room) // 200
        pods = iter(role.pods)
        for rows, counts, looked_at in _chosen_rows(role, choice, room, snapshot, scoring, limited=role is roles[0]):
            names = [snapshot.names[row] for row in np.repeat(rows, counts).tolist()]
            nodes |= {pod.uid: name for name, pod in zip(names, pods, strict=False)}
            if len(roles) > 1:
                for line, amount in snapshot.demand(role.requests) or ():
                    left[line, rows] -= amount * counts
            yield 15 + looked_at // 40 + len(names) // 20
    return nodes


def _fill_in_waves(
    roles: Sequence[Role], choice: Choice, snapshot: Snapshot, scoring: ScorePolicy, relations: Relations
) -> Steps[dict[str, str]]:
    """Run ``fill_related`` in the order of the roles, if kube-scheduler would still admit all wave by wave.

    Otherwise wave by wave: then members that are hard to fit may go last, and find less room.
    """
    at_once = replace(relations, waves=(0,) * len(relations.waves))
    nodes = yield from fill_related(roles, choice, snapshot, scoring, at_once)
    if not any(relations.waves):
        return nodes
    pods = {pod.uid: pod for role in roles for pod in role.pods}
    fine = (yield from letting_in([(pods[uid], node) for uid, node in nodes.items()], snapshot)) is not None
    if fine and len(nodes) == len(pods):
        return nodes
    again = yield from fill_related(roles, choice, snapshot, scoring, relations)
    return max(again, nodes, key=len) if fine else again


def related(roles: Sequence[Role]) -> bool:
    """Whether the roles make demands on each other that caps on nodes cannot express."""
    if (relations := roles[0].relations) is None:
        return False
    parts = Counter(role.index for role in roles)
    capped = all(count == 1 or not relations.of[role].exclusions for role, count in parts.items())
    return not (relations.alone and capped)


def _room_left(role: Role, left: Amounts, snapshot: Snapshot) -> Counts:
    """The role's room besides the roles of the same gang that were placed before it."""
    demand = snapshot.demand(role.requests)
    return role.room.copy() if demand is None else np.minimum(role.room, slots(left, demand))


def _chosen_rows(
    role: Role, choice: Choice, room: Counts, snapshot: Snapshot, scoring: ScorePolicy, *, limited: bool
) -> Iterator[tuple[Rows, Counts, int]]:
    """Yield nodes for the role, domain by domain, how many members each takes, and from how many nodes they were
    chosen.

    The room is reduced.
    """
    rest = role.count
    for domain in choice:
        most = rest if domain.most is None or not limited else min(rest, domain.most)
        slices = role.rules.slices
        if limited and domain.most is not None:
            # The policy has divided whole slices already.
            slices = slices[:1]
        for slice_rows, share in _parts(slices, domain.rows, room, most, snapshot):
            want = min(most, share, int(room[slice_rows].sum()))
            if not want:
                continue
            rows = _pick(role, slice_rows, room, want, snapshot, scoring)
            counts = np.minimum(room[rows], np.maximum(want - np.cumsum(room[rows]) + room[rows], 0))
            room[rows] -= counts
            most, rest = most - want, rest - want
            yield rows, counts, len(slice_rows)
        if not rest:
            return


def _parts(
    slices: Sequence[Slice], rows: Rows, room: Counts, most: int, snapshot: Snapshot
) -> Iterator[tuple[Rows, int]]:
    """Yield all nodes at once; for a sliced role the fewest and tightest domains in which its slices stay whole, by
    name.

    With each comes the most members that it takes. Equal ones are ordered by what whole slices leave over, then by
    name, never by the order in which nodes were seen.
    """
    if not slices:
        yield rows, most
        return
    *inner, (unit, at) = slices
    level = snapshot.levels[at]
    codes = level.codes[rows]
    single = bool(len(rows)) and codes[0] >= 0 and bool((codes == codes[0]).all())
    if single and not inner:
        yield rows, min(most, int(room[rows].sum()) // unit * unit)
        return
    inside = np.zeros_like(room)
    inside[rows] = room[rows]
    here, in_all = sliced_room(inside, slices, at, snapshot.levels), level.tally(inside)[0]
    chosen = codes[:1]
    if not single:
        chosen = fewest(here // unit, most // unit, np.minimum(in_all - here, unit) * len(level.names) + level.rank)
    for code in chosen[np.argsort(level.rank[chosen])].tolist():
        share = min(most, int(here[code])) // unit * unit
        yield from _parts(inner, rows[codes == code], room, share, snapshot)
        most -= share


def _pick(role: Role, rows: Rows, room: Counts, rest: int, snapshot: Snapshot, scoring: ScorePolicy) -> Rows:
    """The fewest of these nodes that hold the rest of a role, by name; all with room if they do not hold it."""
    here = room[rows]
    if here.sum() > rest:
        poor = np.zeros(len(rows), dtype=np.int64)
        if role.wishes is not None:
            merits = role.wishes.merits(room)
            rows = rows[merits[rows] >= _demanded(merits[rows], here, rest)]
            here, poor = room[rows], 101 * (BEST - merits[rows])
        poor += 100 - scoring.score(role.pods[0], rows, snapshot)
        rows = rows[fewest(here, rest, poor * len(snapshot.names) + snapshot.rank[rows])]
    else:
        rows = rows[here > 0]
    return rows[np.argsort(snapshot.rank[rows])]


def _demanded(merits: Counts, room: Counts, want: int) -> int:
    """The highest merit that all nodes can be asked for without needing more nodes."""
    steps = np.unique(merits[room > 0]).tolist()
    least = _needed(room, want)
    return int(steps[bisect_left(steps, 1, key=lambda step: _needed(room[merits >= step], want) > least) - 1])


def _needed(room: Counts, want: int) -> int:
    """The least number of nodes that hold ``want`` members; a number that is too large if all of them do not."""
    sums = np.cumsum(np.sort(room)[::-1])
    return int(np.searchsorted(sums, want)) + 1 if room.sum() >= want else PLENTY


_EXACT_STEPS = 4000
"""Most steps, positions times those to take, for a search of sets that leave nothing over."""


def fewest(room: Counts, want: int, preference: NDArray[np.int64], *, exact: bool = False) -> Rows:
    """Positions in ``room`` whose sum is at least ``want``, ascending by room; all with room if none suffices.

    No smaller number of positions would do. Of such sets, neighbours in size are taken, as small as possible. The
    smallest of them is exchanged for the smallest that still suffices. So little is left over, and large rooms stay
    whole; a single position is a best fit.
    ``exact``: sets that leave nothing over go first, if there are any; of them the one whose largest is smallest.
    ``preference``: the lower goes first among equal rooms (below 2^31, none twice).
    Costs one sort, or none if one position suffices.
    """
    enough = (room >= want).nonzero()[0]
    if want > 0 and len(enough):
        here = room[enough]
        equals: Rows = enough[here == here.min()]
        best = int(preference[equals].argmin())
        return equals[best : best + 1]
    rows_with_room = room.nonzero()[0]
    order = rows_with_room[np.argsort((room[rows_with_room] << 31) + preference[rows_with_room], kind="stable")]
    sizes = room[order]
    sums = np.concatenate(([0], np.cumsum(sizes)))
    spare = int(sums[-1]) - want
    if spare <= 0:
        return order
    count = len(sizes) + 1 - int(np.searchsorted(sums, spare, side="right"))
    if count <= 0:
        return order[:0]
    first = int(np.searchsorted(sums[count:] - sums[:-count], want))
    tight = _tighten(sizes, first, first + count, want)
    if exact and int(sizes[tight].sum()) > want and count * len(sizes) <= _EXACT_STEPS:
        fewest_rows = _exactly(sizes.tolist(), want, count)
        return order[fewest_rows if fewest_rows is not None else tight]
    return order[tight]


def _exactly(sizes: list[int], want: int, count: int) -> Rows | None:
    """``count`` of these sorted sizes that sum up to exactly ``want``, with the smallest largest one; None without any.

    ``sums`` has a field of bits for each number of sizes. Bit ``s`` of field ``k`` is set if ``k`` of the sizes so far
    sum up to ``s``. A field has room for sums beyond ``want``, which ``within`` removes.
    """
    field = want + sizes[-1] + 1
    within = sum(((1 << want + 1) - 1) << k * field for k in range(count + 1))
    sums, history = 1, [1]
    for size in sizes:
        sums |= sums << field + size & within
        history.append(sums)
        if sums >> count * field + want & 1:
            break
    else:
        return None
    chosen = []
    for at in range(len(history) - 2, -1, -1):
        if count and not history[at] >> count * field + want & 1:
            chosen.append(at)
            want, count = want - sizes[at], count - 1
    return np.array(chosen[::-1], dtype=np.intp)


def _tighten(sizes: Counts, first: int, end: int, want: int) -> Rows:
    """The window of sorted sizes, its lowest ones exchanged for preferred equals and its smallest for a tighter one."""
    chosen = np.arange(first, end)
    lowest = sizes[first]
    equals = int(np.searchsorted(sizes[first:end], lowest, side="right"))
    chosen[:equals] += int(np.searchsorted(sizes, lowest)) - first
    tighter = int(np.searchsorted(sizes, lowest - (int(sizes[first:end].sum()) - want)))
    if sizes[tighter] < lowest:
        chosen[1:equals] = chosen[: equals - 1].copy()
        chosen[0] = tighter
    return chosen
