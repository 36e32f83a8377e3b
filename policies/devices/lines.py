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
"""The most lines. Beyond it unions of partly overlapping sets are left out: then room may be overestimated."""

Match = int
"""A set of requirements, as bits: all that a device matches, or the alternatives of a request."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request for devices.

    ``match``: a device suits if it matches one of these requirements.
    ``count``: the number of devices; None: all that match, and none of them may be in use.
    ``admin``: devices in use are allowed, too.
    """

    match: Match
    count: int | None = 1
    admin: bool = False

    @property
    def own(self) -> Line | None:
        """The line that serves this kind of request alone; None for requests that are counted together with others."""
        if self.admin:
            return Line(self.match, least=self.count or 1)
        return Line(self.match, whole=True) if self.count is None else None

    @property
    def kind(self) -> Ask:
        """The same request for one device, if its lines do not depend on the count."""
        return Ask(self.match) if self.own is None else self


@dataclass(frozen=True, slots=True)
class Bundle:
    """Requests that a node has to meet together.

    ``alternatives``: the first one for which the node has devices is used. The amounts depend on the node, so no line
    counts them: the ledger computes how many bundles fit on each node.
    ``claim``: the claim that several pods share, whose devices are taken once; empty for a request of each pod.
    """

    alternatives: tuple[tuple[Ask, ...], ...]
    claim: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """An amount that a node offers.

    ``match``: the line covers the devices that match one of these requirements.
    ``whole``: the line offers ``WHOLE`` on nodes where all of its devices are free.
    ``least``: the line offers ``WHOLE`` on nodes with that many devices, in use or not; 0 for other lines.
    """

    match: Match
    whole: bool = False
    least: int = 0

    @property
    def counts(self) -> bool:
        """Whether the line offers one for each device."""
        return not (self.whole or self.least)

    def offered(self, devices: Iterable[Devices]) -> int:
        """Count the line's offer on a node with these devices."""
        if self.whole:
            here = [device for device in devices if (device.match | device.unfit) & self.match]
            return WHOLE - (not here or any(stock.free < stock.there or stock.unfit & self.match for stock in here))
        here = [device for device in devices if device.match & self.match]
        if self.least:
            return WHOLE * (sum(stock.there for stock in here) >= self.least)
        return sum(stock.free for stock in here)

    def held(self, devices: Iterable[Holdable]) -> int:
        """The amount of the line that a pod with these devices takes."""
        here = [known for known in devices if (known.match | known.unfit * self.whole) & self.match]
        return min(1, len(here)) if self.whole else len(here) * self.counts

    def amount_for(self, ask: Ask, seen: Sequence[Match]) -> int:
        """The amount of the line that one request takes. ``seen``: the sets that the devices of the cluster match."""
        if self.least or ask.admin:
            return int(self == ask.own)
        if self.whole:
            if ask.count is None and ask.match == self.match:
                return WHOLE
            return (ask.count or WHOLE) * any(match & ask.match and match & self.match for match in seen)
        return (ask.count or 0) * _serves(self.match, ask.match, seen)


class Holdable(Protocol):
    """A device, with the set that it matches, and the set that it would match without its taints."""

    match: Match
    unfit: Match


def line_amounts(ask: Ask, lines: Mapping[Line, str], seen: Sequence[Match]) -> Requests:
    """Return the amounts of each line that one request takes, by name. ``seen``: as in ``amount_for``."""
    amounts = ((name, line.amount_for(ask, seen)) for line, name in lines.items())
    return tuple((name, much) for name, much in amounts if much)


class Devices(NamedTuple):
    """Devices of a node that match the same set. ``unfit``: the set that they would match without their taints."""

    match: Match
    there: int
    free: int
    unfit: Match = 0


def lines_of(asks: Iterable[Ask], seen: Sequence[Match]) -> tuple[Line, ...]:
    """The lines on which these requests are counted. ``seen``: the sets that the devices of the cluster match."""
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
    """Add the unions of a set with all overlapping ones."""
    todo = [first]
    while todo:
        union = todo.pop()
        for match in single:
            if _serves(union, match, seen) or not any(devices & match and devices & union for devices in seen):
                continue
            larger = _closed(union | match, single, seen)
            if larger not in unions and len(unions) < MOST_LINES:
                unions[larger] = None
                todo.append(larger)


def _closed(union: Match, single: Sequence[Match], seen: Sequence[Match]) -> Match:
    """Add requests that only devices of this union can serve, so that each set of devices has one line."""
    for match in single:
        if match & ~union and _serves(union, match, seen) and any(devices & match for devices in seen):
            union |= match
    return union


def _serves(union: Match, match: Match, seen: Sequence[Match]) -> bool:
    """Whether every device that matches ``match`` also matches ``union``."""
    return match & ~union == 0 or (
        any(devices & match for devices in seen) and all(devices & union for devices in seen if devices & match)
    )
