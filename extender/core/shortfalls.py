"""Why workloads of a shape could not be admitted: what was found stands until something that it rests on changes.

Each cause has its own scope: what one queue lacks says nothing about another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum

from extender.core.reasons import Reason
from extender.core.shape import Shape
from extender.core.state import State
from policies.steps import Steps


class Lack(Enum):
    """What a workload of that shape lacked."""

    ROOM = "room"
    QUOTA = "quota"


Scope = str
"""Whom it concerns: everybody, or the queue of that name."""
EVERYBODY: Scope = ""
_NOTHING: dict[Shape, Reason] = {}


class Shortfalls:
    """Reasons by cause, scope and shape. The same words are the same object."""

    def __init__(self) -> None:
        self._known: dict[tuple[Lack, Scope], dict[Shape, Reason]] = {}
        self._shapes: dict[Shape, int] = {}
        self._above: dict[Shape, dict[tuple[Scope, Shape], None]] = {}
        """What rests on the shortfall of a shape that was tried: in a queue there is one for each flavor."""

    def __len__(self) -> int:
        return len(self._shapes)

    def get(self, shape: Shape, scope: Scope = EVERYBODY) -> Reason | None:
        """Why such a workload of that queue cannot be admitted, as far as is known."""
        if shape not in self._shapes:
            return None
        for lack in Lack:
            for concerned in (EVERYBODY, scope) if scope else (EVERYBODY,):
                if (reason := self._known.get((lack, concerned), _NOTHING).get(shape)) is not None:
                    return reason
        return None

    def lacks(self, lack: Lack, shape: Shape, scope: Scope) -> bool:
        return shape in self._known.get((lack, scope), _NOTHING)

    def put(
        self, lack: Lack, shape: Shape, reason: Reason, scope: Scope = EVERYBODY, rests_on: Iterable[Shape] = ()
    ) -> None:
        """``rests_on``: shapes that lack room. Where one of them may have it, so may this one."""
        for one in rests_on:
            self._above.setdefault(one, {})[scope, shape] = None
        reasons = self._known.setdefault((lack, scope), {})
        if shape not in reasons:
            self._shapes[shape] = self._shapes.get(shape, 0) + 1
        reasons[shape] = reason

    def shapes(self, lack: Lack) -> Iterator[tuple[Scope, Shape]]:
        """Those that lack it."""
        return iter(
            [(scope, shape) for (one, scope), reasons in self._known.items() if one is lack for shape in reasons]
        )

    def drop(self, lack: Lack, shape: Shape, scope: Scope = EVERYBODY) -> None:
        """It may be there by now."""
        if self._known.get((lack, scope), {}).pop(shape, None) is not None:
            self._shapes[shape] -= 1
            if not self._shapes[shape]:
                del self._shapes[shape]
        for above, resting in self._above.pop(shape, {}) if (lack, scope) == (Lack.ROOM, EVERYBODY) else ():
            self.drop(lack, resting, above)

    def reopen(self, scope: Scope) -> bool:
        """Quota of that queue was given back: whatever was found for it may be wrong. Returns whether anything was."""
        found = [(lack, shape) for lack in Lack for shape in self._known.get((lack, scope), ())]
        for lack, shape in found:
            self.drop(lack, shape, scope)
        return bool(found)

    def clear(self, lack: Lack) -> None:
        """Whatever was found of this cause may be wrong."""
        self._known = {key: reasons for key, reasons in self._known.items() if key[0] is not lack}
        self._shapes = Counter(shape for reasons in self._known.values() for shape in reasons)

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
        for (lack, scope), reasons in self._known.items():
            for shape in [shape for shape in reasons if shape not in wanted]:
                self.drop(lack, shape, scope)
