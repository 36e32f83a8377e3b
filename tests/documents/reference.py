"""The lists of docs/configuration.md, keys.md, api.md and metrics.md, made of the code.

`python -m tests.documents.reference` rewrites them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dashboard.settings import Settings as DashboardSettings
from extender.api import models
from extender.config.settings import Settings
from extender.core.gate.advisory import Mode
from extender.core.gate.stamps import (
    COST,
    DOMAIN,
    GANG_NAME,
    GANG_QUEUE,
    GANG_UID,
    NODE,
    RANK,
    RELEASE,
    RELEASE_COMPLETE,
    RELEASE_QUORUM,
    RELEASE_SIZE,
    RELEASED_AT,
)
from extender.core.gate.steering import SteeringMode
from extender.core.limits import Preempts, Reserving
from extender.kube.dialects import COSCHEDULING_POD_GROUP, MIN_MEMBER, POD_GROUP
from extender.kube.dialects.koordinator import MIN_AVAILABLE, NAME, SIGS_MIN_AVAILABLE
from extender.kube.dialects.words import (
    GROUP_NAME,
    KAI_GROUP_NAME,
    KUEUE_GROUP_NAME,
    KUEUE_TOTAL_COUNT,
    TASK_SPEC,
    VOLCANO_GROUP_NAME,
)
from extender.kube.dialects.yunikorn import APPLICATION_IDS, TASK_GROUP_NAME, TASK_GROUPS
from extender.kube.keys import (
    COMPONENT,
    FLAVORS,
    GANG,
    HOLD,
    IN_VAIN,
    INDEX_LABEL,
    LED,
    MIN_PARALLELISM,
    NODE_LABELS,
    NODES,
    OWN,
    PLAN,
    PODSET,
    PRIORITY_CLASS,
    QUEUES,
    REQUEUED_AT,
    WORKLOAD,
)
from extender.kube.reading.durations import AGEING, EXPECTED_DURATION, MAX_RUN
from extender.kube.reading.eviction import (
    CHECKPOINTED,
    EVICT_INCOMPLETE,
    EVICT_OVERRUN,
    EVICTED_AT,
    MIN_RUNTIME,
    RESTARTABLE,
)
from extender.kube.reading.numbering import KAI_SUBGROUP, KUEUE_INDEX, ROLE
from extender.kube.reading.queue_name import OF_VOLCANO
from extender.kube.reading.reserved import PREEMPTING, RESERVED
from extender.kube.reading.topology import (
    KAI,
    KUEUE,
    KUEUE_LAYERS,
    LWS_EXCLUSIVE,
    PREFERRED,
    REQUIRED,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
)
from extender.kube.reading.topology import OWN as TOPOLOGY
from policies.model import GANG_GATE, NO_LEVEL
from tests.documents.pages import ROOT
from tests.metrics import described

PAGE, KEYS, API, METRICS = (ROOT / "docs" / name for name in ("configuration.md", "keys.md", "api.md", "metrics.md"))

SAID = {
    POD_GROUP: "The gang's name. All pods of the namespace that name it are its members.",
    MIN_MEMBER: "How many members start together; the same on every member. Not needed with a PodGroup object.",
    COSCHEDULING_POD_GROUP: "Names a PodGroup object of `scheduling.x-k8s.io/v1alpha1`, which has the `minMember`. "
    f"It wins over `{MIN_MEMBER}`.",
    REQUIRED: "Level (its name or label key) of which one domain has to hold the gang. "
    f"`{NO_LEVEL}`: this role of a gang may be anywhere.",
    PREFERRED: "Level of which as few domains as possible are used. Default: the nearest.",
    SLICE_SIZE: "Members of a slice: that many consecutive ranks stay in one domain. In layers `8,64`.",
    SLICE_TOPOLOGY: "Level of the domains of slices. Default: the nearest. In layers `clique,block`.",
    ROLE: "Role of the member, where no controller tells roles apart: each role may ask for other levels.",
    MIN_RUNTIME: "Annotation, also on the job: how long the workload runs before it may be evicted, in place of the "
    "setting `preemption_min_runtime_s`.",
    EXPECTED_DURATION: "Annotation, also on the job and a PodGroup: how long its author expects the workload to run.",
    CHECKPOINTED: "Annotation, also on the job: when it last wrote a checkpoint (RFC 3339). What an eviction loses "
    "counts since then.",
    RESTARTABLE: "Annotation, also on the job, `true` or `false`: whether the workload goes on from a checkpoint when "
    "it is started on other nodes. Only `muster defrag` uses it.",
    EVICT_OVERRUN: "Annotation, also on the job, `true` or `false`: whether the workload is evicted when it runs "
    "`overrun_grace_s` longer than its author expects where room is reserved for another one.",
    EVICT_INCOMPLETE: "Annotation, `true` or `false`, in place of the setting `evict_incomplete`: whether the pods are "
    "evicted when the gang has run with too few members for `incomplete_grace_s`.",
}
"""The annotations or labels that a pod's author writes on pods; the levels also on a PodGroup."""

