"""Changes on the nodes, starts that go first, timers, and turns: what waiting workloads need beside their causes.

Changes are put together until the next cycle, by node: of room that came free and was taken again nothing is left.
What is left wakes the shapes that it ``concerns`` (``pending.RoomFor``).

A gang that is being started makes others stand back where a topology spread counts members of both. kube-scheduler
counts pods as they come: two such gangs at once are refused in most orders, and begin again each time.

The queue policy says when the turn of a workload comes. Jobs whose pods may never be created come after all others.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from extender.core.causes import SharedSpread
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.singles import WaitingSingle, gpus_of
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.api import QueuePolicy, SortKey
from policies.model import Constraints, GroupKey, Labels, Pod, Requests, Spread
from policies.steps import AT_ONCE, Steps

Turn = tuple[int, SortKey]
"""How far it is put off, and its order by the queue policy."""
Entry = tuple[Turn, int, Workload]
"""The turn, a number that no other entry has, and the workload."""


Amounts = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Freed:
    """A node where more is free ``now`` than was free, and kept for no pod of no gang, ``before``.

    Who goes before such a pod gets what is kept for it, and how many of those wait is not asked here.
    """

    node: str
    before: Amounts
    now: Amounts


@dataclass(slots=True)
class Changes:
    """``freed``: nodes that have got room back, and the least that was free there before of what they got."""

    freed: dict[str, dict[str, int]] = field(default_factory=dict)
    nodes: bool = False
    """Nodes came, went or changed: whatever was found before may be wrong in any way."""
    taken: bool = False
    """Room was taken: nobody can start for it, but the numbers in the reasons grow old."""
    wary: bool = False
    """Somebody waits who demands something of other pods."""
    ended: dict[str, None] = field(default_factory=dict)
    """Who gave room back, or is kept none any more, by the names by which reasons tell of them."""
    met: list[Pod] = field(default_factory=list)
    """Pods that got a node meanwhile, and those whose labels changed, as they were and as they are."""

    @property
    def hopeful(self) -> bool:
        """Somebody may fit who did not fit before."""
        return self.nodes or bool(self.freed) or bool(self.met)

    def see(self, pod: Pod, old: Pod | None) -> None:
        """A pod is on a node: a change if it was not, or has other labels, for those who demand something of it."""
        if not self.wary or not pod.node:
            return
        if old is None or not old.node:
            self.met.append(pod)
        elif old.labels != pod.labels:
            self.met += old, pod

    def take(self) -> Changes:
        """Return what has changed, and begin anew."""
        taken = replace(self)
        self.freed, self.ended, self.met = {}, {}, []
        self.nodes = self.taken = False
        return taken

    def will_free(self, node: str, left: Amounts) -> None:
        """Call before a node gets back room of these resources; ``left`` is what is free now. A verdict may be of any
        moment since: the least there was counts."""
        known = self.freed.setdefault(node, {})
        for name, amount in left.items():
            known[name] = min(amount, known.get(name, amount))

    def in_the_end(self, left: Callable[[str], Amounts]) -> list[Freed]:
        """Return the nodes with more room now than before; room that was freed and taken again is no change.

        Of what was never freed there is the least now.
        """
        pairs = [(node, before, left(node)) for node, before in self.freed.items()]
        return [
            Freed(node, {**now, **before}, now)
            for node, before, now in pairs
            if any(now.get(name, 0) > amount for name, amount in before.items())
        ]


def concerns(freed: Sequence[Freed], met: Sequence[Pod], shape: Shape, claims: Claims, *, gone: bool) -> Steps[bool]:
    """Whether some node takes more members of that shape than before, or may take another mix of them, or more of them
    with the room there that is kept for the gang itself."""
    if shape.related:
        yield len(met) // 4
        # Whoever has gone may have had a port, or kept others away, even if the room is taken again.
        return gone or any(_means(constraints, pod, claims) for (*_, constraints), _ in shape.roles for pod in met)
    for (requests, selection, *_), _ in shape.roles:
        admitted = None
        for at in range(0, len(freed), AT_ONCE):
            for node in freed[at : at + AT_ONCE]:
                if len(shape.roles) == 1 and not shape.kept:
                    more = _slots(node.now, requests) > _slots(node.before, requests)
                else:
                    more = _rises(node, (name for name, _ in requests))
                if more and admitted is None:
                    yield from claims.snapshot().evaluated(selection)
                    admitted = claims.admitting(selection)
                if more and admitted is not None and admitted(node.node):
                    return True
            yield 1 + len(freed[at : at + AT_ONCE]) // 4
    return False


def _means(constraints: Constraints, pod: Pod, claims: Claims) -> bool:
    """Whether the pod counts for something that is demanded."""
    if not constraints:
        return False
    if any(claims.tenants.means(term, pod) for term in (*constraints.affinity, *constraints.anti_affinity)):
        return True
    labels = dict(pod.labels)
    return any(spread.counts(labels) for spread in constraints.spread)


def _slots(free: Amounts, requests: Requests) -> int:
    slots = 1 << 31
    for name, amount in requests:
        if amount:
            there = free.get(name, 0)
            if there < amount:
                return 0
            slots = min(slots, there // amount)
    return slots


def _rises(freed: Freed, names: Iterable[str]) -> bool:
    return any(freed.now.get(name, 0) > freed.before.get(name, 0) for name in names)


_spread_of = attrgetter("constraints.spread")

Kind = tuple[str, Labels, tuple[Spread, ...]]
"""What matters of a pod here: its namespace, its labels and its spread."""


class Starting:
    """Those that are promised nodes, and not there yet. Nothing is worked out where none of them has a spread."""

    def __init__(self) -> None:
        self.pods: dict[GroupKey, Sequence[Pod]] = {}
        self._spread: dict[GroupKey, None] = {}
        self._behind: dict[GroupKey, dict[GroupKey, None]] = {}
        """Whoever stands back, by the first in whose way it would be."""

    def begin(self, key: GroupKey, pods: Sequence[Pod]) -> None:
        """It was planned."""
        self.pods[key] = pods
        if any(map(_spread_of, pods)):
            self._spread[key] = None

    def __contains__(self, key: GroupKey) -> bool:
        return key in self.pods

    def go_on(self, workload: Workload) -> Iterable[GroupKey]:
        """Some are there, or are promised nothing any more. Returns who stood back for it and need not any longer."""
        key = workload.key
        if not workload.starting:
            self.pods.pop(key)
        elif key not in self._spread or workload.filling or any(map(_spread_of, _promised(workload))):
            return ()
        else:
            # Those that are there are in nobody's way, even if the others fail: their spread is not looked at again.
            self.pods[key] = list(_promised(workload))
        self._spread.pop(key, None)
        return self._behind.pop(key, ())

    def ahead(self, key: GroupKey, pods: Sequence[Pod], *, related: bool) -> SharedSpread | None:
        """Why these stand back, if they do: the spread of another counts them, or theirs its pods."""
        others = self.pods if related and any(map(_spread_of, pods)) else self._spread
        mine = _kinds(pods) if others else []
        for other in others:
            theirs = _kinds(self.pods[other]) if other != key and other.namespace == key.namespace else []
            if _counts(mine, theirs) or _counts(theirs, mine):
                self._behind.setdefault(other, {})[key] = None
                return SharedSpread(other.name)
        return None


def _promised(workload: Workload) -> Iterator[Pod]:
    """Those that are promised nodes that they are not on yet."""
    yield from (member.pod for member in workload.members.placed.values())
    yield from (pod for pod, _ in workload.members.slots.promises())


def _kinds(pods: Iterable[Pod]) -> list[Kind]:
    return list(dict.fromkeys((pod.namespace, pod.labels, pod.constraints.spread) for pod in pods))


def _counts(some: Sequence[Kind], others: Sequence[Kind]) -> bool:
    """Whether a spread of some counts any of the others."""
    spreads = [(namespace, spread) for namespace, _, several in some for spread in several]
    return any(
        where == namespace and spread.counts(dict(labels))
        for namespace, spread in spreads
        for where, labels, _ in others
    )


_AT_ONCE = 256


class Timers:
    """A heap with at most two entries for each workload that has a timer."""

    def __init__(self) -> None:
        self._next: dict[GroupKey, float] = {}
        self._heap: list[tuple[float, GroupKey]] = []

    def set(self, key: GroupKey, at: float) -> None:
        """Have it looked at no later than that."""
        known = self._next.get(key)
        if known is not None and known <= at:
            return
        self._next[key] = at
        if len(self._heap) > 2 * len(self._next) + 64:
            self._heap = [(instant, whose) for whose, instant in self._next.items()]
            heapq.heapify(self._heap)
        else:
            heapq.heappush(self._heap, (at, key))

    def due(self, now: float) -> list[GroupKey]:
        """Who is to be looked at by now; not all at once if they are many."""
        found: list[GroupKey] = []
        while self._heap and self._heap[0][0] <= now and len(found) < _AT_ONCE:
            at, key = heapq.heappop(self._heap)
            if self._next.get(key) == at:
                del self._next[key]
                found.append(key)
        return found

    def first(self) -> float | None:
        """The instant of the next one."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)


