"""A pass over queues, as a pure function: which of the waiting workloads are admitted, in which order and with which
flavors, and what blocks the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace

from policies.model.queues import ClusterQueue, Cohort, ResourceFlavor, Strategy, Usage
from policies.quota.flavors import Assignment, Fit, Flavors, Lack, Places, Preempts, no_place_needed, nobody
from policies.quota.history import History
from policies.quota.partial_admission import most_admitted
from policies.quota.parts import PodSetRequest, uncovered
from policies.quota.shares import Head, QueueOrder, Rank, Requested, by_borrowing, fairest
from policies.quota.tree import QuotaTree
from policies.words import listed
from tests.conformance.books import Books, Evicting, NoEvictions, Victims
from tests.conformance.checks import (
    check_amount,
    check_amounts,
    check_name,
    check_number,
    check_once,
    check_priority,
    check_queues,
    check_usage,
)
from tests.conformance.usable import Usable


@dataclass(frozen=True, slots=True)
class Admitted:
    """A workload that has its quota already."""

    queue: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class Incoming:
    """A workload that waits.

    ``queue``: the name of its ClusterQueue.
    ``since``: when it came into the queue, in seconds.
    ``local``: its LocalQueue, where past usage counts.
    """

    uid: str
    queue: str
    podsets: Sequence[PodSetRequest]
    priority: int = 0
    since: float = 0.0
    local: str = ""

    @property
    def place(self) -> tuple[int, float, str]:
        """The sort key of the workload in its LocalQueue."""
        return -self.priority, self.since, self.uid


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on one workload.

    ``assignment.fit``: FITS if the workload is admitted. PREEMPT or RECLAIM if it will be once the ``victims`` are
      gone.
    ``assignment.text``: what blocks a workload that is not admitted.
    ``victims``: by name, each with its reason; empty where the workload waits for victims of other workloads.
    """

    workload: Incoming
    assignment: Assignment
    victims: Mapping[str, str] = field(default_factory=dict)


Evictions = Callable[[Incoming, Books], Evicting]
"""Returns the victims that a workload may have, given the usage at that time (``tests.conformance.offers``)."""


def no_evictions(_workload: Incoming, _books: Books) -> Evicting:
    """No workload may be evicted."""
    return NoEvictions()


@dataclass(frozen=True, slots=True)
class World:
    """The facts of a decision on quota.

    ``places``: why a podset cannot be placed on the nodes of a flavor, or nothing.
    ``fair``: queues are ordered by fair sharing.
    ``order``: queues are ordered by another order (``policies.order``).
    ``histories``: the past usage of LocalQueues, for ClusterQueues that order by it; each admission counts at once.
    ``evictions``: by default there are none.
    """

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
    """Decide on each workload once: first the admitted ones in their order, then the others in the order of their
    turns.

    A workload with victims keeps its quota from its turn on: the workloads after it have what is left.

    A queue that contradicts itself (a resource in two groups, a negative quota) gives nothing, and says so to its
    workloads. Raises a ValueError for input that makes no sense: a negative request, two queues of one name.
    """
    line, usable = list(incoming), Usable(world.queues, world.cohorts, world.flavors)
    world = replace(world, queues=usable.queues, cohorts=usable.cohorts, admitted=list(world.admitted))
    _check(world, line)
    books = Books(world.queues, world.cohorts)
    for running in world.admitted:
        books.admit(running.queue, running.usage)
    lines = _Lines(world.queues, books.now, line, deepcopy(dict(world.histories)), usable)
    rank = by_borrowing(books.now) if world.fair else None
    if world.order is not None:
        rank = world.order.rank(books.now, _requested(books.now, line))
    turns = _Turns(world, books, rank)
    admitted: list[Decision] = []
    while (decision := turns.next(lines)) is not None:
        if decision.assignment.fit is Fit.FITS:
            books.admit(decision.workload.queue, decision.assignment.usage)
            lines.admitted(decision.workload, decision.assignment.usage)
            admitted.append(decision)
        else:
            lines.refused(decision)
    return [*admitted, *lines.waiting()]


