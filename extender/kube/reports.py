"""A gang's reason in the two places where people look: an Event, and a condition of the PodGroup if there is one."""

from __future__ import annotations

import socket
import time
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any

from extender.core.effects import Report
from extender.kube.client import Kube
from extender.kube.connection import ApiError
from policies.model import GroupKey

CONDITION = "Scheduled"
CONTROLLER = "muster.dev/extender"
_LONGEST_NOTE = 1024  # bytes, a limit of the API
_REMEMBERED = 10_000


class Reporter:
    """Remembers what was told last of each gang, and tells nothing twice in a row."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._instance = socket.gethostname()[:128] or "muster"
        self._told: dict[GroupKey, tuple[str, str, str]] = {}

    async def tell(self, report: Report) -> None:
        """Raises ApiError; a namespace or PodGroup that is gone is not an error."""
        regarding = _regarding(report)
        if regarding is None:
            return
        said = (regarding["uid"], report.code, report.message)
        if self._told.get(report.key) == said:
            return
        self._remember(report.key, said)
        try:
            await self._unless_gone(self._kube.create_event(report.key.namespace, self._event(report, regarding)))
            if report.group_uid is not None:
                await self._unless_gone(
                    self._kube.patch_podgroup_status(
                        report.key.namespace, report.key.name, report.group_uid, {"conditions": [_condition(report)]}
                    )
                )
        except ApiError:
            self._told.pop(report.key, None)
            raise

    def _remember(self, key: GroupKey, said: tuple[str, str, str]) -> None:
        self._told.pop(key, None)
        self._told[key] = said
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]

    def _event(self, report: Report, regarding: dict[str, str]) -> dict[str, Any]:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": _event_name(regarding["name"]), "namespace": report.key.namespace},
            "eventTime": instant("microseconds"),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Scheduling",
            "type": "Warning" if report.warning else "Normal",
            "reason": report.code,
            "note": _note(report.message),
            "regarding": regarding,
        }

    async def _unless_gone(self, writing: Awaitable[None]) -> None:
        try:
            await writing
        except ApiError as error:
            if error.status != 404 and "being terminated" not in error.message:
                raise


def instant(precision: str) -> str:
    """The present as the API writes it; precision "seconds" or "microseconds"."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _regarding(report: Report) -> dict[str, str] | None:
    """The PodGroup object, else one member; None when the gang has neither."""
    if report.group_uid is not None:
        kind, version, uid, name = "PodGroup", "scheduling.x-k8s.io/v1alpha1", report.group_uid, report.key.name
    elif report.member is not None:
        kind, version, (uid, name) = "Pod", "v1", report.member
    else:
        return None
    return {"kind": kind, "apiVersion": version, "namespace": report.key.namespace, "name": name, "uid": uid}


def _condition(report: Report) -> dict[str, str]:
    return {
        "type": CONDITION,
        "status": "True" if report.code == "Running" else "False",
        "lastTransitionTime": instant("seconds"),
        "reason": report.code,
        "message": report.message,
    }


def _event_name(name: str) -> str:
    """Unique, and still an object name when the other one was as long as a name can be."""
    return f"{name[:230].rstrip('-.')}.{time.time_ns():x}"


def _note(message: str) -> str:
    whole = message.encode("utf-8", "replace")
    return whole.decode() if len(whole) <= _LONGEST_NOTE else whole[: _LONGEST_NOTE - 3].decode(errors="ignore") + "..."
