"""The demands of one gang at one decision: its members by role, and the room that each node has for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from policies.model import UNCONSTRAINED, Constraints, Pod, Requests, Selection, Topology
from policies.placement.concern import MOST_RELATED, Concern, concern, role_key
from policies.placement.relations import Relations, relations_of
from policies.placement.rules import NONE_ASKED, Rules, Split, Unclear, homes_of, rules_of, shared
from policies.placement.snapshot import Counts, Level, Rows, Snapshot
from policies.placement.wishes import Wishes, wishes_of
from policies.steps import Steps, grouped, ordered
from policies.words import count_devices, many

MOST_PARTS = 32
"""Most incomplete slices of one shape that are placed at once; each is a role of its own."""

Sibling = tuple[Pod, str]
"""Another member of the gang, and the node that it is on or has been promised."""


MemberShape = tuple[Requests, Selection, Topology, Constraints]
"""The demands that members of one role share."""
all_demands_of: Callable[[Pod], MemberShape] = attrgetter("requests", "selection", "topology", "constraints")
"""All demands of a member, including preferences."""
_on_its_own: Callable[[Pod], tuple[Requests, Selection, Topology]] = attrgetter("requests", "selection", "topology")


def shape_of(pod: Pod) -> MemberShape:
    """The demands that it shares with the members of its role. Preferences do not decide whether they fit."""
    constraints = pod.constraints
    return (
        pod.requests,
        pod.selection,
        pod.topology,
        constraints if constraints is UNCONSTRAINED else constraints.required,
    )


class Cap(NamedTuple):
    """A refusal: kube-scheduler refused a member of this shape on the node, and would have admitted ``most``."""

    node: str
    shape: MemberShape
    most: int


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """Members of one shape, in rank order.

    ``room``: how many of them each node could take, 0 where none may go.
    ``rules``: their demands on the topology; a sliced role consists of whole slices.
    ``home``: level and domain, by index and code, in which they must join their siblings.
    ``relations``: the demands of the gang's roles on each other and on other pods; None without any. ``index``: the
    number of this role in it.
    ``wishes``: the preferences of the role; None without any.
    """

    pods: tuple[Pod, ...]
    room: Counts
    rules: Rules = NONE_ASKED
    home: tuple[int, int] | None = None
    relations: Relations | None = None
    index: int = 0
    wishes: Wishes | None = None

    @property
    def count(self) -> int:
        return len(self.pods)

    @property
    def requests(self) -> Requests:
        return self.pods[0].requests

    def too_narrow(self, rows: Rows) -> bool:
        """Whether its demands on its own members keep it from being on these nodes as a whole."""
        if self.relations is None or self.relations.alone:
            return False
        return self.relations.reach(self.index, rows, self.room[rows], self.count) < self.count

    def cut(self, count: int) -> Role:
        """The role reduced to its first ``count`` members, or all."""
        if count >= self.count:
            return self
        return Role(self.pods[:count], self.room, self.rules, self.home, self.relations, self.index, self.wishes)

    def unwishing(self) -> Role:
        """The role without preferences."""
        return replace(self, wishes=None)


@dataclass(frozen=True, slots=True, eq=False)
class PlacementRequest:
    """The roles, in the order of placement. ``beside``: a row for each other member of the gang that has a node."""

    roles: tuple[Role, ...]
    beside: Rows


def roles_of(
    members: Sequence[Pod], caps: Sequence[Cap], snapshot: Snapshot, beside: Sequence[Sibling]
) -> Steps[list[Role] | Unclear]:
    """The members by shape, in the order of placement.

    Those with requirements come first, the nearest level first, then the largest in sum. So a large leader never goes
    before its workers, not even if it asks for more than all of them. Extended resources weigh most, because the fewest
    nodes have them. ``room`` is 0 where a requirement, or the place of the siblings, forbids a member to go.
    """
    ranked = yield from ordered(members, attrgetter("rank"))
    shapes = list((yield from grouped(ranked, all_demands_of)).values())
    relations, firsts = None, [pods[0] for pods in shapes]
    if matter := concern(firsts, snapshot.others.tenants):
        shapes = list((yield from grouped(ranked, role_key(ranked, snapshot))).values())
        if len(shapes) <= MOST_RELATED:
            firsts = [pods[0] for pods in shapes]
            yield len(ranked)
            relations = yield from relations_of(firsts, snapshot)
        elif matter is Concern.REQUIRED:
            return Unclear(
                f"its members demand {len(shapes)} different things of other pods, or bear as many labels",
                f"let its members have at most {MOST_RELATED} different pod affinities, topology spreads and sets of "
                "labels that such rules select",
            )
        else:
            # There are too many preferences to consider.
            shapes = list((yield from grouped(ranked, _on_its_own)).values())
    pieces: list[tuple[bool, Role]] = []
    for index, pods in enumerate(shapes):
        rules = rules_of(pods, snapshot)
        if isinstance(rules, Unclear):
            return rules
        yield from snapshot.evaluated(pods[0].selection)
        room = _room(pods[0], caps, snapshot)
        wishes = None
        if relations is not None:
            room = relations.caps(index, room, len(pods))
            wishes = yield from wishes_of(index, firsts, snapshot)
        home = None if rules.required is None else _stay(room, rules.required, beside, snapshot)
        if isinstance(home, Split):
            return home
        if rules.slice_size:
            sliced = Role(tuple(pods), room, rules, home, relations, index, wishes)
            parts = yield from _slices(sliced, beside, snapshot)
            if isinstance(parts, Unclear):
                return parts
            pieces += parts
        else:
            pieces.append((False, Role(tuple(pods), room, rules, home, relations, index, wishes)))
        yield 10 + len(room) // 200
    levels = len(snapshot.levels)
    pieces.sort(key=lambda piece: (piece[0], -nearness(piece[1], levels), _bulk(piece[1])), reverse=True)
    return [role for _, role in pieces]


def _room(pod: Pod, caps: Sequence[Cap], snapshot: Snapshot) -> Counts:
    """How many such members each node has room for and would admit."""
    room = snapshot.room(pod.requests, pod.selection)
    for cap in caps:
        if cap.shape == shape_of(pod) and (row := snapshot.rows.get(cap.node)) is not None:
            room[row] = min(room[row], cap.most)
    return room


def rows_of(names: Collection[str], snapshot: Snapshot) -> Rows:
    """The rows of those nodes that exist."""
    rows = (snapshot.rows.get(name) for name in names)
    return np.array([row for row in rows if row is not None], dtype=np.intp)


def _stay(room: Counts, required: int, beside: Sequence[Sibling], snapshot: Snapshot) -> tuple[int, int] | Split | None:
    """Remove room outside the domains of the level, and outside the domains that it shares with its siblings.

    Returns the home: the shared domain of the level, if there is one.
    """
    room[snapshot.levels[required].codes < 0] = 0
    homes = homes_of(required, beside, snapshot)
    if isinstance(homes, Split):
        return homes
    for at, home in homes.items():
        room[snapshot.levels[at].codes != home] = 0
    return (required, homes[required]) if required in homes else None


def _slices(sliced: Role, beside: Sequence[Sibling], snapshot: Snapshot) -> Steps[list[tuple[bool, Role]] | Unclear]:
    """Roles of whole slices, and one role for each incomplete slice; True for one that must join its siblings."""
    pods, room, rules = sliced.pods, sliced.room, sliced.rules
    for slice_ in rules.slices:
        room[snapshot.levels[slice_.level].codes < 0] = 0
    codes, inner = snapshot.levels[rules.slice_level].codes, rules.slices[:-1]
    shape = (pods[0].requests, pods[0].selection, pods[0].topology)
    there: dict[tuple[str, int], list[int]] = {}
    for pod, node in beside:
        if (pod.requests, pod.selection, pod.topology) == shape and node in snapshot.rows:
            there.setdefault(pod.slice_of(rules.slice_size), []).append(snapshot.rows[node])
    slices = yield from grouped(pods, lambda pod: pod.slice_of(rules.slice_size))
    parts = [of for of, pods in slices.items() if of in there or len(pods) < rules.slice_size]
    cut = set(parts)
    pieces, whole = [], [pod for of, pods in slices.items() if of not in cut for pod in pods]
    if whole:
        pieces.append((False, replace(sliced, pods=tuple(whole))))
    for of in parts[:MOST_PARTS]:
        members = tuple(slices[of])
        if of in there:
            home = shared(rules.slice_level, there[of], "the members of a slice", snapshot)
            if isinstance(home, Split):
                return home
            inside, at = np.where(codes == home, room, 0), (rules.slice_level, home)
            joining = replace(sliced, pods=members, room=inside, rules=rules.sliced_by(0), home=at)
            parts_of_it = (yield from _slices(joining, beside, snapshot)) if inner else [(True, joining)]
            if isinstance(parts_of_it, Unclear):
                return parts_of_it
            pieces += [(True, role) for _, role in parts_of_it]
        elif inner and (missing := _missing_members(members, inner[-1].size)):
            return Unclear(
                f"slices of {rules.slice_size} are made of whole slices of {inner[-1].size}, "
                f"and {many(missing, 'member')} more would be needed for that",
                f"add {many(missing, 'member')}, or choose another size of slices",
            )
        else:
            pieces.append((False, replace(sliced, pods=members, rules=rules.sliced_by(len(members)))))
    return pieces[: MOST_PARTS + 1]


def _missing_members(pods: Sequence[Pod], size: int) -> int:
    """How many members the slices of that size lack."""
    return len({pod.slice_of(size) for pod in pods}) * size - len(pods)


def confine(
    role: Role, roles: Sequence[Role], room: Counts, home: int | None, rows: Rows, snapshot: Snapshot
) -> int | None:
    """Enforce a required level: remove the role's room outside the domains that it shares with roles that require one.

    ``room`` is changed.
    ``home``: the row of a node in those domains, which is returned. None if the role is the first to choose; it takes
    the domain with the most room among ``rows``.
    """
    least = role.rules.required or 0
    levels = dict.fromkeys(other.rules.required for other in roles if (other.rules.required or 0) >= least)
    shared = [snapshot.levels[at].codes for at in levels if at is not None]
    for codes in shared:
        room[codes < 0] = 0
    if home is None:
        home = _roomiest(snapshot.levels[least], rows[room[rows] > 0], room, snapshot.rank)
    for codes in shared:
        room[codes != (-1 if home is None else codes[home])] = 0
    return home


def _roomiest(level: Level, rows: Rows, room: Counts, rank: Rows) -> int | None:
    """The first node, by name, of the domain with the most room among these nodes; ties are broken by name."""
    if not len(rows):
        return None
    codes = level.codes[rows]
    rooms = np.bincount(codes, room[rows])[codes]
    return int(rows[np.lexsort((rank[rows], level.rank[codes], -rooms))[0]])


def nearness(role: Role, levels: int) -> int:
    """The level that it requires, else one beyond all of them."""
    return levels if role.rules.required is None else role.rules.required


def _bulk(role: Role) -> tuple[bool, int, int, int]:
    """The sort key by size. A single member is near itself anywhere, so it goes after roles of several members."""
    return role.count > 1, *_weight(role.requests, role.count)


def by_size(roles: Sequence[Role]) -> tuple[Role, ...]:
    """The roles with the largest single member first: members that are hard to fit go before easy ones."""
    return tuple(sorted(roles, key=lambda role: _weight(role.requests, 1), reverse=True))


def _weight(requests: Requests, count: int) -> tuple[int, int, int]:
    amounts = dict(requests)
    return count_devices(requests) * count, amounts.get("cpu", 0) * count, amounts.get("memory", 0) * count
