"""Pending workloads: what each of them waits for, and ``wake``, the one way to have the next cycle consider it again.

A turn that finds no plan ends in ``park``: from then on the workload waits for causes (``wake_on``). The code that
makes a cause come true calls ``wake`` with it. An index holds parked workloads by cause, so a cycle costs nothing for
workloads whose cause has not come true. ``tests/core/causes.md`` lists what raises which cause; a test compares it with
the code.

Changes on the nodes are merged until the next cycle, by node: room that came free and was taken again is no change.
What remains wakes the shapes that it ``concerns`` (``RoomFor``).

A gang that is being started delays others if a topology spread counts members of both. kube-scheduler counts pods as
they come: two such gangs at once are refused in most orders, and start again each time.

The queue policy decides when the turn of a workload comes. Jobs whose pods may never be created come after all others.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import floor
from operator import attrgetter
from typing import NamedTuple, assert_never

from extender.core.causes import SharedSpread
from extender.core.ledger.claims import Claims
from extender.core.ledger.creation import FailedCreation
from extender.core.ledger.singles import WaitingSingle, gpus_of
from extender.core.ledger.store import Store
from extender.core.limits import Limits
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.api import QueuePolicy, SortKey
from policies.model import Constraints, GroupKey, Labels, Pod, Requests, Spread
from policies.model.queues import ClusterQueue, FlavorResource
from policies.quota.shares import QueueOrder
from policies.steps import AT_ONCE, Steps, batched, finish

_DAY_S = 86_400
Turn = tuple[int, SortKey]
"""How far the turn is put off (``put_off``), then the order by the queue policy."""
Entry = tuple[Turn, int, Turn, Workload]
"""The place in its queue, a unique number, the turn among the workloads of all queues, and the workload."""


Free = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Freed:
    """A node where more is free ``now`` than ``before``.

    ``before`` leaves out what was kept for single pods: a workload that goes before such a pod may use that room. How
    many of those pods wait is not considered here.
    """

    node: str
    before: Free
    now: Free


@dataclass(slots=True)
class Changes:
    """Changes since the last cycle.

    ``freed``: nodes that got room back, each with the least that was free of those resources since the last cycle.
    """

    freed: dict[str, dict[str, int]] = field(default_factory=dict)
    nodes: bool = False
    """Whether nodes came, went or changed: any cached shortfall may be wrong."""
    room_taken: bool = False
    """Whether room was taken: no workload can start because of it, but the numbers in reasons are out of date."""
    has_affinity_waiters: bool = False
    """Whether a workload waits whose pods have affinity, anti-affinity, spread or ports."""
    ended: dict[str, None] = field(default_factory=dict)
    """The workloads and pods that gave room back, or lost what was kept for them, by their names in reasons."""
    changed_pods: list[Pod] = field(default_factory=list)
    """Pods that got a node, and pods whose labels changed, before and after."""

    @property
    def may_unblock(self) -> bool:
        """Whether a workload may fit that did not fit before."""
        return self.nodes or bool(self.freed) or bool(self.changed_pods)

    def note_pod(self, pod: Pod, old: Pod | None) -> None:
        """Note a pod on a node that was not there before or has other labels, if a workload waits with demands on other
        pods."""
        if not self.has_affinity_waiters or not pod.node:
            return
        if old is None or not old.node:
            self.changed_pods.append(pod)
        elif old.labels != pod.labels:
            self.changed_pods += old, pod

    def take(self) -> Changes:
        """Return what has changed, and start with no changes."""
        taken = Changes(self.freed, self.nodes, ended=self.ended, changed_pods=self.changed_pods)
        self.clear()
        return taken

    def clear(self) -> None:
        """Start with no changes."""
        self.freed, self.ended, self.changed_pods = {}, {}, []
        self.nodes = self.room_taken = False

    def will_free(self, node: str, left: Free) -> None:
        """Call before a node gets back room of these resources; ``left`` is what is free now.

        The minimum is kept, because a cached shortfall may date from any time since the last cycle.
        """
        known = self.freed.setdefault(node, {})
        for name, amount in left.items():
            known[name] = min(amount, known.get(name, amount))

    def net_freed(self, left: Callable[[str], Free]) -> list[Freed]:
        """Return the nodes with more room now than before; room that was freed and taken again is no change.

        For resources that were never freed, the amount of now is the minimum.
        """
        pairs = [(node, before, left(node)) for node, before in self.freed.items()]
        return [
            Freed(node, {**now, **before}, now)
            for node, before, now in pairs
            if any(now.get(name, 0) > amount for name, amount in before.items())
        ]


def concerns(
    freed: Sequence[Freed], changed: Sequence[Pod], shape: Shape, claims: Claims, *, gone: bool
) -> Steps[bool]:
    """Whether one of the nodes takes more members of the shape than before.

    For several roles, or with room that is kept for the gang itself, any amount that has risen counts.

    ``changed``: pods that came or whose labels changed, for a shape with demands on other pods.
    ``gone``: whether pods are gone.
    """
    if shape.related:
        yield len(changed) // 4
        # A pod that is gone may have had a port or kept others away, even if its room is taken again.
        return gone or any(_means(constraints, pod, claims) for (*_, constraints), _ in shape.roles for pod in changed)
    for (requests, selection, *_), _ in shape.roles:
        admitted = None
        for at in range(0, len(freed), AT_ONCE):
            for node in freed[at : at + AT_ONCE]:
                if len(shape.roles) == 1 and not shape.reserved:
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
    """Whether one of the constraints counts the pod."""
    if not constraints:
        return False
    if any(claims.tenants.means(term, pod) for term in (*constraints.affinity, *constraints.anti_affinity)):
        return True
    labels = dict(pod.labels)
    return any(spread.counts(labels) for spread in constraints.spread)


def _slots(free: Free, requests: Requests) -> int:
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
"""The facts of a pod that a spread goes by: its namespace, its labels and its own spread."""


class Starting:
    """Workloads with promised nodes whose members are not bound yet. Nothing is compared where none of them has a
    spread."""

    def __init__(self) -> None:
        self.pods: dict[GroupKey, Sequence[Pod]] = {}
        self._spread: dict[GroupKey, None] = {}
        self._behind: dict[GroupKey, dict[GroupKey, None]] = {}
        """The workloads that stand back, by the first one that they conflict with."""

    def begin(self, key: GroupKey, pods: Sequence[Pod]) -> None:
        """Record a workload that was planned."""
        self.pods[key] = pods
        if any(map(_spread_of, pods)):
            self._spread[key] = None

    def __contains__(self, key: GroupKey) -> bool:
        return key in self.pods

    def update(self, workload: Workload) -> Iterable[GroupKey]:
        """Update a workload whose members were bound or lost their promises. Returns the workloads that need not wait
        for it."""
        key = workload.key
        if not workload.starting:
            self.pods.pop(key)
        elif key not in self._spread or workload.filling or any(map(_spread_of, _promised(workload))):
            return ()
        else:
            # Bound members cannot conflict any more, even if the others fail: their spread is not checked again.
            self.pods[key] = list(_promised(workload))
        self._spread.pop(key, None)
        return self._behind.pop(key, ())

    def ahead(self, key: GroupKey, pods: Sequence[Pod], *, related: bool) -> SharedSpread | None:
        """Why these pods have to wait: a spread of a starting workload counts them, or their spread counts its pods."""
        others = self.pods if related and any(map(_spread_of, pods)) else self._spread
        mine = _kinds(pods) if others else []
        for other in others:
            theirs = _kinds(self.pods[other]) if other != key and other.namespace == key.namespace else []
            if _counts(mine, theirs) or _counts(theirs, mine):
                self._behind.setdefault(other, {})[key] = None
                return SharedSpread(other.name)
        return None


def _promised(workload: Workload) -> Iterator[Pod]:
    """Yield the members that are promised nodes and not bound."""
    yield from (member.pod for member in workload.members.placed.values())
    yield from (pod for pod, _ in workload.members.slots.promises())


def _kinds(pods: Iterable[Pod]) -> list[Kind]:
    return list(dict.fromkeys((pod.namespace, pod.labels, pod.constraints.spread) for pod in pods))


def _counts(kinds: Sequence[Kind], others: Sequence[Kind]) -> bool:
    """Whether a spread of the first kinds counts any of the others."""
    spreads = [(namespace, spread) for namespace, _, several in kinds for spread in several]
    return any(
        where == namespace and spread.counts(dict(labels))
        for namespace, spread in spreads
        for where, labels, _ in others
    )


_AT_ONCE = 32
"""Workloads that one Tick settles since their instant has come, in some 40 microseconds each."""


class Timers:
    """The next instant for each workload that has one, in a heap with at most two entries for each."""

    def __init__(self) -> None:
        self._next: dict[GroupKey, float] = {}
        self._heap: list[tuple[float, GroupKey]] = []

    def set(self, key: GroupKey, at: float) -> None:
        """Have the workload settled at that instant, or earlier if it is set so."""
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
        """Take the workloads whose instant has come, at most 32 at a time."""
        keys: list[GroupKey] = []
        while self._heap and self._heap[0][0] <= now and len(keys) < _AT_ONCE:
            at, key = heapq.heappop(self._heap)
            if self._next.get(key) == at:
                del self._next[key]
                keys.append(key)
        return keys

    def first(self) -> float | None:
        """The earliest instant; None if there is none."""
        while self._heap and self._next.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def __len__(self) -> int:
        return len(self._heap)


class Turns:
    """The turns by the queue policy, and the order between queues.

    ``between``: the order of shares; None if shares do not count.
    ``of`` raises PolicyError where the policy fails. Whatever changes ``put_off`` wakes the workloads of the namespace.
    """

    def __init__(self, failed_creation: FailedCreation, policy: QueuePolicy, between: QueueOrder | None = None) -> None:
        self._failed_creation = failed_creation
        self._policy = policy
        self.between = between

    def of(self, waiting: Workload | WaitingSingle) -> Turn:
        if isinstance(waiting, WaitingSingle):
            return 0, self._policy.order(waiting)
        order = waiting.ordered_by(lambda: self._policy.order(QueueView(waiting)))
        return put_off(self._failed_creation, waiting), order

    def within(self, workload: Workload, queue: ClusterQueue | None) -> Turn:
        """The place of a workload in its own queue, where its age may raise it."""
        if queue is None or not queue.ageing:
            return self.of(workload)
        return put_off(self._failed_creation, workload), self._policy.order(QueueView(workload, queue.ageing))

    def both(self, workload: Workload, queue: ClusterQueue | None) -> tuple[Turn, Turn]:
        """The place in its own queue, and the turn among all queues, where age does not count."""
        turn = self.of(workload)
        return self.within(workload, queue) if queue is not None and queue.ageing else turn, turn


class QueueView:
    """A workload as the queue policy sees it (``policies.api.WaitingGang``).

    ``ageing``: by how much the priority of a waiting workload rises each day. All workloads of a queue rise alike, so
    the view lowers the later ones by as much instead: the order is the same at any time.
    """

    __slots__ = ("_ageing", "_workload")

    def __init__(self, workload: Workload, ageing: int = 0) -> None:
        self._workload = workload
        self._ageing = ageing

    @property
    def key(self) -> GroupKey:
        return self._workload.key

    @property
    def priority(self) -> int:
        later = floor(self._workload.created * self._ageing / _DAY_S) if self._ageing else 0
        return self._workload.priority - later

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
        """Return pairs of a number of members and a pod with their requests."""
        workload = self._workload
        if workload.podsets is not None and workload.podsets.podsets:
            return [(podset.size, podset.template) for podset in workload.podsets.podsets]
        live = workload.live
        parts = [(1, pod) for pod in live]
        if live and (to_come := (workload.min_member or 0) - len(live)) > 0:
            parts.append((to_come, live[0]))
        return parts


def put_off(failed_creation: FailedCreation, workload: Workload) -> int:
    """How far the turn of a workload is put off, whatever its priority and age; 0 for most.

    2: a job whose own pods were not created. 1: another job of its namespace without pods. So one tenant cannot keep
    the room of all others empty.
    """
    if workload.podsets is None or workload.admitted:
        return 0
    if failed_creation.has_failed(workload.key):
        return 2
    return int(not workload.members.live and failed_creation.go_last(workload.key.namespace))


Amounts = tuple[tuple[FlavorResource, int], ...]
"""Quota that was lacking. As long as none of it is free, the workload cannot be admitted."""

# A cycle makes causes for each workload and looks them up: with tuples that takes less than half as long.


class Own(NamedTuple):
    """Something about the workload itself, or that it alone waits for.

    ``recompute``: whether the workload is settled first, and its request computed again.
    """

    key: GroupKey
    recompute: bool = False


class RoomFor(NamedTuple):
    """Room for members of ``shape``.

    ``scope``: the ClusterQueue in which a turn found too little room; empty for all queues.
    """

    scope: str = ""
    shape: Shape | None = None


ANY_ROOM = RoomFor("any")
"""Room for some shape. It wakes workloads parked for it whenever room came free for anything."""
EVERY_ROOM = RoomFor("every")
"""Room for every shape. It wakes all workloads that wait for room."""


class QuotaFor(NamedTuple):
    """Quota of the ClusterQueue for workloads of ``shape``. The cycle considers each of them."""

    queue: str
    shape: Shape


class FreedQuota(NamedTuple):
    """Quota of the ClusterQueue, of which some was given back that workloads of ``shapes`` wait for.

    Those parked for quota come to the line together, and stay parked if others use the quota before their turn.

    ``amounts``: the quota that they wait for.
    """

    queue: str
    amounts: Amounts
    shapes: tuple[Shape, ...]


class Time(NamedTuple):
    """An instant of the core's clock."""

    at: float


