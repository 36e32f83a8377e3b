"""Members placed one after the other where kube-scheduler would let each of them in, beside those placed before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.model import Pod
from policies.placement.columns import Mask
from policies.placement.concern import MOST_RELATED, concerned, telling
from policies.placement.relations import Relation, Relations, relations_of
from policies.placement.snapshot import Amounts, Counts, Snapshot
from policies.steps import Steps, finish

_CROWDED = 127
"""More pods in a domain are as good as so many, where the emptiest is looked for: a pod has 16 constraints at most."""

Seats = list[tuple[int, int]]
"""Which role has a member on which row, both by number, in the order in which they are seated."""

Demand = Sequence[tuple[int, int]]
"""Lines of the amounts, and how much of each one member takes."""


@dataclass(slots=True)
class _Standing:
    """How one role stands: where it has room, where it is shut out, and what counts for its affinity and spread."""

    relation: Relation
    demand: Demand
    open: Mask
    near: list[Counts]
    some: bool
    evenly: list[Counts]

    @classmethod
    def of(cls, relation: Relation, demand: Demand, room: Mask) -> _Standing:
        """Nobody is seated yet. ``room``: where there is any."""
        near = [] if relation.near is None else [one.copy() for one in relation.near.counts]
        some = relation.near is not None and relation.near.some
        return cls(
            relation, demand, room & ~relation.closed, near, some, [one.counts.copy() for one in relation.evenly]
        )

    def copy(self) -> _Standing:
        near, evenly = [one.copy() for one in self.near], [one.copy() for one in self.evenly]
        return _Standing(self.relation, self.demand, self.open.copy(), near, self.some, evenly)

    def allowed(self) -> Mask:
        """The nodes where kube-scheduler's filters would let in a member now."""
        found = self.open
        if (near := self.beside()) is not None:
            found = found & near
        for even, counts in zip(self.relation.evenly, self.evenly, strict=True):
            found = found & even.within(counts)
        return found

    def beside(self) -> Mask | None:
        """The nodes where its affinity lets in a member now; None for all."""
        near = self.relation.near
        return None if near is None or self.may_begin() else near.within(self.near)

    def may_begin(self) -> bool:
        """Whether a member may go anywhere, as the first of those that have to be together."""
        near = self.relation.near
        return near is not None and near.itself and not self.some

    def crowd(self) -> Counts | None:
        """For each of the nodes how many pods count in its domains: the fewest are to be filled first."""
        total: Counts | None = None
        for even, counts in zip(self.relation.evenly, self.evenly, strict=True):
            here = np.minimum(counts, _CROWDED)[even.codes]
            total = here if total is None else total + here
        return total

    def meet(self, role: int, row: int, room: bool) -> None:
        """A member of that role has been placed there; ``room``: whether one of this role still fits beside it."""
        if not room:
            self.open[row] = False
        for exclusion in self.relation.exclusions:
            if exclusion.other == role and (code := exclusion.codes[row]) >= 0:
                if exclusion.single:
                    self.open[row] = False
                else:
                    self.open &= exclusion.codes != code
        if (near := self.relation.near) is not None and near.feeds[role]:
            for codes, counts in zip(near.codes, self.near, strict=True):
                if codes[row] >= 0:
                    counts[codes[row]] += 1
                    self.some = True
        for even, counts in zip(self.relation.evenly, self.evenly, strict=True):
            if even.feeds[role] and even.counted[row]:
                counts[even.codes[row]] += 1


class Seating:
    """The roles beside each other on some nodes, of which ``free`` has the amounts. A node without any of a role's room
    is closed to it; None for a role that is not to be seated. Nobody is seated after a member of a later wave.
    """

    def __init__(
        self, relations: Relations, rooms: Sequence[Counts | None], free: Amounts, demands: Sequence[Demand | None]
    ) -> None:
        self._left: Amounts = free.copy()
        self._waves = relations.waves
        self.standings = [
            None if room is None or demand is None else _Standing.of(relation, demand, room > 0)
            for relation, demand, room in zip(relations.of, demands, rooms, strict=True)
        ]

    def copy(self) -> Seating:
        other = Seating.__new__(Seating)
        other._left, other._waves = self._left.copy(), self._waves
        other.standings = [None if one is None else one.copy() for one in self.standings]
        return other

    def allowed(self, role: int) -> Mask:
        """Where one more member of the role may go."""
        one = self.standings[role]
        return np.zeros(self._left.shape[1], dtype=np.bool_) if one is None else one.allowed()

    def open_to(self, role: int) -> Mask:
        """Where members of the role may go, now or when others have come."""
        one = self.standings[role]
        return np.zeros(self._left.shape[1], dtype=np.bool_) if one is None else one.open

    def crowd(self, role: int) -> Counts | None:
        one = self.standings[role]
        return None if one is None else one.crowd()

    def seat(self, role: int, row: int) -> None:
        """One more member of the role is there."""
        placed = self.standings[role]
        if placed is not None:
            for line, amount in placed.demand:
                self._left[line, row] -= amount
        for number, one in enumerate(self.standings):
            if one is not None and self._waves[number] < self._waves[role]:
                # It comes first. Beside it the one seated now might not be let in.
                one.open[:] = False
            elif one is not None:
                one.meet(role, row, all(self._left[line, row] >= amount for line, amount in one.demand))


