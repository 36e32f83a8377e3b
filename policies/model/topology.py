"""The demands of a pod or a PodGroup on the topology."""

from __future__ import annotations

from typing import NamedTuple

WHOLE_ROLE = 999_999_999
"""The size of a slice that holds all members of its series, whatever their number. They need no index."""
NO_LEVEL = "none"
"""The word in place of a level that asks for none."""


class Topology(NamedTuple):
    """Demands on the topology: levels by short name or label key, or ``none``; None: not stated.

    ``slice_size``: that many members with consecutive indexes share one domain of ``slice_level`` (by default the
    nearest).
    ``around``: larger slices made of whole smaller ones, by size and level, from the nearest level to the farthest.
    """

    required: str | None = None
    preferred: str | None = None
    slice_size: int | None = None
    slice_level: str | None = None
    around: tuple[tuple[int, str], ...] = ()

    def over(self, other: Topology) -> Topology:
        """A pod's demands, completed by those of its PodGroup; the fields of slices are taken together."""
        if other == SILENT:
            return self
        sliced = other if self.slice_size is None else self
        return sliced._replace(required=self.required or other.required, preferred=self.preferred or other.preferred)

    def __str__(self) -> str:
        demands = [("required", self.required), ("preferred", self.preferred), ("slices of", self.slice_size)]
        texts = [f"{what} {value}" for what, value in demands if value is not None]
        texts += [f"in {self.slice_level}"] if self.slice_level else []
        return ", ".join(texts + [f"of {size} in {level}" for size, level in self.around]) or "nothing"


SILENT = Topology()
"""A pod or PodGroup without demands on the topology."""