_ITS_NAME, _ITS_MIN_MEMBER = "The gang's name.", "The gang's minMember."
_ITS_ROLE = "The role of the pod, as `muster.dev/role`."
SAID_TO_OTHERS = {
    GROUP_NAME: f"Names a PodGroup of `scheduling.volcano.sh/v1beta1`; also `{VOLCANO_GROUP_NAME}`.",
    TASK_SPEC: _ITS_ROLE,
    OF_VOLCANO: "The Queue of Volcano, where its PodGroup names none and no member names a LocalQueue.",
    KAI_GROUP_NAME: "Names a PodGroup of `scheduling.run.ai/v2alpha2` (KAI-Scheduler).",
    KAI_SUBGROUP: _ITS_ROLE,
    NAME: _ITS_NAME,
    MIN_AVAILABLE: _ITS_MIN_MEMBER,
    "pod-group.scheduling.sigs.k8s.io": "The gang's name; also with `/name`.",
    SIGS_MIN_AVAILABLE: _ITS_MIN_MEMBER,
    APPLICATION_IDS[0]: f"The gang's name; also {' and '.join(f'`{key}`' for key in APPLICATION_IDS[1:])}.",
    TASK_GROUP_NAME: _ITS_ROLE,
    TASK_GROUPS: "How many of each role start together, in JSON.",
    KUEUE_GROUP_NAME: _ITS_NAME,
    KUEUE_TOTAL_COUNT: _ITS_MIN_MEMBER,
    KUEUE_INDEX: "The index of the pod.",
    **{key: f"As `{ours}`." for theirs in (KUEUE, KAI) for key, ours in zip(theirs, TOPOLOGY, strict=True)},
    LWS_EXCLUSIVE: f"As `{REQUIRED}`.",
    KUEUE_LAYERS: f"As `{SLICE_SIZE}` and `{SLICE_TOPOLOGY}`: JSON, size and topology for each layer, the farthest "
    "level first.",
}
"""The annotations and labels of other projects that Muster reads."""

STAMPED = {
    GANG_UID: "The gang that the pod was bound with.",
    GANG_NAME: "Its name. The pod stays in that gang, whatever it names later.",
    GANG_QUEUE: "The queue whose quota it uses, whatever it names later.",
    RELEASE: "The release: the UID of the member that was bound last.",
    RELEASE_COMPLETE: "On the last Binding of a release, and soon on a second member: the release is complete.",
    RELEASE_QUORUM: "The gang's minMember when it was released.",
    RELEASE_SIZE: "How many members the release has.",
    RELEASED_AT: "When the release began.",
    NODE: "The node that it was bound to.",
    RANK: "The member's index, or its place among all.",
    DOMAIN: "Its domain of the nearest level.",
    COST: "On members of a ReplicaSet: which of them it removes first when it is scaled down.",
}
"""The annotations that Muster writes on the pods that it binds."""

SAID_OF_JOBS = {
    **dict.fromkeys(QUEUES, "Label: Muster admits the job, with quota of that LocalQueue."),
    PRIORITY_CLASS: "Label: the WorkloadPriorityClass whose value is the job's priority.",
    GANG: "`true`: Muster admits the job, with or without a queue. `false`: it leaves the job alone.",
    HOLD: "`true`: the job stays suspended.",
    REQUEUED_AT: "An instant in RFC 3339, by `muster requeue`. When it changes, the job is tried again at once.",
    MIN_MEMBER: "With how few of its pods it may start: on the job, or on its first pod template. Default: all.",
    MIN_PARALLELISM: "The same for a batch/v1 Job, as an annotation.",
}
"""The annotations, or labels where it says so, that a job's author writes on the job."""

SAID_OF_QUEUES = {
    MAX_RUN: "How long its workloads may run. One that says more waits with the reason `RunTooLong`; one that says "
    "nothing is expected to run that long.",
    AGEING: "On a ClusterQueue: how much priority a waiting workload gains with its age, as `100 per day` or "
    "`5 per hour`.",
}
"""Annotations of ClusterQueues and LocalQueues."""

SAID_OF_OWNERS = {
    GANG: "`true`: its pods are a gang, those of a LeaderWorkerSet one for each group. `false`: they are none.",
    MIN_MEMBER: "How few of the pods of a gang may start together. Default: all.",
}
"""The annotations or labels that a user writes on objects that cannot be suspended."""

WRITTEN_ON_OWNERS = {
    GANG: "Label, `true`: on the object, by which Muster finds it, and on its pod templates, and so on its pods.",
}
"""The marks that the admission policy writes on such objects."""

