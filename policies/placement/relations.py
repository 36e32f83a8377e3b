"""The demands of a gang's roles on each other and on present pods, over arrays of all nodes.

A gang has no relations if none of its pods has demands and no pod keeps it away; then nothing here runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from policies.model import Pod, Term
from policies.model.mentions import Mention, mentioned
from policies.placement.columns import Codes, Mask
from policies.placement.snapshot import Counts, Level, Rows, Snapshot
from policies.placement.spreading import Evenly, Known, OnSome, evened, evenly_of, rows_with, tally
from policies.placement.tenants import Tenant
from policies.steps import Steps

_HOMES = 16
"""Most domains tried for members that must be together and whose first one may go anywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """The required pod affinity of a role: the domain of each term must have a pod that all terms select.

    ``counts``: for each term, how many such pods are in each domain.
    ``feeds``: the roles that are such pods, except those of a later wave.
    ``some``: whether any such pod exists in the cluster.
    ``itself``: whether the role selects itself. Then it may go anywhere while no such pod exists.
    """

    codes: tuple[Codes, ...]
    counts: tuple[Counts, ...]
    feeds: tuple[bool, ...]
    some: bool
    itself: bool

    def on(self, rows: Rows) -> Near:
        return replace(self, codes=tuple(codes[rows] for codes in self.codes))

    def homes(self, rank: Rows, room: Counts, want: int) -> list[Mask]:
        """Masks of domains where members may be together: all that hold ``want``, tightest first; or the roomiest."""
        combined, sums, first = self._domains(rank, np.minimum(room, want))
        holding = (sums >= want).nonzero()[0]
        if not len(holding):
            holding = (sums == sums.max(initial=1)).nonzero()[0]
        chosen = holding[np.lexsort((first[holding], sums[holding]))][:_HOMES]
        return [combined == place for place in chosen.tolist()]

    def roomiest(self, rank: Rows, room: Counts) -> list[Mask]:
        """Masks of domains, those with the most room first."""
        combined, sums, first = self._domains(rank, room)
        chosen = np.lexsort((first, -sums))[: min(_HOMES, np.count_nonzero(sums))]
        return [combined == place for place in chosen.tolist()]

    def _domains(self, rank: Rows, room: Counts) -> tuple[Codes, Counts, Counts]:
        """The domain of each node by all terms together; for each domain its room and the rank of its first node."""
        stacked = np.stack(self.codes)
        _, combined = np.unique(stacked, axis=1, return_inverse=True)
        combined = np.where((stacked >= 0).all(axis=0), combined.reshape(-1), -1)
        sums = np.bincount(combined + 1, room, 1)[1:].astype(np.int64)
        first = np.full(len(sums) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, combined + 1, rank)
        return combined, sums, first[1:]

    def within(self, counts: Sequence[Counts]) -> Mask:
        """The nodes in a domain of each term that has such a pod."""
        mask = np.ones(len(self.codes[0]), dtype=np.bool_)
        for codes, here in zip(self.codes, counts, strict=True):
            mask &= (here > 0)[codes]
        return mask


