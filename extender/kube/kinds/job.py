"""batch/v1 Job, Indexed or not; the Jobs of a CronJob too."""

from __future__ import annotations

from collections.abc import Iterator

from extender.kube.kinds.kind import Kind, Object, Template, count_in, part_of

CONTROLLER = "kubernetes.io/job-controller"


def size_of(spec: Object, mode: str = "NonIndexed") -> tuple[int, bool]:
    """How many pods of a Job run at a time, and whether the index of each is a slot of its own.

    ``mode``: its completionMode, where it says none. With more completions than pods an index is used one after
    another by whoever comes.
    """
    parallelism = count_in(spec, "parallelism", 1)
    completions = count_in(spec, "completions", -1)
    count = parallelism if completions < 0 else min(parallelism, completions)
    return count, (spec.get("completionMode") or mode) == "Indexed" and completions == count


def _templates(obj: Object) -> Iterator[Template]:
    spec = part_of(obj, "spec")
    count, indexed = size_of(spec)
    yield Template("", part_of(spec, "template"), ("",), count, indexed)


JOB = Kind(
    version="batch/v1",
    name="Job",
    plural="jobs",
    templates=_templates,
    suspend="spec.suspend",
    finished=("Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"),
    active="status.active",
    ran=("status.ready", "status.succeeded", "status.failed"),
    managed_by="spec.managedBy",
    managers=(CONTROLLER,),
    frozen=True,
    min_parallelism=True,
)