WRITTEN_ON_JOBS = {
    PLAN: 'On the job while it is admitted: the node of each slot, `{"podset": "NODE*COUNT,..."}` by index. While it '
    "awaits nodes of an autoscaler: until when.",
    OWN: "On the job: what its pod templates had where Muster writes.",
    FLAVORS: 'On a job with quota until it has stopped: `{"podset": {"resource": "flavor"}}`.',
    PREEMPTING: "On the job, or on a pod, while others are evicted for it: its room, its victims, and until when.",
    RESERVED: "On the job, or on a pod of the gang, while room is reserved for it: nodes and amounts. `until` is the "
    "expected start, in seconds since 1970 (0: unknown).",
    EVICTED_AT: "On a job that was evicted for others: when, in the last hour. It stays there.",
    IN_VAIN: "On a job whose awaited nodes did not come: how often in a row, and how long it pauses.",
    WORKLOAD: f"On pod templates and pods: the UID of the job; beside it `{POD_GROUP}` and `{MIN_MEMBER}`.",
    PODSET: "On templates and pods of AppWrappers and kinds of `job_kinds`: the podset.",
    COMPONENT: "On pods of an AppWrapper: the number of their component, from 0.",
    INDEX_LABEL: "Beside it, if the pods have an index: the label that has it.",
    NODES: "On a pod template: the nodes by index. The admission policy reads it, and removes it from pods.",
    NODE_LABELS: "On a pod template of a job that awaits nodes: the labels of its flavor. The admission policy makes "
    "them the node selector of its pods.",
    LED: "Label of a pod template: `true` with node affinity, `index` with `muster.dev/nodes`. Admission policies "
    "pass over such pods.",
}
"""The annotations that Muster writes on a job that it starts, and removes when the job is suspended again."""

_GROUPS = {
    "scheduler_names": "Connections",
    "bind_timeout_s": "Times and losses",
    "steering": "Placement",
    "queue_policy": "Queues",
    "preemption": "Preemption",
    "backfill": "Reservations",
    "pod_trials": "Jobs and policies",
    "leader_election.enabled": "Replicas",
    "writes_at_once": "Limits",
    "verify_every_s": "Self-repair",
    "prometheus_url": "Utilisation",
    "log_format": "Log",
}
"""The heading before each of these settings."""
_NUMBER = "number"
_TYPES = {"bool": "", "int": _NUMBER, "float": _NUMBER, "str": "text", "Path": "file"}
"""Words for the types of settings. A default says that a setting is true or false."""
_STRING = "string"
_JSON_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": _STRING, "datetime": "date-time"}
_LIMITS = {annotated_types.Ge: "from", annotated_types.Gt: "above", annotated_types.Le: "to"}


def settings() -> dict[str, str]:
    """Return the lists of the settings, by the names that stand in the page's markers."""
    ours = list(_settings(Settings, ""))
    others = [line for line in _settings(DashboardSettings, "") if line not in ours]
    return {"settings": "\n".join(_grouped(ours)), "dashboard": "\n".join(others)}


def keys() -> dict[str, str]:
    """Return the lists of the keys, by the names that stand in the page's markers."""
    gate = {GANG_GATE: "The scheduling gate that the admission policy sets and Muster takes off."}
    return {
        "written by you": _keys(SAID),
        "written for others": _keys(SAID_TO_OTHERS),
        "written on jobs by you": _keys(SAID_OF_JOBS),
        "written on queues by you": _keys(SAID_OF_QUEUES),
        "written on owners by you": _keys(SAID_OF_OWNERS),
        "written on owners by muster": _keys(WRITTEN_ON_OWNERS),
        "written on jobs by muster": _keys(WRITTEN_ON_JOBS),
        "written by muster": _keys(STAMPED | gate),
    }


def api() -> dict[str, str]:
    """The models of the API with their fields: each that answers a path, followed by its inner ones."""
    shown: dict[str, type[BaseModel]] = {}
    lists = models.QueueView, models.DomainStock, models.ComputeDomainView, models.TopologyView
    for model in (
        models.GangView,
        models.Explanation,
        models.DefragView,
        *lists,
        models.UtilisationReport,
        models.VerifyView,
    ):
        shown |= {inner.__name__: inner for inner in _with_inner(model)}
    shown[models.Problem.__name__] = models.Problem
    return {"models": "\n".join(_model(model) for model in shown.values())}


def metrics() -> dict[str, str]:
    """Return the list of the metrics, in the notation of Prometheus."""
    lines = []
    for metric in described().values():
        labels = f"{{{','.join(metric.labels)}}}" if metric.labels else ""
        kind = " (histogram)" if metric.kind == "histogram" else ""
        lines.append(f"- `{metric.name}{labels}`{kind}: {metric.text}")
    return {"metrics": "\n".join(lines)}


