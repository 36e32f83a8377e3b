"""The referee's own book of the slots of admitted jobs: which have a node and wait for their pods."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from policies.model import GroupKey, Pod, Requests
from tests.simulation.admitted import Admission
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, take


@dataclass(slots=True)
class Slots:
    """``of``: the admitted jobs. ``departed``: those that are gone or over: their pods that wait keep their nodes until
    these are said to be forgotten."""

    known: Shown
    of: dict[GroupKey, Admission] = field(default_factory=dict)
    departed: dict[GroupKey, Admission] = field(default_factory=dict)

    def admitted(self, pod: Pod) -> Admission | None:
        found = self.of.get(pod.group_key) if pod.group_key is not None else None
        return found if found is not None and found.uid == pod.owner else None

    def unfilled(self, key: GroupKey, on_their_way: Mapping[str, str]) -> Iterator[tuple[str, str, Requests]]:
        """Slots that have a node and no pod there. ``on_their_way``: pods that have room of their own by now, there."""
        return self.of[key].unfilled(self.pods(key), on_their_way)

    def left_behind(self, key: GroupKey, on_their_way: Mapping[str, str]) -> list[tuple[str, str, Requests]]:
        """Slots that pods of a job may stand in which is gone, or over."""
        one = self.departed.get(key)
        return one.left_behind(self.pods(key), on_their_way) if one is not None else []

    def let_go(self, key: GroupKey, on_their_way: Mapping[str, str]) -> None:
        """The nodes of its pods that wait are given up."""
        self.departed.pop(key, None)
        if (admission := self.of.get(key)) is not None:
            admission.let_go(self.pods(key), on_their_way)

    def take(self, room: Room, on_their_way: Mapping[str, str], *, surely: bool) -> None:
        """What slots without pods take. ``surely``: nothing of jobs that may be stopped, or are gone."""
        for slot in [slot for key in self.departed for slot in self.left_behind(key, on_their_way)]:
            if slot[1] in room and not surely:
                take(room[slot[1]], slot[2])
        for key, admission in self.of.items():
            if surely and admission.trouble:
                continue
            for _, node, requests in self.unfilled(key, on_their_way):
                if node in room:
                    take(room[node], requests)

    def has_slot(self, pod: Pod, node: str, on_their_way: Mapping[str, str]) -> bool:
        """Whether the pod can fill a slot of its job there."""
        key = pod.group_key
        if key is None or self.admitted(pod) is None:
            return False
        return any(slot[:2] == (pod.series, node) for slot in self.unfilled(key, on_their_way))

    def nodes(self, on_their_way: Mapping[str, str]) -> set[str]:
        """Where jobs that have no cause to be stopped have slots that wait for their pods."""
        of = [key for key, one in self.of.items() if not one.trouble]
        return {slot[1] for key in of for slot in self.unfilled(key, on_their_way)}

    @property
    def awaited(self) -> bool:
        """Whether pods of some job are yet to be made."""
        return any(self.missing(key) for key in self.of)

    @property
    def ending(self) -> bool:
        """Whether some job is about to be over, or to make pods again, or is over while pods of it wait."""
        return any(one.is_ending(self.pods(key)) for book in (self.of, self.departed) for key, one in book.items())

    def crowded(self, on_their_way: Mapping[str, str]) -> bool:
        """Whether some job has pods beyond its plan, so that nobody can say which room is kept for others of it."""
        return any(one.is_crowded(self.pods(key), on_their_way) for key, one in self.of.items())

    def missing(self, key: GroupKey) -> int:
        return self.of[key].missing(self.pods(key))

    def pods(self, key: GroupKey) -> Collection[Pod]:
        return self.known.members.get(key, {}).values()
