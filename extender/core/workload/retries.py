"""What a workload has failed at, and when it may be tried again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from extender.core.instants import pause_s
from policies.placement.request import Cap, MemberShape

_FREE_TRIES = 3
"""Nodes that may refuse a gang before it rests between one try and the next."""
_REMEMBERED = 10
"""A node that refuses is remembered so much longer, at most, than a gang rests: meanwhile others are tried."""


@dataclass(slots=True)
class Retries:
    """``not_before``: the instant before which it is not planned. ``nodes``: by node and shape, how many members
    kube-scheduler would let in, and the instant from which more may be tried again. ``refusals``: in a row, until it
    starts. ``singly``: the members of a node are tried one by one. ``words``: what kube-scheduler said last.
    ``version`` grows with every change that a plan depends on.
    """

    not_before: float = 0.0
    failures: int = 0
    nodes: dict[tuple[str, MemberShape], tuple[int, float]] = field(default_factory=dict)
    refusals: int = 0
    singly: bool = False
    words: str = ""
    version: int = 0

    @property
    def resting(self) -> bool:
        """It is refused again and again, and rests between one try and the next."""
        return self.refusals > _FREE_TRIES

    def fail(self, now: float, most_s: float) -> None:
        """It failed in a way that trying again at once would not mend.

        Members that share a node are tried one by one after a refusal, which may take longer than there is time. But
        the row of refusals goes on: what is remembered of the nodes has to last longer than this pause, or each try
        at once would be spent on a node that refuses.
        """
        self.failures += 1
        self.singly = False
        self.pause(now + pause_s(self.failures, 1.0, most_s))

    def rest_long(self, now: float, most_s: float) -> None:
        """It failed like that, and each try is dear."""
        self.pause(now + pause_s(self.failures, 1.0, _REMEMBERED * most_s))

    def pause(self, until: float) -> None:
        """It is not its turn."""
        self.not_before = max(self.not_before, until)

    @property
    def caps(self) -> tuple[Cap, ...]:
        """What is not to be planned again."""
        return tuple(cap for cap, _ in self.remembered())

    def remembered(self) -> Iterator[tuple[Cap, float]]:
        """What was refused, and until when that counts."""
        return ((Cap(node, shape, most), until) for (node, shape), (most, until) in self.nodes.items())

    def refuse(self, caps: Iterable[Cap], now: float, most_s: float, first_s: float, *, related: bool = False) -> None:
        """kube-scheduler would not have so many members on these nodes: that is planned around for a while, and for
        long where it has let some in; not so long where how many it lets in may change with other pods (``related``).
        """
        self.refusals += 1
        self.singly = True
        until = now + pause_s(self.refusals, first_s, _REMEMBERED * most_s)
        lasting = max(until, now + most_s) if related else now + _REMEMBERED * most_s
        self.nodes |= {(cap.node, cap.shape): (cap.most, lasting if cap.most else until) for cap in caps}
        self.version += 1

    def insist(self) -> None:
        """Nobody else is to be blamed: it rests after the next refusal."""
        self.refusals = max(self.refusals, _FREE_TRIES)

    def hear(self, words: str) -> bool:
        """What kube-scheduler says of a refusal that was noticed before. Returns whether it had said nothing yet."""
        first = bool(words) and not self.words
        self.words = words or self.words
        return first

    def rest(self, words: str, now: float, most_s: float) -> bool:
        """One that is refused again and again holds no room for a while. Returns whether it rests."""
        self.hear(words)
        if self.resting:
            self.not_before = max(self.not_before, now + pause_s(self.refusals - _FREE_TRIES, 1.0, most_s))
        return self.resting

    def forgive(self, node: str, *, at_once: bool = False) -> None:
        """The node may be tried again; ``at_once``: so may the workload."""
        if left := [known for known in self.nodes if known[0] == node]:
            for known in left:
                del self.nodes[known]
            self.version += 1
        if at_once and self.refusals:
            self.not_before = 0.0
            self.version += 1

    def expire(self, now: float) -> None:
        """What has lasted long enough is over."""
        if over := [known for known, (_, until) in self.nodes.items() if now >= until]:
            for known in over:
                del self.nodes[known]
            self.version += 1
        if self.not_before and now >= self.not_before:
            self.not_before = 0.0
            self.version += 1

    def start(self) -> None:
        """It has started: the past is forgotten."""
        self.failures, self.refusals, self.singly, self.words = 0, 0, False, ""

    def forget(self) -> None:
        """Forget every failure and refusal: somebody wants it tried anew, at once."""
        self.start()
        self.nodes.clear()
        self.not_before = 0.0
        self.version += 1

    def next_end(self) -> float:
        """The first instant at which something lapses."""
        return min([self.not_before or inf, *(until for _, until in self.nodes.values())])
