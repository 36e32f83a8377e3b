"""The devices that drivers have published: which ones count, what they match, and which are in use.

Only the newest generation of a pool counts, and only once all of its slices are present. Each requirement is evaluated
once for each device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.devices.lines import Devices, Match
from policies.devices.selectors import Selector, UnreadSelectorError, Verdicts
from policies.model import Taint, Terms
from policies.model.devices import Device, DeviceKey, DeviceRequirement, PoolKey, Reach, Slice, TaintRule
from policies.placement.matching import tolerates
from policies.steps import Steps
from policies.words import WHOLE

MOST_REQUIREMENTS = 256
"""The most requirements that are evaluated at a time, since any user can write selectors into claims, without end."""
_AT_ONCE = 64
"""How many devices are evaluated in one step."""
_COST = 16
"""The cost of one step for each requirement, in units of ``policies.steps``."""


@dataclass(slots=True, eq=False)
class Known:
    """A device that counts.

    ``match``: the requirements that it meets.
    ``unfit``: the requirements that it would meet without its taints.
    """

    device: Device
    reach: Reach
    taints: tuple[Taint, ...]
    match: Match = 0
    unfit: Match = 0
    used: bool = False


@dataclass(slots=True, eq=False)
class Rule:
    """A requirement that is evaluated.

    ``failed``: the first error of CEL, and the device on which it occurred.
    ``unread``: the unsupported part of its selectors, in which case no device matches.
    """

    requirement: DeviceRequirement
    verdicts: Verdicts | None
    unread: str = ""
    failed: tuple[str, DeviceKey] | None = None


class Inventory:
    """The devices that count, with the requirements that they match and their use."""

    def __init__(self) -> None:
        self.rules: dict[int, Rule] = {}
        self.known: dict[DeviceKey, Known] = {}
        """The devices that count, by key."""
        self._dirty: dict[str, None] = {}
        """The nodes that have changed."""
        self._all_dirty = False
        """Whether any node may have changed."""
        self._changed: dict[DeviceKey, None] = {}
        """Devices that have come, have gone, or match other requirements than before."""
        self._numbers: dict[DeviceRequirement, int] = {}
        self._slices: dict[str, Slice] = {}
        self._pools: dict[PoolKey, dict[str, None]] = {}
        self._counting: dict[PoolKey, dict[str, Slice]] = {}
        self._on_node: dict[str, dict[DeviceKey, Known]] = {}
        self.shared: dict[Terms | None, dict[DeviceKey, Known]] = {}
        """Devices that several nodes may reach, by the terms of these nodes."""
        self.version = 0
        """A number that changes whenever devices come or go."""
        self._tainting: dict[str, TaintRule] = {}
        self._in_use: Counter[DeviceKey] = Counter()
        """How many allocations have each device, except allocations that are counted as the room of a pod."""
        self._seen: Counter[tuple[Match, bool]] = Counter()
        """How many devices match each set of requirements, and whether they belong to one node."""
        self._partitions: Counter[Match] = Counter()
        """How many devices that share counters with others match each set of requirements."""
        self._due: dict[int, Rule] = {}
        """Rules, by number, that are not yet evaluated for the devices that were present before them."""

    # Changes

    def mark_dirty(self, node: str) -> None:
        """Have the node counted again."""
        self._dirty[node] = None

    def mark_all_dirty(self) -> None:
        """Have every node counted again."""
        self._all_dirty = True

    @property
    def is_dirty(self) -> bool:
        """Whether any node is to be counted again."""
        return self._all_dirty or bool(self._dirty)

    def take_dirty(self) -> dict[str, None]:
        """Return the nodes that have changed since the last call."""
        dirty, self._dirty = self._dirty, {}
        return dirty

    def take_all_dirty(self) -> bool:
        """Return whether any node may have changed since the last call."""
        all_dirty, self._all_dirty = self._all_dirty, False
        return all_dirty

    def take_changed(self) -> dict[DeviceKey, None]:
        """Return the devices that have come or gone, or match other requirements, since the last call."""
        changed, self._changed = self._changed, {}
        return changed

    # Slices

    def put(self, published: Slice) -> None:
        """Take over a slice that was added or changed."""
        if (before := self._slices.get(published.name)) == published:
            return
        self._slices[published.name] = published
        if before is not None and before.pool != published.pool:
            self._forget(before)
        self._pools.setdefault(published.pool, {})[published.name] = None
        self._recount(published.pool)

    def drop(self, name: str) -> None:
        """Forget a slice that was deleted."""
        if (before := self._slices.pop(name, None)) is not None:
            self._forget(before)

    def _forget(self, before: Slice) -> None:
        there = self._pools[before.pool]
        there.pop(before.name, None)
        self._recount(before.pool)
        if not there:
            del self._pools[before.pool]

    def _recount(self, pool: PoolKey) -> None:
        """Take over changes in which slices of the pool count."""
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
        """The slices of the newest generation, if all are present and no device is in two; else none."""
        slices = [self._slices[name] for name in self._pools.get(pool, ())]
        newest = max((slice_.generation for slice_ in slices), default=0)
        of_newest = {slice_.name: slice_ for slice_ in slices if slice_.generation == newest}
        names = [device.name for slice_ in of_newest.values() for device in slice_.devices]
        whole = all(slice_.slices == len(of_newest) for slice_ in of_newest.values()) and len(set(names)) == len(names)
        return of_newest if whole else {}

    def _add(self, key: DeviceKey, device: Device, reach: Reach) -> None:
        known = self.known[key] = Known(device, reach, self._taints(key, device), used=self._in_use[key] > 0)
        self._changed[key] = None
        self._see(known)
        self._judge([(key, known)], self.rules)
        self._place(known)[key] = known
        self.version += 1
        self._touch(known)

    def _place(self, known: Known) -> dict[DeviceKey, Known]:
        """The group of devices to which a device belongs: those of its node, or those with the same node terms."""
        reach = known.reach
        if reach.node:
            return self._on_node.setdefault(reach.node, {})
        return self.shared.setdefault(reach.terms, {})

    def _remove(self, key: DeviceKey) -> None:
        known = self.known.pop(key)
        self._changed[key] = None
        there = self._place(known)
        del there[key]
        if not there and known.reach.node:
            del self._on_node[known.reach.node]
        elif not there:
            del self.shared[known.reach.terms]
        self.version += 1
        self._unsee(known)
        self._touch(known)

    def _see(self, known: Known) -> None:
        if known.device.partition:
            self._partitions[known.match] += 1
        self._seen[known.match, bool(known.reach.node)] += 1

    def _unsee(self, known: Known) -> None:
        if known.device.partition:
            self._partitions[known.match] -= 1
            self._partitions += Counter()  # drops the counts that are 0
        self._seen[known.match, bool(known.reach.node)] -= 1
        if not self._seen[known.match, bool(known.reach.node)]:
            del self._seen[known.match, bool(known.reach.node)]

    def _touch(self, known: Known) -> None:
        if known.reach.node:
            self._dirty[known.reach.node] = None
        else:
            self._all_dirty = True

    # Taints

    def put_taint(self, rule: TaintRule) -> None:
        """Take over a rule that taints devices and was added or changed."""
        before = self._tainting.get(rule.name)
        self._tainting[rule.name] = rule
        self._taint_again([taint_rule for taint_rule in (before, rule) if taint_rule is not None])

    def drop_taint(self, name: str) -> None:
        """Forget a rule that taints devices and was deleted."""
        if (before := self._tainting.pop(name, None)) is not None:
            self._taint_again([before])

    def _taints(self, key: DeviceKey, device: Device) -> tuple[Taint, ...]:
        return (*device.taints, *(rule.taint for rule in self._tainting.values() if rule.concerns(key)))

    def _taint_again(self, rules: Sequence[TaintRule]) -> None:
        for key, known in self.known.items():
            if any(rule.concerns(key) for rule in rules):
                self._unsee(known)
                known.taints, known.match, known.unfit = self._taints(key, known.device), 0, 0
                self._see(known)
                self._judge([(key, known)], self.rules)
                self._changed[key] = None
                self._touch(known)

    # Use

    def hold(self, keys: Iterable[DeviceKey], sign: int = 1) -> None:
        """Count one more allocation for each of these devices, or one less with ``sign=-1``."""
        for known in self._use(keys, sign):
            self._touch(known)

    def count_as_room(self, before: Iterable[DeviceKey], now: Iterable[DeviceKey]) -> Iterable[str]:
        """Count the devices ``now`` as the room of the pod that has them, and ``before`` no longer. Returns their
        nodes."""
        changed = [*self._use(before, 1), *self._use(now, -1)]
        return dict.fromkeys(known.reach.node for known in changed)

    def _use(self, keys: Iterable[DeviceKey], sign: int) -> Iterator[Known]:
        for key in keys:
            self._in_use[key] += sign
            if not self._in_use[key]:
                del self._in_use[key]
            if (known := self.known.get(key)) is not None:
                known.used = self._in_use[key] > 0
                yield known

    # Requirements

    @property
    def is_full(self) -> bool:
        """Whether a new requirement can only get the number of one that no request needs."""
        return len(self.rules) >= MOST_REQUIREMENTS

    def require(self, requirement: DeviceRequirement, in_use: Match = -1) -> int | None:
        """Evaluate a requirement from now on. Returns its number; None if there are too many.

        At the limit a requirement that is not ``in_use`` is dropped; until then its results are kept for later
        requests.
        """
        number = self._numbers.get(requirement)
        if number is None:
            number = self._free_number(in_use)
            if number is not None:
                self._numbers[requirement] = number
                self._due[number] = self.rules[number] = _rule(requirement)
        return number

    def rule_of(self, requirement: DeviceRequirement) -> Rule | None:
        """Return the rule of a requirement; None if it is not evaluated."""
        number = self._numbers.get(requirement)
        return None if number is None else self.rules[number]

    def _free_number(self, in_use: Match) -> int | None:
        if not self.is_full:
            return len(self.rules)
        number = next((number for number in self.rules if not in_use >> number & 1), None)
        if number is not None:
            del self._numbers[self.rules.pop(number).requirement]
            for known in self.known.values():
                self._unsee(known)
                known.match &= ~(1 << number)
                known.unfit &= ~(1 << number)
                self._see(known)
        return number

    @property
    def settled(self) -> bool:
        """Whether every requirement is evaluated for every device."""
        return not self._due

    def settle(self) -> Steps[None]:
        """Evaluate the rules that are due, some devices in each step. New devices are evaluated at once when they
        come."""
        while self._due:
            due, devices = dict(self._due), tuple(self.known.items())
            for at in range(0, len(devices), _AT_ONCE):
                self._judge(
                    [
                        device_known
                        for device_known in devices[at : at + _AT_ONCE]
                        if self.known.get(device_known[0]) is device_known[1]
                    ],
                    due,
                )
                yield _COST * len(due)
            self._due = {number: rule for number, rule in self._due.items() if due.get(number) is not rule}
            self._all_dirty = True

    def _judge(self, devices: Sequence[tuple[DeviceKey, Known]], due: Mapping[int, Rule]) -> None:
        """Evaluate these requirements for these devices."""
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
                        if known.taints and not _tolerated(known.taints, rule.requirement):
                            known.unfit |= bit
                        else:
                            known.match |= bit
                    elif verdict is not False and rule.failed is None:
                        rule.failed = verdict, key
            except UnreadSelectorError as error:
                rule.unread, rule.verdicts = str(error), None
        for _, known in devices:
            self._see(known)

    # Counting

    def seen(self) -> list[Match]:
        """Return each set of requirements that devices of the cluster match, once."""
        return sorted({match for match, _ in self._seen if match})

    def belongs_to_one_node(self, match: Match) -> bool:
        """Whether some device that matches one of these requirements belongs to one node alone."""
        return any(seen & match and local for seen, local in self._seen)

    def has_partitions(self, match: Match) -> bool:
        """Whether some device that matches one of these requirements shares counters with others."""
        return any(seen & match for seen in self._partitions)

    def on(self, reached: Iterable[Known]) -> tuple[Devices, ...]:
        """Group the devices of a node by what they match. A device that serves any number of claims never runs out."""
        there: dict[tuple[Match, Match], list[int]] = {}
        for known in reached:
            if known.match or known.unfit:
                count = there.setdefault((known.match, known.unfit), [0, 0])
                each = WHOLE if known.device.uncounted else 1
                count[0] += each
                count[1] += each if known.device.uncounted or not known.used else 0
        return tuple(Devices(match, count, free, unfit) for (match, unfit), (count, free) in sorted(there.items()))

    def on_node(self, node: str) -> Mapping[DeviceKey, Known]:
        """The devices that belong to this node alone, by key."""
        return self._on_node.get(node, {})


def _tolerated(taints: Iterable[Taint], requirement: DeviceRequirement) -> bool:
    return all(tolerates(requirement.tolerations, taint) for taint in taints)


def _rule(requirement: DeviceRequirement) -> Rule:
    try:
        return Rule(requirement, Verdicts([Selector(text) for text in requirement.selectors]))
    except UnreadSelectorError as error:
        return Rule(requirement, None, str(error))
