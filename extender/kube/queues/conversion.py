"""Convert Kueue's objects in people's files from ``v1beta1`` to ``v1beta2``.

The rules are those of Kueue's own conversion (apis/kueue/v1beta1/*_conversion.go). Objects that the schemas of
``v1beta1`` accept and those of ``v1beta2`` refuse are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from extender.kube.queues.resources import QUEUE_GROUP
from extender.kube.reading.plain import quoted
from policies.words import twice

OLD, NEW = f"{QUEUE_GROUP}/v1beta1", f"{QUEUE_GROUP}/v1beta2"
Object = dict[str, Any]


class InconvertibleError(ValueError):
    """A field has no equivalent in ``v1beta2``; the message names the field and says why."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field} {why}")


def is_convertible(kind: str) -> bool:
    """Whether objects of this kind are converted."""
    return kind in _RULES


def converted(kind: str, obj: Object) -> Object:
    """The object in ``v1beta2``; the argument is not changed. Raises InconvertibleError."""
    new = deepcopy(obj)
    if "apiVersion" in new:  # items of a list may leave it to the list
        new["apiVersion"] = NEW
    for rule in _RULES[kind]:
        rule(new)
    return new


def _part(obj: Any, path: str) -> Object:
    """The mapping at that path; an empty one if there is none."""
    for name in path.split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj if isinstance(obj, dict) else {}


def _items(obj: Any, path: str) -> list[Any]:
    """The list at that path; an empty one if there is none."""
    within, _, last = path.rpartition(".")
    items = _part(obj, within).get(last)
    return items if isinstance(items, list) else []


def _rename(within: str, old: str, new: str) -> Callable[[Object], None]:
    def rule(obj: Object) -> None:
        fields = _part(obj, within)
        if old not in fields:
            return
        value = fields.pop(old)
        if fields.setdefault(new, value) != value:
            raise InconvertibleError(
                f"{within}.{old}", f"is {quoted(str(value))}, and {new} is {quoted(str(fields[new]))}"
            )

    return rule


def _drop(within: str, *fields: str) -> Callable[[Object], None]:
    """Remove fields that v1beta2 lacks and that have no effect: deprecated ones, or ones that Kueue writes again."""

    def rule(obj: Object) -> None:
        for field in fields:
            _part(obj, within).pop(field, None)

    return rule


def _check_length(path: str, least: int, most: int) -> Callable[[Object], None]:
    """Refuse texts beyond the limits of v1beta2. ``[]`` in the path marks a list."""

    def rule(obj: Object) -> None:
        for place, value in _found(obj, path.split("."), ""):
            if isinstance(value, str) and not least <= len(value) <= most:
                limit = "may not be empty" if not value else f"has {len(value)} characters, and may have {most}"
                raise InconvertibleError(place, f"{limit} in v1beta2")

    return rule


def _found(obj: Any, path: list[str], place: str) -> Iterator[tuple[str, Any]]:
    """Yield each value at that path with its place."""
    if not path:
        yield place, obj
        return
    name, listed = path[0].removesuffix("[]"), path[0].endswith("[]")
    if not isinstance(obj, dict) or name not in obj:
        return
    place = f"{place}.{name}" if place else name
    if not listed:
        yield from _found(obj[name], path[1:], place)
    elif isinstance(obj[name], list):
        for at, item in enumerate(obj[name]):
            yield from _found(item, path[1:], f"{place}[{at}]")


def _check_list(path: str, *, key: str = "", most: int | None = None) -> Callable[[Object], None]:
    """Refuse lists that are too long for v1beta2, or that repeat an item (or its field ``key``)."""

    def rule(obj: Object) -> None:
        for place, value in _found(obj, path.split("."), ""):
            if not isinstance(value, list):
                continue
            if most is not None and len(value) > most:
                raise InconvertibleError(place, f"has {len(value)} items, and may have {most} in v1beta2")
            names = [item.get(key) if key and isinstance(item, dict) else item for item in value]
            if (name := twice(name for name in names if isinstance(name, str))) is not None:
                raise InconvertibleError(place, f"has {quoted(name)} twice, which v1beta2 refuses")

    return rule


_CHECKS = "spec.admissionChecksStrategy.admissionChecks"


def _nest_admission_checks(obj: Object) -> None:
    """Turn a list of names into a strategy with a rule for each. A strategy without any rule means no check."""
    spec = _part(obj, "spec")
    names, strategy = spec.pop("admissionChecks", None), spec.get("admissionChecksStrategy") or {}
    if not isinstance(names, list | None):
        raise InconvertibleError("spec.admissionChecks", "is no list")
    if not isinstance(strategy, dict):
        raise InconvertibleError("spec.admissionChecksStrategy", "is no mapping: list the checks below admissionChecks")
    if not isinstance(strategy.get("admissionChecks"), list | None):
        raise InconvertibleError(_CHECKS, "is no list")
    if names:
        if _items(obj, _CHECKS):
            raise InconvertibleError("spec.admissionChecks", "stands beside admissionChecksStrategy: keep one of them")
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}
    elif "admissionChecksStrategy" in spec and not _items(obj, _CHECKS):
        del spec["admissionChecksStrategy"]


