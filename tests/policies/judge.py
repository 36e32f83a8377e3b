"""The faults of a placement by the levels: sentences of docs/placement.md, checked by counting, without numpy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from policies.placement.place import Placed, Shortfall
from tests.policies.world import LEVELS, Case

Group = tuple[str, ...]
"""The nodes of one domain, or of the whole cluster."""


class Judge:
    """A case, counted out. ``units`` are slices, or members where there are none."""

    def __init__(self, case: Case) -> None:
        topology = case.topology
        self.case = case
        self.required = _level(topology.required)
        self.preferred = 0 if topology.preferred is None else _level(topology.preferred)
        if self.preferred is not None and self.required is not None:
            self.preferred = min(self.preferred, self.required)
        self.slice = topology.slice_size or 0
        self.slice_level = _level(topology.slice_level) or 0
        self.size = len(case.pods)
        tied = [at for at in (self.required, self.slice_level if self.slice else None) if at is not None]
        self.slots = {
            name: 0 if any(case.where[name][at] is None for at in tied) else free // case.gpus
            for name, free in case.free.items()
        }
        self.ragged = bool(self.slice) and self.size % self.slice != 0

    def complaints(self, found: Placed | Shortfall) -> Iterator[str]:
        """Yield all faults, in words."""
        if isinstance(found, Shortfall):
            if not self.ragged and (most := self.most()) >= self.case.needed:
                yield f"{most} members could be placed, and nothing was: {found.explanation}"
            return
        yield from self._rules(found.nodes)
        if self.ragged:
            return
        most = min(self.size, self.most())
        if len(found.nodes) != most:
            yield f"{len(found.nodes)} members were placed, and {most} could be"
        elif most == self.size:
            yield from self._quality(found.nodes)

    def most(self) -> int:
        """How many members the rules leave room for."""
        groups = [tuple(self.case.where)] if self.required is None else self.domains(self.required)
        return min(self.size, max((self._holds(group) for group in groups), default=0))

    def domains(self, at: int, inside: Group | None = None) -> list[Group]:
        by_domain: dict[str, list[str]] = {}
        for name in self.case.where if inside is None else inside:
            if (domain := self.case.where[name][at]) is not None:
                by_domain.setdefault(domain, []).append(name)
        return [tuple(names) for names in by_domain.values()]

    @property
    def cares(self) -> bool:
        """Whether the domains of the gang matter, beyond the requirements."""
        return self.case.policy != "first-fit" and (self.preferred is not None or bool(self.slice))

    def outside(self, at: int) -> Group:
        """The nodes in no domain of a level."""
        return tuple(name for name, homes in self.case.where.items() if homes[at] is None)

    def levels_tried(self) -> range:
        """The levels at which one domain is looked for, one after the other; one past the last is the cluster."""
        last = len(LEVELS) if self.required is None else self.required
        climbing = self.case.policy in ("best-fit", "balanced") and self.preferred is not None
        return range(min(self.preferred or 0, last) if climbing else last, last + 1)

    def _holds(self, group: Group) -> int:
        if not self.slice:
            return self._room(group)
        return sum(self._room(domain) // self.slice * self.slice for domain in self.domains(self.slice_level, group))

    def _room(self, group: Group) -> int:
        return sum(self.slots[name] for name in group)

    def _rules(self, nodes: dict[str, str]) -> Iterator[str]:
        for name, count in Counter(nodes.values()).items():
            if count > self.slots[name]:
                yield f"node {name} got {count} members, and has room for {self.slots[name]}"
        if self.required is not None:
            homes = {self.case.where[name][self.required] for name in nodes.values()}
            if len(homes) != 1 or None in homes:
                yield f"the required {LEVELS[self.required]} is broken: {homes}"
        slices: dict[int, set[str | None]] = {}
        for pod in self.case.pods if self.slice else ():
            if pod.uid in nodes:
                home = self.case.where[nodes[pod.uid]][self.slice_level]
                slices.setdefault((pod.index or 0) // self.slice, set()).add(home)
        for number, split in slices.items():
            if len(split) != 1 or None in split:
                yield f"slice {number} is cut: {split}"

    def _quality(self, nodes: dict[str, str]) -> Iterator[str]:
        if not self.cares:
            return
        near = self.slice_level if self.slice else self.preferred or 0
        wholes = list(self._wholes(nodes))
        if not wholes:
            yield "a domain nearer than the one that was taken would have held it"
            return
        shares = Counter(home for name in nodes.values() if (home := self.case.where[name][near]) is not None)
        fewest = min(self._fewest(group, near) for group in wholes)
        if self.case.policy != "spread" and len(shares) > max(fewest, 1):
            yield f"it is in {len(shares)} domains of {LEVELS[near]}, and {fewest} would do: {dict(shares)}"
        if self.case.policy == "balanced" or self.slice:
            yield from self._balance(shares, near, wholes)
        homes = [self.case.where[nodes[pod.uid]][near] for pod in self.case.pods]
        blocks = [home for home, _ in groupby(homes)]
        if len(blocks) != len(set(blocks)):
            yield f"ranks go back and forth between domains: {blocks}"
        if not self.slice and near == 0:
            yield from self._nodes(nodes, shares, next(g for g in wholes if set(nodes.values()) <= set(g)))

    def _wholes(self, nodes: dict[str, str]) -> Iterator[Group]:
        """The groups of nodes that are open to the gang, if it has to be in one domain as near as possible."""
        for at in self.levels_tried():
            groups = self.domains(at) if at < len(LEVELS) else [tuple(self.case.where)]
            holding = [group for group in groups if self._can_hold(group, at)]
            if holding:
                # Policies that do not climb from level to level may take any of the required domains.
                yield from holding if any(set(nodes.values()) <= set(group) for group in holding) else ()
                return

    def _can_hold(self, group: Group, at: int) -> bool:
        return (self._room(group) if self.slice and at < self.slice_level else self._holds(group)) >= self.size

    def _fewest(self, group: Group, near: int) -> int:
        """Domains of the level that are needed inside a group, with its nodes outside all of them for nothing."""
        parts = self.domains(near, group)
        unit = self.slice or 1
        rooms = sorted((self._room(domain) // unit * unit for domain in parts), reverse=True)
        rest = self.size - (0 if self.slice else self._room(group) - sum(self._room(domain) for domain in parts))
        count = 0
        while rest > 0:
            rest -= rooms[count]
            count += 1
        return count

    def _balance(self, shares: Counter[str], near: int, wholes: list[Group]) -> Iterator[str]:
        """Shares are equal to within one unit, if enough domains of the chosen group have room for equal shares."""
        unit = self.slice or 1
        used = set(shares)
        whole = [group for group in wholes if used <= {self.case.where[name][near] for name in group}]
        if len(whole) != 1 or self._spare(whole[0], near) or len(used) < 2:
            return
        units, count = self.size // unit, len(used)
        rooms = [self._room(domain) // unit for domain in self.domains(near, whole[0])]
        share, larger = divmod(units, count)
        even = sum(room >= share for room in rooms) >= count and sum(room > share for room in rooms) >= larger
        if even and max(shares.values()) - min(shares.values()) > unit:
            yield f"the shares are {dict(shares)}, and equal ones would fit"

    def _spare(self, group: Group, near: int) -> int:
        return sum(self.slots[name] for name in group if self.case.where[name][near] is None)

    def _nodes(self, nodes: dict[str, str], shares: Counter[str], whole: Group) -> Iterator[str]:
        """Inside each domain the fewest nodes that hold its share."""
        for domain, share in shares.items():
            used = {name for name in nodes.values() if self.case.where[name][0] == domain}
            rooms = sorted(self.slots[name] for name in whole if self.case.where[name][0] == domain)
            count, rest = 0, share
            while rest > 0:
                rest -= rooms.pop()
                count += 1
            if len(used) > count:
                yield f"{domain}: {share} members are on {len(used)} nodes, and {count} would do"


def _level(name: str | None) -> int | None:
    return None if name in (None, "none") else LEVELS.index(name or "")
