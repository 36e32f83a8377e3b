"""A remedy for a waiting workload, and how much it helps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

_NAMED = 4


class Help(IntEnum):
    """How much a remedy helps; the most helpful comes first."""

    DONE = 0
    """Nothing has to be done."""
    OPEN = 1
    """Existing nodes are opened to it: it starts at once."""
    NEVER = 2
    """Without this it can never start."""
    EASE = 3
    """The workload demands less: it starts at once."""
    WAIT = 4
    """The workload starts when others have ended."""
    MORE = 5
    """The workload starts with more nodes or quota."""
    PART = 6
    """A help that may not suffice."""


class Remedy(NamedTuple):
    """``text``: an imperative sentence for the owner of the workload."""

    help: Help
    text: str


def never_starts(remedies: Iterable[Remedy]) -> bool:
    """Whether the workload never starts unless one of these remedies is followed."""
    return any(remedy.help is Help.NEVER for remedy in remedies)


def all_of(names: Sequence[str]) -> str:
    """The names in words: ``"a, b, c, d and 3 more"``."""
    shown = [*names[:_NAMED], *([f"{len(names) - _NAMED} more"] if len(names) > _NAMED else [])]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
