"""One pass over queues, as a pure function: which of the waiting workloads are admitted, in which order and with which
flavors, and what keeps the others. This is the entry for conformance tests, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from policies.model.queues import ClusterQueue, Cohort, ResourceFlavor, Strategy, Usage
from policies.quota.flavors import Assignment, Fit, Flavors, Lack, Places, PodSetRequest, no_place_needed
from policies.quota.shares import Head, by_age, fairest
from policies.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Admitted:
    """A workload that has its quota already."""

    queue: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Incoming:
    """A workload that waits. ``queue``: the name of its ClusterQueue. ``since``: when it came into it, in seconds.
    ``past``: what its LocalQueue has used, where that counts."""

    uid: str
    queue: str
    podsets: Sequence[PodSetRequest]
    priority: int = 0
    since: float = 0.0
    past: float = 0.0

    @property
    def place(self) -> tuple[float, int, float, str]:
        """Where it stands in its queue."""
        return self.past, -self.priority, self.since, self.uid


@dataclass(frozen=True, slots=True)
class Decision:
    """``assignment.fit``: FITS if it is admitted. Else ``assignment.text`` says what keeps it."""

    workload: Incoming
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class World:
    """What there is. ``places``: why a podset cannot be placed on the nodes of a flavor, or nothing."""

    queues: Sequence[ClusterQueue]
    cohorts: Sequence[Cohort] = ()
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    admitted: Iterable[Admitted] = ()
    places: Places = no_place_needed
    fair: bool = False


def decide(world: World, incoming: Iterable[Incoming]) -> list[Decision]:
    """Everyone once: those that are admitted in their order, then those that wait, in the order in which they were
    looked at."""
    tree = QuotaTree(world.queues, world.cohorts)
    for one in world.admitted:
        if one.queue in tree.queues:
            tree.use(one.queue, one.usage)
    flavors = Flavors(tree, world.flavors, world.places)
    lines = _Lines(world.queues, tree, incoming)
    admitted: list[Decision] = []
    while (found := _next(world, tree, flavors, lines)) is not None:
        workload, assignment = found
        if assignment.fit is Fit.FITS:
            tree.use(workload.queue, assignment.usage)
            lines.admitted(workload)
            admitted.append(Decision(workload, assignment))
        else:
            lines.refused(workload, assignment)
    return [*admitted, *lines.waiting()]


class _Lines:
    """The queues, each in its order."""

    def __init__(self, queues: Iterable[ClusterQueue], tree: QuotaTree, incoming: Iterable[Incoming]) -> None:
        self._queues = {one.name: one for one in queues}
        self._lines: dict[str, list[Incoming]] = {}
        self._refused: list[Decision] = []
        for one in sorted(incoming, key=lambda one: one.place):
            if one.queue in tree.queues:
                self._lines.setdefault(one.queue, []).append(one)
            else:
                text = tree.problems.get(one.queue, f"queue {one.queue} does not exist")
                self._refused.append(Decision(one, Assignment(Fit.NONE, lack=Lack.NO_FLAVOR, text=text)))

    def heads(self) -> Iterator[tuple[ClusterQueue, Incoming]]:
        return ((self._queues[name], line[0]) for name, line in self._lines.items() if line)

    def admitted(self, workload: Incoming) -> None:
        self._lines[workload.queue].pop(0)

    def refused(self, workload: Incoming, assignment: Assignment) -> None:
        """With StrictFIFO all behind it wait for it."""
        line = self._lines[workload.queue]
        self._refused.append(Decision(line.pop(0), assignment))
        if self._queues[workload.queue].strategy is Strategy.STRICT:
            text = f"{workload.uid} is before it in queue {workload.queue}, which is {Strategy.STRICT}"
            held = Assignment(Fit.NO_CANDIDATES, lack=Lack.QUOTA, text=text)
            self._refused += [Decision(one, held) for one in line]
            line.clear()

    def waiting(self) -> list[Decision]:
        return self._refused


def _next(world: World, tree: QuotaTree, flavors: Flavors, lines: _Lines) -> tuple[Incoming, Assignment] | None:
    """The workload whose turn it is, with what it would get."""
    found: dict[str, tuple[Incoming, Assignment]] = {}
    heads: dict[str, Head] = {}
    for queue, one in lines.heads():
        assignment = flavors.assign(queue, one.podsets)
        if assignment.fit is not Fit.FITS:
            return one, assignment
        found[queue.name] = one, assignment
        heads[queue.name] = Head(queue.name, assignment.usage, one.priority, one.since, one.uid, assignment.level)
    if not heads:
        return None
    chosen = fairest(tree, heads) if world.fair else by_age(heads)[0]
    return None if chosen is None else found[chosen.queue]
