"""Explains a gang by the cluster's own objects, for users who may not reach Muster: pods, PodGroups, Jobs and Events.

The answer has the shape of Muster's own; what only Muster knows (room by domain, holds) is empty in it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import msgspec

from extender.api.models import Explanation, GangView, MemberView
from extender.cli.inspection.names import Known, chosen, known_by, readings
from extender.kube.convert import pod_from, readable
from extender.kube.kinds.registry import asks
from extender.kube.reading.objects import Meta, PodObject
from policies.model import GANG_GATE, Pod

_PATIENCE_S = 30.0
_CONTROLLER = "muster.dev/extender"
_LAST = datetime.max.replace(tzinfo=UTC)
_GROUPS = ("scheduling.x-k8s.io", "scheduling.volcano.sh", "scheduling.run.ai")


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


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """The spec of a PodGroup of any kind, or of a Job."""

    min_member: int | None = None
    min_available: int | None = None
    suspend: bool | None = None
    parallelism: int | None = None


class _Object(msgspec.Struct):
    metadata: Meta = msgspec.field(default_factory=Meta)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Objects(msgspec.Struct):
    items: list[_Object]


@dataclass
class _Namespace:
    """The objects of one namespace that may be read. ``groups`` and ``jobs`` by name; only jobs that Muster admits."""

    name: str
    pods: list[Pod] = field(default_factory=list)
    groups: dict[str, _Object] = field(default_factory=dict)
    jobs: dict[str, _Object] = field(default_factory=dict)
    events: list[_Event] = field(default_factory=list)

    def known(self) -> Iterable[Known]:
        """Return what each gang is known by, as far as these objects tell."""
        gangs = known_by(self.name, self.pods)

        def add(gang: str, made_by: str) -> None:
            known = gangs.get(gang, Known(self.name, gang))
            if made_by not in known.objects:
                gangs[gang] = replace(known, objects=[*known.objects, made_by])

        for group in self.groups:
            add(group, f"podgroup/{group}")
        there = {made_by for known in gangs.values() for made_by in known.objects}
        makers = [("job", name) for name in self.jobs]
        makers += [
            ((event.regarding.kind or "").lower(), event.regarding.name or "")
            for event in self.events
            if event.regarding is not None and event.regarding.kind not in ("Pod", "PodGroup", None)
        ]
        for kind, name in makers:
            if f"{kind}/{name}" not in there:
                add(f"{kind}-{name}", f"{kind}/{name}")
        return gangs.values()


def explained_by_objects(kubectl: Sequence[str], typed: str, namespace: str | None, default: str) -> Explanation | None:
    """Answer as /explain does, by what ``kubectl`` may read; None if that is nothing. Raises NameProblemError."""
    places = dict.fromkeys(way.namespace for way in readings(typed, namespace, default))
    there = {name: read for name in places if (read := _read(kubectl, name)) is not None}
    if not there:
        return None
    meant = chosen(typed, namespace, default, [workload for read in there.values() for workload in read.known()])
    return _explanation(there[meant.namespace], meant)


def _read(kubectl: Sequence[str], namespace: str) -> _Namespace | None:
    """Read the objects of a namespace; None if its pods may not be read."""
    argv = [*kubectl, f"--namespace={namespace}", "get", "--output=json"]
    if (pods_json := _got([*argv, "pods"])) is None:
        return None
    objects = _Namespace(namespace, list(readable(pod_from, msgspec.json.decode(pods_json, type=_Pods).items)))
    for group in _GROUPS:
        objects.groups |= _objects(_got([*argv, f"podgroups.{group}"]))
    jobs = _objects(_got([*argv, "jobs.batch"]))
    objects.jobs = {name: job for name, job in jobs.items() if asks(job.metadata)}
    objects.events = _ours(_got([*argv, "events.events.k8s.io"]))
    return objects


def _objects(text: str | None) -> dict[str, _Object]:
    try:
        objects = [] if text is None else msgspec.json.decode(text, type=_Objects).items
    except msgspec.MsgspecError:
        return {}
    return {obj.metadata.name or "": obj for obj in objects}


def _explanation(there: _Namespace, meant: Known) -> Explanation:
    pods = [pod for pod in there.pods if pod.group is not None and pod.group.name == meant.name]
    events = _events(there, meant, {pod.name for pod in pods})
    group = there.groups.get(meant.name)
    names = (name.partition("/") for name in meant.objects)
    jobs = [there.jobs[name] for kind, _, name in names if kind == "job" and name in there.jobs]
    state, message, since = _standing(pods, events, group, jobs)
    sizes = [pod.group.min_member for pod in pods if pod.group is not None]
    sizes += [] if group is None else [group.spec.min_member or group.spec.min_available]
    gang = GangView(
        namespace=meant.namespace,
        name=meant.name,
        state=state,
        message=message,
        for_s=_ago(since),
        min_member=next((size for size in sizes if size is not None), None),
        members=len(pods),
        bound=sum(pod.node is not None for pod in pods),
        held=0,
        waiting=sum(pod.node is None for pod in pods),
        pods=[MemberView(name=pod.name, uid=pod.uid, state=_state(pod), node=pod.node) for pod in pods],
        story=[(_ago(event.event_time), f"{event.reason}: {event.note}") for event in events],
        objects=list(meant.objects),
    )
    return Explanation(gang=gang, asks=[], places=[], remedies=[])


def _standing(
    pods: Sequence[Pod], events: Sequence[_Event], group: _Object | None, jobs: Sequence[_Object]
) -> tuple[str, str, datetime | None]:
    """Return state, message and since when: of the PodGroup, which Muster keeps up to date, else of the last Event."""
    conditions = (group.status.conditions or []) if group is not None else []
    for condition in conditions:
        if condition.type == "Scheduled" and condition.reason:
            return condition.reason, condition.message or "", condition.last_transition_time
    if events:
        last = events[-1]
        return last.reason or "Unknown", last.note or "", last.event_time
    made = [obj.metadata.creation_timestamp for obj in (group, *jobs) if obj is not None]
    instants = [datetime.fromisoformat(instant) for instant in made if instant is not None]
    born = min([*instants, *(datetime.fromtimestamp(pod.created, UTC) for pod in pods if pod.created)], default=None)
    if pods and all(pod.node for pod in pods):
        return "Running", "all pods have a node", born
    refusal = next((pod.refusal for pod in pods if pod.refusal and not pod.node), None)
    if refusal is None and any(job.spec.suspend for job in jobs):
        refusal = "its job is suspended"
    return "Unknown", f"no Event says why{f': {refusal}' if refusal else ''}", born


def _ours(text: str | None) -> list[_Event]:
    """Return Muster's Events among them."""
    events = [] if text is None else msgspec.json.decode(text, type=_Events).items
    return [event for event in events if event.reporting_controller == _CONTROLLER and event.regarding is not None]


def _events(there: _Namespace, meant: Known, pods: set[str]) -> list[_Event]:
    """Muster's Events on any of the gang's pods, on its PodGroup, and on the job of that name, the oldest first."""
    ours = [event for event in there.events if event.regarding is not None and _is_about(event.regarding, meant, pods)]
    # An Event on the PodGroup and one on a member may have the same text.
    once = {(event.reason, event.note): event for event in sorted(ours, key=lambda event: event.event_time or _LAST)}
    return list(once.values())


def _is_about(regarding: _Regarding, meant: Known, pods: set[str]) -> bool:
    if regarding.kind == "Pod":
        return regarding.name in pods
    made_by = f"{(regarding.kind or '').lower()}/{regarding.name}"
    return made_by in meant.objects or meant.name in (regarding.name, made_by.replace("/", "-", 1))


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
