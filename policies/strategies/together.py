"""Together: one domain for pods that kube-scheduler places one by one, without a plan by Muster."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.api import NOBODY
from policies.model import Pod
from policies.placement.columns import Mask
from policies.placement.snapshot import Counts, Level, Rows, Snapshot

FIRST, SECOND, THIRD, OTHER = 100, 60, 30, 10
"""Scores of the nearest domains, in order, with room.

As marks the first three are so far apart that kube-scheduler's own scores do not reverse them.
"""


@dataclass(frozen=True, slots=True)
class Together:
    """Place ``count`` pods of a group in as few of the nearest domains as possible, inside one domain that holds all.

    Nothing is remembered between two pods of the group: each pod is scored by the same rules. Once a domain is
    full, its nodes are no candidates, and the next domain follows. Domains with other pods of the group come first,
    then the tightest domain with room.
    """

    count: int

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:
        if not snapshot.levels:
            return np.zeros(len(rows), dtype=np.int64)
        slots = np.where(snapshot.eligible(pod.selection), snapshot.slots(pod.requests), 0)
        nearest = snapshot.levels[0]
        inside = _around(snapshot.levels, slots, self.count, beside)
        order = _ordered(nearest, slots, self.count, beside)
        order = order[np.argsort(~_of(nearest, inside)[order], kind="stable")]
        scores = np.full(len(nearest.names) + 1, OTHER, dtype=np.int64)
        scores[0] = 0
        scores[order[:3] + 1] = (FIRST, SECOND, THIRD)[: len(order)]
        on_rows: Counts = scores[nearest.codes + 1][rows]
        return on_rows


def _around(levels: tuple[Level, ...], slots: Counts, count: int, beside: Rows) -> Mask:
    """The nodes of the best domain that holds all pods, of the nearest level with such a domain; else all nodes."""
    for level in levels:
        rooms, _ = level.tally(slots)
        order = _ordered(level, slots, count, beside)
        if len(order) and rooms[order[0]] >= count:
            return np.asarray(level.codes == order[0])
    return np.ones(len(slots), dtype=bool)


def _of(level: Level, nodes: Mask) -> Mask:
    """The domains that contain some of these nodes."""
    return level.tally(nodes.astype(np.int64))[0] > 0


def _ordered(level: Level, slots: Counts, count: int, beside: Rows) -> Rows:
    """The domains with room, in order: most pods of the group, then the tightest with room for all, then the
    roomiest."""
    rooms, _ = level.tally(slots)
    there = np.bincount(level.codes[beside] + 1, minlength=len(level.names) + 1)[1:]
    size = np.where(rooms >= count, rooms, -rooms)
    order = np.lexsort((level.rank, size, rooms < count, -there))
    with_room: Rows = order[rooms[order] > 0]
    return with_room