class Turns:
    """The turns by one queue policy. ``of`` raises PolicyError where the policy fails. Whatever changes ``put_off``
    wakes the workloads of the namespace."""

    def __init__(self, failed_creation: FailedCreation, policy: QueuePolicy) -> None:
        self._failed_creation = failed_creation
        self._policy = policy

    def of(self, one: Workload | WaitingSingle) -> Turn:
        if isinstance(one, WaitingSingle):
            return 0, self._policy.order(one)
        return put_off(self._failed_creation, one), self._policy.order(QueueView(one))


class QueueView:
    """A workload as the queue policy sees it (``policies.api.WaitingGang``)."""

    __slots__ = ("_workload",)

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    @property
    def key(self) -> GroupKey:
        return self._workload.key

    @property
    def priority(self) -> int:
        return self._workload.priority

    @property
    def created(self) -> float:
        return self._workload.created

    @property
    def members(self) -> int:
        return sum(count for count, _ in self._parts())

    @property
    def requests(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for count, pod in self._parts():
            for name, amount in pod.requests:
                total[name] += count * amount
        return dict(total)

    @property
    def gpus(self) -> int:
        return gpus_of(self.requests)

    def _parts(self) -> list[tuple[int, Pod]]:
        """Returns how many members ask for the same as which pod."""
        workload = self._workload
        if workload.podsets is not None and workload.podsets.podsets:
            return [(podset.size, podset.template) for podset in workload.podsets.podsets]
        live = workload.live
        parts = [(1, pod) for pod in live]
        if live and (to_come := (workload.min_member or 0) - len(live)) > 0:
            parts.append((to_come, live[0]))
        return parts


def put_off(failed_creation: FailedCreation, workload: Workload) -> int:
    """How far it is put off, whatever its priority and age, so that no tenant keeps the room of all others empty. 2: a
    job whose own pods were not created. 1: another one of its namespace that has no pod."""
    if workload.podsets is None or workload.admitted:
        return 0
    if failed_creation.has_failed(workload.key):
        return 2
    return int(not workload.members.live and failed_creation.go_last(workload.key.namespace))