def _rename_searches(obj: Object) -> None:
    fungibility = _part(obj, "spec.flavorFungibility")
    for field, old in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
        if fungibility.get(field) == old:
            fungibility[field] = "MayStopSearch"


def _check_admission_mode(obj: Object) -> None:
    mode = _part(obj, "spec.admissionScope").get("admissionMode")
    if mode not in (None, "UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing"):
        raise InconvertibleError(
            "spec.admissionScope.admissionMode", f"is {quoted(str(mode))}, which v1beta2 does not know"
        )


def _nest_cluster_source(obj: Object) -> None:
    """Move the cluster's source, one of two, into ``clusterSource``. v1beta1 demands a kubeConfig, even if empty."""
    spec = _part(obj, "spec")
    if not _part(spec, "kubeConfig").get("location"):
        spec.pop("kubeConfig", None)
    sources = {name: spec.pop(name) for name in ("kubeConfig", "clusterProfileRef") if spec.get(name) is not None}
    if len(sources) + ("clusterSource" in spec) != 1:
        raise InconvertibleError(
            "spec", "names " + ("both a kubeConfig and a clusterProfileRef" if sources else "no kubeConfig.location")
        )
    if sources:
        spec["clusterSource"] = sources


_PRIORITY_SOURCES = {
    f"{QUEUE_GROUP}/workloadpriorityclass": (QUEUE_GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}


def _refer_to_priority_class(obj: Object) -> None:
    spec = _part(obj, "spec")
    source, name = str(spec.pop("priorityClassSource", None) or ""), spec.pop("priorityClassName", None)
    if not name:
        return
    if source not in _PRIORITY_SOURCES:
        why = "has no priorityClassSource" if not source else f"has the priorityClassSource {quoted(source)}"
        raise InconvertibleError("spec.priorityClassName", f"{why}: say of which kind the class is")
    group, kind = _PRIORITY_SOURCES[source]
    spec["priorityClassRef"] = {"group": group, "kind": kind, "name": name}


def _slice_topology_assignments(obj: Object) -> None:
    """Put the domains of each assignment into one slice, by level."""
    for at, podset in enumerate(_items(obj, "status.admission.podSetAssignments")):
        assignment = _part(podset, "topologyAssignment")
        if "domains" not in assignment:
            continue
        domains = assignment.pop("domains") or []
        place = f"status.admission.podSetAssignments[{at}].topologyAssignment.domains"
        try:
            values = [list(level) for level in zip(*(domain["values"] for domain in domains), strict=True)]
            counts = [domain["count"] for domain in domains]
        except (KeyError, TypeError, ValueError):
            raise InconvertibleError(place, "does not have a count and a value for each level everywhere") from None
        if not domains or len(values) != len(assignment.get("levels") or ()):
            raise InconvertibleError(place, "does not have a value for each level")
        levels = [{"individual": {"roots": level}} for level in values]
        assignment["slices"] = [
            {"domainCount": len(counts), "podCounts": {"individual": counts}, "valuesPerLevel": levels}
        ]


_LONGEST_LABEL, _LONGEST_QUALIFIED = 63, 317
_REQUEST = "spec.podSets[].topologyRequest"
_RULES: Mapping[str, tuple[Callable[[Object], None], ...]] = {
    "ResourceFlavor": (),
    "Topology": (),
    "Cohort": (_drop("status.fairSharing", "admissionFairSharingStatus"),),
    "ClusterQueue": (
        _rename("spec", "cohort", "cohortName"),
        _nest_admission_checks,
        _check_list(_CHECKS, key="name", most=64),
        _check_length(f"{_CHECKS}[].name", 1, 316),
        _check_list(f"{_CHECKS}[].onFlavors", most=64),
        _rename_searches,
        _check_admission_mode,
        _drop("status", "pendingWorkloadsStatus"),
        _drop("status.fairSharing", "admissionFairSharingStatus"),
    ),
    "LocalQueue": (_rename("status", "flavorUsage", "flavorsUsage"), _drop("status", "flavors")),
    "AdmissionCheck": (
        _drop("spec", "retryDelayMinutes"),
        _check_length("spec.controllerName", 1, 253),
        *(_check_length(f"spec.parameters.{field}", 1, 253) for field in ("apiGroup", "kind", "name")),
    ),
    "MultiKueueCluster": (_nest_cluster_source, _check_length("spec.clusterSource.kubeConfig.location", 1, 256)),
    "MultiKueueConfig": (_check_list("spec.clusters"), _check_length("spec.clusters[]", 1, 256)),
    "ProvisioningRequestConfig": (
        _check_list("spec.podSetUpdates.nodeSelector", key="key"),
        _check_length("spec.provisioningClassName", 1, 253),
    ),
    "WorkloadPriorityClass": (_check_length("description", 0, 2048),),
    "Workload": (
        _refer_to_priority_class,
        *(
            _check_length(f"{_REQUEST}.{field}", 0, most)
            for field, most in (
                ("required", _LONGEST_LABEL),
                ("preferred", _LONGEST_LABEL),
                ("podSetSliceRequiredTopology", _LONGEST_LABEL),
                ("podSetGroupName", 256),
                ("podIndexLabel", _LONGEST_QUALIFIED),
                ("subGroupIndexLabel", _LONGEST_QUALIFIED),
            )
        ),
        _rename("status", "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"),
        _slice_topology_assignments,
    ),
}
