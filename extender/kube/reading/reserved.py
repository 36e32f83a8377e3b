"""The reservations in the annotations ``muster.dev/preempting`` and ``muster.dev/reserved``."""

from __future__ import annotations

import json

from msgspec import Struct

from extender.core.effects import Reserve
from extender.core.instants import LATEST
from extender.kube.reading.plain import is_identifier, is_name, is_resource, json_of
from policies.model import GroupKey, Requests, Reservation, Victim

PREEMPTING = "muster.dev/preempting"
"""Written on the job, or on one pod of the gang, for which victims are being evicted."""
RESERVED = "muster.dev/reserved"
"""Written on the job, or on one pod of the gang, that waits until others end by themselves."""
RESERVATIONS = (PREEMPTING, RESERVED)
_MOST = 20_000
"""Most nodes or victims of a reservation."""
_MOST_OF_ONE = 1 << 55
"""The most of one resource on one node: as much as a pod can ask for."""


class _Written(Struct):
    """A reservation as ``reservation_text`` writes it."""

    rooms: list[tuple[dict[str, int], list[str]]]
    victims: list[tuple[str, str, str, list[str]]]
    until: float


def annotation_of(effect: Reserve) -> tuple[str, str | None]:
    """The annotation that the effect changes, and its new text; None removes it."""
    text = None if effect.reservation is None else reservation_text(effect.reservation)
    return RESERVED if effect.backfill else PREEMPTING, text


def reservation_text(reservation: Reservation) -> str:
    """The reservation as JSON. Nodes with equal room share an entry: ``{"rooms": [[{"cpu": 1000}, ["n1", "n2"]]],
    ...}``."""
    rooms: dict[Requests, list[str]] = {}
    for node, requests in reservation.rooms:
        rooms.setdefault(requests, []).append(node)
    fields = {
        "rooms": [[dict(requests), nodes] for requests, nodes in rooms.items()],
        "victims": [
            [victim.key.namespace, victim.key.name, victim.pod, list(victim.releases)] for victim in reservation.victims
        ],
        "until": round(reservation.until, 3),
    }
    return json.dumps(fields, separators=(",", ":"))


def reservation_from(text: str | None) -> Reservation | None:
    """Parse a reservation; None without a text, or if ``reservation_text`` cannot have written it."""
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
