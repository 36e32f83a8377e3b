"""What some members say of their gang, counted."""

from __future__ import annotations

from typing import Any

from extender.core.tally import Tally
from policies.model import Pod, Topology

Words = tuple[Any, ...]


class Said:
    """How many say what."""

    def __init__(self) -> None:
        self.schedulers: Tally[str] = Tally()
        self.owners: Tally[str] = Tally()
        self.priorities: Tally[int] = Tally()
        self.dialects: Tally[str | None] = Tally()
        self.sizes: Tally[int | None] = Tally()
        self.topologies: Tally[Topology] = Tally()
        self.releases: Tally[str] = Tally()
        """By what is stamped on them; "" of those that have no stamp."""
        self._tallies: tuple[Tally[Any], ...] = tuple(vars(self).values())

    def replace(self, before: Words, after: Words) -> bool:
        """Count what one says in place of what it said. Returns whether anything is new or gone."""
        if before == after:
            return False
        gone = [tally.take(value) for tally, value in zip(self._tallies, before, strict=False)]
        new = [tally.add(value) for tally, value in zip(self._tallies, after, strict=False)]
        return any(gone) or any(new)


def words_of(pod: Pod | None) -> Words:
    """What a member says; of none nothing."""
    if pod is None:
        return ()
    dialect, size = (None, None) if pod.group is None else (pod.group.dialect, pod.group.min_member)
    release = "" if pod.stamp is None else pod.stamp.release
    return pod.scheduler, pod.owner, pod.priority, dialect, size, pod.topology, release
