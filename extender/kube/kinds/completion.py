"""What the API server adds to the pods of a template when it creates them, and what those pods will be like."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from msgspec import Struct

from extender.kube.convert import UnreadableError, pod_from
from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.kinds.keys import PRIORITY_CLASS
from extender.kube.kinds.kind import UnreadableJobError
from extender.kube.kinds.limit_ranges import LimitItem, default, refused
from extender.kube.reading.objects import Amounts, Meta, PodObject, PodSpec, Tolerates
from extender.kube.reading.plain import plain
from extender.kube.reading.requests import fix_pod_level, pod_level_of
from policies.model import Controller, GroupKey, Pod
from policies.words import listed

GATED = (
    "its pod template has the scheduling gate {}, which is not Muster's: whoever set it takes it off pods that exist, "
    "and Muster plans a job before its pods; take it out of the template"
)
ON_A_NODE = (
    "its pod template names the node {} in nodeName, and no scheduler is asked about such pods: name it in "
    "nodeSelector (kubernetes.io/hostname) instead"
)
DEVICES = "its pod template uses resource claims (DRA), which gangs do not support yet"


class TemplateSpec(PodSpec):
    """A pod's spec, with the names of what completes it."""

    runtime_class_name: str | None = None
    priority_class_name: str | None = None


class Overhead(Struct, rename="camel"):
    pod_fixed: Amounts | None = None


class RuntimeScheduling(Struct, rename="camel"):
    node_selector: dict[str, str] | None = None
    tolerations: list[Tolerates] | None = None


class RuntimeClass(Struct):
    metadata: Meta | None = None
    overhead: Overhead | None = None
    scheduling: RuntimeScheduling | None = None


class PriorityClass(Struct, rename="camel"):
    metadata: Meta | None = None
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


@dataclass(frozen=True)
class Completion:
    """``runtimes`` and ``priorities`` by name; None while they have not been read. ``limits``: by namespace.
    ``workload_priorities``: the values of the WorkloadPriorityClasses; None where there is no such kind."""

    limits: Mapping[str, tuple[LimitItem, ...]] = field(default_factory=dict)
    runtimes: Mapping[str, RuntimeClass] | None = None
    priorities: Mapping[str, PriorityClass] | None = None
    workload_priorities: Mapping[str, int] | None = None

    def complete(self, namespace: str, spec: TemplateSpec) -> str:
        """Write into the spec what its pods will have. Returns why there will be none, or nothing."""
        limits = self.limits.get(namespace, ())
        with suppress(ValueError):  # ``shape_of`` names an amount that cannot be read
            before = pod_level_of(spec)
            default(spec, limits)
            fix_pod_level(spec, before)
        return refused(spec, limits) or self._run(spec) or self._prefer(spec)

    def priority_of(self, job: Meta) -> tuple[int | None, str]:
        """The priority of the job, if it names a WorkloadPriorityClass; and why it cannot be told."""
        name = (job.labels or {}).get(PRIORITY_CLASS)
        if not name or self.workload_priorities is None:
            return None, ""
        value = self.workload_priorities.get(name)
        return value, "" if value is not None else f"its WorkloadPriorityClass {plain(name)} does not exist"

    def _run(self, spec: TemplateSpec) -> str:
        if not spec.runtime_class_name or self.runtimes is None:
            return ""
        runtime = self.runtimes.get(spec.runtime_class_name)
        if runtime is None:
            return f"its RuntimeClass {spec.runtime_class_name} does not exist"
        if runtime.overhead is not None and not spec.overhead:
            spec.overhead = runtime.overhead.pod_fixed
        if runtime.scheduling is not None:
            spec.node_selector = {**(spec.node_selector or {}), **(runtime.scheduling.node_selector or {})}
            spec.tolerations = [*(spec.tolerations or ()), *(runtime.scheduling.tolerations or ())]
        return ""

    def _prefer(self, spec: TemplateSpec) -> str:
        if self.priorities is None:
            return ""
        if spec.priority_class_name:
            priority = self.priorities.get(spec.priority_class_name)
            if priority is None:
                return f"its PriorityClass {spec.priority_class_name} does not exist"
        else:
            defaults = (one for one in self.priorities.values() if one.global_default)
            # Of several the API server takes the least, too.
            priority = min(defaults, key=lambda one: one.value or 0, default=None)
            if priority is None:
                spec.priority = spec.priority or 0
                return ""
        spec.priority, spec.preemption_policy = priority.value or 0, priority.preemption_policy
        return ""


def shape_of(meta: Meta, key: GroupKey, owner: Controller, minimum: int, said: Meta, spec: TemplateSpec) -> Pod:
    """A pod of this template, by the conversion of pods, without a number."""
    annotations = {**(said.annotations or {}), POD_GROUP: key.name, MIN_MEMBER: str(minimum)}
    told = Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=owner.uid,
        creation_timestamp=meta.creation_timestamp,
        labels=said.labels,
        annotations=annotations,
    )
    try:
        pod = pod_from(PodObject(told, spec))
    except UnreadableError as error:
        raise UnreadableJobError(f"its pods cannot be read: {error}") from None
    return replace(pod, owner=owner.uid, controller=owner, index=None, series="")


def not_before_it_exists(shape: Pod) -> str:
    """Why a pod like this cannot be planned before it exists; empty if it can."""
    if shape.foreign_gates:
        return GATED.format(listed(shape.foreign_gates))
    if shape.node:
        return ON_A_NODE.format(shape.node)
    return DEVICES if shape.device_claims else ""