class _Turns:
    """Finds the workload whose turn is next, with the assignment that it would get."""

    def __init__(self, world: World, books: Books, rank: Rank | None) -> None:
        self._world = world
        self._books = books
        self._rank = rank
        self._known: dict[str, tuple[int, Assignment]] = {}
        """The version of the books, and the assignment found at that version, by the UID of a workload."""

    def next(self, lines: _Lines) -> Decision | None:
        """Take the next turn. Workloads that cannot get anything come first, because they block no others."""
        by_queue: dict[str, tuple[Incoming, Assignment]] = {}
        heads: dict[str, Head] = {}
        for queue, workload in lines.heads():
            assignment = self._assigned(queue, workload)
            if assignment.fit < Fit.PREEMPT:
                return Decision(workload, assignment)
            by_queue[queue.name] = workload, assignment
            heads[queue.name] = Head(
                queue.name, assignment.usage, workload.priority, workload.since, workload.uid, assignment.level
            )
        if not heads:
            return None
        books, rank = self._books, self._rank
        chosen = by_age(heads)[0] if rank is None else fairest(books.now, heads, rank)
        if chosen is None:
            return None
        workload, assignment = by_queue[chosen.queue]
        victims = None if assignment.fit is Fit.FITS else self._evicting(workload).victims(assignment.usage)
        if isinstance(victims, Victims):
            books.evict(workload.queue, assignment.usage, victims)
        return Decision(workload, assignment, victims.why if isinstance(victims, Victims) else {})

    def _assigned(self, queue: ClusterQueue, one: Incoming) -> Assignment:
        version, known = self._known.get(one.uid, (-1, None))
        if known is None or version != self._books.version:
            known = _whole_or_part(one.podsets, lambda podsets: self._assign(queue, one, podsets))
            self._known[one.uid] = self._books.version, known
        return known

    def _assign(self, queue: ClusterQueue, one: Incoming, podsets: Sequence[PodSetRequest]) -> Assignment:
        """Assign flavors to the podsets. An assignment that preempts needs victims for all of its usage together.

        Such victims may exist although there are none for a part of the usage: its queue need not borrow that part
        from them. Without victims the assignment stands only if it fits without preemption.
        """
        names = uncovered(queue, podsets)
        if not podsets or names:
            text = f"{queue.title} does not cover {listed(names)}, which it asks for" if names else "it has no podsets"
            return Assignment(Fit.NONE, lack=Lack.NO_FLAVOR, text=text)
        evicting, with_pods = self._evicting(one), _with_pods(queue, podsets)
        assignment = self._flavors(evicting.preempts).assign(queue, with_pods)
        if assignment.fit in (Fit.NONE, Fit.FITS) or not self._has_places(podsets, assignment):
            return assignment
        victims = evicting.victims(assignment.usage)
        if not isinstance(victims, str):
            own = any(name == queue.name for name, _ in victims.frees)
            return replace(assignment, fit=Fit.PREEMPT if own else Fit.RECLAIM)
        if assignment.fit is Fit.NO_CANDIDATES:
            return assignment
        as_it_is = self._flavors(nobody).assign(queue, with_pods)
        refused = replace(assignment, fit=Fit.NO_CANDIDATES, text=f"{assignment.text}; {victims}")
        return as_it_is if as_it_is.fit is Fit.FITS else refused

    def _flavors(self, preempts: Preempts) -> Flavors:
        world, books = self._world, self._books
        return Flavors(
            books.now, world.flavors, world.places, preempts, fair=world.fair, later=lambda: nullcontext(books.later)
        )

    def _has_places(self, podsets: Sequence[PodSetRequest], found: Assignment) -> bool:
        """Nodes are not asked for where quota alone keeps it."""
        world = self._world
        chosen = ((podset, world.flavors[name]) for podset in podsets for name in found.flavors[podset.name].values())
        return not any(world.places(podset, flavor) for podset, flavor in chosen)

    def _evicting(self, one: Incoming) -> Evicting:
        return self._world.evictions(one, self._books)


