"""Required pod affinity over arrays of nodes: the domains in which there is a pod that a role has to be near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from policies.model import Pod
from policies.placement.columns import Codes, Mask
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.placement.spreading import rows_with, tally
from policies.steps import Steps

_HOMES = 16
"""Domains that are tried for members which have to be together and whose first one may go anywhere."""


@dataclass(frozen=True, slots=True, eq=False)
class Near:
    """The required pod affinity of a role: in the domain of each term there is a pod that all of its terms mean.

    ``counts``: for each term how many such pods are in each domain. ``feeds``: which roles are such pods, of those that
    do not come in a later wave. ``some``: whether there is any in the cluster; a role that means itself (``itself``)
    may go anywhere while there is none.
    """

    codes: tuple[Codes, ...]
    counts: tuple[Counts, ...]
    feeds: tuple[bool, ...]
    some: bool
    itself: bool

    def on(self, rows: Rows) -> Near:
        return replace(self, codes=tuple(codes[rows] for codes in self.codes))

    def homes(self, rank: Rows, room: Counts, want: int) -> list[Mask]:
        """The nodes of each of some domains where members may be together: those that hold so many, the tightest first;
        the roomiest where none does."""
        combined, sums, first = self._domains(rank, np.minimum(room, want))
        holding = (sums >= want).nonzero()[0]
        if not len(holding):
            holding = (sums == sums.max(initial=1)).nonzero()[0]
        chosen = holding[np.lexsort((first[holding], sums[holding]))][:_HOMES]
        return [combined == place for place in chosen.tolist()]

    def roomiest(self, rank: Rows, room: Counts) -> list[Mask]:
        """The nodes of each of some domains, those with the most room first."""
        combined, sums, first = self._domains(rank, room)
        chosen = np.lexsort((first, -sums))[: min(_HOMES, np.count_nonzero(sums))]
        return [combined == place for place in chosen.tolist()]

    def _domains(self, rank: Rows, room: Counts) -> tuple[Codes, Counts, Counts]:
        """The domain of each node by all terms; for each the room and the rank of its first node."""
        stacked = np.stack(self.codes)
        _, combined = np.unique(stacked, axis=1, return_inverse=True)
        combined = np.where((stacked >= 0).all(axis=0), combined.reshape(-1), -1)
        sums = np.bincount(combined + 1, room, 1)[1:].astype(np.int64)
        first = np.full(len(sums) + 1, np.iinfo(np.int64).max)
        np.minimum.at(first, combined + 1, rank)
        return combined, sums, first[1:]

    def within(self, counts: Sequence[Counts]) -> Mask:
        """The nodes in a domain of each term that has such a pod."""
        found = np.ones(len(self.codes[0]), dtype=np.bool_)
        for codes, here in zip(self.codes, counts, strict=True):
            found &= (here > 0)[codes]
        return found


def near_of(number: int, pods: Sequence[Pod], snapshot: Snapshot) -> Steps[Near | None]:
    """That of one of these roles, each by its first pod; None where it requires none."""
    terms, tenants = pods[number].constraints.affinity, snapshot.others.tenants
    if not terms:
        return None
    rows = rows_with((one for one in (yield from tenants.meant(terms)) if not one.coming), snapshot)
    codes = tuple(snapshot.others.column(term.key) for term in terms)
    counts = tuple(tally(one, rows) for one in codes)
    wave = pods[number].wave
    feeds = tuple(pod.wave <= wave and all(tenants.means(term, pod) for term in terms) for pod in pods)
    return Near(codes, counts, feeds, any(bool(one.any()) for one in counts), feeds[number])
