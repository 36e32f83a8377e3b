"""Place members one after the other where kube-scheduler would admit each, besides those placed before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.model import Pod
from policies.placement.columns import Mask
from policies.placement.concern import MOST_RELATED, concerned, role_key
from policies.placement.relations import Relation, Relations, relations_of
from policies.placement.snapshot import Amounts, Counts, Snapshot
from policies.steps import Steps, finish

_MOST_COUNTED = 127
"""The most pods counted in a domain when the emptiest is searched. A pod has at most 16 constraints."""

RoleRows = list[tuple[int, int]]
"""The placed members in order: the number of the role and the row."""

Demand = Sequence[tuple[int, int]]
"""Lines of the amounts, and how much of each one member takes."""


@dataclass(slots=True)
class _RoleState:
    """The state of one role: where it has room, where it is excluded, and what counts for its affinity and spread."""

    relation: Relation
    demand: Demand
    open: Mask
    near: list[Counts]
    some: bool
    evenly: list[Counts]

    @classmethod
    def of(cls, relation: Relation, demand: Demand, room: Mask) -> _RoleState:
        """The state without placed members. ``room``: nodes with any room."""
        near = [] if relation.near is None else [count.copy() for count in relation.near.counts]
        exists = relation.near is not None and relation.near.some
        return cls(
            relation,
            demand,
            room & ~relation.closed,
            near,
            exists,
            [evenly.counts.copy() for evenly in relation.evenly],
        )

    def copy(self) -> _RoleState:
        near, evenly = [counts.copy() for counts in self.near], [even.copy() for even in self.evenly]
        return _RoleState(self.relation, self.demand, self.open.copy(), near, self.some, evenly)

    def allowed(self) -> Mask:
        """The nodes where kube-scheduler's filters would admit a member now."""
        mask = self.open
        if (near := self.beside()) is not None:
            mask = mask & near
        for even, counts in zip(self.relation.evenly, self.evenly, strict=True):
            mask = mask & even.within(counts)
        return mask

    def beside(self) -> Mask | None:
        """The nodes where its affinity admits a member now; None for all."""
        near = self.relation.near
        return None if near is None or self.may_begin() else near.within(self.near)

    def may_begin(self) -> bool:
        """Whether a member may go anywhere, as the first of members that must be together."""
        near = self.relation.near
        return near is not None and near.itself and not self.some

    def spread_counts(self) -> Counts | None:
        """How many pods count in each node's domains; the fewest are filled first."""
        total: Counts | None = None
        for even, counts in zip(self.relation.evenly, self.evenly, strict=True):
            here = np.minimum(counts, _MOST_COUNTED)[even.codes]
            total = here if total is None else total + here
        return total

    def meet(self, role: int, row: int, room: bool) -> None:
        """Count a member of that role on that row. ``room``: whether a member of this role still fits besides it."""
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


class PlacementState:
    """The state while members of several roles are placed on some nodes, one by one.

    ``rooms``: a node without room is closed to the role; None for a role that is not to be placed.
    ``free``: the amounts of those nodes.
    No member is placed after a member of a later wave.
    """

    def __init__(
        self, relations: Relations, rooms: Sequence[Counts | None], free: Amounts, demands: Sequence[Demand | None]
    ) -> None:
        self._left: Amounts = free.copy()
        self._waves = relations.waves
        self.states = [
            None if room is None or demand is None else _RoleState.of(relation, demand, room > 0)
            for relation, demand, room in zip(relations.of, demands, rooms, strict=True)
        ]

    def copy(self) -> PlacementState:
        other = PlacementState.__new__(PlacementState)
        other._left, other._waves = self._left.copy(), self._waves
        other.states = [None if state is None else state.copy() for state in self.states]
        return other

    def allowed(self, role: int) -> Mask:
        """The nodes where one more member of the role may go."""
        role_state = self.states[role]
        return np.zeros(self._left.shape[1], dtype=np.bool_) if role_state is None else role_state.allowed()

    def open_to(self, role: int) -> Mask:
        """The nodes where members of the role may go, now or once others have come."""
        role_state = self.states[role]
        return np.zeros(self._left.shape[1], dtype=np.bool_) if role_state is None else role_state.open

    def spread_counts(self, role: int) -> Counts | None:
        role_state = self.states[role]
        return None if role_state is None else role_state.spread_counts()

    def place(self, role: int, row: int) -> None:
        """Place a member of the role on that row."""
        state = self.states[role]
        if state is not None:
            for line, amount in state.demand:
                self._left[line, row] -= amount
        for number, role_state in enumerate(self.states):
            if role_state is not None and self._waves[number] < self._waves[role]:
                # The earlier wave comes first. Besides it, the member placed now might not be admitted.
                role_state.open[:] = False
            elif role_state is not None:
                role_state.meet(role, row, all(self._left[line, row] >= amount for line, amount in role_state.demand))


