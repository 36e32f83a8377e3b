"""Cached shortfalls: why workloads of a shape could not be admitted. Each stands until something it rests on changes.

Each has a scope: a shortfall of one queue says nothing about another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from extender.core.causes import Unplaced, names_of
from extender.core.ledger.pending import Amounts, QuotaFor, RoomFor, WakeCause
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.model.queues import FlavorResource
from policies.steps import Steps


class Lack(StrEnum):
    """The resource that a workload of that shape lacked."""

    ROOM = "room"
    QUOTA = "quota"


Scope = str
"""The workloads that a shortfall concerns: all of them, or those of the queue of that name."""
EVERYBODY: Scope = ""
IsThere = Callable[[FlavorResource, int], bool]
"""Whether the queue has that amount left of that flavor and resource."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """A cached shortfall.

    ``cause``: why the workload waits.
    ``wake_on``: the cause that it is parked for.
    ``waits_for``: quota of which some has to be freed for another verdict; None if any might do.
    """

    cause: Unplaced
    wake_on: RoomFor | QuotaFor
    waits_for: Amounts | None = None


_NOTHING: dict[Shape, Shortfall] = {}


class Shortfalls:
    """The cached shortfalls, by lack, scope and shape. ``wake`` is called for shapes whose queue got quota back."""

    def __init__(self, wake: Callable[[WakeCause], None]) -> None:
        self._wake = wake
        self._known: dict[Lack, dict[Scope, dict[Shape, Shortfall]]] = {lack: {} for lack in Lack}
        self._maybe_available: dict[Scope, set[Amounts]] = {}
        """Quota freed since the shortfall was cached: may suffice, unless a workload earlier in line takes it."""
        self._shapes: dict[Shape, int] = {}
        self._above: dict[Shape, dict[tuple[Scope, Shape], None]] = {}
        """Shapes whose shortfall rests on that of a tried shape. In a queue a shape is tried once for each flavor."""

    def __len__(self) -> int:
        return len(self._shapes)

    def get(self, shape: Shape, scope: Scope = EVERYBODY) -> Unplaced | None:
        """Why such a workload of that queue cannot be admitted; None if nothing is cached."""
        if shape not in self._shapes:
            return None
        for lack in self._known:
            for concerned in (EVERYBODY, scope) if scope else (EVERYBODY,):
                if (shortfall := self._standing(lack, shape, concerned)) is not None:
                    return shortfall.cause
        return None

    def wake_on(self, lack: Lack, shape: Shape, scope: Scope) -> RoomFor | QuotaFor | None:
        """The cause to park a workload for that has this lack; None if it has not."""
        shortfall = self._standing(lack, shape, scope)
        return None if shortfall is None else shortfall.wake_on

    def names(self, lack: Lack, shape: Shape, scope: Scope, ended: Container[str]) -> bool:
        """Whether the cached cause names one of the workloads or pods in ``ended``."""
        shortfall = self._known[lack].get(scope, _NOTHING).get(shape)
        return shortfall is not None and any(name in ended for name in names_of(shortfall.cause))

    def cache(
        self,
        lack: Lack,
        shape: Shape,
        cause: Unplaced,
        scope: Scope = EVERYBODY,
        rests_on: Iterable[Shape] = (),
        waits_for: Amounts | None = None,
    ) -> None:
        """Cache a shortfall. ``rests_on``: shapes that lack room. If one of them may have room, so may this one."""
        for rest in rests_on:
            self._above.setdefault(rest, {})[scope, shape] = None
        shortfalls = self._known[lack].setdefault(scope, {})
        if shape not in shortfalls:
            self._shapes[shape] = self._shapes.get(shape, 0) + 1
        wake_on = RoomFor(scope, shape) if lack is Lack.ROOM else QuotaFor(scope, shape)
        shortfalls[shape] = Shortfall(cause, wake_on, waits_for)
        if lack is Lack.QUOTA and waits_for is not None:
            self._maybe_available.get(scope, set()).discard(waits_for)

    def shapes(self, lack: Lack) -> Iterator[tuple[Scope, Shape]]:
        """The shapes that have that lack, with their scopes."""
        return iter([(scope, shape) for scope, shortfalls in self._known[lack].items() for shape in shortfalls])

    def drop(self, lack: Lack, shape: Shape, scope: Scope = EVERYBODY) -> list[tuple[Scope, Shape]]:
        """Drop a shortfall that may be wrong now, and all shortfalls that rest on it.

        Returns the scopes and shapes that may have room now. The caller wakes the workloads.
        """
        self._take(lack, scope, shape)
        if lack is not Lack.ROOM:
            return []
        dropped = [(scope, shape)]
        for above, resting in self._above.pop(shape, {}) if scope == EVERYBODY else ():
            dropped += self.drop(lack, resting, above)
        return dropped

    def reopen(self, scope: Scope, is_there: IsThere | None = None) -> dict[Shape, Amounts | None]:
        """Handle freed quota of a queue, which may end its shortfalls. Returns the shapes that may have quota now.

        With each shape comes the quota that it waits for, if it waits for nothing else. ``is_there``: whether quota is
        free; None: unknown, so all shortfalls of the queue are dropped.
        """
        self._maybe_available.pop(scope, None)
        reopened: dict[Shape, Amounts | None] = {}
        for lack in self._known:
            known = self._known[lack].get(scope, _NOTHING)
            ends = {shortfall.waits_for for shortfall in known.values()}
            ends = {waits_for for waits_for in ends if _may_end(waits_for, is_there)}
            ending = {shape: shortfall.waits_for for shape, shortfall in known.items() if shortfall.waits_for in ends}
            if lack is Lack.QUOTA and is_there is not None:
                self._maybe_available[scope] = {waits_for for waits_for in ends if waits_for is not None}
                reopened = ending | reopened
                ending = {shape: None for shape, waits_for in ending.items() if waits_for is None}
            reopened |= dict.fromkeys(ending)
            for shape in ending:
                for roomy in self.drop(lack, shape, scope):
                    self._wake(RoomFor(*roomy))
        return reopened

    def confirm(self, shape: Shape, scope: Scope, is_there: IsThere) -> Unplaced | None:
        """Check the shortfall of quota of a shape at its turn. Returns the cause if it stands; else None.

        If others have taken the freed quota, the shortfall stands for all shapes that wait for the same quota.
        """
        shortfall = self._known[Lack.QUOTA].get(scope, _NOTHING).get(shape)
        if shortfall is None:
            return None
        if (doubted := self._maybe_available.get(scope)) and shortfall.waits_for in doubted:
            if _may_end(shortfall.waits_for, is_there):
                return None
            doubted.discard(shortfall.waits_for)
        return shortfall.cause

    def waits_for(self, shape: Shape, scope: Scope) -> Amounts | None:
        """The quota that such a workload of that queue lacks; None if unknown."""
        shortfall = self._known[Lack.QUOTA].get(scope, _NOTHING).get(shape)
        return None if shortfall is None else shortfall.waits_for

    def clear(self, lack: Lack) -> None:
        """Drop all shortfalls of that lack. The caller wakes the workloads."""
        left = self._shapes
        for _, shape in self.shapes(lack):
            left[shape] -= 1
            if not left[shape]:
                del left[shape]
        self._known[lack] = {}

    def forget(self, waiting: Collection[GroupKey], workloads: Mapping[GroupKey, Workload]) -> Steps[None]:
        """Forget shapes that no waiting workload has any more."""
        if len(self) <= len(waiting):
            return
        yield len(waiting) // 8
        demands = [workloads[key].demand for key in waiting]
        self.retain(demand.shape for demand in demands if demand is not None and demand.shape is not None)

    def retain(self, shapes: Iterable[Shape]) -> None:
        """Forget all shortfalls but those of these shapes."""
        wanted = dict.fromkeys(shapes)
        resting = {shape: above for shape, above in self._above.items() if any(shape in wanted for _, shape in above)}
        self._above, wanted = resting, wanted | dict.fromkeys(resting)
        for lack in self._known:
            for scope, shape in self.shapes(lack):
                if shape not in wanted:
                    self._take(lack, scope, shape)

    def _standing(self, lack: Lack, shape: Shape, scope: Scope) -> Shortfall | None:
        """The cached shortfall, unless freed quota makes it doubtful."""
        shortfall = self._known[lack].get(scope, _NOTHING).get(shape)
        if (
            shortfall is None
            or lack is not Lack.QUOTA
            or shortfall.waits_for not in self._maybe_available.get(scope, ())
        ):
            return shortfall
        return None

    def _take(self, lack: Lack, scope: Scope, shape: Shape) -> None:
        known = self._known[lack]
        shortfalls = known.get(scope, _NOTHING)
        if shortfalls.pop(shape, None) is None:
            return
        if not shortfalls:
            del known[scope]
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]


def _may_end(waits_for: Amounts | None, is_there: IsThere | None) -> bool:
    """Whether the quota may suffice now. ``is_there``: None if unknown."""
    return waits_for is None or is_there is None or any(is_there(what, amount) for what, amount in waits_for)
