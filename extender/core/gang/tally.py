"""Counts that are kept up to date: how many say what."""

from __future__ import annotations

from typing import TypeVar

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
