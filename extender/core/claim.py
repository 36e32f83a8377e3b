"""Claim: room on a node, whose it is and what it rests on. ``extender.core.claims`` is the book of all of them."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from policies.model import GroupKey, Requests, SlotKey


class SlotOf(NamedTuple):
    """A slot of a workload that has no pod."""

    workload: GroupKey
    slot: SlotKey


Owner = str | SlotOf
"""Whose room it is: a pod's, by its UID, or a slot's that has no pod."""


class Expected(NamedTuple):
    """A pod of no gang for which room is kept."""

    uid: str


class ClaimState(Enum):
    """What a claim rests on."""

    ASSUMED = "assumed"
    """A promise of ours."""
    RESERVED = "reserved"
    """A promise to whoever will replace a lost member."""
    AWAITED = "awaited"
    """For a workload that others give way to: what it is to have there and they no longer have."""
    BOUND = "bound"
    TERMINATING = "terminating"


_OURS = (ClaimState.ASSUMED, ClaimState.RESERVED, ClaimState.AWAITED)


class Claim(NamedTuple):
    """Room on a node. ``workload``: whose member the owner is, if it is one's. ``until``: when a reservation lapses."""

    node: str
    requests: Requests
    state: ClaimState
    workload: GroupKey | None = None
    until: float | None = None

    @property
    def promised(self) -> bool:
        """The watch has yet to confirm it."""
        return self.state in _OURS
