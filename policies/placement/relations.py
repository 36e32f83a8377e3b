"""What the roles of a gang demand of each other and of the pods that are there, over arrays of all nodes.

A gang of which no pod demands anything, and that no pod keeps away, has no relations: nothing here is done for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from policies.model import Pod, Spread, Term
from policies.model.constraints import selects
from policies.placement.columns import Codes, Mask
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.placement.tenants import Tenant


@dataclass(frozen=True, slots=True, eq=False)
class Hindrance:
    """Nodes that are closed to a role by what is there already, and what it is: ``"port 80 in use by default/web"``."""

    text: str
    rows: Mask


class Exclusion(NamedTuple):
    """A member of this role and one of the role ``other`` cannot be in one domain; ``codes`` are the domains."""

    other: int
    codes: Codes
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """The required pod affinity of a role: in the domain of each term there is a pod that all of its terms mean.

    ``counts``: for each term how many such pods are in each domain. ``feeds``: which roles are such pods. ``some``:
    whether there is any in the cluster; a role that means itself (``itself``) may go anywhere while there is none.
    """

    codes: tuple[Codes, ...]
    counts: tuple[Counts, ...]
    feeds: tuple[bool, ...]
    some: bool
    itself: bool

    def on(self, rows: Rows) -> Near:
        return replace(self, codes=tuple(codes[rows] for codes in self.codes))

    def within(self, counts: Sequence[Counts]) -> Mask:
        """The nodes in a domain of each term that has such a pod."""
        found = np.ones(len(self.codes[0]), dtype=np.bool_)
        for codes, here in zip(self.codes, counts, strict=True):
            found &= (here > 0)[codes]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Evenly:
    """A topology spread constraint of a role. ``counts``: how many pods count in each domain, ``counted``: the nodes
    whose pods do, ``domains``: the codes of their domains, ``itself``: 1 if the selector selects the role.
    """

    spread: Spread
    codes: Codes
    counts: Counts
    counted: Mask
    domains: Rows
    itself: int
    feeds: tuple[bool, ...]

    def on(self, rows: Rows) -> Evenly:
        return replace(self, codes=self.codes[rows], counted=self.counted[rows])

    def least(self, counts: Counts) -> int:
        """How many pods the domain with the fewest has, as kube-scheduler takes it."""
        if not len(self.domains) or len(self.domains) < self.spread.min_domains:
            return 0
        return int(counts[self.domains].min())

    def most(self, counts: Counts) -> int:
        """How many pods a domain may have, for one more member to be let in."""
        return self.spread.max_skew + self.least(counts) - self.itself

    def lets_in_beside(self, nominated: int, counts: Counts, row: int) -> bool:
        """Whether an empty selector lets a member in on a node for which so many others are nominated: kube-scheduler
        counts those, and no pod that is there."""
        if self.spread.selector != () or not self.counted[row]:
            return True
        there = counts.copy()
        there[self.codes[row]] += nominated
        return int(there[self.codes[row]]) + self.itself - self.least(there) <= self.spread.max_skew

    def within(self, counts: Counts) -> Mask:
        """The nodes in a domain that may have one more member."""
        return np.asarray((counts <= self.most(counts))[self.codes], dtype=np.bool_)


@dataclass(frozen=True, slots=True, eq=False)
class Relation:
    """All of it for one role. ``closed``: where none of its members may go, whatever the others do."""

    closed: Mask
    hindrances: tuple[Hindrance, ...]
    exclusions: tuple[Exclusion, ...]
    near: Near | None
    evenly: tuple[Evenly, ...]

    def on(self, rows: Rows) -> Relation:
        near = None if self.near is None else self.near.on(rows)
        exclusions = tuple(one._replace(codes=one.codes[rows]) for one in self.exclusions)
        evenly = tuple(one.on(rows) for one in self.evenly)
        return replace(self, closed=self.closed[rows], exclusions=exclusions, near=near, evenly=evenly)


@dataclass(frozen=True, slots=True, eq=False)
class Relations:
    """A relation for each role, by its number, and a pod of each. ``alone``: what they demand of each other comes to no
    more than a cap on each node."""

    pods: tuple[Pod, ...]
    of: tuple[Relation, ...]
    alone: bool

    def on(self, rows: Rows) -> Relations:
        """The same over some of the nodes; the counts of domains stay those of all."""
        return replace(self, of=tuple(one.on(rows) for one in self.of))

    def caps(self, number: int, room: Counts, count: int) -> Counts:
        """The room for so many members of a role, as its own demands alone leave it: an upper bound."""
        one = self.of[number]
        room = np.where(one.closed, 0, room)
        for exclusion in one.exclusions:
            if exclusion.other == number:
                room = np.where(exclusion.codes >= 0, np.minimum(room, 1), room)
        for even in one.evenly:
            if even.itself and sum(even.feeds) == 1:
                room = np.minimum(room, _evened(even, room, count)[even.codes])
        return room

    def reach(self, number: int, room: Counts, count: int) -> int:
        """How many of so many members of a role fit where there is such room, by its own demands alone, at most."""
        one, found = self.of[number], int(room.sum())
        for exclusion in one.exclusions:
            if exclusion.other == number:
                inside = np.bincount(exclusion.codes + 1, room)
                found = min(found, int(inside[0]) + int(np.count_nonzero(inside[1:])))
        for even in one.evenly:
            if even.itself and sum(even.feeds) == 1:
                inside = np.bincount(even.codes + 1, room, len(even.counts) + 1)[1:]
                found = min(found, int(np.minimum(inside, _evened(even, room, count)).sum()))
        return found


def relations_of(pods: Sequence[Pod], snapshot: Snapshot) -> Relations:
    """Of the roles that these pods stand for, one each."""
    each = np.arange(len(snapshot.names))
    found = tuple(_relation(number, pods, snapshot, each) for number in range(len(pods)))
    return Relations(tuple(pods), found, all(_alone(number, one) for number, one in enumerate(found)))


def _relation(number: int, pods: Sequence[Pod], snapshot: Snapshot, each: Codes) -> Relation:
    """``each``: every node as a domain of its own."""
    pod = pods[number]
    near = _near(number, pods, snapshot)
    spread = pod.constraints.spread
    evenly = tuple(evenly_of(one, spread, number, pods, snapshot) for one in spread)
    hindrances = [one for one in _hindrances(pod, snapshot) if one.rows.any()]
    closed = np.zeros(len(snapshot.names), dtype=np.bool_)
    for one in hindrances:
        closed |= one.rows
    return Relation(closed, tuple(hindrances), tuple(_exclusions(number, pods, snapshot, each)), near, evenly)


def _hindrances(pod: Pod, snapshot: Snapshot) -> Iterable[Hindrance]:
    """By ports that are taken, by the anti-affinity of the pod and towards it, and by labels that nodes lack."""
    others, asked = snapshot.others, pod.constraints
    for port in asked.ports:
        rows, there = np.zeros(len(snapshot.names), dtype=np.bool_), others.tenants.taking(port)
        rows[rows_with(there, snapshot)] = True
        yield Hindrance(f"port {port.port} in use by {_named(there)}", rows)
    for term in asked.anti_affinity:
        there = others.tenants.meant((term,))
        yield Hindrance(f"anti-affinity with {_named(there)}", _around(there, term, snapshot))
    for term, there in others.tenants.repelling(pod):
        yield Hindrance(f"anti-affinity of {_named(there)}", _around(there, term, snapshot))
    for key in dict.fromkeys((*(one.key for one in asked.affinity), *(one.key for one in asked.spread))):
        yield Hindrance(f"no label {key}", others.column(key) < 0)


def _exclusions(number: int, pods: Sequence[Pod], snapshot: Snapshot, each: Codes) -> Iterable[Exclusion]:
    """Anti-affinity counts in both directions."""
    others, asked = snapshot.others, pods[number].constraints
    for other, pod in enumerate(pods):
        mine = [term for term in asked.anti_affinity if others.tenants.means(term, pod)]
        theirs = [term for term in pod.constraints.anti_affinity if others.tenants.means(term, pods[number])]
        for key in dict.fromkeys(term.key for term in (*mine, *theirs)):
            yield Exclusion(other, others.column(key), f"anti-affinity to each other by {key}")
        taken = [port for port in asked.ports if any(map(port.conflicts, pod.constraints.ports))]
        if taken:
            yield Exclusion(other, each, f"port {taken[0].port} for each")


def _near(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Near | None:
    terms, tenants = pods[number].constraints.affinity, snapshot.others.tenants
    if not terms:
        return None
    rows = rows_with(tenants.meant(terms), snapshot)
    codes = tuple(snapshot.others.column(term.key) for term in terms)
    counts = tuple(tally(one, rows) for one in codes)
    feeds = tuple(all(tenants.means(term, pod) for term in terms) for pod in pods)
    return Near(codes, counts, feeds, any(bool(one.any()) for one in counts), feeds[number])


def evenly_of(spread: Spread, beside: Sequence[Spread], number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Evenly:
    """Nodes count that have the label of each constraint ``beside``."""
    pod, others = pods[number], snapshot.others
    counted = np.ones(len(snapshot.names), dtype=np.bool_)
    for one in beside:
        counted &= others.column(one.key) >= 0
    if spread.honors_affinity:
        counted &= others.wanted(pod.selection)
    if spread.honors_taints:
        counted &= snapshot.eligible(replace(pod.selection, node_selector=(), affinity=None, volumes=()))
    codes = others.column(spread.key)
    rows = rows_with(others.tenants.counted(spread, pod.namespace), snapshot)
    feeds = tuple(one.namespace == pod.namespace and spread.counts(dict(one.labels)) for one in pods)
    return Evenly(
        spread,
        codes,
        tally(codes, rows[counted[rows]]),
        counted,
        tally(codes, counted.nonzero()[0]).nonzero()[0],
        int(selects(spread.selector, dict(pod.labels))),
        feeds,
    )


def _evened(even: Evenly, room: Counts, count: int) -> Counts:
    """How many of so many members each domain can take at most: the fewest are where a domain is full, or where all
    members stand evenly.
    """
    inside = np.bincount(even.codes + 1, np.where(even.counted, room, 0), len(even.counts) + 1)[1:].astype(np.int64)
    least = even.least(even.counts + inside)
    if len(even.domains):
        lowest = np.cumsum(np.sort(even.counts[even.domains]))
        least = min(least, int(((lowest + count) // np.arange(1, len(lowest) + 1)).min()))
    return np.maximum(even.spread.max_skew + least - even.counts, 0)


def tally(codes: Codes, rows: Rows) -> Counts:
    """How many of the rows are in each domain; the last place is for the code -1, and none are there."""
    here = codes[rows]
    return np.bincount(here[here >= 0], minlength=int(codes.max(initial=-1)) + 2).astype(np.int64)


def _around(tenants: Sequence[Tenant], term: Term, snapshot: Snapshot) -> Mask:
    """The nodes of the domains that these are in."""
    codes = snapshot.others.column(term.key)
    taken = np.zeros(int(codes.max(initial=-1)) + 2, dtype=np.bool_)
    taken[codes[rows_with(tenants, snapshot)]] = True
    taken[-1] = False  # where the code -1 finds it: nodes without the label
    return np.asarray(taken[codes], dtype=np.bool_)


def rows_with(tenants: Iterable[Tenant], snapshot: Snapshot) -> Rows:
    """Where these are."""
    found = (snapshot.rows.get(tenant.node, -1) for tenant in tenants)
    return np.array([row for row in found if row >= 0], dtype=np.intp)


def _named(tenants: Sequence[Tenant]) -> str:
    """One of them, and how many others there are."""
    first = min(map(str, tenants), default="")
    return first if len(tenants) < 2 else f"{first} and {len(tenants) - 1} more"


def _alone(number: int, one: Relation) -> bool:
    only = all(other.other == number and _tells_nodes_apart(other.codes) for other in one.exclusions)
    return one.near is None and not one.evenly and only


def _tells_nodes_apart(codes: Codes) -> bool:
    return int(tally(codes, np.arange(len(codes))).max(initial=0)) <= 1
