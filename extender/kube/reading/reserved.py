"""The room that is kept for a workload, as its annotation ``muster.dev/preempting`` says it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from policies.model import GroupKey, Requests, Reservation, Victim

PREEMPTING = "muster.dev/preempting"
"""On the job, or on one pod of the gang, for which others are being evicted."""
_MOST = 20_000
"""Nodes or victims of one reservation."""


def reservation_text(reservation: Reservation) -> str:
    """Nodes with the same room are said together: ``{"rooms": [[{"cpu": 1000}, ["n1", "n2"]]], ...}``."""
    rooms: dict[Requests, list[str]] = {}
    for node, requests in reservation.rooms:
        rooms.setdefault(requests, []).append(node)
    said = {
        "rooms": [[dict(requests), nodes] for requests, nodes in rooms.items()],
        "victims": [[one.key.namespace, one.key.name, one.pod, list(one.releases)] for one in reservation.victims],
        "until": round(reservation.until, 3),
    }
    return json.dumps(said, separators=(",", ":"))


def reservation_of(annotations: Mapping[str, str] | None) -> Reservation | None:
    """None where there is none, or nobody can have written it by ``reservation_text``."""
    if not (text := (annotations or {}).get(PREEMPTING)):
        return None
    try:
        said = json.loads(text)
        rooms = tuple((_name(node), _requests(asked)) for asked, nodes in said["rooms"] for node in nodes)
        victims = tuple(
            Victim(GroupKey(_name(namespace), _name(name)), _name(pod), tuple(map(_name, releases)))
            for namespace, name, pod, releases in said["victims"]
        )
        found = Reservation(rooms, victims, float(said["until"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
    return found if max(len(rooms), len(victims)) <= _MOST else None


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _requests(asked: Any) -> Requests:
    found = tuple(sorted((_name(name), amount) for name, amount in asked.items()))
    if any(not isinstance(amount, int) or not 0 < amount < 1 << 62 for _, amount in found):
        raise ValueError
    return found
