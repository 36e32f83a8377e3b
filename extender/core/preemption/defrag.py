"""The search for running workloads that would have to move so that a waiting one has room. It moves none.

Only workloads whose authors declare them restartable are considered. A move stops one and starts it on other nodes,
with the quota that it has. Domains are compared by the GPUs that have to move before the waiting workload fits into
them. No workload moves that can stay where it is, and none makes room for another one that moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from extender.core.causes import NoRoom
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.store import Process
from extender.core.preemption.candidates import Candidates
from extender.core.queue.endings import Endings
from extender.core.queue.forecast import Roles, least_of_roles
from extender.core.queue.planner import Plan, Planner, Statements
from extender.core.workload.shape import Demand, Shape, of_gang, of_job
from extender.core.workload.workload import Workload
from policies.api import PolicyError
from policies.model import Pod, Selection
from policies.placement.place import Placed, placing
from policies.placement.snapshot import Amounts, Rows, Snapshot, slots
from policies.placement.tenants import BesideNominated
from policies.preemption.candidates import Candidate
from policies.preemption.freed import hide
from policies.statement import Statement
from policies.steps import finish
from policies.words import many

_TRIES = 48
"""Choices of workloads to move that are tried with plans, over all domains: each may cost some milliseconds."""


@dataclass(frozen=True, slots=True)
class Move:
    """A workload that would move.

    ``pods``: the name of each pod, its node, and the node that it would get.
    ``lost_s``: seconds of work that it would repeat, since its start or its last checkpoint.
    """

    workload: Workload
    devices: int
    pods: tuple[tuple[str, str, str], ...]
    lost_s: float
    checkpointed: bool

    @property
    def lost_device_s(self) -> float:
        """The work that it would repeat, in device-seconds."""
        return self.devices * self.lost_s


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves in their order: each goes to room that is free when its turn comes.

    ``pods``: the name of each pod of the waiting workload, and the node that it gets then.
    """

    moves: tuple[Move, ...]
    pods: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class NoMoves:
    """``why``: why no moves would help, for people."""

    why: str


@dataclass(frozen=True, slots=True, eq=False)
class _Movable:
    """A workload that may move.

    ``pods``: as they would be planned again.
    ``gives``: what it has on each node, by row.
    """

    workload: Workload
    candidate: Candidate
    pods: Sequence[Pod]
    gives: Mapping[int, Sequence[tuple[int, int]]]
    lost_s: float

    @property
    def cost(self) -> tuple[int, float, str]:
        """Orders workloads by what a move of them costs."""
        return self.candidate.devices, self.lost_s, self.candidate.name


Cost = tuple[int, float]
"""The devices that move, and the device-seconds that are repeated."""


