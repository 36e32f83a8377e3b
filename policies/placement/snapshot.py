"""The cluster at one decision: the free room, how full each node is, and its domains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from policies.model import HOSTNAME, Requests, Selection
from policies.placement.columns import Codes, Column, Fact, Mask
from policies.placement.tenants import Tenants
from policies.steps import Steps, quickly

Amounts = NDArray[np.int64]
"""Shape ``(resources, nodes)``. Free amounts are negative where a node is overcommitted."""

Counts = NDArray[np.int64]
"""Shape ``(nodes,)`` or ``(domains,)``."""

Rows = NDArray[np.intp]
"""Rows of some nodes."""

PLENTY = 1 << 31
"""Slots of a node for a pod without requests."""


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that share one value of a level; without a name if they do not.

    ``most``: how many members of the first role may go there, for a policy that divides them; None for no limit.
    ``not_for``: how many roles, from the first one on, may not go there, since the domains before it must hold them.
    """

    name: str
    rows: Rows
    most: int | None = None
    not_for: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    """A topology key with its domains.

    ``codes[row]``: the node's domain, an index of ``names``; -1 without the label. Such a node is in no domain.
    ``names``: may still list a domain that has lost its last node.
    ``rank``: the rank of each name among all names.
    ``above[i][code]``: the domain ``i + 1`` levels farther out that contains the domain; -1 if none of its nodes has
    that label. Levels nest: the nodes of a domain are in one domain of each level farther out.
    ``torn``: label values seen under two domains of a farther level. Each counts as one domain per parent, named after
    both.
    ``implied``: no level in force, but one for a request that names it.
    """

    name: str
    key: str
    names: Sequence[str]
    rank: Codes
    codes: Codes
    above: tuple[Codes, ...] = ()
    torn: tuple[str, ...] = ()
    implied: bool = False
    _order: Rows = field(init=False, repr=False, compare=False)
    _bounds: Rows = field(init=False, repr=False, compare=False)
    _present: Rows = field(init=False, repr=False, compare=False)
    _starts: Rows = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Levels are read far more often than changed. ``order`` sorts nodes by domain: those of the domain ``code`` are
        # between bounds[code + 1] and bounds[code + 2], behind the nodes in no domain.
        order = np.argsort(self.codes, kind="stable")
        bounds = np.searchsorted(self.codes[order], np.arange(-1, len(self.names) + 1))
        present = np.flatnonzero(np.diff(bounds))
        made = {"_order": order, "_bounds": bounds, "_present": present, "_starts": bounds[present]}
        for name, value in made.items():
            value.flags.writeable = False
            object.__setattr__(self, name, value)

    def tally(self, per_node: NDArray[np.int64]) -> tuple[Counts, int]:
        """Sums of a per-node array: one for each domain, and one for the nodes in no domain."""
        sums = self.sums(per_node)
        return sums[1:], int(sums[0])

    def sums(self, per_node: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sums for each line of such arrays; the first place has the nodes in no domain."""
        sums = np.zeros((*per_node.shape[:-1], len(self.names) + 1), dtype=np.int64)
        if len(self._present):
            sums[..., self._present] = np.add.reduceat(per_node.take(self._order, -1), self._starts, -1)
        return sums

    def sums_around(self, per_node: NDArray[np.int64], rows: Rows) -> NDArray[np.int64]:
        """The sums of each node's domain. Shape ``(lines, rows)``."""
        codes = self.codes.take(rows)
        if len(codes) and (codes == codes[0]).all():  # the usual case: nodes of one domain are compared
            inside = self._order[self._bounds[codes[0] + 1] : self._bounds[codes[0] + 2]]
            sums: NDArray[np.int64] = per_node.take(inside, 1).sum(1, keepdims=True).repeat(len(rows), 1)
            return sums
        return self.sums(per_node).take(codes + 1, 1)

    def shared(self, codes: Codes) -> Codes:
        """The code that all nodes of a domain share, for each domain; -1 if they do not share one."""
        shared_codes = np.full(len(self.names) + 1, -1)
        if len(self._present):
            here = codes[self._order]
            low = np.minimum.reduceat(here, self._starts)
            shared_codes[self._present] = np.where(low == np.maximum.reduceat(here, self._starts), low, -1)
        return shared_codes[1:]

    def domain(self, code: int) -> Domain:
        return Domain(self.names[code], self._order[self._bounds[code + 1] : self._bounds[code + 2]])

    def outside(self) -> Domain:
        """The nodes in no domain."""
        return Domain("", self._order[: self._bounds[1]])

    def inhabited(self) -> int:
        """How many domains have nodes."""
        return int((self._present > 0).sum())


@dataclass(frozen=True, slots=True)
class Others:
    """The present pods, and the nodes in the terms of pods' demands.

    ``column(key)``: the code of each row's label value; -1 without the label.
    ``selected(selection)``: the nodes that match the selector and the required affinity, whatever their taints.
    ``fact(fact)``: the column of any fact of the nodes.
    """

    tenants: Tenants
    column: Callable[[str], Codes]
    selected: Callable[[Selection], Steps[Mask]]
    fact: Callable[[Fact], Column]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Arrays over all nodes; row ``i`` belongs to ``names[i]``. Policies read them and never write to them.

    It is a view, valid during one decision: later changes show in it.
    ``rank[row]``: the rank of the node's name among all names.
    ``resources``: a resource's line in ``free`` and ``allocatable``.
    ``levels``: the levels in force, nearest first.
    ``eligible(selection)``: a mask of the nodes that admit such a pod, room apart.
    ``evaluated(selection)``: computes that mask in steps beforehand.
    ``others``: the present pods, for demands on them. They are as of now, whenever the snapshot was made.
    """

    names: Sequence[str]
    rows: Mapping[str, int]
    rank: Rows
    resources: Mapping[str, int]
    free: Amounts
    allocatable: Amounts
    levels: tuple[Level, ...]
    eligible: Callable[[Selection], Mask]
    evaluated: Callable[[Selection], Steps[None]]
    others: Others

    def among(self, tenants: Tenants) -> Snapshot:
        """The same nodes, with these present pods."""
        return replace(self, others=replace(self.others, tenants=tenants))

    @property
    def nearest(self) -> int:
        """The index of the nearest level in force."""
        return int(bool(self.levels) and self.levels[0].implied)

    def with_machines(self) -> Snapshot:
        """The same nodes, each a domain of the nearest level; unchanged if that is a level in force."""
        if any(level.key == HOSTNAME for level in self.levels):
            return self
        each, above = np.arange(len(self.names)), tuple(level.codes for level in self.levels)
        machines = Level("machine", HOSTNAME, self.names, self.rank, each, above, implied=True)
        return replace(self, levels=(machines, *self.levels))

    def level_called(self, name: str) -> int | None:
        """The index of the level with that short name or label key, or number from 1, the nearest; None without one.

        Numbers do not count an implied level.
        """
        index = next((at for at, level in enumerate(self.levels) if name in (level.name, level.key)), None)
        if index is None and name.isdecimal() and 0 < int(name[:4]) <= len(self.levels) - self.nearest:
            return int(name[:4]) - 1 + self.nearest
        return index

    def demand(self, requests: Requests) -> list[tuple[int, int]] | None:
        """Lines and amounts of the requests; None if no node offers one of the resources."""
        wanted = [(self.resources.get(name, -1), amount) for name, amount in requests if amount > 0]
        return None if any(line < 0 for line, _ in wanted) else wanted

    def slots(self, requests: Requests) -> Counts:
        """How many pods of this shape each node still has room for."""
        demand = self.demand(requests)
        if demand is None:
            return np.zeros(len(self.names), dtype=np.int64)
        return slots(self.free, demand)

    def room(self, requests: Requests, selection: Selection) -> Counts:
        """``slots`` of the nodes that admit such a pod, 0 elsewhere."""
        return self.slots(requests) * self.eligible(selection)


@cache
def no_nodes() -> Snapshot:
    """A snapshot of a cluster without nodes, for decisions by quota alone."""
    none = np.zeros(0, dtype=np.intp)
    amounts = np.zeros((0, 0), dtype=np.int64)
    others = Others(Tenants(), lambda _: none, lambda _: quickly(none > 0), lambda fact: Column(fact, ()))
    return Snapshot((), {}, none, {}, amounts, amounts, (), lambda _: none > 0, lambda _: quickly(None), others)


def slots(free: Amounts, demand: Sequence[tuple[int, int]]) -> Counts:
    """Slots in these amounts. An overcommitted node has none for what it lacks, however small the request."""
    room: Counts | None = None
    for line, amount in demand:
        here = free[line] if amount == 1 else free[line] // amount
        room = np.minimum(here, PLENTY if room is None else room)
    return np.full(free.shape[1], PLENTY, dtype=np.int64) if room is None else np.maximum(room, 0, out=room)


def kinds(requests: Requests) -> tuple[str, ...]:
    """The extended resources among the requests, else cpu and memory."""
    requested = [name for name, amount in requests if amount]
    return tuple(name for name in requested if "/" in name) or tuple(
        name for name in requested if name in ("cpu", "memory")
    )


def scarce_lines(requests: Requests, snapshot: Snapshot) -> list[int]:
    """The lines of the requested scarce resources that some node offers."""
    return [snapshot.resources[name] for name in kinds(requests) if name in snapshot.resources]


def scarce(requests: Requests, snapshot: Snapshot) -> Amounts:
    """The used, then the offered amounts of the requested scarce resources. Shape ``(2 * kinds, nodes)``."""
    lines = scarce_lines(requests, snapshot)
    amounts = np.empty((2 * len(lines), snapshot.free.shape[1]), dtype=np.int64)
    for at, line in enumerate(lines):
        offered = amounts[len(lines) + at] = snapshot.allocatable[line]
        np.subtract(offered, snapshot.free[line], out=amounts[at])
    return amounts


def fullness(amounts: Amounts) -> NDArray[np.float64]:
    """The largest share in use of any kind, 0..1 for each place. ``amounts``: as from ``scarce``, for places."""
    used, offered = amounts[: len(amounts) // 2], amounts[len(amounts) // 2 :]
    shares = np.divide(used, offered, out=np.zeros(used.shape), where=offered > 0)
    highest: NDArray[np.float64] = shares[0] if len(shares) == 1 else shares.max(axis=0, initial=0.0)
    return np.minimum(highest, 1.0)