def accepted(seated: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> bool:
    """Whether kube-scheduler would let in these members of one gang on these nodes, one after the other, as far as it
    depends on other pods."""
    return rounds(seated, snapshot) is not None


def rounds(seated: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> list[list[int]] | None:
    """``letting_in``, done at once."""
    return finish(letting_in(seated, snapshot))


def letting_in(seated: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> Steps[list[list[int]] | None]:
    """Members of one gang, by number, that kube-scheduler may be asked about at once: in any order, and with all of
    them nominated already. Those of the next round have to wait until it has assumed these. None if it lets them in
    in no order that is found from the one given: whoever cannot be let in yet is tried again. Those of later waves come
    after the others.

    It counts a pod that is nominated for the node in question as if it were there. So two members on one node, or in
    any order two in one domain, can be refused for a spread that they keep in the end. Members that are too different
    to be compared, each with each, are left to kube-scheduler.
    """
    if (table := (yield from _table(seated, snapshot))) is None:
        return [list(range(len(seated)))]
    standings, seats, upkeep = table
    found: list[list[int]] = []
    begun: _Round | None = None
    waves = [pod.wave for pod, _ in seated]
    rest: Sequence[int] = sorted(range(len(seats)), key=waves.__getitem__)
    while rest:
        refused: list[int] = []
        for number in rest:
            if refused and waves[number] > waves[refused[0]]:
                refused.append(number)  # those of the wave before are not all in yet
                continue
            yield 3 + upkeep
            if begun is not None and begun.takes(*seats[number]):
                found[-1].append(number)
            elif (begun := _Round(standings)).lets_in(*seats[number]):
                found.append([number])
                if not begun.takes(*seats[number]):
                    begun = None
            else:
                begun = None
                refused.append(number)
                continue
            for one in standings:
                one.meet(*seats[number], room=True)
        if len(refused) == len(rest):
            return None
        rest = refused
    return found


class _Round:
    """Members that are let in beside any of each other: however many of them are there already."""

    def __init__(self, standings: Sequence[_Standing]) -> None:
        self._standings = standings
        self._alone = [one.may_begin() for one in standings]
        self._beside = [one.beside() for one in standings]
        self._evenly = [
            (number, even, counts, even.most(counts))
            for number, one in enumerate(standings)
            for even, counts in zip(one.relation.evenly, one.evenly, strict=True)
        ]
        self._own: dict[tuple[int, int], bool] = {}
        """Spread constraint of a role and domain -> whether all members of the role there count themselves."""
        self._here: dict[int, list[int]] = {}
        """Row -> the roles of the members there."""

    def lets_in(self, role: int, row: int) -> bool:
        """Whether one is let in as the first one."""
        evenly = (int(there[even.codes[row]]) <= most for number, even, there, most in self._evenly if number == role)
        return self._open_to(role, row) and all(evenly)

    def takes(self, role: int, row: int) -> bool:
        """Whether one more is let in, and lets in those that were taken. If so it has to be seated."""
        if self._alone[role] or not self._open_to(role, row):
            return False
        own = dict[tuple[int, int], bool]()
        here = [*self._here.get(row, ()), role]
        for at, (number, even, there, most) in enumerate(self._evenly):
            if number in here and not even.lets_in_beside(len(here) - 1, there, row):
                return False
            home = at, int(even.codes[row])
            counts, itself = even.feeds[role] and bool(even.counted[row]), self._own.get(home)
            if number == role:
                itself = own[home] = counts and itself is not False
            elif not counts or itself is None:
                continue
            if int(there[home[1]]) + counts - itself > most:
                return False
        self._own |= own
        self._here[row] = here
        return True

    def _open_to(self, role: int, row: int) -> bool:
        """Whether a member is let in there as far as its spread is not concerned: that of others in the same round may
        keep it away, but not help it."""
        beside = self._beside[role]
        return row >= 0 and bool(self._standings[role].open[row]) and (beside is None or bool(beside[row]))


def _table(seated: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> Steps[tuple[list[_Standing], Seats, int] | None]:
    """Nobody seated yet, each member as the number of its relation and its row, and what it costs to seat one; None
    where no other pod matters."""
    pods = [pod for pod, _ in seated]
    if not concerned(pods, snapshot.others.tenants):
        return None
    tell = telling(pods, snapshot, by_node=any(pod.constraints.spread for pod in pods))
    parts: dict[object, int] = {}
    told = [parts.setdefault(tell(pod), len(parts)) for pod in pods]
    if len(parts) > MOST_RELATED:
        return None
    alike = [pods[told.index(part)] for part in range(len(parts))]
    # Only the nodes of these members count, and whatever is in their domains. Whether they have room is for others.
    names = [node for node in dict.fromkeys(node for _, node in seated) if node in snapshot.rows]
    rows = np.array([snapshot.rows[node] for node in names], dtype=np.intp)
    places, room = {node: place for place, node in enumerate(names)}, np.ones(len(rows), dtype=np.bool_)
    relations = yield from relations_of(alike, snapshot)
    standings = [_Standing.of(one, (), room) for one in relations.on(rows).of]
    seats = [(part, places.get(node, -1)) for part, (_, node) in zip(told, seated, strict=True)]
    return standings, seats, relations.upkeep