@dataclass(eq=False)
class Defragmentation:
    """Answers which moves would help a workload. ``of`` takes up to some hundred milliseconds, and changes nothing."""

    _process: Process
    _quotas: Quotas
    _candidates: Candidates
    _statements: Statements
    _planner: Planner
    _endings: Endings

    def of(self, workload: Workload, now: float) -> Moves | NoMoves:
        """The moves that give the workload room, or why there are none."""
        demand = workload.current_demand
        if not workload.members.slots.lacking or demand is None or demand.shape is None:
            return NoMoves("it is not waiting for room: see its reason")
        if not isinstance(workload.reason_state.cause, NoRoom):
            return NoMoves("room is not what it lacks: see its reason")
        wall = now - self._process.wall_offset
        try:
            options = finish(self._endings.flavored(workload, demand, demand.shape, ()))
            if not options:
                return NoMoves("its queue has no quota left for it, and moves free none")
            outcome: Moves | NoMoves = NoMoves("no running workload may move: none has muster.dev/restartable: true")
            for flavored in options:
                outcome = self._search(workload, *flavored, wall)
                if isinstance(outcome, Moves):
                    break
        except PolicyError as error:
            return NoMoves(f"that cannot be worked out: {error}")
        return outcome

    def _search(self, workload: Workload, demand: Demand, shape: Shape, wall: float) -> Moves | NoMoves:
        with self._statements.of(workload) as statement:
            view = statement.snapshot
            if isinstance(finish(self._planner.preview(workload, demand, shape, view)), Plan):
                return NoMoves("it has room now, and starts by itself")
            movables = [
                self._movable(other, candidate, view, wall) for other, candidate in self._candidates.restartable(wall)
            ]
            if not movables:
                return NoMoves("no running workload may move: none that has run long enough is declared restartable")
            search = _Search(view, finish(least_of_roles(demand.pods, shape)))
            why = f"even if all of them moved ({many(len(movables), 'restartable workload')}), it would have no room"
            best: Moves | None = None
            least: Cost | None = None
            tries = 0
            for rows, estimate in search.regions(movables):
                if least is not None and estimate >= least:
                    break
                stuck: list[_Movable] = []
                while tries < _TRIES:
                    free_to_go = [movable for movable in movables if movable not in stuck]
                    if (moving := search.fewest(rows, free_to_go)) is None:
                        break
                    if least is not None and _cost(moving) >= least:
                        break
                    tries += 1
                    outcome = self._try(workload, demand, shape, statement, moving)
                    if isinstance(outcome, Moves):
                        best, least = outcome, _cost(moving)
                        break
                    if outcome is None:
                        break  # its pods demand something of each other, or of nodes, that counts do not show
                    stuck.append(outcome)
                    why = f"{outcome.candidate.name} would have to move, and has no room elsewhere"
        return NoMoves(why) if best is None else best

    def _try(
        self, workload: Workload, demand: Demand, shape: Shape, statement: Statement, moving: Sequence[_Movable]
    ) -> Moves | _Movable | None:
        """The moves, if all of these go; one that has no room elsewhere; None if the workload has no plan then."""
        with statement.open():
            for movable in moving:
                _leave(statement, movable)
            plan = finish(self._planner.preview(workload, demand, shape, statement.snapshot))
            if not isinstance(plan, Plan):
                return None
        nodes = list(plan.nodes.values())
        with statement.open():
            for pod, node in zip(plan.pods, nodes, strict=True):
                statement.claim(node, pod.requests)
            _expect(statement, list(zip(plan.pods, nodes, strict=True)))
            left, moves = sorted(moving, key=lambda movable: movable.cost, reverse=True), list[Move]()
            while left:
                for candidate in left:
                    if (move := self._move(statement, candidate)) is not None:
                        moves.append(move)
                        left.remove(candidate)
                        break
                else:
                    return left[0]
        return Moves(tuple(moves), tuple((pod.name, node) for pod, node in zip(plan.pods, nodes, strict=True)))

    def _move(self, statement: Statement, movable: _Movable) -> Move | None:
        """Move the workload to room that is free; None if there is none."""
        with statement.open():
            _leave(statement, movable)
            plan = finish(placing(movable.pods, len(movable.pods), statement.snapshot, policies=self._planner.policies))
            if not isinstance(plan, Placed):
                return None
            for pod in movable.pods:
                statement.claim(plan.nodes[pod.uid], pod.requests)
            _expect(statement, [(pod, plan.nodes[pod.uid]) for pod in movable.pods])
            statement.commit()
        before = {pod.uid: pod.node or "" for pod in movable.workload.bound}
        pods = tuple((pod.name, before[pod.uid], plan.nodes[pod.uid]) for pod in movable.pods)
        checkpointed = movable.candidate.checkpointed is not None
        return Move(movable.workload, movable.candidate.devices, pods, movable.lost_s, checkpointed)

    def _movable(self, workload: Workload, candidate: Candidate, view: Snapshot, wall: float) -> _Movable:
        gives: dict[int, Counter[int]] = {}
        for held in candidate.claims:
            if (row := view.rows.get(held.node)) is not None:
                amounts = {
                    view.resources[name]: held.pods * much for name, much in held.requests if name in view.resources
                }
                gives.setdefault(row, Counter()).update(amounts)
        devices, lost = candidate.devices, candidate.lost(wall)
        pods = sorted(self._anew(workload), key=lambda pod: pod.rank)
        return _Movable(
            workload,
            candidate,
            pods,
            {row: tuple(amounts.items()) for row, amounts in gives.items()},
            lost / devices if devices else 0.0,
        )

    def _anew(self, workload: Workload) -> Iterator[Pod]:
        """The workload's pods as they would be planned once more: without their nodes, and with the same flavors."""
        queue, uses = self._quotas.queue_of(workload.key), self._quotas.uses.of(workload.key)
        flavors = self._quotas.queues.snapshot.flavors
        for pod in workload.bound:
            pod = replace(pod, node=None, nominated_node=None, selection=_unpinned(pod.selection))
            if queue is not None and (use := uses.get(pod.uid)) is not None:
                flavoring = of_job(flavors, use.flavors) if workload.job else of_gang(queue, flavors, use.flavors)
                pod = flavoring.confined(pod)
            yield workload.constrained(pod, {})


