"""Pending workloads: what each of them waits for, and ``wake``, the one way to have the next cycle look at it again.

A look that finds no plan ends in ``park``: from then on the workload waits for causes (``wake_on``). What makes a
cause come true calls ``wake`` with it. Parked workloads stand in an index by cause, so a cycle costs nothing for those
whose cause has not come true. ``tests/core/causes.md`` lists what raises which cause; a test holds it against the code.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import assert_never

from extender.core.ledger.store import Store
from extender.core.ledger.waiting import Changes, Entry, Turn
from extender.core.limits import Limits
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.model.queues import FlavorResource

Amounts = tuple[tuple[FlavorResource, int], ...]
"""Quota that was not there. As long as none of it is, nothing else is found."""


@dataclass(frozen=True, slots=True)
class Own:
    """Something about the workload itself, or that it alone waits for. ``anew``: what it asks for is worked out again,
    and it is settled first."""

    key: GroupKey
    anew: bool = False


@dataclass(frozen=True, slots=True)
class RoomFor:
    """Room for members of ``shape``. ``scope``: the ClusterQueue that it was found to lack room in; empty for all."""

    scope: str = ""
    shape: Shape | None = None


ANY_ROOM = RoomFor("any")
"""Room for some shape. What waits for it is looked at whenever room came free for anything."""
EVERY_ROOM = RoomFor("every")
"""Room for every shape. It wakes whatever waits for room."""


@dataclass(frozen=True, slots=True)
class QuotaFor:
    """Quota of the ClusterQueue for workloads of ``shape``. ``amounts``: all that they wait for. They come to the line
    together then, and stay parked if others have the quota by their turn. None: each is looked at."""

    queue: str
    shape: Shape
    amounts: Amounts | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Time:
    """An instant of the core's clock."""

    at: float


@dataclass(frozen=True, slots=True)
class Nodes:
    """Nodes themselves: whatever was found for want of room may be wrong. The next cycle raises ``EVERY_ROOM``."""


@dataclass(frozen=True, slots=True)
class Config:
    """Something that all workloads of a namespace depend on, or all of the cluster."""

    namespace: str | None = None


_OF_SHAPE = RoomFor, QuotaFor
WakeOn = RoomFor | QuotaFor | Time
"""Causes that a workload is parked for. ``Own`` and ``Config`` wake it in any case."""
WakeCause = Own | WakeOn | Nodes | Config


