"""The slots of a workload: how far each has come by the best of its pods, and which lack a node.

A slot is one place of a podset: a completion index, or a pod that has none. A workload that is known before its pods
says which pods to expect: such a slot is planned by its template, and keeps its node for the pod that fills it. From
the slots follows whether enough of each podset of a job, or of each role of a gang of pods, has come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from policies.model import Minima, Pod, PodSet, PodSets, SlotKey

_NOBODY = ""
"""Stands in a slot that is expected and has no pod."""
_ENDED = "ended"
"""Stands in a slot that is done, whether its pod is there or not."""


class Stage(IntEnum):
    """How far a slot has come. Whoever has come further has come this far as well."""

    ABSENT = 0
    THERE = 1
    PROMISED = 2
    ARRIVED = 3
    """At bind: held, or being bound."""
    BOUND = 4
    """Or finished well, in the same start."""


class Slots:
    """``lacking``: those that are there and have neither a node nor the promise of one."""

    def __init__(self) -> None:
        self.lacking: dict[SlotKey, None] = {}
        self._stages: dict[SlotKey, dict[str, Stage]] = {}
        self._counts = [0] * len(Stage)
        self.of_podsets: dict[str, list[int]] = {}
        """The same for each podset of a job, by what its slots begin with."""
        self.roles: dict[SlotKey, str] = {}
        """The role of each slot whose pods say one, in a gang that has minima for its roles."""
        self._of_roles: dict[str, list[int]] = {}
        self.templates: dict[SlotKey, Pod] = {}
        """What the pod of each expected slot will ask for."""
        self.indexed: frozenset[str] = frozenset()
        """What expected slots begin with whose pods say by their index which is theirs."""
        self.planned: dict[SlotKey, str] = {}
        """The nodes of expected slots that no pod has come to."""
        self.turns: dict[SlotKey, int] = {}
        """Of those, the rounds of the ones of which kube-scheduler is told later than of the others."""
        self._completions: dict[str, tuple[int, int]] = {}
        """Of podsets whose pods come one after the other: how many slots they have, and how many have to end well."""
        self._ended: Counter[tuple[str, str]] = Counter()
        """How many pods of each podset, and of each controller of its pods, have ended well."""
        self.done: set[SlotKey] = set()
        """Expected slots whose pods have ended well, as the status of their job says: they need no node."""
        self._vacant: dict[SlotKey, None] = {}
        """Expected slots that no pod has come to."""
        self._by_wave: Counter[int] = Counter()
        """How many slots of each wave are planned."""

    def reached(self, stage: Stage, podset: str = "") -> int:
        """How many have come at least so far. ``podset``: of those that begin with it."""
        counts = self.of_podsets[podset] if podset else self._counts
        return counts[Stage.BOUND] if stage is Stage.BOUND else sum(counts[stage:])

    def of_role(self, stage: Stage, role: str) -> int:
        """How many of that role have come at least so far."""
        return sum(self._of_roles.get(role, ())[stage:])

    def __contains__(self, slot: SlotKey) -> bool:
        """Whether it is expected, or a pod stands in it."""
        return slot in self._stages

    def cast(self, pod: Pod) -> None:
        """The pod that stands for a slot says its role, or none."""
        slot, role = pod.identity, "" if pod.group is None else pod.group.role
        if self.roles.get(slot, "") == role:
            return
        stage = max(self._stages.get(slot, {}).values(), default=Stage.ABSENT)
        self._count_role(slot, stage, Stage.ABSENT)
        self.roles.pop(slot, None)
        if role:
            self.roles[slot] = role
            self._count_role(slot, Stage.ABSENT, stage)

    @property
    def surplus(self) -> bool:
        """Whether pods stand in slots that are not expected."""
        return len(self._stages) > len(self.templates)

    def promises(self) -> list[tuple[Pod, str]]:
        """What will ask for the room of each expected slot that no pod has come to, and its node."""
        return [(self.templates[slot], node) for slot, node in self.planned.items()]

    def uncreated(self, wave: float) -> int:
        """How many planned slots no pod has come to, of waves up to this one."""
        return sum(count for one, count in self._by_wave.items() if one <= wave)

    def pods(self, slot: SlotKey) -> list[str]:
        """UIDs of the pods that stand in it."""
        return [] if slot in self._vacant else [uid for uid in self._stages.get(slot, ()) if uid is not _ENDED]

    def end(self, pod: Pod) -> int:
        """Count a pod that has succeeded. Returns its ordinal within its podset. Each new Job of the podset starts from
        one again. A pod that had ended before a restart has no slot."""
        made = f"{pod.owner}{pod.series}", _maker(pod)
        self._ended[made] += 1
        return self._ended[made]

    @property
    def ended(self) -> int:
        """Count the pods that have ended well, gone ones as well."""
        return sum(self._ended.values())

    @property
    def in_turn(self) -> bool:
        """Whether pods of some podset come one after the other."""
        return bool(self._completions)

    def closed(self, podset: str, pod: Pod | None) -> int:
        """Count the slots of a podset that no pod fills any more, by what its pods say. ``pod``: the newest of them."""
        size, completions = self._completions.get(podset, (0, 0))
        if not completions or pod is None:
            return 0
        return max(0, size - max(0, completions - self._ended[podset, _maker(pod)]))

    def refills(self, slot: SlotKey, ended: int) -> bool:
        """Whether another pod comes to it when so many of its podset have ended well."""
        size, completions = self._completions.get(slot[0], (0, 0))
        return ended + size <= completions

    def seats(self, pod: Pod) -> bool:
        """Whether it takes a slot that is free: it has no index, or one that says nothing of its slot, as that of a Job
        with more completions than pods."""
        return pod.index is None or (pod.identity[0] in self.of_podsets and pod.identity[0] not in self.indexed)

    def vacant(self, podset: str, node: str | None, plan: Mapping[SlotKey, str]) -> int | None:
        """A slot of a podset that no pod has come to; ``podset``: what its slots begin with.

        For a pod that is bound already one that was planned on its node, if there is one.
        """
        there = (slot for slot in self._vacant if node and slot[0] == podset and plan.get(slot) == node)
        first = (slot for slot in self._vacant if slot[0] == podset)
        return next((int(slot[1]) for slot in chain(there, first)), None)

    def stand(self, slot: SlotKey, uid: str, stage: Stage) -> None:
        """That pod has brought its slot so far; ABSENT: it counts for nothing."""
        pods = self._stages.get(slot)
        if pods is not None and len(pods) == 1 and uid in pods and stage is not Stage.ABSENT:
            # One pod to a slot, as a rule.
            before, pods[uid] = pods[uid], stage
            return self._count(slot, before, stage)
        before = max(pods.values()) if pods else Stage.ABSENT
        if pods is None:
            if stage is Stage.ABSENT:
                self.roles.pop(slot, None)
                return None
            pods = self._stages[slot] = {}
        if stage is not Stage.ABSENT:
            pods[uid] = stage
            if uid is not _NOBODY:
                pods.pop(_NOBODY, None)
                self._vacant.pop(slot, None)
        elif pods.pop(uid, None) is not None and not pods and slot in self.templates:
            pods[_NOBODY] = self._empty(slot)
            self._vacant[slot] = None
        self._count(slot, before, max(pods.values()) if pods else Stage.ABSENT)
        if not pods:
            del self._stages[slot]
            self.roles.pop(slot, None)
        return None

    @property
    def first(self) -> Pod | None:
        """The template of the first slot that is expected."""
        return next(iter(self.templates.values()), None)

    def expect(self, podsets: Sequence[PodSet]) -> None:
        """Pods of these will come, and no others that are not there. Nothing is planned for them, nothing is done."""
        self.finish(())
        before, self.templates = self.templates, {pod.identity: pod for one in podsets for pod in one.pods()}
        self.indexed = frozenset(one.prefix for one in podsets if one.indexed)
        self.of_podsets = {one.prefix: [0] * len(Stage) for one in podsets}
        self._completions = {one.prefix: (one.size, one.completions) for one in podsets if one.completions}
        for slot, pods in self._stages.items() if podsets else ():
            if (counts := self.of_podsets.get(slot[0])) is not None:
                counts[max(pods.values())] += 1
        for slot in [slot for slot in before if slot not in self.templates]:
            self._vacant.pop(slot, None)
            self.stand(slot, _NOBODY, Stage.ABSENT)
        self._by_wave = Counter(self.templates[slot].wave for slot in self.planned if slot in self.templates)
        for slot in self.templates:
            if slot not in self._stages:
                self._vacant[slot] = None
                self.stand(slot, _NOBODY, Stage.THERE)
                self.cast(self.templates[slot])

    def finish(self, done: Collection[SlotKey]) -> bool:
        """These are done, if they are expected, and no others. Returns whether that is new."""
        before, self.done = self.done, {slot for slot in done if slot in self.templates}
        changed = sorted(self.done.symmetric_difference(before))
        for slot in changed:
            self.stand(slot, _ENDED, Stage.BOUND if slot in self.done else Stage.ABSENT)
        return bool(changed)

    def plan(self, slot: SlotKey, node: str, turn: int = 0) -> None:
        """Promise the pod that will come a node; an empty one takes the promise back."""
        self.turns.pop(slot, None)
        if turn:
            self.turns[slot] = turn
        if (template := self.templates.get(slot)) is not None:
            self._by_wave[template.wave] += bool(node) - (slot in self.planned)
        if node:
            self.planned[slot] = node
        else:
            self.planned.pop(slot, None)
        if slot in self._vacant:
            self.stand(slot, _NOBODY, self._empty(slot))

    def _empty(self, slot: SlotKey) -> Stage:
        return Stage.PROMISED if slot in self.planned else Stage.THERE

    def _count(self, slot: SlotKey, before: Stage, after: Stage) -> None:
        if before is after:
            return
        self._counts[before] -= 1
        self._counts[after] += 1
        if self.of_podsets and (counts := self.of_podsets.get(slot[0])) is not None:
            counts[before] -= 1
            counts[after] += 1
        self._count_role(slot, before, after)
        if after is Stage.THERE:
            self.lacking[slot] = None
        else:
            self.lacking.pop(slot, None)

    def _count_role(self, slot: SlotKey, before: Stage, after: Stage) -> None:
        if not (role := self.roles.get(slot)):
            return
        counts = self._of_roles.setdefault(role, [0] * len(Stage))
        for stage, more in ((before, -1), (after, 1)):
            counts[stage] += more if stage else 0
        if not any(counts):
            del self._of_roles[role]


def _maker(pod: Pod) -> str:
    """The UID of the controller that made it: of a JobSet, one of its Jobs."""
    return "" if pod.controller is None else pod.controller.uid


class Part(NamedTuple):
    """A part of which there is too little. ``name``: what people call it."""

    name: str
    there: int
    least: int


def short_podset(podsets: PodSets, slots: Slots, stage: Stage, more: tuple[SlotKey, ...] = ()) -> Part | None:
    """The podset that has too few: pods that somebody has moved into the gang stand for none of it. ``more`` slots are
    counted as well. Nodes are planned for all waves together."""
    also, together = [slot[0] for slot in more], stage > Stage.PROMISED
    found = podsets.short(lambda one: slots.reached(stage, one.prefix) + also.count(one.prefix), together=together)
    if found is None:
        return None
    least = found.together if together else found.least
    return Part(f"podset {found.title}", slots.reached(stage, found.prefix), least)


def short_role(minima: Minima, slots: Slots, stage: Stage, more: tuple[SlotKey, ...] = ()) -> Part | None:
    """The role that has too few; ``more`` slots are counted as well."""
    also = [slots.roles.get(slot) for slot in more]
    counted = ((role, slots.of_role(stage, role), least) for role, least in minima)
    return next(
        (Part(f"role {role}", there, least) for role, there, least in counted if there + also.count(role) < least), None
    )


def lacking_roles(minima: Minima, slots: Slots) -> Minima:
    """How many of each role have to get a node yet."""
    return tuple((role, max(0, least - slots.of_role(Stage.PROMISED, role))) for role, least in minima)


def total(size: int | Minima | None) -> int | None:
    """What members say of how many of them start together, in all."""
    return sum(least for _, least in size) if isinstance(size, tuple) else size


def by_role(size: int | Minima | None) -> Minima:
    """The same for each role, where that is said."""
    return size if isinstance(size, tuple) else ()
