"""Gangs that are being started, and who stands back for them: a topology spread counts members of both.

kube-scheduler counts pods as they come. Two such gangs at once are refused in most orders, and begin anew each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from extender.core.reasons import Reason
from extender.core.workload import Workload
from policies.model import GroupKey, Labels, Pod, Spread

_spread_of = attrgetter("constraints.spread")

Kind = tuple[str, Labels, tuple[Spread, ...]]
"""What matters of a pod here: its namespace, its labels and its spread."""


class Starting:
    """Those that are promised nodes, and not there yet. Nothing is worked out where none of them has a spread."""

    def __init__(self) -> None:
        self.pods: dict[GroupKey, Sequence[Pod]] = {}
        self._spread: dict[GroupKey, None] = {}
        self._behind: dict[GroupKey, dict[GroupKey, None]] = {}
        """Whoever stands back, by the first in whose way it would be."""

    def begin(self, key: GroupKey, pods: Sequence[Pod]) -> None:
        """It was planned."""
        self.pods[key] = pods
        if any(map(_spread_of, pods)):
            self._spread[key] = None

    def __contains__(self, key: GroupKey) -> bool:
        return key in self.pods

    def go_on(self, workload: Workload) -> Iterable[GroupKey]:
        """Some are there, or are promised nothing any more. Returns who stood back for it and need not any longer."""
        key = workload.key
        if not workload.starting:
            self.pods.pop(key)
        elif key not in self._spread or workload.filling or any(map(_spread_of, _promised(workload))):
            return ()
        else:
            # Those that are there are in nobody's way, even if the others fail: their spread is not looked at again.
            self.pods[key] = list(_promised(workload))
        self._spread.pop(key, None)
        return self._behind.pop(key, ())

    def ahead(self, key: GroupKey, pods: Sequence[Pod], *, related: bool) -> Reason | None:
        """Why these stand back, if they do: the spread of another counts them, or theirs its pods."""
        others = self.pods if related and any(map(_spread_of, pods)) else self._spread
        mine = _kinds(pods) if others else []
        for other in others:
            theirs = _kinds(self.pods[other]) if other != key and other.namespace == key.namespace else []
            if _counts(mine, theirs) or _counts(theirs, mine):
                self._behind.setdefault(other, {})[key] = None
                text = f"a topology spread counts its members and those of {other.name}, which is being started"
                return Reason("SharedSpread", text, warning=False)
        return None


def _promised(workload: Workload) -> Iterator[Pod]:
    """Those that are promised nodes that they are not on yet."""
    yield from (member.pod for member in workload.members.placed.values())
    yield from (pod for pod, _ in workload.members.slots.promises())


def _kinds(pods: Iterable[Pod]) -> list[Kind]:
    return list(dict.fromkeys((pod.namespace, pod.labels, pod.constraints.spread) for pod in pods))


def _counts(some: Sequence[Kind], others: Sequence[Kind]) -> bool:
    """Whether a spread of some counts any of the others."""
    spreads = [(namespace, spread) for namespace, _, several in some for spread in several]
    return any(
        where == namespace and spread.counts(dict(labels))
        for namespace, spread in spreads
        for where, labels, _ in others
    )