class Pending:
    """``keys``: workloads with slots that have no node and no promise of one, numbered in the order in which they came.
    ``due``: those that the next cycle looks at, and why; in each namespace no more than ``limits.waiting``.
    """

    def __init__(self, limits: Limits, store: Store, changes: Changes) -> None:
        self.keys: dict[GroupKey, int] = {}
        self.due: dict[GroupKey, WakeCause] = {}
        self._store = store
        self._changes = changes
        self._came = 0
        self._wake_on: dict[GroupKey, tuple[WakeOn, ...]] = {}
        self._parked: dict[WakeOn, dict[GroupKey, None]] = {}
        self._entries: dict[GroupKey, Entry] = {}
        """By workload that waits for quota: a cycle takes up all of a shape at once, without a look at each."""
        self._invited: dict[tuple[str, Amounts], list[Shape]] = {}
        self._times: list[tuple[float, GroupKey]] = []
        """A heap. Of those that are parked for it no longer entries may be left."""
        self._limit = NamespaceLimit()
        self._most = limits.waiting

    def come(self, key: GroupKey, *, changed: bool) -> None:
        """Note that a workload waits, or waits still. ``changed``: it asks for something else than before."""
        if key not in self.keys:
            self._came += 1
            self.keys[key] = self._came
            self._limit.come(key, self._most)
            self._park(key, ANY_ROOM)
        if changed:
            self.wake(Own(key))

    def leave(self, key: GroupKey) -> GroupKey | None:
        """Note that a workload waits no longer. Returns the one that is looked at from now on in its place, if any."""
        self._unpark(key)
        self.keys.pop(key, None)
        self.due.pop(key, None)
        return self._limit.leave(key)

    def wake(self, cause: WakeCause) -> None:
        """Have the next cycle look at all pending workloads that wait for this."""
        match cause:
            case Own(key, anew):
                if anew and (workload := self._store.workloads.get(key)) is not None:
                    workload.bump_version()
                    self._store.mark_dirty(workload)
                self._rouse(key, cause)
            case RoomFor() | QuotaFor():
                self._wake_shape(cause)
            case Time(now):
                while (at := self.next_time()) is not None and at <= now:
                    self._rouse(self._times[0][1], cause)
            case Nodes():
                self._changes.nodes = True
            case Config(namespace):
                for key in [one for one in self.keys if namespace in (None, one.namespace)]:
                    self._rouse(key, cause)
            case _:
                assert_never(cause)

    def _wake_shape(self, cause: RoomFor | QuotaFor) -> None:
        if isinstance(cause, QuotaFor) and cause.amounts is not None:
            self._invited.setdefault((cause.queue, cause.amounts), []).append(cause.shape)
            return
        places: list[WakeOn] = [cause]
        if cause == EVERY_ROOM:
            places = [one for one in self._parked if isinstance(one, RoomFor)]
        for place in places:
            for key in self.parked(place):
                self._rouse(key, cause)

    def park(self, workload: Workload, *wake_on: WakeOn, turn: Turn | None = None) -> None:
        """Let a workload wait that was looked at, unless it is due again. ``turn``: with Quota alone."""
        key = workload.key
        if key in self.keys and key not in self.due:
            self._park(key, *wake_on)
            if turn is not None:
                self._entries[key] = turn, self.keys[key], workload

    def looked_at(self, key: GroupKey) -> None:
        """Note that the cycle has come to a workload."""
        self.due.pop(key, None)

    def wake_on(self, key: GroupKey) -> tuple[WakeOn, ...]:
        """Return what a parked workload waits for."""
        return self._wake_on.get(key, ())

    def is_due_for_shape(self, key: GroupKey) -> bool:
        """Return whether a workload is looked at only since its shape may have room or quota."""
        return isinstance(self.due.get(key), _OF_SHAPE)

    def parked(self, cause: WakeOn) -> list[GroupKey]:
        """Return the workloads that wait for exactly this."""
        return [*self._parked.get(cause, ())]

    def shapes(self) -> list[tuple[RoomFor | QuotaFor, Shape]]:
        """Return what workloads of known shapes wait for, and the shapes."""
        return [(one, one.shape) for one in self._parked if not isinstance(one, Time) and one.shape is not None]

    def take_due(self) -> list[GroupKey]:
        """Return the workloads that the cycle looks at, in the order in which they came."""
        return sorted(self.due, key=self.keys.__getitem__)

    def take_invited(self) -> Iterator[tuple[str, list[Entry], Amounts]]:
        """Return those that quota may have been given back for, by ClusterQueue, and how much of what."""
        invited, self._invited = self._invited, {}
        for (queue, amounts), shapes in invited.items():
            keys = [key for shape in shapes for key in self._parked.get(QuotaFor(queue, shape), ())]
            if entries := [self._entries[key] for key in keys]:
                yield queue, entries, amounts

    def next_time(self) -> float | None:
        """Return the first instant that a workload waits for."""
        while self._times and Time(self._times[0][0]) not in self.wake_on(self._times[0][1]):
            heapq.heappop(self._times)
        return self._times[0][0] if self._times else None

    def keeps_out(self, key: GroupKey) -> bool:
        """Return whether too many of its namespace wait before it."""
        return self._limit.keeps_out(key)

    def _rouse(self, key: GroupKey, cause: WakeCause) -> None:
        """A cause of its own outweighs another one: it is looked at whatever is known of its shape."""
        if key in self.keys:
            self._unpark(key)
            if key not in self.due or self.is_due_for_shape(key):
                self.due[key] = cause

    def _park(self, key: GroupKey, *wake_on: WakeOn) -> None:
        self._unpark(key)
        self._wake_on[key] = wake_on
        for cause in wake_on:
            self._parked.setdefault(cause, {})[key] = None
            if isinstance(cause, Time):
                heapq.heappush(self._times, (cause.at, key))

    def _unpark(self, key: GroupKey) -> None:
        self._entries.pop(key, None)
        for cause in self._wake_on.pop(key, ()):
            parked = self._parked[cause]
            del parked[key]
            if not parked:
                del self._parked[cause]


class NamespaceLimit:
    """Gangs that wait, by namespace, in the order in which they came: inside as many as are looked at."""

    def __init__(self) -> None:
        self._inside: dict[str, dict[GroupKey, None]] = {}
        self._outside: dict[str, dict[GroupKey, None]] = {}

    def come(self, key: GroupKey, most: int) -> None:
        """Note that a gang waits: inside if fewer than ``most`` of its namespace are. One that waited stays."""
        inside = self._inside.setdefault(key.namespace, {})
        if key not in inside:
            place = inside if len(inside) < most else self._outside.setdefault(key.namespace, {})
            place[key] = None

    def leave(self, key: GroupKey) -> GroupKey | None:
        """Note that a gang waits no longer. Returns the one that gets in for it."""
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

    def keeps_out(self, key: GroupKey) -> bool:
        return key in self._outside.get(key.namespace, {})
