"""The preferences of a role's members about nodes and other pods: scores, never a reason to exclude a node.

As in kube-scheduler by default, NodeAffinity, InterPodAffinity and PodTopologySpread each give 0..100 to the nodes with
room, and have equal weight.
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
"""The highest score of a node."""
_TERM = 20
"""The cost of one preferred term of a role, in units of about 5 microseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class Company:
    """The preferred terms of pod affinity and anti-affinity over one label.

    ``sums``: the weights of the selected pods in each domain, negative for anti-affinity.
    ``gains``: what a member of each role of the gang adds.
    """

    codes: Codes
    sums: Counts
    gains: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Wishes:
    """The preferences of one role.

    ``nodes``: for each node the weights of the preferred terms of node affinity that it meets.
    ``apart``: whether its members prefer not to share nodes.
    """

    nodes: Counts
    company: tuple[Company, ...]
    evenly: tuple[Evenly, ...]
    apart: bool = False

    @property
    def mutual(self) -> bool:
        """Whether members influence it, so that it changes with each of them."""
        return any(any(company.gains) for company in self.company) or any(any(evenly.feeds) for evenly in self.evenly)

    @property
    def facts(self) -> tuple[Codes | Mask, ...]:
        """The arrays by which nodes differ for the wishes."""
        return (
            self.nodes,
            *(company.codes for company in self.company),
            *chain(*(evenly.facts for evenly in self.evenly)),
        )

    def on(self, rows: Rows) -> Wishes:
        """The wishes over some of the nodes; the counts of domains stay those of all nodes."""
        company = tuple(replace(company, codes=company.codes[rows]) for company in self.company)
        known: OnSome = {}
        constraint = tuple(constraint.on(rows, known) for constraint in self.evenly)
        return replace(self, nodes=self.nodes[rows], company=company, evenly=constraint)

    def merits(self, room: Counts) -> Counts:
        """How well each node meets the wishes before any member is placed, 0..BEST."""
        return Granted.none(self).merits(room > 0)


@dataclass(slots=True)
class Granted:
    """The wishes of a role while members are placed: placed members are added to the counts."""

    wishes: Wishes
    company: list[Counts]
    evenly: list[Counts]

    @classmethod
    def none(cls, wishes: Wishes) -> Granted:
        """The state without placed members. Copy it before ``meet`` is called."""
        return cls(wishes, [company.sums for company in wishes.company], [evenly.counts for evenly in wishes.evenly])

    def copy(self) -> Granted:
        return Granted(self.wishes, [wish.copy() for wish in self.company], [wish.copy() for wish in self.evenly])

    def meet(self, role: int, row: int) -> None:
        """Count a member of that role on that row."""
        for company, sums in zip(self.wishes.company, self.company, strict=True):
            if company.gains[role] and company.codes[row] >= 0:
                sums[company.codes[row]] += company.gains[role]
        for even, counts in zip(self.wishes.evenly, self.evenly, strict=True):
            if even.feeds[role] and even.counted[row]:
                counts[even.codes[row]] += 1

    def merits(self, among: Mask) -> Counts:
        """The score 0..BEST of each node, relative to the nodes ``among`` which one is chosen. Others' scores mean
        nothing."""
        total = np.zeros(len(among), dtype=np.int64)
        if not among.any():
            return total
        if top := int(self.wishes.nodes[among].max()):
            total += 100 * self.wishes.nodes // top
        if self.company:
            pairs = zip(self.wishes.company, self.company, strict=True)
            sums = np.sum([of_codes[company.codes] for company, of_codes in pairs], axis=0)
            low, high = int(sums[among].min()), int(sums[among].max())
            if high > low:
                total += 100 * (sums - low) // (high - low)
        return total + self._spread(among) if self.evenly else total

    def _spread(self, among: Mask) -> Counts:
        """The score by spread: higher where fewer pods count in a node's domains, 0 for nodes in no domain."""
        crowd, inside = np.zeros(len(among)), among.copy()
        for even, counts in zip(self.wishes.evenly, self.evenly, strict=True):
            # As in kube-scheduler: with more domains, the skew matters less against the pods of one of them.
            crowd += counts[even.codes] * log(len(even.domains) + 2) + even.spread.max_skew - 1
            inside &= even.codes >= 0
        crowd = crowd.round()
        if not inside.any():
            return np.zeros(len(among), dtype=np.int64)
        low, high = crowd[inside].min(), crowd[inside].max()
        merits = 100 * (high + low - crowd) // high if high > 0 else np.full(len(among), 100)
        return np.where(inside, merits, 0).astype(np.int64)


def wishes_of(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Steps[Wishes | None]:
    """The wishes of the role ``number``; None without any. ``pods``: one pod of each role."""
    pod, others = pods[number], snapshot.others
    preferred = pod.constraints.preferred
    if not (preferred.nodes or preferred.pods or preferred.spread):
        return None
    nodes = np.zeros(len(snapshot.names), dtype=np.int64)
    for weight, term in preferred.nodes:
        nodes += weight * (yield from others.selected(Selection(affinity=(term,))))
        yield _TERM
    company, apart = yield from _company(number, pods, snapshot)
    known, evenly = Known(), list[Evenly]()
    for spread in preferred.spread:
        evenly.append((yield from evenly_of(spread, preferred.spread, number, pods, snapshot, known)))
        yield _TERM
    apart = apart or any(constraint.feeds[number] for constraint in evenly)
    return Wishes(nodes, company, tuple(evenly), apart)


def _company(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Steps[tuple[tuple[Company, ...], bool]]:
    """The role's affinity preferences label by label, and whether its members prefer not to be near each other."""
    companies: dict[str, Company] = {}
    tenants, apart = snapshot.others.tenants, False
    for weight, term in pods[number].constraints.preferred.pods:
        codes = snapshot.others.column(term.key)
        sums = weight * tally(codes, rows_with((yield from tenants.meant((term,))), snapshot))
        gains = tuple(weight * tenants.means(term, pod) for pod in pods)
        apart |= gains[number] < 0
        if (before := companies.get(term.key)) is not None:
            sums, gains = before.sums + sums, tuple(map(add, before.gains, gains))
        companies[term.key] = Company(codes, sums, gains)
        yield _TERM
    return tuple(companies.values()), apart
