"""The devices or volumes that nodes offer beside what they list, and the nodes that offer more or less than before."""

from __future__ import annotations

from extender.core.ledger.claims import Claims
from policies.model import Requests


class Offers:
    """The amounts that each node offers of ``what``: devices, or volumes."""

    def __init__(self, room: Claims, what: str) -> None:
        self._room = room
        self._what = what
        self._amounts: dict[str, Requests] = {}
        self._grown: dict[str, None] = {}
        self._shrunk: dict[str, None] = {}

    def of(self, node: str) -> Requests:
        """The amounts that the node offers."""
        return self._amounts.get(node, ())

    def put(self, node: str, amounts: Requests, *, same_room: bool = False) -> None:
        """Set the amounts that the node offers. ``same_room``: whether the free amounts stay the same."""
        before = self.of(node)
        if amounts == before:
            return
        self._amounts[node] = amounts
        self._room.offer(node, amounts, self._what)
        if same_room:
            return
        had, has = dict(before), dict(amounts)
        if any(much > max(0, had.get(name, 0)) for name, much in amounts):
            self._grown[node] = None
        if any(has.get(name, 0) < had.get(name, 0) for name in had | has):
            self._shrunk[node] = None

    def check_again(self, node: str) -> None:
        """Treat the node as one that offers less, so that promises on it are checked again."""
        self._shrunk[node] = None

    @property
    def changed(self) -> bool:
        """Whether ``take_grown`` or ``take_shrunk`` has something to return."""
        return bool(self._grown or self._shrunk)

    def take_grown(self) -> list[str]:
        """Return the nodes that offer more since the last call: workloads may wait for that."""
        grown, self._grown = self._grown, {}
        return list(grown)

    def take_shrunk(self) -> list[str]:
        """Return the nodes that offer less since the last call: workloads may have been promised some of it."""
        shrunk, self._shrunk = self._shrunk, {}
        return list(shrunk)
