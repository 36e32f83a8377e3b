"""What some members say of their gang, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

from policies.model import Dialect, Minima, Pod, PodGroup, Topology
from policies.model.queues import VOLCANO

Words = tuple[Any, ...]


class Said:
    """What is said by any, by what it is about; the counts are of those who say different ``words``."""

    def __init__(self) -> None:
        self.schedulers: Tally[str] = Tally()
        self.owners: Tally[str] = Tally()
        self.priorities: Tally[int] = Tally()
        self.dialects: Tally[Dialect | None] = Tally()
        self.sizes: Tally[int | Minima | None] = Tally()
        self.topologies: Tally[Topology] = Tally()
        self.releases: Tally[str] = Tally()
        """By what is stamped on them; "" of those that have no stamp."""
        self.queues: Tally[str] = Tally()
        self._tallies: tuple[Tally[Any], ...] = tuple(vars(self).values())
        self._stated: list[int | Minima | None] | None = None
        self.words: Tally[Words] = Tally()
        """All of that. Most often all members say the same: only who says something else is looked at more closely."""

    @property
    def stated(self) -> list[int | Minima | None]:
        """The sizes. In YuniKorn's words the first member may say it for all: those who say nothing do not count."""
        if self._stated is None:
            anyone = Dialect.YUNIKORN not in self.dialects
            self._stated = [size for size in self.sizes if anyone or size is not None]
        return self._stated

    @property
    def owner(self) -> str:
        """The controller of most of them; the first of several with as many."""
        pods: Counter[str] = Counter()
        for (_, owner, *_), count in self.words.items():
            pods[owner] += count
        return max(pods, key=pods.__getitem__, default="")

    def queue(self, of_group: str) -> str:
        """The LocalQueue that the members name, who agree, else their PodGroup, which names ``of_group``. A Queue of
        Volcano counts where nobody names a LocalQueue, that of the PodGroup first, as in Volcano."""
        of_pods = next(iter(self.queues), "")
        named = (of_pods, of_group)
        return next((one for one in named if one and not one.startswith(VOLCANO)), of_group or of_pods)

    def of(self, owner: str) -> Said:
        """What is said by those of one owner, each of it once; what all say if it is empty."""
        if not owner:
            return self
        found = Said()
        for words in self.words:
            if words[1] == owner:
                found.replace((), words)
        return found

    def replace(self, before: Words, after: Words) -> bool:
        """Count what one says in place of what it said. Returns whether anything is new or gone."""
        if before == after:
            return False
        gone = bool(before) and self.words.take(before)
        new = bool(after) and self.words.add(after)
        for tally, value in zip(self._tallies, before if gone else (), strict=False):
            tally.take(value)
        for tally, value in zip(self._tallies, after if new else (), strict=False):
            tally.add(value)
        if gone or new:
            self._stated = None
        return gone or new


def words_of(pod: Pod | None) -> Words:
    """What a member says; of none nothing."""
    if pod is None:
        return ()
    group = pod.group
    dialect, size = (None, None) if group is None else (group.dialect, group.minima or group.min_member)
    release = "" if pod.stamp is None else pod.stamp.release
    return pod.scheduler, pod.owner, pod.priority, dialect, size, pod.topology, release, pod.named_queue


def means(pod: Pod, group: PodGroup) -> bool:
    """Whether its gang is what this PodGroup of its name says."""
    return pod.group is not None and pod.group.dialect is group.dialect


T = TypeVar("T")


class Tally(dict[T, int]):
    """How many members say so, for each thing that is said by any."""

    def add(self, value: T) -> bool:
        """Whether it is said for the first time."""
        count = self.get(value, 0)
        self[value] = count + 1
        return not count

    def take(self, value: T) -> bool:
        """Whether nobody says it any more."""
        count = self[value] - 1
        if count:
            self[value] = count
        else:
            del self[value]
        return not count
