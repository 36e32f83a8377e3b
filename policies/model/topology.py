"""What a pod or a PodGroup asks of the topology."""

from __future__ import annotations

from typing import NamedTuple

WHOLE_ROLE = 999_999_999
"""The size of a slice that holds all members of its series, whatever their number: they need no index for that."""
NO_LEVEL = "none"
"""What a request says in place of a level to ask for none."""


class Topology(NamedTuple):
    """What is asked of the topology: levels by short name or label key, or ``none``; None where nothing is said.

    ``slice_size`` members with consecutive indexes share one domain of ``slice_level`` (the nearest unless said).
    ``around``: larger slices made of whole smaller ones, by size and level, from the nearest level to the farthest.
    """

    required: str | None = None
    preferred: str | None = None
    slice_size: int | None = None
    slice_level: str | None = None
    around: tuple[tuple[int, str], ...] = ()

    def over(self, other: Topology) -> Topology:
        """What a pod says, and where it says nothing what its PodGroup says; all of the slices goes together."""
        if other == SILENT:
            return self
        sliced = other if self.slice_size is None else self
        return sliced._replace(required=self.required or other.required, preferred=self.preferred or other.preferred)

    def __str__(self) -> str:
        said = [("required", self.required), ("preferred", self.preferred), ("slices of", self.slice_size)]
        texts = [f"{what} {value}" for what, value in said if value is not None]
        texts += [f"in {self.slice_level}"] if self.slice_level else []
        return ", ".join(texts + [f"of {size} in {level}" for size, level in self.around]) or "nothing"


SILENT = Topology()
"""A pod or PodGroup that says nothing of the topology."""