def near_of(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Steps[Near | None]:
    """The affinity of the role ``number``; None if it requires none. ``pods``: the first pod of each role."""
    terms, tenants = pods[number].constraints.affinity, snapshot.others.tenants
    if not terms:
        return None
    rows = rows_with((tenant for tenant in (yield from tenants.meant(terms)) if not tenant.expected), snapshot)
    codes = tuple(snapshot.others.column(term.key) for term in terms)
    counts = tuple(tally(code, rows) for code in codes)
    wave = pods[number].wave
    feeds = tuple(pod.wave <= wave and all(tenants.means(term, pod) for term in terms) for pod in pods)
    return Near(codes, counts, feeds, any(bool(count.any()) for count in counts), feeds[number])


@dataclass(frozen=True, slots=True, eq=False)
class Hindrance:
    """Nodes that present pods close to a role, and the text of that: ``"port 80 in use by default/web"``."""

    text: str
    rows: Mask


class Exclusion(NamedTuple):
    """A rule that a member of this role and one of the role ``other`` cannot share a domain.

    ``codes``: the domains. ``single``: each of them is one node.
    """

    other: int
    codes: Codes
    text: str
    single: bool


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """All relations of one role. ``closed``: where none of its members may go, whatever the others do."""

    closed: Mask
    hindrances: tuple[Hindrance, ...]
    exclusions: tuple[Exclusion, ...]
    near: Near | None
    evenly: tuple[Evenly, ...]

    @property
    def facts(self) -> tuple[Codes | Mask, ...]:
        """The arrays by which nodes differ, besides each being one node."""
        wide = (exclusion.codes for exclusion in self.exclusions if not exclusion.single)
        return *wide, *(() if self.near is None else self.near.codes), *chain(*(evenly.facts for evenly in self.evenly))

    @property
    def begins(self) -> bool:
        """Whether the first of members that must be together may go anywhere."""
        return self.near is not None and self.near.itself and not self.near.some

    def evened(self, number: int) -> Codes | None:
        """The domains over which the members are spread, if no other mutual demand reaches beyond single nodes.

        ``number``: the number of this relation.
        """
        wide = self.near is not None or any(
            exclusion.other == number and not exclusion.single for exclusion in self.exclusions
        )
        return self.evenly[0].codes if len(self.evenly) == 1 and self.evenly[0].feeds[number] and not wide else None

    def on(self, rows: Rows, known: OnSome) -> Relation:
        """The relation over some of the nodes. ``known``: shared arrays of the other roles."""
        near = None if self.near is None else self.near.on(rows)
        exclusions = tuple(exclusion._replace(codes=exclusion.codes[rows]) for exclusion in self.exclusions)
        constraint = tuple(constraint.on(rows, known) for constraint in self.evenly)
        return replace(self, closed=self.closed[rows], exclusions=exclusions, near=near, evenly=constraint)


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """A relation for each role, by its number, and a pod of each.

    ``alone``: mutual demands amount to a cap on each node.
    ``waves``: the order in which the roles must be placed; 0 for all if the order makes no difference.
    """

    pods: tuple[Pod, ...]
    of: tuple[Relation, ...]
    alone: bool
    waves: tuple[int, ...]

    def on(self, rows: Rows) -> Relations:
        """The relations over some of the nodes; the counts of domains stay those of all nodes."""
        known: OnSome = {}
        return replace(self, of=tuple(relation.on(rows, known) for relation in self.of))

    @property
    def upkeep(self) -> int:
        """The cost of placing a member besides the others, in the units of ``policies.steps``."""
        rules_of_roles = [len(relation.evenly) + len(relation.exclusions) for relation in self.of]
        return 2 * max(rules_of_roles) + sum(rules_of_roles) // 4

    def caps(self, number: int, room: Counts, count: int) -> Counts:
        """An upper bound of the room for ``count`` members of a role, by the role's own demands alone."""
        relation = self.of[number]
        room = np.where(relation.closed, 0, room)
        for exclusion in relation.exclusions:
            if exclusion.other == number:
                room = np.where(exclusion.codes >= 0, np.minimum(room, 1), room)
        for even in relation.evenly:
            if even.itself and sum(even.feeds) == 1:
                room = np.minimum(room, evened(even, even.codes, room, count)[1][even.codes])
        return room

    def reach(self, number: int, rows: Rows, room: Counts, count: int) -> int:
        """An upper bound of the members of a role that fit on these nodes, by its own demands alone.

        ``room``: the room of these nodes, within the ``caps``.
        """
        relation, limit = self.of[number], int(room.sum())
        for exclusion in relation.exclusions:
            if exclusion.other == number and not exclusion.single:
                inside = np.bincount(exclusion.codes[rows] + 1, room)
                limit = min(limit, int(inside[0]) + int(np.count_nonzero(inside[1:])))
        for even in relation.evenly:
            if even.itself and sum(even.feeds) == 1:
                limit = min(limit, int(np.minimum(*evened(even, even.codes[rows], room, count)).sum()))
        return limit

    def holds(self, number: int, level: Level, count: int) -> Mask:
        """The domains of a level that may hold ``count`` members of a role.

        Excluded are those inside one domain that admits fewer by the role's own demands.
        """
        relation, mask = self.of[number], np.ones(len(level.names), dtype=np.bool_)
        for exclusion in relation.exclusions:
            if exclusion.other == number and not exclusion.single:
                mask &= (level.shared(exclusion.codes) < 0) | (count < 2)
        for even in relation.evenly:
            if even.itself and sum(even.feeds) == 1:
                outer = level.shared(even.codes)
                mask &= (outer < 0) | (even.in_one()[outer] >= count)
        return mask


def relations_of(pods: Sequence[Pod], snapshot: Snapshot) -> Steps[Relations]:
    """The relations of the roles; ``pods``: one pod of each."""
    each, known = np.arange(len(snapshot.names)), Known()
    relations: list[Relation] = []
    for number, pod in enumerate(pods):
        relations.append((yield from _relation(number, pods, snapshot, each, known)))
        constraints = pod.constraints
        yield 20 + (1 + len(constraints.affinity) + len(constraints.anti_affinity)) * _term_cost(pods, snapshot)
    alone = all(_alone(number, relation) for number, relation in enumerate(relations))
    return Relations(tuple(pods), tuple(relations), alone, _waves(pods, relations))


def _term_cost(pods: Sequence[Pod], snapshot: Snapshot) -> int:
    """The cost of one demand on other pods: each role is compared, and each node."""
    return len(pods) + len(snapshot.names) // 100


def _relation(number: int, pods: Sequence[Pod], snapshot: Snapshot, each: Codes, known: Known) -> Steps[Relation]:
    """The relation of one role. ``each``: every node as a domain of its own."""
    pod = pods[number]
    near = yield from near_of(number, pods, snapshot)
    spread = pod.constraints.spread
    evenly: list[Evenly] = []
    for constraint in spread:
        evenly.append((yield from evenly_of(constraint, spread, number, pods, snapshot, known)))
        yield _term_cost(pods, snapshot)
    hindrances = [obstacle for obstacle in (yield from hindrances_of(pod, snapshot)) if obstacle.rows.any()]
    closed = np.zeros(len(snapshot.names), dtype=np.bool_)
    for obstacle in hindrances:
        closed |= obstacle.rows
    return Relation(closed, tuple(hindrances), tuple(_exclusions(number, pods, snapshot, each)), near, tuple(evenly))


def hindrances_of(pod: Pod, snapshot: Snapshot) -> Steps[list[Hindrance]]:
    """The nodes that present pods or missing labels close to the pod, by cause.

    Causes are used ports, anti-affinity in both directions, nominated pods that count for its spread, and missing
    labels.
    """
    others, constraints, hindrances = snapshot.others, pod.constraints, list[Hindrance]()
    for port in constraints.ports:
        rows, there = np.zeros(len(snapshot.names), dtype=np.bool_), others.tenants.taking(port)
        rows[rows_with(there, snapshot)] = True
        hindrances.append(Hindrance(f"port {port.port} in use by {_named(there)}", rows))
    for term in constraints.anti_affinity:
        there = yield from others.tenants.meant((term,))
        hindrances.append(Hindrance(f"anti-affinity with {_named(there)}", _around(there, term, snapshot)))
        yield len(there) // 20
    for term, there in others.tenants.repelling(pod):
        hindrances.append(Hindrance(f"anti-affinity of {_named(there)}", _around(there, term, snapshot)))
        yield len(there) // 20
    for spread in constraints.spread:
        # The remaining room depends on where the nominated pods go, so no member is planned there before.
        rows, there = np.zeros(len(snapshot.names), dtype=np.bool_), []
        there += yield from others.tenants.counted_where_nominated(spread, pod.namespace)
        rows[rows_with(there, snapshot)] = True
        hindrances.append(Hindrance(f"kept for {_named(there)}, for which its spread has to leave room", rows))
    for key in dict.fromkeys(
        (*(term.key for term in constraints.affinity), *(spread.key for spread in constraints.spread))
    ):
        hindrances.append(Hindrance(f"no label {key}", others.column(key) < 0))
    return hindrances


def _exclusions(number: int, pods: Sequence[Pod], snapshot: Snapshot, each: Codes) -> Iterable[Exclusion]:
    """Yield the exclusions between roles. Anti-affinity counts in both directions."""
    others, constraints = snapshot.others, pods[number].constraints
    for other, pod in enumerate(pods):
        mine = [term for term in constraints.anti_affinity if others.tenants.means(term, pod)]
        theirs = [term for term in pod.constraints.anti_affinity if others.tenants.means(term, pods[number])]
        for key in dict.fromkeys(term.key for term in (*mine, *theirs)):
            codes = others.column(key)
            single = int(np.bincount(codes + 1)[1:].max(initial=0)) <= 1
            yield Exclusion(other, codes, f"anti-affinity to each other by {key}", single)
        taken = [port for port in constraints.ports if any(map(port.conflicts, pod.constraints.ports))]
        if taken:
            yield Exclusion(other, each, f"port {taken[0].port} for each", single=True)


def _around(tenants: Sequence[Tenant], term: Term, snapshot: Snapshot) -> Mask:
    """The nodes of the domains in which these tenants are."""
    codes = snapshot.others.column(term.key)
    taken = np.zeros(int(codes.max(initial=-1)) + 2, dtype=np.bool_)
    taken[codes[rows_with(tenants, snapshot)]] = True
    taken[-1] = False  # code -1: nodes without the label
    return np.asarray(taken[codes], dtype=np.bool_)


def _named(tenants: Sequence[Tenant]) -> str:
    """The first of them, and how many others there are."""
    first = min(map(attrgetter("namespace", "name"), tenants), default=None)
    named = "" if first is None else mentioned([Mention(first[0], "/".join(first))])
    return named if len(tenants) < 2 else f"{named} and {len(tenants) - 1} more"


def _waves(pods: Sequence[Pod], relations: Sequence[Relation]) -> tuple[int, ...]:
    """The waves of the roles; all 0 if no role counts members of an earlier wave for its affinity or spread."""
    for pod, relation in zip(pods, relations, strict=True):
        for rule in (*relation.evenly, *(() if relation.near is None else (relation.near,))):
            if any(other.wave < pod.wave for other, feeds in zip(pods, rule.feeds, strict=True) if feeds):
                return tuple(other.wave for other in pods)
    return (0,) * len(pods)


def _alone(number: int, relation: Relation) -> bool:
    only = all(other.other == number and other.single for other in relation.exclusions)
    return relation.near is None and not relation.evenly and only