@dataclass(frozen=True, slots=True)
class Nodes:
    """A change of nodes: any cached shortfall of room may be wrong. The next cycle raises ``EVERY_ROOM``."""


@dataclass(frozen=True, slots=True)
class Config:
    """Something that all workloads of a namespace depend on; None: all workloads of the cluster."""

    namespace: str | None = None


_OF_SHAPE = RoomFor, QuotaFor
WakeOn = RoomFor | QuotaFor | Time
"""The causes that a workload is parked for. ``Own`` and ``Config`` wake it in any case."""
WakeCause = Own | WakeOn | FreedQuota | Nodes | Config


class Pending:
    """The pending workloads.

    ``keys``: workloads with slots that have no node and no promise of one, numbered in the order in which they came.
    ``due``: the workloads of the next cycle, and why; in each namespace at most ``limits.waiting``.
    ``version``: grows whenever a workload comes, leaves, is woken or is parked after a turn.
    """

    def __init__(self, limits: Limits, store: Store, changes: Changes) -> None:
        self.keys: dict[GroupKey, int] = {}
        self.due: dict[GroupKey, WakeCause] = {}
        self.version = 0
        self._store = store
        self._changes = changes
        self._came = 0
        self._left: dict[GroupKey, None] = {}
        self._wake_on: dict[GroupKey, tuple[WakeOn, ...]] = {}
        self._parked: dict[type[WakeOn], dict[WakeOn, dict[GroupKey, None]]] = {RoomFor: {}, QuotaFor: {}, Time: {}}
        """The parked workloads, by kind of cause, then by cause. So waking all that wait for room skips the ones that
        wait for quota."""
        self._entries: dict[GroupKey, Entry] = {}
        """The entry of each workload that waits for quota, so that a cycle takes up all of a shape without computing
        each."""
        self._invited: dict[tuple[str, Amounts], list[Shape]] = {}
        self._times: list[tuple[float, GroupKey]] = []
        """A heap. It may hold entries of workloads that do not wait for them any more."""
        self._limit = NamespaceLimit()
        self._most = limits.waiting

    def come(self, key: GroupKey, *, changed: bool) -> None:
        """Record that a workload waits. ``changed``: whether its request differs from before."""
        new = key not in self.keys
        if new:
            self._came += 1
            self.keys[key] = self._came
            self._limit.come(key, self._most)
        if changed:
            self.wake(Own(key))
        elif new:
            self._park(key, ANY_ROOM)

    def leave(self, key: GroupKey) -> GroupKey | None:
        """Record that a workload waits no longer. Returns the one that the namespace's limit lets in for it, if any."""
        self._unpark(key)
        if self.keys.pop(key, None) is not None:
            self._left[key] = None
            self.version += 1
        self.due.pop(key, None)
        return self._limit.leave(key)

    def take_left(self) -> Iterable[GroupKey]:
        """Return the workloads that ceased to wait since the last call. Some may wait again."""
        if not self._left:
            return ()
        left, self._left = self._left, {}
        return left

    def wake(self, cause: WakeCause) -> None:
        """Have the next cycle consider all pending workloads that wait for this cause."""
        match cause:
            case Time(now):
                while (at := self.next_time()) is not None and at <= now:
                    self._rouse(cause, [self._times[0][1]])
            case Own():
                if cause.recompute and (workload := self._store.workloads.get(cause.key)) is not None:
                    workload.bump_version()
                    self._store.mark_dirty(workload)
                self._rouse(cause, [cause.key])
            case FreedQuota():
                self._invited.setdefault((cause.queue, cause.amounts), []).extend(cause.shapes)
            case RoomFor() | QuotaFor():
                finish(self.wake_in_steps(cause))
            case Nodes():
                self._changes.nodes = True
            case Config(namespace):
                self._rouse(cause, [key for key in self.keys if namespace in (None, key.namespace)])
            case _:
                assert_never(cause)

    def wake_in_steps(self, cause: RoomFor | QuotaFor) -> Steps[None]:
        """Do the same as ``wake``, batch by batch: any number of workloads may wait for room of a shape."""
        places = [*self._parked[RoomFor]] if cause == EVERY_ROOM else [cause]
        for keys in batched(key for place in places for key in self.parked(place)):
            self._rouse(cause, keys)
            yield len(keys) // 4

    def park(self, workload: Workload, *wake_on: WakeOn, turns: tuple[Turn, Turn] | None = None) -> None:
        """Park a workload after its turn, unless it is due again. ``turns``: given if it waits for quota alone."""
        key = workload.key
        if key in self.keys and key not in self.due:
            self._park(key, *wake_on)
            if turns is not None:
                self._entries[key] = turns[0], self.keys[key], turns[1], workload

    def dequeue(self, key: GroupKey) -> None:
        """Remove a workload from the next cycle: its turn has come."""
        self.due.pop(key, None)

    def wake_on(self, key: GroupKey) -> tuple[WakeOn, ...]:
        """Return the causes that a parked workload waits for."""
        return self._wake_on.get(key, ())

    def is_parked(self, key: GroupKey) -> bool:
        """Return whether a workload waits for a cause."""
        return key in self._wake_on

    def can_be_woken(self, key: GroupKey) -> bool:
        """Return whether a workload is due, or is in the index under each cause that it waits for."""
        causes = self._wake_on.get(key)
        return key in self.due or (
            causes is not None and all(key in self._parked[type(of)].get(of, ()) for of in causes)
        )

    def is_due_for_shape(self, key: GroupKey) -> bool:
        """Return whether a workload is due only because its shape may have room or quota."""
        return isinstance(self.due.get(key), _OF_SHAPE)

    def parked(self, cause: WakeOn) -> list[GroupKey]:
        """Return the workloads that wait for exactly this cause."""
        return [*self._parked[type(cause)].get(cause, ())]

    def shapes(self, kind: type[RoomFor | QuotaFor]) -> list[tuple[WakeOn, Shape]]:
        """Return the causes of this kind that workloads of known shapes wait for, with the shapes."""
        causes = (cause for cause in self._parked[kind] if not isinstance(cause, Time))
        return [(cause, cause.shape) for cause in causes if cause.shape is not None]

    def take_due(self) -> list[GroupKey]:
        """Return the workloads that the cycle considers, in the order in which they came."""
        return sorted(self.due, key=self.keys.__getitem__)

    def take_invited(self) -> Iterator[tuple[str, list[Entry], Amounts]]:
        """Yield the workloads whose quota may have been given back, batch by batch: the ClusterQueue, their entries,
        and the amounts. Other events may come in between."""
        invited, self._invited = self._invited, {}
        for (queue, amounts), shapes in invited.items():
            parked = (key for shape in shapes for key in self.parked(QuotaFor(queue, shape)))
            for keys in batched(parked):
                yield queue, [self._entries[key] for key in keys if key in self._entries], amounts

    def next_time(self) -> float | None:
        """Return the first instant that a workload waits for."""
        while self._times and Time(self._times[0][0]) not in self.wake_on(self._times[0][1]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    @property
    def keeps_some_out(self) -> bool:
        """Whether some namespace has more pending workloads than the limit."""
        return self._limit.keeps_some_out

    def keeps_out(self, key: GroupKey) -> bool:
        """Return whether the workload is beyond the limit of its namespace."""
        return self._limit.keeps_out(key)

    def _rouse(self, cause: WakeCause, keys: Iterable[GroupKey]) -> None:
        """Make the workloads due. A cause of its own replaces one of its shape: then a cached shortfall does not
        count."""
        for key in keys:
            if key in self.keys:
                self._unpark(key)
                self.version += 1
                if key not in self.due or self.is_due_for_shape(key):
                    self.due[key] = cause

    def _park(self, key: GroupKey, *wake_on: WakeOn) -> None:
        if key in self._wake_on:
            self._unpark(key)
        self.version += 1
        self._wake_on[key] = wake_on
        for cause in wake_on:
            self._parked[type(cause)].setdefault(cause, {})[key] = None
            if isinstance(cause, Time):
                heapq.heappush(self._times, (cause.at, key))

    def _unpark(self, key: GroupKey) -> None:
        self._entries.pop(key, None)
        for cause in self._wake_on.pop(key, ()):
            causes = self._parked[type(cause)]
            del (parked := causes[cause])[key]
            if not parked:
                del causes[cause]


class NamespaceLimit:
    """The pending gangs of each namespace, in the order in which they came. Those inside the limit are planned."""

    def __init__(self) -> None:
        self._inside: dict[str, dict[GroupKey, None]] = {}
        self._outside: dict[str, dict[GroupKey, None]] = {}

    def come(self, key: GroupKey, most: int) -> None:
        """Record a gang that waits: inside if fewer than ``most`` of its namespace are. A gang that is known keeps its
        place."""
        inside = self._inside.setdefault(key.namespace, {})
        if key not in inside:
            place = inside if len(inside) < most else self._outside.setdefault(key.namespace, {})
            place[key] = None

    def leave(self, key: GroupKey) -> GroupKey | None:
        """Remove a gang. Returns the one that gets inside for it."""
        inside, outside = self._inside.get(key.namespace, {}), self._outside.get(key.namespace, {})
        outside.pop(key, None)
        if key not in inside:
            return None
        del inside[key]
        following = next(iter(outside), None)
        if following is not None:
            del outside[following]
            inside[following] = None
        elif not inside:
            del self._inside[key.namespace]
        if not outside:
            self._outside.pop(key.namespace, None)
        return following

    @property
    def keeps_some_out(self) -> bool:
        return bool(self._outside)

    def keeps_out(self, key: GroupKey) -> bool:
        return key in self._outside.get(key.namespace, {})