def accepted(placed: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> bool:
    """Whether kube-scheduler would admit these members of one gang on these nodes, one after the other.

    Only the influence of other pods counts.
    """
    return rounds(placed, snapshot) is not None


def rounds(placed: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> list[list[int]] | None:
    """Run ``letting_in`` at once."""
    return finish(letting_in(placed, snapshot))


def letting_in(placed: Sequence[tuple[Pod, str]], snapshot: Snapshot) -> Steps[list[list[int]] | None]:
    """Rounds of members of one gang, by number, that kube-scheduler may be asked about at once.

    Within a round any order works, even with all of them nominated. The next round must wait until kube-scheduler has
    assumed this one. None if no order is found: a member that cannot be admitted yet is tried again. Later waves come
    after earlier ones.

    kube-scheduler counts a pod that is nominated for the node in question as present. So two members on one node, or
    two in one domain in any order, can be refused for a spread that they keep in the end. If members are too different
    to be compared with each other, the decision is left to kube-scheduler.
    """
    if (table := (yield from _table(placed, snapshot))) is None:
        return [list(range(len(placed)))]
    states, role_rows, upkeep = table
    batches: list[list[int]] = []
    begun: _Round | None = None
    waves = [pod.wave for pod, _ in placed]
    rest: Sequence[int] = sorted(range(len(role_rows)), key=waves.__getitem__)
    while rest:
        refused: list[int] = []
        for number in rest:
            if refused and waves[number] > waves[refused[0]]:
                refused.append(number)  # the wave before is not complete yet
                continue
            yield 3 + upkeep
            if begun is not None and begun.takes(*role_rows[number]):
                batches[-1].append(number)
            elif (begun := _Round(states)).lets_in(*role_rows[number]):
                batches.append([number])
                if not begun.takes(*role_rows[number]):
                    begun = None
            else:
                begun = None
                refused.append(number)
                continue
            for state in states:
                state.meet(*role_rows[number], room=True)
        if len(refused) == len(rest):
            return None
        rest = refused
    return batches


class _Round:
    """Members that are admitted besides any number of each other."""

    def __init__(self, states: Sequence[_RoleState]) -> None:
        self._states = states
        self._alone = [state.may_begin() for state in states]
        self._beside = [state.beside() for state in states]
        self._evenly = [
            (number, even, counts, even.most(counts))
            for number, state in enumerate(states)
            for even, counts in zip(state.relation.evenly, state.evenly, strict=True)
        ]
        self._own: dict[tuple[int, int], bool] = {}
        """Maps (spread constraint of a role, domain) to whether all members of the role there count themselves."""
        self._here: dict[int, list[int]] = {}
        """Maps a row to the roles of its members."""

    def lets_in(self, role: int, row: int) -> bool:
        """Whether a member is admitted as the first one."""
        evenly = (int(there[even.codes[row]]) <= most for number, even, there, most in self._evenly if number == role)
        return self._open_to(role, row) and all(evenly)

    def takes(self, role: int, row: int) -> bool:
        """Whether one more is admitted, and admits those taken before. If so it has to be placed."""
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
        """Whether a member is admitted there, its spread apart.

        Spread constraints of others in the same round may keep it away, but not help it.
        """
        beside = self._beside[role]
        return row >= 0 and bool(self._states[role].open[row]) and (beside is None or bool(beside[row]))


def _table(
    placed: Sequence[tuple[Pod, str]], snapshot: Snapshot
) -> Steps[tuple[list[_RoleState], RoleRows, int] | None]:
    """The states without placed members, each member's relation and row, and the cost of placing one.

    None if no other pod matters.
    """
    pods = [pod for pod, _ in placed]
    if not concerned(pods, snapshot.others.tenants):
        return None
    key_of = role_key(pods, snapshot, by_node=any(pod.constraints.spread for pod in pods))
    parts: dict[object, int] = {}
    numbers = [parts.setdefault(key_of(pod), len(parts)) for pod in pods]
    if len(parts) > MOST_RELATED:
        return None
    examples = [pods[numbers.index(role)] for role in range(len(parts))]
    # Only the nodes of these members count, and the pods in their domains. Room is checked elsewhere.
    names = [node for node in dict.fromkeys(node for _, node in placed) if node in snapshot.rows]
    rows = np.array([snapshot.rows[node] for node in names], dtype=np.intp)
    places, room = {node: place for place, node in enumerate(names)}, np.ones(len(rows), dtype=np.bool_)
    relations = yield from relations_of(examples, snapshot)
    states = [_RoleState.of(relation, (), room) for relation in relations.on(rows).of]
    role_rows = [(role, places.get(node, -1)) for role, (_, node) in zip(numbers, placed, strict=True)]
    return states, role_rows, relations.upkeep
