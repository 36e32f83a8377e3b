"""Why workloads of a shape could not be admitted: what was found stands until something changes that it rests on.

Each cause has its own scope: what one queue lacks says nothing about another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from extender.core.reasons import Reason
from extender.core.shape import Shape
from extender.core.state import State
from policies.model.queues import FlavorResource
from policies.steps import Steps


class Lack(Enum):
    """What a workload of that shape lacked."""

    ROOM = "room"
    QUOTA = "quota"


Scope = str
"""Whom it concerns: everybody, or the queue of that name."""
EVERYBODY: Scope = ""
Amounts = tuple[tuple[FlavorResource, int], ...]
"""Quota that was not there. As long as none of it is, nothing else is found."""
IsThere = Callable[[FlavorResource, int], bool]
"""Whether the queue has so much left of that flavor and resource."""


@dataclass(frozen=True, slots=True)
class Shortfall:
    """``waits_for``: quota that would have to be given back for another verdict; None where any might do."""

    reason: Reason
    waits_for: Amounts | None = None

    def may_end(self, is_there: IsThere | None) -> bool:
        """Whether the quota may do by now. None: it is not known what is there."""
        if is_there is None or self.waits_for is None:
            return True
        return any(is_there(what, amount) for what, amount in self.waits_for)


_NOTHING: dict[Shape, Shortfall] = {}


class Shortfalls:
    """Reasons by cause, scope and shape. The same words are the same object."""

    def __init__(self) -> None:
        self._known: dict[Lack, dict[Scope, dict[Shape, Shortfall]]] = {lack: {} for lack in Lack}
        self._doubted: dict[Scope, dict[Shape, Shortfall]] = {}
        """Of quota: it was given back, and others may have it before it is the turn of that shape."""
        self._shapes: dict[Shape, int] = {}
        self._above: dict[Shape, dict[tuple[Scope, Shape], None]] = {}
        """What rests on the shortfall of a shape that was tried: in a queue there is one for each flavor."""

    def __len__(self) -> int:
        return len(self._shapes)

    def get(self, shape: Shape, scope: Scope = EVERYBODY) -> Reason | None:
        """Why such a workload of that queue cannot be admitted, as far as is known."""
        if shape not in self._shapes:
            return None
        for known in self._known.values():
            for concerned in (EVERYBODY, scope) if scope else (EVERYBODY,):
                if (found := known.get(concerned, _NOTHING).get(shape)) is not None:
                    return found.reason
        return None

    def lacks(self, lack: Lack, shape: Shape, scope: Scope) -> bool:
        return shape in self._known[lack].get(scope, _NOTHING)

    def for_quota(self, shape: Shape, scope: Scope) -> Reason | None:
        """Why such a workload of that queue lacks quota, if it does."""
        found = self._known[Lack.QUOTA].get(scope, _NOTHING).get(shape)
        return None if found is None else found.reason

    def put(
        self,
        lack: Lack,
        shape: Shape,
        reason: Reason,
        scope: Scope = EVERYBODY,
        rests_on: Iterable[Shape] = (),
        waits_for: Amounts | None = None,
    ) -> None:
        """``rests_on``: shapes that lack room. Where one of them may have it, so may this one."""
        for one in rests_on:
            self._above.setdefault(one, {})[scope, shape] = None
        self._put(self._known[lack], scope, shape, Shortfall(reason, waits_for))
        self._take(self._doubted, scope, shape)

    def shapes(self, lack: Lack) -> Iterator[tuple[Scope, Shape]]:
        """Those that lack it."""
        return iter([(scope, shape) for scope, some in self._known[lack].items() for shape in some])

    def drop(self, lack: Lack, shape: Shape, scope: Scope = EVERYBODY) -> None:
        """It may be there by now."""
        self._take(self._known[lack], scope, shape)
        for above, resting in self._above.pop(shape, {}) if (lack, scope) == (Lack.ROOM, EVERYBODY) else ():
            self.drop(lack, resting, above)

    def reopen(self, scope: Scope, is_there: IsThere | None = None) -> dict[Shape, None]:
        """Quota of that queue was given back: whatever was found for want of it may be wrong. Returns of which shapes.
        Without ``is_there`` all of it is found out anew."""
        for shape in [*self._doubted.get(scope, _NOTHING)] if is_there is None else ():
            self._take(self._doubted, scope, shape)
        found = [
            (lack, shape, one)
            for lack, known in self._known.items()
            for shape, one in known.get(scope, _NOTHING).items()
            if one.may_end(is_there)
        ]
        for lack, shape, one in found:
            self.drop(lack, shape, scope)
            if lack is Lack.QUOTA and is_there is not None:
                self._put(self._doubted, scope, shape, one)
        return {shape: None for _, shape, _ in found}

    def confirm(self, shape: Shape, scope: Scope, is_there: IsThere) -> bool:
        """It is the turn of that shape. Returns whether others have the quota that was given back: then what was found
        stands."""
        doubted = self._doubted.get(scope, _NOTHING).get(shape)
        if doubted is None or doubted.may_end(is_there):
            return False
        self._take(self._doubted, scope, shape)
        self._put(self._known[Lack.QUOTA], scope, shape, doubted)
        return True

    def clear(self, lack: Lack) -> None:
        """Whatever was found of this cause may be wrong."""
        for known in (self._known[lack], self._doubted) if lack is Lack.QUOTA else (self._known[lack],):
            for scope, shape in [(scope, shape) for scope, some in known.items() for shape in some]:
                self._take(known, scope, shape)

    def forget(self, state: State) -> Steps[None]:
        """Shapes that no waiting workload has any more."""
        keys = state.waiting.keys
        if len(self) <= len(keys):
            return
        yield len(keys) // 8
        demands = [state.workloads[key].demand for key in keys]
        self.keep(demand.shape for demand in demands if demand is not None and demand.shape is not None)

    def keep(self, shapes: Iterable[Shape]) -> None:
        """Nobody asks for others any more."""
        wanted = dict.fromkeys(shapes)
        resting = {shape: above for shape, above in self._above.items() if any(one in wanted for _, one in above)}
        self._above, wanted = resting, wanted | dict.fromkeys(resting)
        for known in (*self._known.values(), self._doubted):
            for scope, shape in [(scope, shape) for scope, some in known.items() for shape in some]:
                if shape not in wanted:
                    self._take(known, scope, shape)

    def _put(self, known: dict[Scope, dict[Shape, Shortfall]], scope: Scope, shape: Shape, found: Shortfall) -> None:
        some = known.setdefault(scope, {})
        if shape not in some:
            self._shapes[shape] = self._shapes.get(shape, 0) + 1
        some[shape] = found

    def _take(self, known: dict[Scope, dict[Shape, Shortfall]], scope: Scope, shape: Shape) -> None:
        some = known.get(scope, _NOTHING)
        if some.pop(shape, None) is None:
            return
        if not some:
            del known[scope]
        self._shapes[shape] -= 1
        if not self._shapes[shape]:
            del self._shapes[shape]
