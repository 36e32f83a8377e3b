"""One pass over queues, as a pure function: which of the waiting workloads are admitted, in which order and with which
flavors, and what keeps the others. This is the entry for conformance tests, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial

from policies.model.queues import ClusterQueue, Cohort, ResourceFlavor, Strategy, Usage
from policies.quota.flavors import (
    Assignment,
    Fit,
    Flavors,
    Lack,
    Places,
    PodSetRequest,
    Preempts,
    no_place_needed,
    nobody,
)
from policies.quota.history import History
from policies.quota.partial_admission import whole_or_part
from policies.quota.shares import Head, QueueOrder, Rank, Requested, by_age, by_borrowing, fairest
from policies.quota.tree import QuotaTree


@dataclass(frozen=True, slots=True)
class Admitted:
    """A workload that has its quota already."""

    queue: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Incoming:
    """A workload that waits. ``queue``: the name of its ClusterQueue. ``since``: when it came into it, in seconds.
    ``local``: its LocalQueue, where the past usage of that counts."""

    uid: str
    queue: str
    podsets: Sequence[PodSetRequest]
    priority: int = 0
    since: float = 0.0
    local: str = ""

    @property
    def place(self) -> tuple[int, float, str]:
        """Where it stands among those of its LocalQueue."""
        return -self.priority, self.since, self.uid


@dataclass(frozen=True, slots=True)
class Decision:
    """``assignment.fit``: FITS if it is admitted. Else ``assignment.text`` says what keeps it; PREEMPT or RECLAIM if it
    could be with its ``flavors`` once others have given way."""

    workload: Incoming
    assignment: Assignment


Evictions = Callable[[QuotaTree, Incoming], Preempts]
"""What preempting gives to a workload, with what is used by then (``policies.preemption.offers``)."""


def no_evictions(_tree: QuotaTree, _workload: Incoming) -> Preempts:
    """Nobody may be preempted for anybody."""
    return nobody


@dataclass(frozen=True, slots=True)
class World:
    """What there is. ``places``: why a podset cannot be placed on the nodes of a flavor, or nothing. ``fair``: between
    queues by fair sharing. ``order``: by another order (``policies.order``). ``histories``: what LocalQueues have used,
    for ClusterQueues that order by that; each admission counts at once. ``evictions``: by default there are none."""

    queues: Sequence[ClusterQueue]
    cohorts: Sequence[Cohort] = ()
    flavors: Mapping[str, ResourceFlavor] = field(default_factory=dict)
    admitted: Iterable[Admitted] = ()
    places: Places = no_place_needed
    fair: bool = False
    order: QueueOrder | None = None
    histories: Mapping[str, History] = field(default_factory=dict)
    evictions: Evictions = no_evictions


def decide(world: World, incoming: Iterable[Incoming]) -> list[Decision]:
    """Everyone once: those that are admitted in their order, then those that wait, in the order in which they were
    looked at."""
    tree = QuotaTree(world.queues, world.cohorts)
    for one in world.admitted:
        if one.queue in tree.queues:
            tree.use(one.queue, one.usage)

    def assign(queue: ClusterQueue, one: Incoming) -> Assignment:
        flavors = Flavors(tree, world.flavors, world.places, world.evictions(tree, one), fair=world.fair)
        return whole_or_part(one.podsets, partial(flavors.assign, queue))

    line = list(incoming)
    lines = _Lines(world.queues, tree, line, deepcopy(dict(world.histories)))
    rank = by_borrowing(tree) if world.fair else None
    if world.order is not None:
        rank = world.order.rank(tree, _requested(tree, line))
    admitted: list[Decision] = []
    while (found := _next(rank, tree, assign, lines)) is not None:
        workload, assignment = found
        if assignment.fit is Fit.FITS:
            tree.use(workload.queue, assignment.usage)
            lines.admitted(workload, assignment.usage)
            admitted.append(Decision(workload, assignment))
        else:
            lines.refused(workload, assignment)
    return [*admitted, *lines.waiting()]


_Assign = Callable[[ClusterQueue, Incoming], Assignment]


class _Lines:
    """The queues, each in its order. ``histories``: those of LocalQueues, which are changed here."""

    def __init__(
        self,
        queues: Iterable[ClusterQueue],
        tree: QuotaTree,
        incoming: Iterable[Incoming],
        histories: Mapping[str, History],
    ) -> None:
        self._queues = {one.name: one for one in queues}
        self._histories = histories
        self._lines: dict[str, list[Incoming]] = {}
        self._refused: list[Decision] = []
        for one in sorted(incoming, key=lambda one: one.place):
            if one.queue in tree.queues:
                self._lines.setdefault(one.queue, []).append(one)
            else:
                text = tree.problems.get(one.queue, f"queue {one.queue} does not exist")
                self._refused.append(Decision(one, Assignment(Fit.NONE, lack=Lack.NO_FLAVOR, text=text)))

    def heads(self) -> Iterator[tuple[ClusterQueue, Incoming]]:
        for name, line in self._lines.items():
            if line:
                queue = self._queues[name]
                yield queue, min(line, key=self._by_past) if queue.by_past_usage else line[0]

    def admitted(self, workload: Incoming, usage: Usage) -> None:
        self._lines[workload.queue].remove(workload)
        if (history := self._histories.get(workload.local)) is not None:
            total: Counter[str] = Counter()
            for (_, resource), amount in usage.items():
                total[resource] += amount
            history.started(workload.uid, total)

    def refused(self, workload: Incoming, assignment: Assignment) -> None:
        """With StrictFIFO all behind it wait for it."""
        line, queue = self._lines[workload.queue], self._queues[workload.queue]
        line.remove(workload)
        self._refused.append(Decision(workload, assignment))
        if queue.by_past_usage:
            line.sort(key=self._by_past)
        if queue.strategy is Strategy.STRICT:
            text = f"{workload.uid} is before it in queue {workload.queue}, which is {Strategy.STRICT}"
            held = Assignment(Fit.NO_CANDIDATES, lack=Lack.QUOTA, text=text)
            self._refused += [Decision(one, held) for one in line]
            line.clear()

    def waiting(self) -> list[Decision]:
        return self._refused

    def _by_past(self, one: Incoming) -> tuple[float, tuple[int, float, str]]:
        """The LocalQueue that has used least comes first."""
        history = self._histories.get(one.local)
        return 0.0 if history is None else history.value, one.place


def _requested(tree: QuotaTree, incoming: Iterable[Incoming]) -> Requested:
    total = {name: Counter[str]() for name in tree.queues}
    for name, node in tree.queues.items():
        for (_, resource), amount in node.used.items():
            total[name][resource] += amount
    for one in incoming:
        for podset in one.podsets if one.queue in total else ():
            total[one.queue].update({name: amount * podset.count for name, amount in podset.requests.items()})
    return total


def _next(rank: Rank | None, tree: QuotaTree, assign: _Assign, lines: _Lines) -> tuple[Incoming, Assignment] | None:
    """The workload whose turn it is, with what it would get."""
    found: dict[str, tuple[Incoming, Assignment]] = {}
    heads: dict[str, Head] = {}
    for queue, one in lines.heads():
        assignment = assign(queue, one)
        if assignment.fit is not Fit.FITS:
            return one, assignment
        found[queue.name] = one, assignment
        heads[queue.name] = Head(queue.name, assignment.usage, one.priority, one.since, one.uid, assignment.level)
    if not heads:
        return None
    chosen = by_age(heads)[0] if rank is None else fairest(tree, heads, rank)
    return None if chosen is None else found[chosen.queue]
