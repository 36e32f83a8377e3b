"""The slots of a workload: how far each has come by the best of its pods, and which lack a node.

A slot is one place of a podset: a completion index, or a pod without an index. A job says which pods to expect before
they exist. An expected slot is planned by its template, and keeps its node for the pod that fills it. The slots decide
whether enough of each podset of a job, or of each role of a gang of pods, have come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from itertools import chain
from typing import NamedTuple

from policies.model import Minima, Pod, PodSet, PodSets, SlotKey

_NOBODY = ""
"""UID that stands in an expected slot without a pod."""
_ENDED = "ended"
"""UID that stands in a finished slot, whether or not its pod still exists."""


class Stage(IntEnum):
    """How far a slot has come. Each stage includes the earlier ones."""

    ABSENT = 0
    THERE = 1
    PROMISED = 2
    ARRIVED = 3
    """At bind: the bind request is held, or the Binding is being written."""
    BOUND = 4
    """Bound, or finished well in the same start."""


class Slots:
    """The slots, with the stage of each.

    ``lacking``: slots that are there and have neither a node nor the promise of one.
    """

    def __init__(self) -> None:
        self.lacking: dict[SlotKey, None] = {}
        self._stages: dict[SlotKey, dict[str, Stage]] = {}
        self._counts = [0] * len(Stage)
        self.of_podsets: dict[str, list[int]] = {}
        """Counts of slots by stage for each podset of a job, by the first part of its slots' keys."""
        self.roles: dict[SlotKey, str] = {}
        """The role of each slot whose pods declare one, in a gang with minima for its roles."""
        self._of_roles: dict[str, list[int]] = {}
        self.templates: dict[SlotKey, Pod] = {}
        """The template of each expected slot: what its pod will ask for."""
        self.indexed: frozenset[str] = frozenset()
        """The podsets whose pods say by their index which slot is theirs, by the first part of the slots' keys."""
        self.planned: dict[SlotKey, str] = {}
        """The nodes of expected slots without a pod."""
        self.turns: dict[SlotKey, int] = {}
        """The rounds of planned slots that are steered later than others."""
        self._completions: dict[str, tuple[int, int]] = {}
        """The number of slots, and of pods that have to end well, of podsets whose pods come one after the other."""
        self._ended: Counter[tuple[str, str]] = Counter()
        """How many pods have ended well, by podset and controller."""
        self.done: set[SlotKey] = set()
        """Expected slots whose pods have ended well, by the status of their job: they need no node."""
        self._vacant: dict[SlotKey, None] = {}
        """Expected slots without a pod."""
        self._by_wave: Counter[int] = Counter()
        """How many slots of each wave are planned."""

    def reached(self, stage: Stage, podset: str = "") -> int:
        """How many slots have reached the stage; ``podset``: of this podset only."""
        counts = self.of_podsets[podset] if podset else self._counts
        return counts[Stage.BOUND] if stage is Stage.BOUND else sum(counts[stage:])

    def of_role(self, stage: Stage, role: str) -> int:
        """How many slots of that role have reached the stage."""
        return sum(self._of_roles.get(role, ())[stage:])

    def __contains__(self, slot: SlotKey) -> bool:
        """Whether the slot is expected, or a pod stands in it."""
        return slot in self._stages

    def set_role(self, pod: Pod) -> None:
        """Set the role of a slot by the pod that is placed for it."""
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
        """The template and the node of each planned slot without a pod."""
        return [(self.templates[slot], node) for slot, node in self.planned.items()]

    def uncreated(self, wave: float) -> int:
        """How many planned slots of waves up to this one have no pod."""
        return sum(count for at, count in self._by_wave.items() if at <= wave)

    def pods(self, slot: SlotKey) -> list[str]:
        """UIDs of the pods that stand in the slot."""
        return [] if slot in self._vacant else [uid for uid in self._stages.get(slot, ()) if uid is not _ENDED]

    def record_finished(self, pod: Pod) -> int:
        """Record that a pod of a podset has succeeded. Returns its ordinal, which each new Job counts from one.

        A pod that had ended before a restart has no slot.
        """
        made = f"{pod.owner}{pod.series}", _maker(pod)
        self._ended[made] += 1
        return self._ended[made]

    @property
    def ended(self) -> int:
        """How many pods have ended well, including pods that are gone."""
        return sum(self._ended.values())

    @property
    def in_turn(self) -> bool:
        """Whether pods of some podset come one after the other."""
        return bool(self._completions)

    def closed(self, podset: str, pod: Pod | None) -> int:
        """How many slots of a podset no pod will fill any more. ``pod``: the newest pod of the podset."""
        size, completions = self._completions.get(podset, (0, 0))
        if not completions or pod is None:
            return 0
        return max(0, size - max(0, completions - self._ended[podset, _maker(pod)]))

    def refills(self, slot: SlotKey, ended: int) -> bool:
        """Whether another pod comes to the slot when ``ended`` pods of its podset have ended well."""
        size, completions = self._completions.get(slot[0], (0, 0))
        return ended + size <= completions

    def takes_any_slot(self, pod: Pod) -> bool:
        """Whether the pod takes any free slot.

        Such a pod has no index, or one that names no slot, like the index of a Job with more completions than pods.
        """
        return pod.index is None or (pod.identity[0] in self.of_podsets and pod.identity[0] not in self.indexed)

    def vacant_slot(self, podset: str, node: str | None, plan: Mapping[SlotKey, str]) -> int | None:
        """A slot without a pod, as its number in the podset; None without one.

        ``podset``: the first part of the slots' keys.
        ``node``: the node of a pod that is bound already. A slot that ``plan`` has on this node is preferred.
        """
        there = (slot for slot in self._vacant if node and slot[0] == podset and plan.get(slot) == node)
        first = (slot for slot in self._vacant if slot[0] == podset)
        return next((int(slot[1]) for slot in chain(there, first)), None)

    def set_stage(self, slot: SlotKey, uid: str, stage: Stage) -> None:
        """Set the stage that this pod gives its slot; ABSENT removes the pod."""
        pods = self._stages.get(slot)
        if pods is not None and len(pods) == 1 and uid in pods and stage is not Stage.ABSENT:
            # The usual case: one pod in a slot.
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
        """The template of the first expected slot."""
        return next(iter(self.templates.values()), None)

    def expect(self, podsets: Sequence[PodSet]) -> None:
        """Set the podsets whose pods will come, and forget which slots are done. New slots have no node."""
        self.set_done(())
        before, self.templates = self.templates, {pod.identity: pod for podset in podsets for pod in podset.pods()}
        self.indexed = frozenset(podset.prefix for podset in podsets if podset.indexed)
        self.of_podsets = {podset.prefix: [0] * len(Stage) for podset in podsets}
        self._completions = {
            podset.prefix: (podset.size, podset.completions) for podset in podsets if podset.completions
        }
        for slot, pods in self._stages.items() if podsets else ():
            if (counts := self.of_podsets.get(slot[0])) is not None:
                counts[max(pods.values())] += 1
        for slot in [slot for slot in before if slot not in self.templates]:
            self._vacant.pop(slot, None)
            self.set_stage(slot, _NOBODY, Stage.ABSENT)
        self._by_wave = Counter(self.templates[slot].wave for slot in self.planned if slot in self.templates)
        for slot in self.templates:
            if slot not in self._stages:
                self._vacant[slot] = None
                self.set_stage(slot, _NOBODY, Stage.THERE)
                self.set_role(self.templates[slot])

    def set_done(self, done: Collection[SlotKey]) -> bool:
        """Set which expected slots are done. Returns whether that changes anything."""
        before, self.done = self.done, {slot for slot in done if slot in self.templates}
        changed = sorted(self.done.symmetric_difference(before))
        for slot in changed:
            self.set_stage(slot, _ENDED, Stage.BOUND if slot in self.done else Stage.ABSENT)
        return bool(changed)

    def plan(self, slot: SlotKey, node: str, turn: int = 0) -> None:
        """Promise a node to the pod that will fill the slot; an empty one revokes the promise."""
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
            self.set_stage(slot, _NOBODY, self._empty(slot))

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
        if self.roles:
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
    """The UID of the controller that made the pod: for a JobSet, one of its Jobs."""
    return "" if pod.controller is None else pod.controller.uid


