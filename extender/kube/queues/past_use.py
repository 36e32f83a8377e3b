"""The past use of a LocalQueue, in its status. The field is Kueue's (``admissionFairSharingStatus``)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from extender.kube.convert import instant
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE
from extender.kube.reading.plain import plain
from policies.model.quantities import exact
from policies.model.queues import PastUse

MOST = 256
"""Most resources that are read: more than an object can have quota of."""


class _Status(Struct, rename="camel"):
    consumed_resources: dict[str, str | int | float] | None = None
    last_update: str | None = None


_STATUS = msgspec.json.Decoder(_Status)


def past_use_from(raw: msgspec.Raw) -> PastUse | None:
    """Parse the past use; None if it cannot be read, which counts as no use."""
    try:
        status = _STATUS.decode(raw or b"{}")
        if not status.last_update:
            return None
        at = instant(status.last_update)
        consumption = list((status.consumed_resources or {}).items())[:MOST]
        consumed = {plain(name): float(exact(amount)) * _units(name) for name, amount in consumption}
    except (*UNDECODABLE, UnreadableError, ValueError, OverflowError):
        return None
    return PastUse({name: amount for name, amount in consumed.items() if amount > 0}, at)


def past_use_to(past: PastUse) -> dict[str, Any]:
    return {
        "consumedResources": {name: _amount(name, much) for name, much in sorted(past.consumed.items())},
        "lastUpdate": datetime.fromtimestamp(past.at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
    }


def _amount(resource: str, much: float) -> str:
    """The amount in nano units, or in milli units if that would be too many digits."""
    nano = round(much / _units(resource) * 1e9)
    return f"{nano}n" if nano < 10**15 else f"{round(nano / 1e6)}m"


def _units(resource: str) -> int:
    """Units of a resource in a whole one: cpu is counted in millicores."""
    return 1000 if resource == "cpu" else 1
