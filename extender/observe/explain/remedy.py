"""A remedy for a waiting workload, and how much it helps; and how few workloads have to end for one to start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeVar

from policies.steps import Steps

T = TypeVar("T")

_NAMED = 4
MOST_ENDS = 8
"""The most workloads whose ends are looked at together: longer advice helps no user."""


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


def fewest(singles: Iterable[T], largest: Sequence[T], enough: Callable[[Sequence[T]], Steps[bool]]) -> Steps[list[T]]:
    """Choose a few whose ends together are ``enough``; none if no choice is found.

    The first of ``singles`` that is enough alone; else the first few of ``largest``, without superfluous ones.
    """
    for single in singles:
        if (yield from enough([single])):
            return [single]
    for count in range(2, min(len(largest), MOST_ENDS) + 1):
        if (yield from enough(chosen := largest[:count])):
            for end in reversed(largest[:count]):
                rest = [other for other in chosen if other is not end]
                if (yield from enough(rest)):
                    chosen = rest
            return [*chosen]
    return []