class _Search:
    """Counts members in regions of the cluster, to find workloads whose room is enough. Plans are made later."""

    def __init__(self, view: Snapshot, roles: Roles) -> None:
        self._view = view
        demands = [(view.demand(pod.requests), view.eligible(pod.selection), count) for pod, count in roles]
        self._demands = [(demand, mask, count) for demand, mask, count in demands if demand is not None]
        self._impossible = len(self._demands) < len(roles)
        self._topologies = [pod.topology for pod, _ in roles]

    def regions(self, movables: Sequence[_Movable]) -> list[tuple[Rows, Cost]]:
        """The regions in which there would be enough room, with the least that moves there, the cheapest first.

        These are the domains of the levels that are asked for, and all nodes together if none is required.
        """
        domains = [
            (rows, _cost(moving)) for rows in self._all_regions() if (moving := self.fewest(rows, movables)) is not None
        ]
        return sorted(domains, key=lambda domain: (domain[1], tuple(domain[0][:1])))

    def _all_regions(self) -> Iterator[Rows]:
        view = self._view
        names = {name for topology in self._topologies for name in (topology.required, topology.preferred) if name}
        levels = sorted({at for name in names if (at := view.level_called(name)) is not None})
        for at in levels:
            level = view.levels[at]
            yield from (level.domain(code).rows for code in range(len(level.names)))
        if not all(topology.required for topology in self._topologies):
            yield np.arange(len(view.names))

    def fewest(self, rows: Rows, movables: Sequence[_Movable]) -> list[_Movable] | None:
        """The workloads that have to go for enough room on these nodes; None if all do not suffice.

        Either the largest or the smallest are spared first, whichever is cheaper.
        """
        if self._impossible:
            return None
        place = {row: at for at, row in enumerate(rows.tolist())}
        there = [movable for movable in movables if not place.keys().isdisjoint(movable.gives)]
        free = self._view.free[:, rows]
        for movable in there:
            _give(free, place, movable, 1)
        if not self._fits(free, rows):
            return None
        by_cost = sorted(there, key=lambda movable: movable.cost)
        return min((self._spare(place, free.copy(), rows, order) for order in (by_cost[::-1], by_cost)), key=_cost)

    def _spare(self, place: Mapping[int, int], free: Amounts, rows: Rows, order: Sequence[_Movable]) -> list[_Movable]:
        """The workloads that have to go when the first in the order are spared. ``free``: without all of them."""
        moving: list[_Movable] = []
        for movable in order:
            _give(free, place, movable, -1)
            if not self._fits(free, rows):
                _give(free, place, movable, 1)
                moving.append(movable)
        return moving

    def _fits(self, free: Amounts, rows: Rows) -> bool:
        return all(int((slots(free, demand) * mask[rows]).sum()) >= count for demand, mask, count in self._demands)


def _give(free: Amounts, place: Mapping[int, int], movable: _Movable, sign: int) -> None:
    for row, amounts in movable.gives.items():
        if (at := place.get(row)) is not None:
            for line, amount in amounts:
                free[line, at] += sign * amount


def _leave(statement: Statement, movable: _Movable) -> None:
    for held in movable.candidate.claims:
        for _ in range(held.pods):
            statement.release(held.node, held.requests)
    hide(statement, [movable.candidate])


def _expect(statement: Statement, pods: Sequence[tuple[Pod, str]]) -> None:
    """Let later plans see these pods on their nodes."""
    view = statement.snapshot
    statement.show(view.among(BesideNominated(view.others.tenants, pods)))


def _cost(moving: Collection[_Movable]) -> Cost:
    devices = sum(movable.candidate.devices for movable in moving)
    return devices, sum(movable.candidate.devices * movable.lost_s for movable in moving)


def _unpinned(selection: Selection) -> Selection:
    """The selection without the names of nodes: Muster pins pods in that way, and a new pod has no pin."""
    if selection.affinity is None:
        return selection
    terms = tuple(
        tuple(requirement for requirement in term if requirement.key != "metadata.name") for term in selection.affinity
    )
    # A term that is empty now was a pin: it asks for nothing else.
    return replace(selection, affinity=terms if all(terms) else None)
