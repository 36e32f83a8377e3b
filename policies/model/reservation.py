"""Room that is kept for a workload until others have given it back, as it is written on that workload."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from policies.model.group import GroupKey
from policies.model.node import Requests


class Victim(NamedTuple):
    """Who gives room back. ``pod``: the UID of a pod of no gang, or empty. ``releases``: those that the pods of a gang
    were bound by: one that has started again since is another one."""

    key: GroupKey
    pod: str = ""
    releases: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"pod {self.key}" if self.pod else str(self.key)


@dataclass(frozen=True, slots=True)
class Reservation:
    """``rooms``: nodes, and what of each is for the preemptor. ``until``: when it ends, in seconds since the epoch."""

    rooms: tuple[tuple[str, Requests], ...]
    victims: tuple[Victim, ...]
    until: float
