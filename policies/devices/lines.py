"""Count free devices so that requests which overlap are counted right, by amounts that add up like other resources.

Requests can be given devices all at once if and only if no set of them asks for more devices than match any of them
(Hall's theorem). So each such set is a *line*. A node offers the devices that match any of its requirements. Every
request that no other device can serve takes its count from the line. A GPU of 80 GiB is in the line of "any GPU" and
in that of "80 GiB"; a request for 80 GiB takes one of both. Sets that overlap in part have a line for their union.

Requirements are numbered; a set of them is an integer with their bits. A device has the set that it matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from policies.model import Requests
from policies.words import WHOLE

MOST_LINES = 128
"""Beyond it sets that overlap in part are not looked at: then there may seem to be more room than there is."""

Match = int
"""A set of requirements: all that a device matches, or all of which one will do for a request."""


@dataclass(frozen=True, slots=True)
class Ask:
    """``count`` devices that match one of the requirements; ``None`` for all that match, and none of them in use.
    ``admin``: whether they are in use does not matter."""

    match: Match
    count: int | None = 1
    admin: bool = False

    @property
    def own(self) -> Line | None:
        """The line that it has for itself; None for devices that are counted with those of others."""
        if self.admin:
            return Line(self.match, least=self.count or 1)
        return Line(self.match, whole=True) if self.count is None else None

    @property
    def kind(self) -> Ask:
        """The same for one device, where the lines do not depend on how many are asked for."""
        return Ask(self.match) if self.own is None else self


@dataclass(frozen=True, slots=True)
class Bundle:
    """Requests that a node has to meet together: the first of the ``alternatives`` for which it has devices.

    ``claim``: the claim that several pods share, which takes its devices once; empty for a request of each pod. What is
    taken depends on the node, so no line counts it: the ledger works out how many of them fit on each node.
    """

    alternatives: tuple[tuple[Ask, ...], ...]
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """``match``: what its devices match one of. ``whole``: offers ``WHOLE`` where all of its devices are free.
    ``least``: offers ``WHOLE`` where that many are there, in use or not; 0 for other lines."""

    match: Match
    whole: bool = False
    least: int = 0

    @property
    def counts(self) -> bool:
        """Whether it offers one for each device."""
        return not (self.whole or self.least)

    def offered(self, devices: Iterable[Devices]) -> int:
        """Count what a node offers that has these devices."""
        if self.whole:
            here = [some for some in devices if (some.match | some.unfit) & self.match]
            return WHOLE - (not here or any(some.free < some.there or some.unfit & self.match for some in here))
        here = [some for some in devices if some.match & self.match]
        if self.least:
            return WHOLE * (sum(some.there for some in here) >= self.least)
        return sum(some.free for some in here)

    def held(self, devices: Iterable[Holdable]) -> int:
        """How much of it a pod takes that has these devices."""
        here = [known for known in devices if (known.match | known.unfit * self.whole) & self.match]
        return min(1, len(here)) if self.whole else len(here) * self.counts

    def taken(self, ask: Ask, seen: Sequence[Match]) -> int:
        """How much of it one such request takes. ``seen``: what the devices of the cluster match."""
        if self.least or ask.admin:
            return int(self == ask.own)
        if self.whole:
            if ask.count is None and ask.match == self.match:
                return WHOLE
            return (ask.count or WHOLE) * any(match & ask.match and match & self.match for match in seen)
        return (ask.count or 0) * _serves(self.match, ask.match, seen)


class Holdable(Protocol):
    """A device: what it matches, and what it would match but for its taints."""

    match: Match
    unfit: Match


def taken_by(ask: Ask, lines: Mapping[Line, str], seen: Sequence[Match]) -> Requests:
    """Return how much one such request takes of each line, by the names of their amounts. ``seen``: as in ``taken``."""
    taken = ((name, line.taken(ask, seen)) for line, name in lines.items())
    return tuple((name, much) for name, much in taken if much)


class Devices(NamedTuple):
    """Devices of a node that match the same. ``unfit``: what they would match but for their taints."""

    match: Match
    there: int
    free: int
    unfit: Match = 0


def lines_of(asks: Iterable[Ask], seen: Sequence[Match]) -> tuple[Line, ...]:
    """The lines on which such requests are counted. ``seen``: what the devices of the cluster match."""
    asks = tuple(asks)
    own: dict[Line, None] = {}
    for ask in asks:
        if ask.own is not None:
            own[ask.own] = None
    single = sorted({ask.match for ask in asks if ask.own is None})
    unions = dict.fromkeys(_closed(match, single, seen) for match in single)
    for union in list(unions):
        _grow(union, single, unions, seen)
    return (*own, *map(Line, unions))


def _grow(first: Match, single: Sequence[Match], unions: dict[Match, None], seen: Sequence[Match]) -> None:
    """Add the unions with whatever overlaps."""
    todo = [first]
    while todo:
        union = todo.pop()
        for match in single:
            if _serves(union, match, seen) or not any(one & match and one & union for one in seen):
                continue
            larger = _closed(union | match, single, seen)
            if larger not in unions and len(unions) < MOST_LINES:
                unions[larger] = None
                todo.append(larger)


def _closed(union: Match, single: Sequence[Match], seen: Sequence[Match]) -> Match:
    """Add the requests that no other device can serve, so that each set of devices has one line."""
    for match in single:
        if match & ~union and _serves(union, match, seen) and any(one & match for one in seen):
            union |= match
    return union


def _serves(union: Match, match: Match, seen: Sequence[Match]) -> bool:
    """Whether every device that matches ``match`` also matches ``union``."""
    return match & ~union == 0 or (any(one & match for one in seen) and all(one & union for one in seen if one & match))
