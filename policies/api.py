"""The questions a policy answers. A policy is any class with the method; there is nothing to inherit."""

from __future__ import annotations

from typing import Protocol

from policies.model import GroupKey

SortKey = tuple[int | float | str, ...]
"""Compared as Python compares tuples: the smaller one is served first."""


class WaitingGang(Protocol):
    """What a policy may ask of a gang that waits."""

    @property
    def key(self) -> GroupKey: ...

    @property
    def priority(self) -> int:
        """The priority of its members, as their PriorityClass resolved it."""
        ...

    @property
    def created(self) -> float:
        """When its PodGroup, or else its first member, was created: seconds since the epoch."""
        ...


class QueuePolicy(Protocol):
    """Who is served first. Exactly one is in force. Called once per waiting gang and admission pass."""

    def order(self, gang: WaitingGang) -> SortKey: ...
