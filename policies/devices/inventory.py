"""The devices that drivers have published: which of them count, what they match, and which are in use.

Of a pool only the newest generation counts, and only once all of its slices are there. What a device matches is found
out once for each requirement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.devices.lines import WHOLE, Devices, Match
from policies.devices.selectors import Selector, UnreadSelectorError, Verdicts
from policies.model.devices import Device, DeviceKey, DeviceRequirement, PoolKey, Reach, Slice
from policies.placement.matching import tolerates
from policies.steps import Steps

MOST_REQUIREMENTS = 256
"""Requirements that are evaluated at a time. Anybody can write selectors into claims, without end."""
_AT_ONCE = 64
"""Devices that are evaluated in one step."""
_COST = 16
"""What that costs, in the units of ``policies.steps``."""


@dataclass(slots=True, eq=False)
class Known:
    """A device that counts. ``match``: the requirements that it meets; ``unfit``: those that its taints deny it."""

    device: Device
    reach: Reach
    match: Match = 0
    unfit: Match = 0
    used: bool = False


@dataclass(slots=True, eq=False)
class Rule:
    """A requirement that is evaluated. ``failed``: the error of CEL on a device, and which; ``unread``: what of its
    selectors is not read here, in which case no device matches. ``users``: how many rely on its number."""

    requirement: DeviceRequirement
    verdicts: Verdicts | None
    unread: str = ""
    failed: tuple[str, DeviceKey] | None = None
    users: int = 0


class Inventory:
    """``dirty``: the nodes of which something has changed; with ``all_dirty`` every node may be concerned."""

    def __init__(self) -> None:
        self.rules: dict[int, Rule] = {}
        self.known: dict[DeviceKey, Known] = {}
        """Devices that count."""
        self.dirty: dict[str, None] = {}
        self.all_dirty = False
        self._numbers: dict[DeviceRequirement, int] = {}
        self._slices: dict[str, Slice] = {}
        self._pools: dict[PoolKey, dict[str, None]] = {}
        self._counting: dict[PoolKey, dict[str, Slice]] = {}
        self._on_node: dict[str, dict[DeviceKey, Known]] = {}
        self._shared: dict[DeviceKey, Known] = {}
        """Those that more than one node may reach."""
        self._in_use: Counter[DeviceKey] = Counter()
        self._seen: Counter[tuple[Match, Match]] = Counter()
        self._due: dict[int, Rule] = {}
        """Rules that have yet to be evaluated for the devices that were there before them."""

    # Slices

    def put(self, published: Slice) -> None:
        """A slice was added or changed."""
        if (before := self._slices.get(published.name)) == published:
            return
        self._slices[published.name] = published
        if before is not None and before.pool != published.pool:
            self._forget(before)
        self._pools.setdefault(published.pool, {})[published.name] = None
        self._recount(published.pool)

    def drop(self, name: str) -> None:
        """A slice was deleted."""
        if (before := self._slices.pop(name, None)) is not None:
            self._forget(before)

    def _forget(self, before: Slice) -> None:
        there = self._pools[before.pool]
        there.pop(before.name, None)
        self._recount(before.pool)
        if not there:
            del self._pools[before.pool]

    def _recount(self, pool: PoolKey) -> None:
        """The slices of the pool that count may be others now."""
        before, now = self._counting.get(pool, {}), self._complete(pool)
        for name, published in before.items():
            if now.get(name) is not published:
                for device in published.devices:
                    self._remove(DeviceKey(*pool, device.name))
        for name, published in now.items():
            if before.get(name) is not published:
                for device in published.devices:
                    self._add(DeviceKey(*pool, device.name), device, device.reach or published.reach)
        if now:
            self._counting[pool] = now
        else:
            self._counting.pop(pool, None)

    def _complete(self, pool: PoolKey) -> dict[str, Slice]:
        """The slices of the newest generation, if all are there and no device is in two; else none."""
        slices = [self._slices[name] for name in self._pools.get(pool, ())]
        newest = max((one.generation for one in slices), default=0)
        found = {one.name: one for one in slices if one.generation == newest}
        names = [device.name for one in found.values() for device in one.devices]
        whole = all(one.slices == len(found) for one in found.values()) and len(set(names)) == len(names)
        return found if whole else {}

    def _add(self, key: DeviceKey, device: Device, reach: Reach) -> None:
        known = self.known[key] = Known(device, reach, used=key in self._in_use)
        self._seen[0, 0] += 1
        self._judge([(key, known)], self.rules)
        if reach.node:
            self._on_node.setdefault(reach.node, {})[key] = known
        else:
            self._shared[key] = known
        self._touch(known)

    def _remove(self, key: DeviceKey) -> None:
        known = self.known.pop(key)
        if (there := self._on_node.get(known.reach.node)) is not None:
            there.pop(key, None)
            if not there:
                del self._on_node[known.reach.node]
        self._shared.pop(key, None)
        self._unsee(known)
        self._touch(known)

    def _unsee(self, known: Known) -> None:
        self._seen[known.match, known.unfit] -= 1
        if not self._seen[known.match, known.unfit]:
            del self._seen[known.match, known.unfit]

    def _touch(self, known: Known) -> None:
        if known.reach.node:
            self.dirty[known.reach.node] = None
        else:
            self.all_dirty = True

    # Use

    def hold(self, keys: Iterable[DeviceKey], sign: int = 1) -> None:
        """An allocation has these devices, or with -1 has them no longer."""
        for key in keys:
            self._in_use[key] += sign
            if not self._in_use[key]:
                del self._in_use[key]
            if (known := self.known.get(key)) is not None:
                known.used = key in self._in_use
                self._touch(known)

    # Requirements

    def require(self, requirement: DeviceRequirement) -> int | None:
        """Evaluate a requirement from now on. Returns its number; None if there are too many."""
        number = self._numbers.get(requirement)
        if number is None:
            if (number := self._free_number()) is None:
                return None
            self._numbers[requirement] = number
            self._due[number] = self.rules[number] = _rule(requirement)
        self.rules[number].users += 1
        return number

    def release(self, number: int) -> None:
        """One relies on it less. Its answers stay known until its number is needed: the next gang may ask the same."""
        self.rules[number].users -= 1

    def _free_number(self) -> int | None:
        if len(self.rules) < MOST_REQUIREMENTS:
            return len(self.rules)
        number = next((number for number, rule in self.rules.items() if not rule.users), None)
        if number is not None:
            del self._numbers[self.rules.pop(number).requirement]
            for known in self.known.values():
                self._unsee(known)
                known.match &= ~(1 << number)
                known.unfit &= ~(1 << number)
                self._seen[known.match, known.unfit] += 1
        return number

    @property
    def settled(self) -> bool:
        """Whether every requirement is evaluated for every device."""
        return not self._due

    def settle(self) -> Steps[None]:
        """Evaluate what is due, some devices in each step. Devices that come meanwhile are evaluated as they come."""
        while self._due:
            due, devices = dict(self._due), tuple(self.known.items())
            for at in range(0, len(devices), _AT_ONCE):
                self._judge([one for one in devices[at : at + _AT_ONCE] if self.known.get(one[0]) is one[1]], due)
                yield _COST * len(due)
            self._due = {number: rule for number, rule in self._due.items() if due.get(number) is not rule}
            self.all_dirty = True

    def _judge(self, devices: Sequence[tuple[DeviceKey, Known]], due: Mapping[int, Rule]) -> None:
        """Find out which of these devices meet which of these requirements."""
        for _, known in devices:
            self._unsee(known)
        for number, rule in due.items():
            if rule.verdicts is None or self.rules.get(number) is not rule:
                continue
            of, bit = rule.verdicts.of, 1 << number
            try:
                for key, known in devices:
                    verdict = of(known.device.facts)
                    if verdict is True:
                        if known.device.taints and not _tolerated(known.device, rule.requirement):
                            known.unfit |= bit
                        else:
                            known.match |= bit
                    elif verdict is not False and rule.failed is None:
                        rule.failed = verdict, key
            except UnreadSelectorError as error:
                rule.unread, rule.verdicts = str(error), None
        for _, known in devices:
            self._seen[known.match, known.unfit] += 1

    # Counting

    def seen(self) -> list[Match]:
        """What the devices of the cluster match, each once."""
        return sorted({match for match, _ in self._seen if match})

    def on(self, reached: Iterator[Known]) -> tuple[Devices, ...]:
        """The devices of a node, by what they match. One that serves any number of claims never runs out."""
        there: dict[tuple[Match, Match], list[int]] = {}
        for known in reached:
            if known.match or known.unfit:
                count = there.setdefault((known.match, known.unfit), [0, 0])
                each = WHOLE if known.device.uncounted else 1
                count[0] += each
                count[1] += each if known.device.uncounted or not known.used else 0
        return tuple(Devices(match, count, free, unfit) for (match, unfit), (count, free) in sorted(there.items()))

    def local(self, node: str) -> Iterator[Known]:
        """The devices that this node alone reaches."""
        return iter(self._on_node.get(node, {}).values())

    @property
    def shared(self) -> Iterable[Known]:
        """The devices that more than one node may reach."""
        return self._shared.values()


def _tolerated(device: Device, requirement: DeviceRequirement) -> bool:
    return all(tolerates(requirement.tolerations, taint) for taint in device.taints)


def _rule(requirement: DeviceRequirement) -> Rule:
    try:
        return Rule(requirement, Verdicts([Selector(text) for text in requirement.selectors]))
    except UnreadSelectorError as error:
        return Rule(requirement, None, str(error))
