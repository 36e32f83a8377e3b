"""place(): a node for every member of a gang at once, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.api import Choice, ScorePolicy
from policies.chosen import OURS, Policies
from policies.model import Pod
from policies.placement.capacity import reach, rooms
from policies.placement.exact import exactly
from policies.placement.filling import fill, related
from policies.placement.related import most_related
from policies.placement.request import MOST_PARTS, Cap, PlacementRequest, Role, Sibling, by_size, roles_of, rows_of
from policies.placement.rules import NONE_ASKED, Unclear, seen_by
from policies.placement.shortfall import NearestDomain, explain, in_the_way, nearest_domain
from policies.placement.snapshot import Counts, Domain, Rows, Snapshot
from policies.steps import BUDGET, Steps, finish, metered

_DOMAINS = 64
"""Most domains of a required level in which the largest number of members is searched."""
_EFFORT = BUDGET
"""Units of cost after which no more choices are tried for a gang. Gangs of a few roles stay far below."""
_TOO_MANY_PARTS = Unclear(
    f"its members make up more than {MOST_PARTS} slices that lack members, which are not placed at once",
    "delete all members of slices that lack some, and create them again",
)
CUT_SHORT = "; there may be room in an order or a division that was not tried: there are too many of them"
"""The remark of a reason when the effort was spent."""
_TELLING = 2_500
"""Most units for finding out how many members fit of a gang that waits in any case."""
_PAUSE = 100
"""The assumed cost of a topology policy for each pause or choice."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A node for each member that got one: at least as many as were needed."""

    nodes: dict[str, str]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The lack of a placement: how many members could be placed together, and what the nodes lack.

    ``nearest``: the domain that comes nearest to a required level.
    ``unclear``: why no room was searched: the demands cannot be understood, or members that have a node break them.
    """

    placed: int
    needed: int
    explanation: str
    nearest: NearestDomain | None = None
    unclear: Unclear | None = None


def place(
    members: Sequence[Pod],
    needed: int,
    snapshot: Snapshot,
    caps: Sequence[Cap] = (),
    beside: Sequence[Sibling] = (),
    policies: Policies = OURS,
) -> Placed | Shortfall:
    """Run ``placing`` at once."""
    return finish(placing(members, needed, snapshot, caps, beside, policies))


def placing(
    members: Sequence[Pod],
    needed: int,
    snapshot: Snapshot,
    caps: Sequence[Cap] = (),
    beside: Sequence[Sibling] = (),
    policies: Policies = OURS,
) -> Steps[Placed | Shortfall]:
    """Place the gang, in steps: all ``members`` if there is room, else as many as fit if these are ``needed``, or none.

    ``caps``: kube-scheduler's refusals, which are not planned again.
    ``beside``: the gang's other members.

    Domains are tried in the order of the topology policy. Whatever it proposes, no required level is broken and no
    slice is cut. Inside a domain a role gets the fewest nodes, the fullest of those, and members get consecutive slots
    in rank order, node by node.

    Members of one shape are placed whenever that is possible. Several shapes are placed one role after the other, the
    largest in sum first. If that fails, also in a domain that may hold them, other orders are tried. Then the number of
    all that fit besides each other is found exactly (``policies.placement.exact``). Beyond a budget, the largest or the
    smallest members go first, and the reason says that more was not tried. A role placed later may still get more nodes
    than it needs. Roles that other pods matter to are placed member by member (``policies.placement.related``). Their
    nodes come in an order in which kube-scheduler admits the members.
    """
    snapshot = seen_by([*members, *[pod for pod, _ in beside]], snapshot)
    roles = yield from roles_of(members, caps, snapshot, beside)
    if isinstance(roles, Unclear):
        return Shortfall(0, needed, roles.explanation, unclear=roles)
    outcome = yield from _placing(roles, needed, snapshot, caps, beside, policies)
    if _placed(outcome) < len(members) and any(role.wishes is not None for role in roles):
        # A preference must not cost any member its place.
        plain = [role.unwishing() for role in roles]
        again = yield from _placing(plain, needed, snapshot, caps, beside, policies)
        return again if _placed(again) > _placed(outcome) else outcome
    return outcome


def _placed(outcome: Placed | Shortfall) -> int:
    return len(outcome.nodes) if isinstance(outcome, Placed) else outcome.placed


def _placing(
    all_roles: Sequence[Role],
    needed: int,
    snapshot: Snapshot,
    caps: Sequence[Cap],
    beside: Sequence[Sibling],
    policies: Policies,
) -> Steps[Placed | Shortfall]:
    cut = [(role, reach(role, snapshot)) for role in all_roles]
    roles = tuple(role.cut(count) for role, count in cut if count)
    rows = rows_of([node for _, node in beside], snapshot)
    sure: dict[str, str] | None = {}
    if len(roles) > 1 or (roles and related(roles)):
        if _count(roles) >= needed:
            # Most often the first choice holds all. If not, what members leave to each other is worth a look.
            nodes = yield from _try(roles, rows, snapshot, policies, None if related(roles) else 1, thorough=False)
            if len(nodes) == _count(roles):
                return Placed(nodes)
            sure = yield from _surely(roles, needed, snapshot, policies.scoring)
            if sure is None and len(nodes) >= needed:
                sure = nodes
        if sure is None:
            roles = yield from _within_reach(roles, needed, snapshot, policies.scoring)
        else:
            # Fewer than needed are not placed, but the reason says how many fit.
            roles = _only(roles, sure or (yield from _found_room(roles, snapshot, policies.scoring)))
    if _count(roles) >= needed:
        nodes = yield from _most(roles, rows, needed, snapshot, policies, sure)
        if len(nodes) >= needed:
            return Placed(nodes)
        roles = _only(roles, nodes)
    placed = {pod.uid for role in roles for pod in role.pods}
    # Members are placed from the front of each role.
    stuck = next((role for role in all_roles if role.pods[-1].uid not in placed), None)
    if stuck is None:
        return Shortfall(len(placed), needed, _TOO_MANY_PARTS.explanation, unclear=_TOO_MANY_PARTS)
    want = stuck.count if len(all_roles) > 1 else min(stuck.count, needed)
    why = (yield from explain(stuck, want, snapshot, caps)) + in_the_way(stuck, snapshot) + CUT_SHORT * (sure is None)
    return Shortfall(len(placed), needed, why, nearest_domain(stuck, want, all_roles, snapshot))


def _surely(
    roles: tuple[Role, ...], needed: int, snapshot: Snapshot, scoring: ScorePolicy
) -> Steps[dict[str, str] | None]:
    """Place as many members as fit at once, if those are ``needed``; None if finding out takes too long.

    Without a required domain and related pods it may return fewer than needed.
    """
    if (relations := roles[0].relations) is None or not related(roles):
        # A look at the whole cluster costs no more if it also finds how many fit when those are too few.
        return (yield from exactly(roles, 1 if _are_free(roles) else needed, snapshot, scoring))
    required = min((role.rules.required for role in roles if role.rules.required is not None), default=None)
    choices = _widest(roles, required, snapshot)
    return (yield from most_related(roles, needed, choices, snapshot, scoring, relations))


def _only(roles: Sequence[Role], nodes: Collection[str]) -> tuple[Role, ...]:
    """The roles reduced to the members that have a node, which are the first of each role."""
    placed = [(role, sum(pod.uid in nodes for pod in role.pods)) for role in roles]
    return tuple(role.cut(count) for role, count in placed if count)


def _count(roles: Sequence[Role]) -> int:
    return sum(role.count for role in roles)


def _orders(roles: tuple[Role, ...]) -> list[tuple[Role, ...]]:
    """The orders in which roles are worth placing.

    As given; by the size of one member, ascending and descending; and fewest possible nodes first, as for pinned
    members.
    """
    tied = tuple(sorted(roles, key=lambda role: np.count_nonzero(role.room)))
    return list(dict.fromkeys((roles, by_size(roles), by_size(roles)[::-1], tied)))


def _are_free(roles: Sequence[Role]) -> bool:
    """Whether no role asks for a domain or slices."""
    return all(role.rules == NONE_ASKED for role in roles)


def _within_reach(
    roles: tuple[Role, ...], needed: int, snapshot: Snapshot, scoring: ScorePolicy
) -> Steps[tuple[Role, ...]]:
    """The members for which room is found at once, by role: in the cluster, or in a required domain.

    Roles without a required level come in the order in which the most of them are placed. If a level is required and
    every member is needed, there is nothing to find out.
    """
    free = _are_free(roles)
    if not free and (roles[0].rules.required is None or _count(roles) <= needed):
        return roles
    order, nodes = yield from _fullest(_orders(roles), snapshot, scoring)
    return _only(order if free else roles, nodes)


def _found_room(roles: tuple[Role, ...], snapshot: Snapshot, scoring: ScorePolicy) -> Steps[dict[str, str]]:
    """Place as many members as fit at once; if that takes too long to find out, as many as room is found for."""
    nodes = None if related(roles) else (yield from exactly(roles, 1, snapshot, scoring, _TELLING))
    if nodes is None:
        _, nodes = yield from _fullest(_orders(roles), snapshot, scoring)
    return nodes


def _fullest(
    orders: Sequence[tuple[Role, ...]], snapshot: Snapshot, scoring: ScorePolicy
) -> Steps[tuple[tuple[Role, ...], dict[str, str]]]:
    """The order in which the most members find room at once, and their nodes."""
    most, best, spent = orders[0], dict[str, str](), 0
    for choice in _widest(orders[0], orders[0][0].rules.required, snapshot):
        for order in orders:
            nodes, cost = yield from metered(fill(order, choice, snapshot, scoring))
            spent += cost
            if len(nodes) > len(best):
                most, best = order, nodes
            if len(nodes) == _count(order) or spent > _EFFORT:
                return most, best
    return most, best


def _widest(roles: Sequence[Role], required: int | None, snapshot: Snapshot) -> Iterator[Choice]:
    """Yield the whole cluster, or the domains of a level with the most room for the roles, each before everything
    else."""
    if required is None:
        yield (Domain("", np.arange(len(snapshot.names))),)
        return
    level = snapshot.levels[required]
    room = np.sum([np.minimum(rooms(role, required, snapshot.levels), role.count) for role in roles], axis=0)
    for code in [code for code in np.lexsort((level.rank, -room))[:_DOMAINS].tolist() if room[code]]:
        inside = level.codes == code
        yield Domain(level.names[code], np.flatnonzero(inside)), Domain("", np.flatnonzero(~inside))


def _most(
    roles: tuple[Role, ...],
    beside: Rows,
    needed: int,
    snapshot: Snapshot,
    policies: Policies,
    sure: dict[str, str] | None,
) -> Steps[dict[str, str]]:
    """The first placement of all members with room, or of the needed ones if that is unknown; else the largest one.

    ``sure``: a placement of all members that have room anywhere; None if unknown.
    """
    best: dict[str, str] = {}
    for order in dict.fromkeys((roles, by_size(roles))):
        nodes = yield from _try(order, beside, snapshot, policies)
        best = max(best, nodes, key=len)
        if len(best) >= max(needed, len(sure or ())):
            return best
    if len(roles) > 1 or related(roles):
        # No choice of the policy holds the needed members. Other orders may; if not, the number that fits is worth
        # knowing.
        _, nodes = yield from _fullest(_orders(roles), snapshot, policies.scoring)
        best = max(best, nodes, sure or {}, key=len)
    return best


def _try(
    roles: tuple[Role, ...],
    beside: Rows,
    snapshot: Snapshot,
    policies: Policies,
    choices: int | None = None,
    *,
    thorough: bool = True,
) -> Steps[dict[str, str]]:
    """Fill the choices in turn: the first that holds all counts, else the one that holds the most.

    ``choices``: how many are tried at most. Choices before the one that holds all are then tried harder: in other
    orders of the roles, and exactly.
    ``thorough``: also try harder if no choice holds all.
    """
    best: dict[str, str] = {}
    failed: list[Choice] = []
    spent, everybody, others = 0, _count(roles), related(roles)
    for choice in policies.topology.domains(PlacementRequest(roles, beside), snapshot):
        if not choice:
            spent += _PAUSE
            yield _PAUSE
            continue
        yield _PAUSE
        if others and _too_narrow(roles, choice, len(snapshot.names)):
            continue
        nodes, cost = yield from metered(fill(_confined(roles, choice), choice, snapshot, policies.scoring))
        best = max(best, nodes, key=len)
        if len(best) == everybody:
            break
        failed.append(choice)
        spent += cost + _PAUSE
        if len(failed) == choices or spent > _EFFORT:
            break
    if len(best) == everybody or (thorough and choices is None):
        nodes = yield from _Harder(roles, snapshot, policies.scoring).first_filled(failed)
        best = nodes or best
    return best


def _confined(roles: tuple[Role, ...], choice: Choice) -> tuple[Role, ...]:
    """The roles without the room in domains that are not for them."""
    if not any(domain.not_for for domain in choice):
        return roles
    return tuple(replace(role, room=_inside(role.room, number, choice)) for number, role in enumerate(roles))


def _inside(room: Counts, number: int, choice: Choice) -> Counts:
    """The room of a role in the domains that are for it. ``number``: its place among the roles."""
    inside = np.zeros_like(room)
    for domain in choice:
        if number >= domain.not_for:
            inside[domain.rows] = room[domain.rows]
    return inside


class _Harder:
    """Searches other ways to fill choices. Nodes that a choice leaves out are left out on purpose."""

    def __init__(self, roles: tuple[Role, ...], snapshot: Snapshot, scoring: ScorePolicy) -> None:
        self._roles = roles
        self._count = _count(roles)
        self._snapshot = snapshot
        self._scoring = scoring
        self._left = _EFFORT // 2
        self._one_shape = _are_free(roles) and roles[0].relations is None
        self._failed: set[bytes] = set()
        """Choices that cannot be filled, by the room and free amounts of their nodes. Most domains equal others."""

    def first_filled(self, choices: Iterable[Choice]) -> Steps[dict[str, str]]:
        """A node for every member, by the first choice that can be filled; empty if none can."""
        if len(self._roles) == 1 and not related(self._roles):
            return {}
        for choice in choices:
            if self._left > 0 and len(nodes := (yield from self._by(choice))) == self._count:
                return nodes
        return {}

    def _by(self, choice: Choice) -> Steps[dict[str, str]]:
        roles = self._roles
        within = tuple(replace(role, room=_inside(role.room, number, choice)) for number, role in enumerate(roles))
        yield 2 * len(roles)
        if all(map(_has_all_room, within, roles)) or (kind := self._kind(within)) in self._failed:
            return {}
        held = max(domain.not_for for domain in choice) or len(roles)
        # The shares of the first role were made for the first order.
        shared = tuple(replace(domain, most=None) for domain in choice)
        nodes, cost = yield from metered(self._fill(within, held, shared))
        self._left -= cost
        if self._one_shape and len(nodes) < self._count:
            self._failed.add(kind)
        return nodes

    def _fill(self, within: tuple[Role, ...], held: int, choice: Choice) -> Steps[dict[str, str]]:
        """Try other orders, then place exactly: first the first roles, so that the others can be near, then all."""
        snapshot, scoring, most = self._snapshot, self._scoring, self._left // 2
        first, rest = within[:held], within[held:]
        for order in dict.fromkeys((*roles, *other) for roles in _orders(first) for other in _orders(rest)):
            if order != within:
                nodes = yield from fill(order, choice, snapshot, scoring)
                if len(nodes) == self._count:
                    return nodes
        if (relations := within[0].relations) is not None and related(within):
            return (yield from most_related(within, self._count, [choice], snapshot, scoring, relations, most)) or {}
        if rest and held > 1:
            given = yield from exactly(first, _count(first), snapshot, scoring, most)
            if given:
                nodes = yield from fill(within, choice, snapshot, scoring, given)
                if len(nodes) == self._count:
                    return nodes
        return (yield from exactly(within, self._count, snapshot, scoring, most)) or {}

    def _kind(self, within: Sequence[Role]) -> bytes:
        """A key that is equal for sets of nodes with equal room and amounts for these roles."""
        rooms = np.stack([role.room for role in within])
        rows = np.flatnonzero(rooms.any(axis=0))
        lines = sorted({line for role in within for line, _ in self._snapshot.demand(role.requests) or ()})
        there = np.concatenate((rooms[:, rows], self._snapshot.free[lines][:, rows]))
        return there[:, np.lexsort(there)].tobytes()


def _has_all_room(within: Role, role: Role) -> bool:
    return bool((within.room == role.room).all())


def _too_narrow(roles: Sequence[Role], choice: Choice, nodes: int) -> bool:
    """Whether a role cannot be in these domains as a whole because of its demands on its own members."""
    inside = np.zeros(nodes, dtype=np.bool_)
    for domain in choice:
        inside[domain.rows] = True
    rows = inside.nonzero()[0]
    return any(role.too_narrow(rows) for role in roles)
