"""The room that is kept for a workload, as ``muster.dev/preempting`` and ``muster.dev/reserved`` say it."""

from __future__ import annotations

import json

from msgspec import Struct

from extender.core.effects import Reserve
from extender.core.instants import LATEST
from extender.kube.reading.plain import is_identifier, is_name, is_resource, json_of
from policies.model import GroupKey, Requests, Reservation, Victim

PREEMPTING = "muster.dev/preempting"
"""On the job, or on one pod of the gang, for which others are being evicted."""
RESERVED = "muster.dev/reserved"
"""On the job, or on one pod of the gang, that waits until others have ended by themselves."""
RESERVATIONS = (PREEMPTING, RESERVED)
_MOST = 20_000
"""Nodes or victims of one reservation."""
_MOST_OF_ONE = 1 << 55
"""Of one resource on one node: as much as a pod can ask for."""


class _Written(Struct):
    """As ``reservation_text`` writes it."""

    rooms: list[tuple[dict[str, int], list[str]]]
    victims: list[tuple[str, str, str, list[str]]]
    until: float


def annotation_of(effect: Reserve) -> tuple[str, str | None]:
    """Return the annotation that the effect changes, and its new text; None takes it off."""
    text = None if effect.reservation is None else reservation_text(effect.reservation)
    return RESERVED if effect.backfill else PREEMPTING, text


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


def reservation_from(text: str | None) -> Reservation | None:
    """Return what ``reservation_text`` wrote. None where there is no text, or nobody can have written it by that."""
    written = json_of(text, _Written)
    if written is None or not 0 <= written.until <= LATEST:
        return None
    if max(sum(len(nodes) for _, nodes in written.rooms), len(written.victims)) > _MOST:
        return None
    if not all(_is_room(requests) and all(map(is_name, nodes)) for requests, nodes in written.rooms):
        return None
    if not all(map(_is_victim, written.victims)):
        return None
    rooms = tuple((node, tuple(sorted(requests.items()))) for requests, nodes in written.rooms for node in nodes)
    victims = tuple(
        Victim(GroupKey(namespace, name), pod, tuple(releases)) for namespace, name, pod, releases in written.victims
    )
    return Reservation(rooms, victims, written.until)


def _is_room(requests: dict[str, int]) -> bool:
    return all(is_resource(name) and 0 < amount <= _MOST_OF_ONE for name, amount in requests.items())


def _is_victim(victim: tuple[str, str, str, list[str]]) -> bool:
    namespace, name, pod, releases = victim
    return is_name(namespace) and all(map(is_identifier, (name, pod, *releases)))
