"""What one gang asks of the cluster at one decision: its members by role, and the room that each node has for them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from policies.model import Pod, Requests
from policies.snapshot import Counts, Rows, Snapshot


@dataclass(frozen=True, slots=True, eq=False)
class Role:
    """Members of one shape, in rank order. ``room``: how many of them each node could take, 0 where none may go."""

    pods: tuple[Pod, ...]
    room: Counts

    @property
    def count(self) -> int:
        return len(self.pods)

    @property
    def requests(self) -> Requests:
        return self.pods[0].requests

    def cut(self, count: int) -> Role:
        """The first ``count`` of them, or all."""
        return self if count >= self.count else Role(self.pods[:count], self.room)


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """The roles, in the order in which they are to be placed. ``beside``: where other members of the gang already are,
    a row for each of them."""

    roles: tuple[Role, ...]
    beside: Rows


def roles_of(members: Sequence[Pod], refused: Collection[str], snapshot: Snapshot) -> list[Role]:
    """The members by shape, large requests first; extended resources weigh most, because the fewest nodes have them."""
    shapes: dict[object, list[Pod]] = {}
    for pod in sorted(members, key=lambda pod: pod.rank):
        shapes.setdefault((pod.requests, pod.selection), []).append(pod)
    closed = rows_of(refused, snapshot)
    roles = []
    for pods in shapes.values():
        room = snapshot.room(pods[0].requests, pods[0].selection)
        room[closed] = 0
        roles.append(Role(tuple(pods), room))
    return sorted(roles, key=lambda role: _bulk(role.requests), reverse=True)


def rows_of(names: Collection[str], snapshot: Snapshot) -> Rows:
    """The rows of those nodes that exist."""
    rows = (snapshot.rows.get(name) for name in names)
    return np.array([row for row in rows if row is not None], dtype=np.intp)


def _bulk(requests: Requests) -> tuple[int, int, int]:
    amounts = dict(requests)
    scarce = sum(amount for name, amount in requests if "/" in name)
    return scarce, amounts.get("cpu", 0), amounts.get("memory", 0)
