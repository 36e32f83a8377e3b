"""Complete the pods of a template as the API server will when it creates them.

LimitRanges add defaults to the containers, and decide which pods the API server refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from msgspec import Struct, structs

from extender.kube.convert import pod_from
from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.keys import PRIORITY_CLASS
from extender.kube.kinds.kind import UnreadableJobError
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import (
    Amounts,
    Container,
    Meta,
    PodObject,
    PodSpec,
    Resources,
    TemplateVolume,
    Tolerates,
)
from extender.kube.reading.plain import plain
from extender.kube.reading.quantity import milli
from extender.kube.reading.requests import amounts_of, fix_pod_level, pod_level_of, requests_of
from extender.kube.reading.volumes import ephemeral_makers
from policies.model import Controller, GroupKey, Pod
from policies.words import amount, listed


class LimitItem(Struct, rename="camel"):
    """A limit of a LimitRange. ``type``: applies to each Container, or to a Pod as a whole."""

    type: str | None = None
    default: Amounts | None = None
    default_request: Amounts | None = None
    max: Amounts | None = None
    min: Amounts | None = None
    max_limit_request_ratio: Amounts | None = None


class LimitSpec(Struct):
    limits: list[LimitItem] | None = None


class LimitRange(Struct):
    metadata: Meta | None = None
    spec: LimitSpec | None = None


def limits_of(ranges: Iterable[LimitRange]) -> dict[str, tuple[LimitItem, ...]]:
    """The limits for containers and pods, by namespace."""
    limit_items: dict[str, tuple[LimitItem, ...]] = {}
    for limit_range in sorted(
        ranges, key=lambda limit_range: (limit_range.metadata and limit_range.metadata.name) or ""
    ):
        namespace = (limit_range.metadata and limit_range.metadata.namespace) or ""
        items = tuple(
            item for item in (limit_range.spec and limit_range.spec.limits) or () if item.type in ("Container", "Pod")
        )
        limit_items[namespace] = (*limit_items.get(namespace, ()), *items)
    return limit_items


def default(spec: PodSpec, items: Sequence[LimitItem]) -> None:
    """Write the limits' defaults into the containers that have no value of their own."""
    for container in _containers(spec):
        for item in items:
            if item.type == "Container":
                _default(container, item)


def refused(spec: PodSpec, items: Sequence[LimitItem]) -> str:
    """Why the API server refuses such a pod; empty if it accepts it. Call after ``default``, before adding the
    overhead.

    Amounts that cannot be read are reported elsewhere.
    """
    try:
        return next(_refusals(spec, items), "")
    except ValueError:
        return ""


def _containers(spec: PodSpec) -> list[Container]:
    return [*(spec.containers or ()), *(spec.init_containers or ())]


def _default(container: Container, limit: LimitItem) -> None:
    """A missing request defaults to the container's own limit, then to the LimitRange's default."""
    resources = container.resources or Resources()
    requests = {**(limit.default_request or {}), **(resources.limits or {}), **(resources.requests or {})}
    container.resources = Resources(requests=requests, limits={**(limit.default or {}), **(resources.limits or {})})


def _refusals(spec: PodSpec, items: Sequence[LimitItem]) -> Iterator[str]:
    for container in _containers(spec):
        resources = container.resources or Resources()
        requests, limits = amounts_of(resources.requests or {}), amounts_of(resources.limits or {})
        for name, much in requests.items():
            if much > limits.get(name, much):
                asks, limit = amount(name, much, up=True), amount(name, limits[name])
                yield f"a container asks for {asks}, and its limit is {limit}"
        for item in items:
            if item.type == "Container":
                yield from _beyond("container", item, requests, limits)
    for item in items:
        if item.type == "Pod":
            yield from _beyond("pod", item, dict(requests_of(spec)), _limits_of(spec))


def _limits_of(spec: PodSpec) -> dict[str, int]:
    """The limits of the pod as a whole, for resources that any container limits; a limit may be 0."""

    def alone(resources: Resources | None) -> Resources | None:
        return resources and Resources(requests=resources.limits)

    def of_all(containers: list[Container] | None) -> list[Container]:
        return [structs.replace(container, resources=alone(container.resources)) for container in containers or ()]

    resources = [container.resources for container in _containers(spec)] + [spec.resources]
    named = dict.fromkeys(
        (
            name
            for container_resources in resources
            for name in (container_resources and container_resources.limits) or ()
        ),
        0,
    )
    limited = structs.replace(
        spec,
        containers=of_all(spec.containers),
        init_containers=of_all(spec.init_containers),
        resources=alone(spec.resources),
        overhead=None,
    )
    return named | dict(requests_of(limited))


