"""The best possible placements, as integer programs over all nodes of a case: an oracle for clusters too large to
search.

HiGHS solves them. They know nothing of how placements are found: which domain goes first, how it divides, what is
full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from highspy import Highs, HighsModelStatus

from policies.placement.place import Placed, Shortfall
from tests.policies.judge import Judge
from tests.policies.world import LEVELS

CLUSTER = len(LEVELS)
"""In place of a level: the whole cluster, as one domain."""


def complaints(judge: Judge, found: Placed | Shortfall) -> Iterator[str]:
    """The improvements that the programs find, in words. Gangs with an incomplete slice are left out."""
    if judge.ragged:
        return
    size, placed = judge.size, len(found.nodes) if isinstance(found, Placed) else 0
    most = Program(judge).most()
    if placed != (most if most >= judge.case.needed else 0):
        yield f"{placed} members were placed, and the program places {most}"
    if isinstance(found, Placed) and placed == size and judge.cares:
        yield from _division(judge, found.nodes)


def _division(judge: Judge, nodes: dict[str, str]) -> Iterator[str]:
    """The chosen level is the first at which one domain holds the gang; there the gang is in the fewest, evenly."""
    near = judge.slice_level if judge.slice else judge.preferred or 0
    programs = ((inside, Program(judge, inside)) for inside in judge.levels_tried())
    solved = ((inside, program, program.fewest(near)) for inside, program in programs)
    inside, program, fewest = next((attempt for attempt in solved if attempt[2] is not None), (None, None, None))
    if inside is None or program is None:
        yield "what is required is broken: the program finds no room"
        return
    homes = {judge.case.where[name][inside] for name in nodes.values()} if inside < CLUSTER else {"all"}
    if len(homes) > 1 or None in homes:
        yield f"one {LEVELS[inside]} holds the gang, says the program, and it is in {homes}"
        return
    shares = Counter(home for name in nodes.values() if (home := judge.case.where[name][near]) is not None)
    if judge.case.policy == "spread":
        return  # it wants as many domains as there are
    if len(shares) > max(fewest or 0, 1):
        yield f"it is in {len(shares)} domains of {LEVELS[near]}, and the program needs {fewest}: {dict(shares)}"
    if judge.case.policy == "balanced" or judge.slice:
        unit = judge.slice or 1
        uneven = len(shares) > 1 and max(shares.values()) - min(shares.values()) > unit
        if uneven and program.is_even(near, len(shares), sum(shares.values())):
            yield f"the shares are {dict(shares)}, and the program makes them equal"


class Program:
    """How many members each node takes, with all that is required, in one domain of the level ``inside``."""

    def __init__(self, judge: Judge, inside: int = CLUSTER) -> None:
        self._judge = judge
        self._solver = Highs()  # type: ignore[no-untyped-call]
        self._solver.silent()
        self._members = {name: self._solver.addIntegral(0, slots) for name, slots in judge.slots.items()}
        self._total = self._sum(judge.slots)
        self._solver.addConstr(self._total <= judge.size)
        for at in (judge.required, inside):
            if at is not None and at < CLUSTER:
                flags = self._flags(at)
                self._solver.addConstr(self._solver.qsum(flags.values()) == 1)
                self._solver.addConstr(self._sum(judge.outside(at)) == 0)
        if judge.slice:
            for names in judge.domains(judge.slice_level):
                slices = self._solver.addIntegral()
                self._solver.addConstr(self._sum(names) == judge.slice * slices)

    def most(self) -> int:
        """How many members could be placed at once."""
        self._solver.maximize(self._total)
        return self._result() or 0

    def fewest(self, near: int) -> int | None:
        """How many domains of a level the whole gang needs, nodes outside all of them for nothing; None: no room."""
        self._used = self._flags(near)
        self._solver.addConstr(self._total == self._judge.size)
        self._solver.minimize(self._solver.qsum(self._used.values()))
        return self._result()

    def is_even(self, near: int, count: int, seats: int) -> bool:
        """Whether ``count`` domains can have equal shares of the seats, to within one slice; after ``fewest``."""
        unit, solver = self._judge.slice or 1, self._solver
        least = solver.addIntegral()
        for names, flag in self._used.items():
            share = self._sum(names)
            solver.addConstr(share <= least + unit)
            solver.addConstr(share >= least - self._judge.size * (1 - flag))
            solver.addConstr(share >= flag)
        solver.addConstr(solver.qsum(self._used.values()) == count)
        solver.addConstr(self._sum(name for names in self._used for name in names) == seats)
        solver.minimize(least)
        return self._result() is not None

    def _flags(self, at: int) -> dict[tuple[str, ...], Any]:
        """A binary variable for each domain of a level: 1 if the domain has members."""
        flags = {}
        for names in self._judge.domains(at):
            flags[names] = flag = self._solver.addBinary()
            room = sum(self._judge.slots[name] for name in names)
            self._solver.addConstr(self._sum(names) <= min(room, self._judge.size) * flag)
        return flags

    def _sum(self, names: Iterable[str]) -> Any:
        return self._solver.qsum(self._members[name] for name in names)

    def _result(self) -> int | None:
        match self._solver.getModelStatus():
            case HighsModelStatus.kOptimal:
                return round(self._solver.getObjectiveValue())
            case HighsModelStatus.kInfeasible:
                return None
            case status:
                raise AssertionError(f"HiGHS could not tell: {status}")
