"""batch/v1 Job, Indexed or not; the Jobs of a CronJob too."""

from __future__ import annotations

from collections.abc import Iterator

from extender.kube.keys import PLAN
from extender.kube.kinds.kind import Kind, Object, Template, count_in, deadline_in, found, part_of
from extender.kube.kinds.plan import MOST_PODS, plan_from

_COMPLETED, _FAILED, _SUCCEEDED = "status.completedIndexes", "status.failedIndexes", "status.succeeded"
CONTROLLER = "kubernetes.io/job-controller"


def size_of(spec: Object, mode: str = "NonIndexed") -> tuple[int, bool, int]:
    """How many pods of a Job run at a time, whether each index is one slot, and its ``completions`` as in PodSet.

    ``mode``: the completionMode to assume where the spec has none. With more completions than parallelism, successive
    pods share a slot.
    """
    parallelism = count_in(spec, "parallelism", 1)
    completions = count_in(spec, "completions", -1)
    count = parallelism if completions < 0 else min(parallelism, completions)
    indexed = (spec.get("completionMode") or mode) == "Indexed" and completions == count
    return count, indexed, completions if completions > count else 0


def _templates(obj: Object) -> Iterator[Template]:
    spec = part_of(obj, "spec")
    count, indexed, completions = size_of(spec)
    nodes = _planned(obj)
    done = ended = frozenset[int]()
    closed = 0
    failed = frozenset(_indexes(obj, _FAILED))  # no pod replaces these
    if indexed:
        # A slot that finishes while the job runs has a node, and keeps its slot.
        ended = frozenset(at for at in failed.union(_indexes(obj, _COMPLETED)) if at < count)
        done = frozenset(at for at in ended if not (at < len(nodes) and nodes[at]))
    elif over := count_in(part_of(obj, "status") if obj.get("status") else {}, "succeeded", 0) + len(failed):
        left = count_in(spec, "completions", count + over) - over
        count = min(count, max(left, len(nodes)))
        # Without a stated number of completions, no pod is made once one has succeeded.
        planned = sum(map(bool, nodes))
        closed = planned if spec.get("completions") is None else max(0, planned - left)
    made_of = part_of(spec, "template")
    yield Template(
        "",
        made_of,
        ("",),
        count,
        indexed,
        done=done,
        ended=ended,
        closed=closed,
        completions=completions,
        deadline_s=deadline_in(spec, "activeDeadlineSeconds"),
    )


def _planned(obj: Object) -> tuple[str, ...]:
    annotations = next(found(obj, "metadata.annotations"), None) or {}
    return (plan_from(annotations.get(PLAN)) or {}).get("", ())


def _indexes(obj: Object, path: str) -> Iterator[int]:
    """Yield the indexes at that path: numbers and ranges, such as "1,3-5,7"."""
    for span in str(next(found(obj, path), None) or "").split(","):
        first, _, last = span.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            yield from range(int(first), min(int(last or first), MOST_PODS) + 1)


def _starts_no_native_gang(obj: Object) -> bool:
    """Whether Muster may start the Job. kube-scheduler starts Kubernetes' own gangs and groups that the author
    names."""
    ways = "spec.scheduling.schedulingPolicy.gang", "spec.template.spec.schedulingGroup"
    return not any(value is not None for way in ways for value in found(obj, way))


JOB = Kind(
    version="batch/v1",
    name="Job",
    plural="jobs",
    templates=_templates,
    suspend="spec.suspend",
    finished=("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
    active=("status.active",),
    ran=("status.ready", "status.succeeded", "status.failed"),
    empty="spec.completions=0",
    managed_by="spec.managedBy",
    managers=(CONTROLLER,),
    frozen=True,
    freezes="startTime",
    suspendable=_starts_no_native_gang,
    min_parallelism=True,
    progress=(_COMPLETED, _FAILED, _SUCCEEDED),
    tries_first=True,
)
