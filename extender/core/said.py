"""What some members say of their gang, counted."""

from __future__ import annotations

from extender.core.tally import Tally
from policies.model import Pod, Topology


class Said:
    """How many say what."""

    def __init__(self) -> None:
        self.priorities: Tally[int] = Tally()
        self.dialects: Tally[str] = Tally()
        self.sizes: Tally[int | None] = Tally()
        self.topologies: Tally[Topology] = Tally()

    def add(self, pod: Pod) -> None:
        self.priorities.add(pod.priority)
        self.dialects.add(pod.group.dialect.value if pod.group is not None else "")
        self.sizes.add(pod.group.min_member if pod.group is not None else None)
        self.topologies.add(pod.topology)

    def take(self, pod: Pod) -> None:
        self.priorities.take(pod.priority)
        self.dialects.take(pod.group.dialect.value if pod.group is not None else "")
        self.sizes.take(pod.group.min_member if pod.group is not None else None)
        self.topologies.take(pod.topology)