TABLES: dict[Path, Callable[[], dict[str, str]]] = {PAGE: settings, KEYS: keys, API: api, METRICS: metrics}


def filled(page: Path) -> str:
    """The text of the page, with its tables as they have to be."""
    text = page.read_text()
    for name, table in TABLES[page]().items():
        begin, end = f"<!-- {name}: python -m tests.documents.reference -->\n", "<!-- end -->"
        before, marker, rest = text.partition(begin)
        if not marker or end not in rest:
            raise ValueError(f"{page.name} has no place for {name}")
        text = f"{before}{begin}{table}\n{end}{rest.partition(end)[2]}"
    return text


def _settings(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if _is_model(field.annotation):
            yield from _settings(field.annotation, f"{prefix}{name}.")
            continue
        yield f"- `{prefix}{name}` ({', '.join(filter(None, (_value(field), _default(field))))}): {field.description}"
        if get_origin(field.annotation) is tuple and _is_model(item := get_args(field.annotation)[0]):
            yield from _settings(item, f"{prefix}{name}[].")


def _grouped(lines: list[str]) -> Iterator[str]:
    """Put the headings of groups between the lines."""
    for line in lines:
        if heading := _GROUPS.get(line.split("`")[1]):
            yield f"\n### {heading}\n"
        yield line


def _with_inner(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        for candidate in (field.annotation, *get_args(field.annotation)):
            if _is_model(candidate):
                yield from _with_inner(candidate)


def _model(model: type[BaseModel]) -> str:
    fields = []
    for name, field in model.model_fields.items():
        kind = _json_type(field.annotation)
        remarks = ["" if kind == _STRING else kind, "" if field.is_required() else "*new*"]
        remark = f" ({', '.join(filter(None, remarks))})" if any(remarks) else ""
        fields.append(f"- `{name}`{remark}: {field.description}")
    return "\n".join([f"### {model.__name__}\n", f"{inspect.getdoc(model)}\n", *fields, ""])


def _json_type(annotation: Any) -> str:
    if _is_model(annotation):
        return f"[{annotation.__name__}](#{annotation.__name__.lower()})"
    if get_origin(annotation) is Annotated:
        return _json_type(get_args(annotation)[0])
    kind, inner = get_origin(annotation), [_json_type(argument) for argument in get_args(annotation)]
    if kind in (UnionType, Union):
        return " or ".join(inner)
    if kind in (list, dict):
        return f"list of {inner[0]}" if kind is list else f"mapping of {' to '.join(inner)}"
    if kind is tuple:
        return f"pair of {' and '.join(inner)}"
    return "null" if annotation is NoneType else _JSON_TYPES[annotation.__name__]


def _is_model(annotation: Any) -> TypeGuard[type[BaseModel]]:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _keys(said: dict[str, str]) -> str:
    """A line for each text, with all keys that have it."""
    by_text: dict[str, list[str]] = {}
    for key, text in said.items():
        by_text.setdefault(text, []).append(f"`{key}`")
    return "\n".join(f"- {', '.join(keys)}: {text}" for text, keys in by_text.items())


def _value(field: FieldInfo) -> str:
    limits = []
    for constraint in field.metadata:
        if (words := re.fullmatch(r"\^\(([a-z|]+)\)\$", getattr(constraint, "pattern", None) or "")) is not None:
            return " or ".join(f"`{word}`" for word in words[1].split("|"))
        limits += [
            f"{word} {getattr(constraint, kind.__name__.lower()):,}"
            for kind, word in _LIMITS.items()
            if isinstance(constraint, kind)
        ]
    if len(limits) > 1:
        return " ".join(limits).removeprefix("from ")
    return " ".join(limits) if _kind(field.annotation) == _NUMBER else _kind(field.annotation)


def _kind(annotation: Any) -> str:
    if annotation in (Mode, SteeringMode, Preempts, Reserving):
        return " or ".join(f"`{member.value}`" for member in annotation)
    if get_origin(annotation) in (UnionType, Union):
        return " or ".join(_kind(argument) for argument in get_args(annotation) if argument is not NoneType)
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if _is_model(annotation):
        return "mappings"
    if get_origin(annotation) is tuple:
        return f"list of {_kind(get_args(annotation)[0])}"
    if get_origin(annotation) is dict:
        return "names with weights"
    return _TYPES[annotation.__name__]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    match value:
        case None | () | "":
            return ""
        case bool():
            text = str(value).lower()
        case int() | float():
            text = f"{value:g}" if isinstance(value, float) else f"{value}"
        case tuple():
            text = f"`[{', '.join(map(str, value))}]`"
        case dict():
            text = f"`{{{', '.join(f'{name}: {weight}' for name, weight in value.items())}}}`"
        case _:
            text = f"`{value}`"
    return f"default {text}"


if __name__ == "__main__":
    for page in TABLES:
        page.write_text(filled(page))
