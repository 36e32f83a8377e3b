"""Topology spread over arrays of nodes: the domains, how many pods count in each, and how many more each may have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

import numpy as np

from policies.model import Pod, Spread
from policies.model.constraints import selects
from policies.placement.columns import Codes, Mask
from policies.placement.snapshot import PLENTY, Counts, Rows, Snapshot
from policies.placement.tenants import Tenant
from policies.steps import Steps

OnSome = dict[tuple[int, int], tuple[Codes, Mask]]
"""The arrays of constraints over some of the nodes, by the identity of those over all nodes."""


@dataclass(frozen=True, slots=True, eq=False)
class Evenly:
    """A topology spread constraint of a role.

    ``counts``: how many pods count in each domain.
    ``counted``: the nodes whose pods count.
    ``domains``: the codes of the domains of those nodes.
    ``itself``: 1 if the selector selects the role.
    ``feeds``: whether members of each role count.
    """

    spread: Spread
    codes: Codes
    counts: Counts
    counted: Mask
    domains: Rows
    itself: int
    feeds: tuple[bool, ...]

    @property
    def facts(self) -> tuple[Codes | Mask, ...]:
        """The arrays by which nodes differ for the constraint."""
        return self.codes, self.counted

    def on(self, rows: Rows, known: OnSome) -> Evenly:
        """The constraint over some of the nodes. ``known``: shared arrays of other constraints."""
        facts = id(self.codes), id(self.counted)
        if facts not in known:
            known[facts] = self.codes[rows], self.counted[rows]
        codes, counted = known[facts]
        return replace(self, codes=codes, counted=counted)

    def least(self, counts: Counts) -> int:
        """The number of pods in the domain with the fewest, as kube-scheduler computes it."""
        if not len(self.domains) or len(self.domains) < self.spread.min_domains:
            return 0
        return int(np.minimum.reduce(counts[self.domains]))

    def most(self, counts: Counts) -> int:
        """The most pods that a domain may have for one more member to be admitted."""
        return self.spread.max_skew + self.least(counts) - self.itself

    def in_one(self) -> Counts:
        """The most members that each domain may have while the others get none."""
        lowest = np.sort(self.counts[self.domains])[:2]
        if len(self.domains) < max(self.spread.min_domains, 1):
            lowest = np.zeros(2, dtype=np.int64)
        return self.spread.max_skew + lowest[1] - self.counts if len(lowest) > 1 else np.full(len(self.counts), PLENTY)

    def lets_in_beside(self, nominated: int, counts: Counts, row: int) -> bool:
        """Whether an empty selector admits a member on a node with ``nominated`` other nominated pods.

        kube-scheduler counts those, and no present pod.
        """
        if self.spread.selector != () or not self.counted[row]:
            return True
        there = counts.copy()
        there[self.codes[row]] += nominated
        return int(there[self.codes[row]]) + self.itself - self.least(there) <= self.spread.max_skew

    def within(self, counts: Counts) -> Mask:
        """The nodes in a domain that may have one more member."""
        return np.asarray((counts <= self.most(counts))[self.codes], dtype=np.bool_)


@dataclass(frozen=True, slots=True)
class Known:
    """Computed parts of constraints, as in ``Evenly``; roles often have equal constraints."""

    of: dict[object, tuple[Codes, Counts, Mask, Rows]] = field(default_factory=dict)
    counted: dict[object, Mask] = field(default_factory=dict)


def evenly_of(
    spread: Spread, beside: Sequence[Spread], number: int, pods: Sequence[Pod], snapshot: Snapshot, known: Known
) -> Steps[Evenly]:
    """The constraint over arrays of nodes. Only nodes with the label of each constraint ``beside`` count."""
    pod = pods[number]
    key = spread, tuple(other.key for other in beside), pod.selection, pod.namespace
    if key not in known.of:
        known.of[key] = yield from _found(spread, beside, pod, snapshot, known)
    feeds = tuple(
        other.wave <= pod.wave and other.namespace == pod.namespace and spread.counts(dict(other.labels))
        for other in pods
    )
    return Evenly(spread, *known.of[key], int(selects(spread.selector, dict(pod.labels))), feeds)


def _found(
    spread: Spread, beside: Sequence[Spread], pod: Pod, snapshot: Snapshot, known: Known
) -> Steps[tuple[Codes, Counts, Mask, Rows]]:
    """Domains, counts, counted nodes and their domains' codes, as in ``Evenly``."""
    others, keys = snapshot.others, frozenset(other.key for other in beside)
    key = keys, spread.honors_affinity, spread.honors_taints, pod.selection
    if key not in known.counted:
        known.counted[key] = yield from _counted(spread, keys, pod, snapshot)
    counted, codes = known.counted[key], others.column(spread.key)
    rows = rows_with((yield from others.tenants.counted(spread, pod.namespace)), snapshot)
    return codes, tally(codes, rows[counted[rows]]), counted, np.bincount(codes[counted]).nonzero()[0]


def _counted(spread: Spread, keys: Iterable[str], pod: Pod, snapshot: Snapshot) -> Steps[Mask]:
    """The nodes whose pods count; they have all of these labels."""
    others = snapshot.others
    counted = np.ones(len(snapshot.names), dtype=np.bool_)
    for key in keys:
        counted &= others.column(key) >= 0
        yield 1
    if spread.honors_affinity:
        counted &= yield from others.selected(pod.selection)
    if spread.honors_taints:
        counted &= snapshot.eligible(
            replace(pod.selection, node_selector=(), affinity=None, volumes=(), flavors=(), devices=())
        )
    return counted


def evened(even: Evenly, codes: Codes, room: Counts, count: int) -> tuple[Counts, Counts]:
    """The room in each domain on nodes with these codes, and an upper bound of its share of ``count`` members.

    The fewest pods are where a domain is full, or where all members stand evenly. Room for them counts for the spread.
    """
    inside = np.bincount(codes + 1, room, len(even.counts) + 1)[1:].astype(np.int64)
    lowest, least = even.counts[even.domains], even.least(even.counts + inside)
    if len(lowest) and least > lowest.min():
        lowest = np.cumsum(np.sort(lowest))
        least = min(least, int(((lowest + count) // np.arange(1, len(lowest) + 1)).min()))
    return inside, np.maximum(even.spread.max_skew + least - even.counts, 0)


def tally(codes: Codes, rows: Rows) -> Counts:
    """How many of the rows are in each domain; the last place, for code -1, stays 0."""
    here = codes[rows]
    return np.bincount(here[here >= 0], minlength=int(codes.max(initial=-1)) + 2).astype(np.int64)


def rows_with(tenants: Iterable[Tenant], snapshot: Snapshot) -> Rows:
    """The rows of the nodes of these tenants."""
    rows = map(snapshot.rows.get, map(attrgetter("node"), tenants))
    return np.array([row for row in rows if row is not None], dtype=np.intp)