def _beyond(what: str, item: LimitItem, requests: Mapping[str, int], limits: Mapping[str, int]) -> Iterator[str]:
    for name, limit in amounts_of(item.max or {}).items():
        lets = f"and a LimitRange lets it have {amount(name, limit)} at most"
        if name not in limits and what == "pod":
            yield f"a {what} has no limit of {name}, {lets}"
        if (much := max(requests.get(name, 0), limits.get(name, 0))) > limit:
            yield f"a {what} is to have {amount(name, much, up=True)}, {lets}"
    for name, limit in amounts_of(item.min or {}).items():
        demands = f"and a LimitRange has it ask for {amount(name, limit, up=True)} at least"
        if name not in requests and what == "pod":
            yield f"a {what} asks for no {name}, {demands}"
        if (much := requests.get(name, limit)) < limit:
            yield f"a {what} asks for {amount(name, much)}, {demands}"
    for name, ratio in (item.max_limit_request_ratio or {}).items():
        asks, most = requests.get(name, 0), limits.get(name, 0)
        if not asks or not most:
            yield f"a {what} needs a request and a limit of {name}, of which a LimitRange limits the ratio to {ratio}"
        elif most * 1000 > asks * milli(ratio):
            yield (
                f"a {what} asks for {amount(name, asks)} and its limit is {amount(name, most)}, and a LimitRange lets "
                f"it be {ratio} times as much at most"
            )


GATED = (
    "its pod template has the scheduling gate {}, which is not Muster's: whoever set it takes it off pods that exist, "
    "and Muster plans a job before its pods; take it out of the template"
)
ON_A_NODE = (
    "its pod template names the node {} in nodeName, and no scheduler is asked about such pods: name it in "
    "nodeSelector (kubernetes.io/hostname) instead"
)


class TemplateSpec(PodSpec):
    """A pod's spec, with the names of the objects that complete it."""

    volumes: list[TemplateVolume] | None = None  # type: ignore[assignment]
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


ClassT = TypeVar("ClassT", RuntimeClass, PriorityClass)


def by_name(classes: Iterable[ClassT]) -> dict[str, ClassT]:
    """The classes, as ``Completion`` takes them."""
    return {(known.metadata and known.metadata.name) or "": known for known in classes}


@dataclass(frozen=True)
class Completion:
    """The objects that complete pods.

    ``limits``: by namespace.
    ``runtimes``, ``priorities``: by name; None until they have been read.
    ``workload_priorities``: values of the WorkloadPriorityClasses; None if the cluster has no such kind.
    """

    limits: Mapping[str, tuple[LimitItem, ...]] = field(default_factory=dict)
    runtimes: Mapping[str, RuntimeClass] | None = None
    priorities: Mapping[str, PriorityClass] | None = None
    workload_priorities: Mapping[str, int] | None = None

    def complete(self, namespace: str, spec: TemplateSpec) -> str:
        """Write into the spec what the API server adds to its pods. Returns why it refuses them; empty if it does
        not."""
        limits = self.limits.get(namespace, ())
        with suppress(ValueError):  # ``shape_of`` names an amount that cannot be read
            before = pod_level_of(spec)
            default(spec, limits)
            fix_pod_level(spec, before)
        return refused(spec, limits) or self._run(spec) or self._prefer(spec)

    def priority_of(self, job: Meta) -> tuple[int | None, str]:
        """The priority of the WorkloadPriorityClass that the job names, or None; and why it is unknown."""
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
            defaults = (priority for priority in self.priorities.values() if priority.global_default)
            # The API server takes the least of several, too.
            priority = min(defaults, key=lambda priority_class: priority_class.value or 0, default=None)
            if priority is None:
                spec.priority = spec.priority or 0
                return ""
        spec.priority, spec.preemption_policy = priority.value or 0, priority.preemption_policy
        return ""


def shape_of(meta: Meta, key: GroupKey, owner: Controller, minimum: int, template: Meta, spec: TemplateSpec) -> Pod:
    """A pod of this template without an index, made by the conversion of pods."""
    annotations = {**(template.annotations or {}), POD_GROUP: key.name, MIN_MEMBER: str(minimum)}
    pod_meta = Meta(
        name=meta.name,
        namespace=meta.namespace,
        uid=owner.uid,
        creation_timestamp=meta.creation_timestamp,
        labels=template.labels,
        annotations=annotations,
    )
    try:
        pod = pod_from(PodObject(pod_meta, spec))
        makers = ephemeral_makers(spec.volumes or ())
    except UnreadableError as error:
        raise UnreadableJobError(f"its pods cannot be read: {error}") from None
    # The pods have other names than this shape, and so have the claims that are made for each.
    named = tuple(claim for claim in pod.claims if claim not in pod.own_claims)
    own: dict[str, Any] = {"claims": named, "own_claims": (), "claim_makers": makers}
    return replace(pod, owner=owner.uid, controller=owner, index=None, series="", **own)


def not_before_it_exists(shape: Pod) -> str:
    """Why a pod like this cannot be planned before it exists; empty if it can."""
    if shape.foreign_gates:
        return GATED.format(listed(shape.foreign_gates))
    return ON_A_NODE.format(shape.node) if shape.node else ""
