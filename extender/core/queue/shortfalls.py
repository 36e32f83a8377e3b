"""Why workloads of a shape could not be admitted: what was found stands until something changes that it rests on.

Each cause has its own scope: what one queue lacks says nothing about another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from extender.core.causes import Unplaced, names_of
from extender.core.ledger.pending import Amounts, RoomFor, WakeCause
from extender.core.workload.shape import Shape
from extender.core.workload.workload import Workload
from policies.model import GroupKey
from policies.model.queues import FlavorResource
from policies.steps import Steps


class Lack(Enum):
    """What a workload of that shape lacked."""

    ROOM = "room"
    QUOTA = "quota"


Scope = str
"""Whom it concerns: everybody, or the queue of that name."""
EVERYBODY: Scope = ""
IsThere = Callable[[FlavorResource, int], bool]
"""Whether the queue has so much left of that flavor and resource."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """``waits_for``: quota that would have to be given back for another verdict; None where any might do."""

    cause: Unplaced
    waits_for: Amounts | None = None


_NOTHING: dict[Shape, Shortfall] = {}


class Shortfalls:
    """Causes by lack, scope and shape. ``wake`` is called for each shape that may have room
    by now.
    """

    def __init__(self, wake: Callable[[WakeCause], None]) -> None:
        self._wake = wake
        self._known: dict[Lack, dict[Scope, dict[Shape, Shortfall]]] = {lack: {} for lack in Lack}
        self._doubted: dict[Scope, set[Amounts]] = {}
        """Quota that was given back, and that others may have before it is the turn of those who wait for it."""
        self._shapes: dict[Shape, int] = {}
        self._above: dict[Shape, dict[tuple[Scope, Shape], None]] = {}
        """What rests on the shortfall of a shape that was tried: in a queue there is one for each flavor."""

    def __len__(self) -> int:
        return len(self._shapes)

    def get(self, shape: Shape, scope: Scope = EVERYBODY) -> Unplaced | None:
        """Why such a workload of that queue cannot be admitted, as far as is known."""
        if shape not in self._shapes:
            return None
        for lack in self._known:
            for concerned in (EVERYBODY, scope) if scope else (EVERYBODY,):
                if (found := self._standing(lack, shape, concerned)) is not None:
                    return found.cause
        return None

    def lacks(self, lack: Lack, shape: Shape, scope: Scope) -> bool:
        return self._standing(lack, shape, scope) is not None

    def names(self, lack: Lack, shape: Shape, scope: Scope, ended: Container[str]) -> bool:
        """Whether the cause names one of those."""
        found = self._known[lack].get(scope, _NOTHING).get(shape)
        return found is not None and any(name in ended for name in names_of(found.cause))

    def put(
        self,
        lack: Lack,
        shape: Shape,
        cause: Unplaced,
        scope: Scope = EVERYBODY,
        rests_on: Iterable[Shape] = (),
        waits_for: Amounts | None = None,
    ) -> None:
        """``rests_on``: shapes that lack room. Where one of them may have it, so may this one."""
        for one in rests_on:
            self._above.setdefault(one, {})[scope, shape] = None
        some = self._known[lack].setdefault(scope, {})
        if shape not in some:
            self._shapes[shape] = self._shapes.get(shape, 0) + 1
        some[shape] = Shortfall(cause, waits_for)
        if lack is Lack.QUOTA and waits_for is not None:
            self._doubted.get(scope, set()).discard(waits_for)

    def shapes(self, lack: Lack) -> Iterator[tuple[Scope, Shape]]:
        """Those that lack it."""
        return iter([(scope, shape) for scope, some in self._known[lack].items() for shape in some])

    def drop(self, lack: Lack, shape: Shape, scope: Scope = EVERYBODY) -> None:
        """It may be there by now."""
        if lack is Lack.ROOM:
            self._wake(RoomFor(scope, shape))
        self._take(lack, scope, shape)
        for above, resting in self._above.pop(shape, {}) if (lack, scope) == (Lack.ROOM, EVERYBODY) else ():
            self.drop(lack, resting, above)

    def reopen(self, scope: Scope, is_there: IsThere | None = None) -> dict[Shape, Amounts | None]:
        """Quota of that queue was given back: whatever was found for want of it may be wrong. Returns of which shapes,
        and how much quota these wait for if that is all they wait for. Without ``is_there`` all of it is found out
        anew."""
        self._doubted.pop(scope, None)
        reopened: dict[Shape, Amounts | None] = {}
        for lack in self._known:
            known = self._known[lack].get(scope, _NOTHING)
            ends = {one.waits_for for one in known.values()}
            ends = {waits_for for waits_for in ends if _may_end(waits_for, is_there)}
            some = {shape: one.waits_for for shape, one in known.items() if one.waits_for in ends}
            if lack is Lack.QUOTA and is_there is not None:
                self._doubted[scope] = {waits_for for waits_for in ends if waits_for is not None}
                reopened = some | reopened
                some = {shape: None for shape, waits_for in some.items() if waits_for is None}
            reopened |= dict.fromkeys(some)
            for shape in some:
                self.drop(lack, shape, scope)
        return reopened

    def confirm(self, shape: Shape, scope: Scope, is_there: IsThere) -> Unplaced | None:
        """It is the turn of that shape: why it lacks quota. What was found stands for all who wait for the same if
        others have the quota that was given back."""
        found = self._known[Lack.QUOTA].get(scope, _NOTHING).get(shape)
        if found is None:
            return None
        if (doubted := self._doubted.get(scope)) and found.waits_for in doubted:
            if _may_end(found.waits_for, is_there):
                return None
            doubted.discard(found.waits_for)
        return found.cause

    def waits_for(self, shape: Shape, scope: Scope) -> Amounts | None:
        """What such a workload of that queue lacks of its quota."""
        found = self._known[Lack.QUOTA].get(scope, _NOTHING).get(shape)
        return None if found is None else found.waits_for

    def clear(self, lack: Lack) -> None:
        """Whatever was found of this cause may be wrong. To wake those that lack it is for the caller."""
        for scope, shape in self.shapes(lack):
            self._take(lack, scope, shape)

    def forget(self, waiting: Collection[GroupKey], workloads: Mapping[GroupKey, Workload]) -> Steps[None]:
        """Shapes that no waiting workload has any more."""
        if len(self) <= len(waiting):
            return
        yield len(waiting) // 8
        demands = [workloads[key].demand for key in waiting]
        self.keep(demand.shape for demand in demands if demand is not None and demand.shape is not None)

    def keep(self, shapes: Iterable[Shape]) -> None:
        """Nobody asks for others any more."""
        wanted = dict.fromkeys(shapes)
        resting = {shape: above for shape, above in self._above.items() if any(one in wanted for _, one in above)}
        self._above, wanted = resting, wanted | dict.fromkeys(resting)
        for lack in self._known:
            for scope, shape in self.shapes(lack):
                if shape not in wanted:
                    self._take(lack, scope, shape)

    def _standing(self, lack: Lack, shape: Shape, scope: Scope) -> Shortfall | None:
        """What was found, unless it is in doubt."""
        found = self._known[lack].get(scope, _NOTHING).get(shape)
        if found is None or lack is not Lack.QUOTA or found.waits_for not in self._doubted.get(scope, ()):
            return found
        return None

    def _take(self, lack: Lack, scope: Scope, shape: Shape) -> None:
        known = self._known[lack]
        some = known.get(scope, _NOTHING)
        if some.pop(shape, None) is None:
            return
        if not some:
            del known[scope]
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]


def _may_end(waits_for: Amounts | None, is_there: IsThere | None) -> bool:
    """Whether the quota may do by now. ``is_there`` is None where that is not known."""
    return waits_for is None or is_there is None or any(is_there(what, amount) for what, amount in waits_for)
