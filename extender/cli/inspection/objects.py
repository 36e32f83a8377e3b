"""What the cluster's own objects say of a gang, for users who may not reach Muster: its pods and the Events on them.

The answer has the shape of Muster's own; what only Muster knows (room by domain, holds) is empty in it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from extender.kube.convert import pod_from, readable
from extender.kube.reading.objects import PodObject
from policies.model import GANG_GATE, Pod

_PATIENCE_S = 30.0
_CONTROLLER = "muster.dev/extender"
_LAST = datetime.max.replace(tzinfo=UTC)


class _Pods(msgspec.Struct):
    items: list[PodObject]


class _Regarding(msgspec.Struct):
    kind: str | None = None
    name: str | None = None


class _Event(msgspec.Struct, rename="camel"):
    """Every field may be absent: anybody may write an Event in Muster's name."""

    reason: str | None = None
    note: str | None = None
    event_time: datetime | None = None
    reporting_controller: str | None = None
    regarding: _Regarding | None = None


class _Events(msgspec.Struct):
    items: list[_Event]


def told_by_objects(kubectl: Sequence[str], namespace: str, name: str) -> dict[str, Any] | None:
    """As /explain, from pods and Events that ``kubectl`` may read; None when there is no such gang to be seen."""
    said = _got([*kubectl, f"--namespace={namespace}", "get", "pods", "--output=json"])
    if said is None:
        return None
    read = readable(pod_from, msgspec.json.decode(said, type=_Pods).items)
    pods = [pod for pod in read if pod.group is not None and pod.group.name == name]
    events = _events(kubectl, namespace, name, {pod.name for pod in pods})
    if not pods and not events:
        return None
    last = events[-1] if events else _Event("Unknown", "no Event tells: it may have just been created")
    sizes = [pod.group.min_member for pod in pods if pod.group is not None]
    gang = {
        "namespace": namespace,
        "name": name,
        "state": last.reason or "Unknown",
        "message": last.note or "",
        "for_s": _ago(last.event_time),
        "min_member": next((size for size in sizes if size is not None), None),
        "members": len(pods),
        "bound": sum(pod.node is not None for pod in pods),
        "held": 0,
        "waiting": sum(pod.node is None for pod in pods),
        "pods": [{"name": pod.name, "state": _state(pod), "node": pod.node} for pod in pods],
        "story": [(_ago(one.event_time), f"{one.reason}: {one.note}") for one in events],
    }
    empty: dict[str, Any] = {"asks": [], "places": [], "level": None, "required": False, "domains": []}
    return {"gang": gang, **empty, "domains_in_all": 0, "remedies": []}


def _events(kubectl: Sequence[str], namespace: str, gang: str, pods: set[str]) -> list[_Event]:
    """Muster's Events on any of its pods, on its PodGroup, and on the job that it is named after, the oldest first."""
    said = _got([*kubectl, f"--namespace={namespace}", "get", "events.events.k8s.io", "--output=json"])
    found = [] if said is None else msgspec.json.decode(said, type=_Events).items
    ours = [
        one
        for one in found
        if one.reporting_controller == _CONTROLLER
        and one.regarding is not None
        and _is_about(one.regarding, gang, pods)
    ]
    # The same is told on the PodGroup and on a member.
    once = {(one.reason, one.note): one for one in sorted(ours, key=lambda one: one.event_time or _LAST)}
    return list(once.values())


def _is_about(one: _Regarding, gang: str, pods: set[str]) -> bool:
    if one.kind == "Pod":
        return one.name in pods
    return gang in (one.name, f"{(one.kind or '').lower()}-{one.name}")


def _got(argv: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _state(pod: Pod) -> str:
    if pod.phase == "Pending" and GANG_GATE in pod.gates:
        return "Gated"
    return "Bound" if pod.phase == "Pending" and pod.node else pod.phase


def _ago(instant: datetime | None) -> float:
    return 0.0 if instant is None else max(0.0, (datetime.now(UTC) - instant).total_seconds())
