"""Room that may be in use: a Binding was sent, and its outcome is unknown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from policies.model import GroupKey, Requests

DOUBT_S = 20.0
"""How long the room of a Binding that may have been written stays promised, unless the watch tells before."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Room on a node. ``until``: when it ends by itself."""

    gang: GroupKey | None
    node: str
    requests: Requests
    until: float = float("inf")


class Doubts:
    """The room of Bindings with an unknown outcome.

    ``minded``: closed to all other pods; for a single pod only for ``DOUBT_S``. The room of a member is a promise
      again afterwards, until the core reports the gang as forgotten.
    ``waived``: open to all pods: kube-scheduler would exclude the node where the pod may have been bound.
    """

    def __init__(self) -> None:
        self.minded: dict[str, Claim] = {}
        self.waived: dict[str, Claim] = {}

    def get(self, uid: str) -> Claim | None:
        return self.minded.get(uid) or self.waived.get(uid)

    def of(self, gang: GroupKey, now: float) -> bool:
        """Whether a Binding of it may have been written."""
        there = (*self.minded.values(), *self.waived.values())
        return any(claim.gang == gang and now < claim.until for claim in there)

    def any_of(self, gang: GroupKey) -> bool:
        """Whether a Binding of it may have been written, however long ago."""
        return any(claim.gang == gang for claim in (*self.minded.values(), *self.waived.values()))

    def begin(self, uid: str, claim: Claim, now: float) -> None:
        self.waived.pop(uid, None)
        self.minded[uid] = replace(claim, until=now + DOUBT_S)

    def waive(self, uid: str) -> bool:
        """Whether it was minded."""
        doubt = self.minded.pop(uid, None)
        if doubt is not None:
            self.waived[uid] = doubt
        return doubt is not None

    def end(self, uid: str) -> bool:
        """Record that the outcome is known. Returns whether the room was minded."""
        self.waived.pop(uid, None)
        return self.minded.pop(uid, None) is not None

    def lapse(self, now: float) -> Iterator[tuple[str, Claim]]:
        """Yield the claims that have been minded for long enough."""
        for uid in [uid for uid, claim in self.minded.items() if now >= claim.until]:
            yield uid, replace(self.minded.pop(uid), until=float("inf"))

    def forget(self, gang: GroupKey, now: float) -> None:
        """Drop the gang's waived claims, because its promises are revoked."""
        old = [uid for uid, claim in self.waived.items() if claim.gang == gang and now >= claim.until]
        for uid in old:
            del self.waived[uid]