class QuorumShortfall(NamedTuple):
    """A podset or role with too few slots at a stage. ``name``: as people read it."""

    name: str
    there: int
    least: int


def short_podset(podsets: PodSets, slots: Slots, stage: Stage, more: tuple[SlotKey, ...]) -> QuorumShortfall | None:
    """The podset that has too few slots at the stage; None if none has.

    Pods that a user moved into the gang count for no podset. ``more``: slots that count as well. Up to
    PROMISED each podset needs enough slots for all of its waves, which are planned together.
    """
    also, together = [slot[0] for slot in more], stage > Stage.PROMISED
    podset = podsets.short(
        lambda podset: slots.reached(stage, podset.prefix) + also.count(podset.prefix), together=together
    )
    if podset is None:
        return None
    least = podset.together if together else podset.least
    return QuorumShortfall(f"podset {podset.title}", slots.reached(stage, podset.prefix), least)


def short_role(minima: Minima, slots: Slots, stage: Stage, more: tuple[SlotKey, ...]) -> QuorumShortfall | None:
    """The role that has too few slots at the stage; None if none has. ``more``: slots that count as well."""
    also = [slots.roles.get(slot) for slot in more]
    counted = ((role, slots.of_role(stage, role), least) for role, least in minima)
    return next(
        (
            QuorumShortfall(f"role {role}", there, least)
            for role, there, least in counted
            if there + also.count(role) < least
        ),
        None,
    )


def lacking_roles(minima: Minima, slots: Slots) -> Minima:
    """How many more slots of each role need a node."""
    return tuple((role, max(0, least - slots.of_role(Stage.PROMISED, role))) for role, least in minima)


def total(size: int | Minima | None) -> int | None:
    """How many members have to start together in all, by a declared size."""
    return sum(least for _, least in size) if isinstance(size, tuple) else size


def by_role(size: int | Minima | None) -> Minima:
    """How many members of each role have to start together, by a declared size; empty if it names no roles."""
    return size if isinstance(size, tuple) else ()
