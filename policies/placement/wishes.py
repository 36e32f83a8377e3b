"""What the members of a role would rather have of nodes and of other pods: scores, never a reason to leave a node out.

As kube-scheduler does it by default: NodeAffinity, InterPodAffinity and PodTopologySpread each give 0..100 to the nodes
that have room, and count the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import log
from operator import add

import numpy as np

from policies.model import Pod, Selection
from policies.placement.columns import Codes, Mask
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.placement.spreading import Evenly, Known, OnSome, evenly_of, rows_with, tally
from policies.steps import Steps

BEST = 300
"""The most that a node can get."""
_TERM = 20
"""What it costs to look at one that a role prefers, in units of about 5 microseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Company:
    """The preferred terms of pod affinity and anti-affinity over one label. ``sums``: the weights of the pods that they
    mean in each domain, negative for anti-affinity. ``gains``: what a member of each role of the gang adds."""

    codes: Codes
    sums: Counts
    gains: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Wishes:
    """Of one role. ``nodes``: for each node the weights of the preferred terms of node affinity that it meets.
    ``apart``: whether its members would rather not share nodes."""

    nodes: Counts
    company: tuple[Company, ...]
    evenly: tuple[Evenly, ...]
    apart: bool = False

    @property
    def mutual(self) -> bool:
        """Whether members count for it: then it changes with each of them."""
        return any(any(one.gains) for one in self.company) or any(any(one.feeds) for one in self.evenly)

    @property
    def facts(self) -> tuple[Codes | Mask, ...]:
        """What tells nodes apart."""
        return self.nodes, *(one.codes for one in self.company), *chain(*(one.facts for one in self.evenly))

    def on(self, rows: Rows) -> Wishes:
        """The same over some of the nodes; the counts of domains stay those of all."""
        company = tuple(replace(one, codes=one.codes[rows]) for one in self.company)
        found: OnSome = {}
        evenly = tuple(one.on(rows, found) for one in self.evenly)
        return replace(self, nodes=self.nodes[rows], company=company, evenly=evenly)

    def merits(self, room: Counts) -> Counts:
        """How well each node meets them before any member is placed, 0..BEST."""
        return Granted.none(self).merits(room > 0)


@dataclass(slots=True)
class Granted:
    """The wishes of a role while members are placed: the counts grow with those that are placed already."""

    wishes: Wishes
    company: list[Counts]
    evenly: list[Counts]

    @classmethod
    def none(cls, wishes: Wishes) -> Granted:
        """Nobody is placed yet. Before ``meet`` is called it has to be copied."""
        return cls(wishes, [one.sums for one in wishes.company], [one.counts for one in wishes.evenly])

    def copy(self) -> Granted:
        return Granted(self.wishes, [one.copy() for one in self.company], [one.copy() for one in self.evenly])

    def meet(self, role: int, row: int) -> None:
        """A member of that role has been placed there."""
        for one, sums in zip(self.wishes.company, self.company, strict=True):
            if one.gains[role] and one.codes[row] >= 0:
                sums[one.codes[row]] += one.gains[role]
        for even, counts in zip(self.wishes.evenly, self.evenly, strict=True):
            if even.feeds[role] and even.counted[row]:
                counts[even.codes[row]] += 1

    def merits(self, among: Mask) -> Counts:
        """0..BEST for each node, as the nodes ``among`` which one is chosen compare; of the others it says nothing."""
        total = np.zeros(len(among), dtype=np.int64)
        if not among.any():
            return total
        if top := int(self.wishes.nodes[among].max()):
            total += 100 * self.wishes.nodes // top
        if self.company:
            pairs = zip(self.wishes.company, self.company, strict=True)
            sums = np.sum([found[one.codes] for one, found in pairs], axis=0)
            low, high = int(sums[among].min()), int(sums[among].max())
            if high > low:
                total += 100 * (sums - low) // (high - low)
        return total + self._spread(among) if self.evenly else total

    def _spread(self, among: Mask) -> Counts:
        """The fewer pods count in the domains of a node the better; nothing for nodes that are in no domain."""
        crowd, inside = np.zeros(len(among)), among.copy()
        for even, counts in zip(self.wishes.evenly, self.evenly, strict=True):
            # As kube-scheduler does: the more domains, the less the skew matters beside the pods of one of them.
            crowd += counts[even.codes] * log(len(even.domains) + 2) + even.spread.max_skew - 1
            inside &= even.codes >= 0
        crowd = crowd.round()
        if not inside.any():
            return np.zeros(len(among), dtype=np.int64)
        low, high = crowd[inside].min(), crowd[inside].max()
        merits = 100 * (high + low - crowd) // high if high > 0 else np.full(len(among), 100)
        return np.where(inside, merits, 0).astype(np.int64)


def wishes_of(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Steps[Wishes | None]:
    """Of the role with that number, of which ``pods`` has one each; None where it prefers nothing."""
    pod, others = pods[number], snapshot.others
    asked = pod.constraints.preferred
    if not (asked.nodes or asked.pods or asked.spread):
        return None
    nodes = np.zeros(len(snapshot.names), dtype=np.int64)
    for weight, term in asked.nodes:
        nodes += weight * (yield from others.wanted(Selection(affinity=(term,))))
        yield _TERM
    company, apart = yield from _company(number, pods, snapshot)
    known, evenly = Known(), list[Evenly]()
    for spread in asked.spread:
        evenly.append((yield from evenly_of(spread, asked.spread, number, pods, snapshot, known)))
        yield _TERM
    apart = apart or any(one.feeds[number] for one in evenly)
    return Wishes(nodes, company, tuple(evenly), apart)


def _company(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Steps[tuple[tuple[Company, ...], bool]]:
    """Its terms label by label, and whether its members would rather not be near each other."""
    found: dict[str, Company] = {}
    tenants, apart = snapshot.others.tenants, False
    for weight, term in pods[number].constraints.preferred.pods:
        codes = snapshot.others.column(term.key)
        sums = weight * tally(codes, rows_with((yield from tenants.meant((term,))), snapshot))
        gains = tuple(weight * tenants.means(term, pod) for pod in pods)
        apart |= gains[number] < 0
        if (before := found.get(term.key)) is not None:
            sums, gains = before.sums + sums, tuple(map(add, before.gains, gains))
        found[term.key] = Company(codes, sums, gains)
        yield _TERM
    return tuple(found.values()), apart