class _Lines:
    """The queues, each in its order. ``histories``: those of LocalQueues, which are changed here."""

    def __init__(
        self,
        queues: Iterable[ClusterQueue],
        tree: QuotaTree,
        incoming: Iterable[Incoming],
        histories: Mapping[str, History],
        usable: Usable,
    ) -> None:
        self._queues = {queue.name: queue for queue in queues}
        self._histories = histories
        self._lines: dict[str, list[Incoming]] = {}
        self._refused: list[Decision] = []
        for workload in sorted(incoming, key=lambda workload: workload.place):
            if text := usable.why_closed(tree, workload.queue):
                self._refused.append(Decision(workload, Assignment(Fit.NONE, lack=Lack.NO_FLAVOR, text=text)))
            else:
                self._lines.setdefault(workload.queue, []).append(workload)

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

    def refused(self, found: Decision) -> None:
        """With StrictFIFO all behind it wait for it."""
        workload = found.workload
        line, queue = self._lines[workload.queue], self._queues[workload.queue]
        line.remove(workload)
        self._refused.append(found)
        if queue.by_past_usage:
            line.sort(key=self._by_past)
        if queue.strategy is Strategy.STRICT:
            text = f"{workload.uid} is before it in queue {workload.queue}, which is {Strategy.STRICT}"
            held = Assignment(Fit.NO_CANDIDATES, lack=Lack.QUOTA, text=text)
            self._refused += [Decision(behind, held) for behind in line]
            line.clear()

    def waiting(self) -> list[Decision]:
        return self._refused

    def _by_past(self, one: Incoming) -> tuple[float, tuple[int, float, str]]:
        """The LocalQueue that has used least comes first."""
        history = self._histories.get(one.local)
        return 0.0 if history is None else history.value, one.place


def by_age(heads: Mapping[str, Head]) -> list[Head]:
    """The order without fair shares: the least far borrowing first, then priority, then age."""
    return sorted(heads.values(), key=lambda head: (head.level, -head.priority, head.since, head.uid))


def _with_pods(queue: ClusterQueue, podsets: Sequence[PodSetRequest]) -> Sequence[PodSetRequest]:
    """Each pod counts as one, where the queue covers that."""
    if not any("pods" in group.covered for group in queue.groups):
        return podsets
    return [replace(podset, requests={**podset.requests, "pods": 1}) for podset in podsets]


def _whole_or_part(
    podsets: Sequence[PodSetRequest], assign: Callable[[Sequence[PodSetRequest]], Assignment]
) -> Assignment:
    """Assign all pods, also by preempting; else as many as there is quota for, with their ``counts``.

    The first podsets get their pods before the others. If even the minimum is too much, the reason is about the
    minimum.
    """
    whole = assign(podsets)
    extra = sum(podset.count - _least(podset) for podset in podsets)
    if whole.fit >= Fit.PREEMPT or not extra:
        return whole
    count, partial = most_admitted(extra, lambda more: assign(_with(podsets, more)), Fit.PREEMPT)
    if partial.fit < Fit.PREEMPT:
        return partial
    return replace(partial, counts={podset.name: podset.count for podset in _with(podsets, count)})


def _least(podset: PodSetRequest) -> int:
    return podset.count if podset.minimum is None else min(podset.minimum, podset.count)


def _with(podsets: Sequence[PodSetRequest], extra: int) -> list[PodSetRequest]:
    """The podsets with their minimum counts, and ``extra`` more pods in all."""
    reduced = []
    for podset in podsets:
        more = min(extra, podset.count - _least(podset))
        reduced.append(replace(podset, count=_least(podset) + more))
        extra -= more
    return reduced


def _requested(tree: QuotaTree, incoming: Iterable[Incoming]) -> Requested:
    total = {name: Counter[str]() for name in tree.queues}
    for name, node in tree.queues.items():
        for (_, resource), amount in node.used.items():
            total[name][resource] += amount
    for workload in incoming:
        for podset in workload.podsets if workload.queue in total else ():
            total[workload.queue].update({name: amount * podset.count for name, amount in podset.requests.items()})
    return total


def _check(world: World, incoming: Sequence[Incoming]) -> None:
    """Check the input of the decision by quota. Raises a ValueError that says what to do."""
    check_queues(world.queues, world.cohorts)
    for name, flavor in world.flavors.items():
        if flavor.name != name:
            raise ValueError(f"flavor {flavor.name!r} is there as {name!r}: give each by its own name")
    for at, runs in enumerate(world.admitted):
        check_usage(f"what workload {at} of those admitted to queue {runs.queue} uses", runs.usage)
    for workload in incoming:
        check_name("the UID of a workload", workload.uid)
        check_priority(f"the priority of workload {workload.uid}", workload.priority)
        check_number(f"since of workload {workload.uid}", workload.since)
        check_once(f"workload {workload.uid}: podset", (podset.name for podset in workload.podsets))
        for podset in workload.podsets:
            what = f"podset {podset.name} of workload {workload.uid}"
            check_amount(f"the count of {what}", podset.count)
            if podset.minimum is not None:
                check_amount(f"the minimum of {what}", podset.minimum, least=1)
            check_amounts(f"the requests of {what}", podset.requests)
    check_once("workload", (workload.uid for workload in incoming))
