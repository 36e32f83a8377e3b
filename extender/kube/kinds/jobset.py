"""JobSet: one pod template for each replicated job, and a podset for each of its Jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from extender.kube.kinds.job import size_of
from extender.kube.kinds.kind import (
    Kind,
    Object,
    Template,
    UnreadableJobError,
    count_in,
    deadline_in,
    found,
    name_of,
    part_of,
)
from extender.kube.kinds.plan import MOST_PODS
from extender.kube.reading.numbering import series_of_job
from extender.kube.reading.objects import Meta

TOO_MANY_JOBS = f"it has more than {MOST_PODS:,} Jobs, and no more pods can be planned together"

_LABELS = "jobset.sigs.k8s.io/"
"""The prefix of the labels that JobSet gives its pods."""
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
PLACES_THEM = (
    f"with the annotation {EXCLUSIVE} JobSet chooses nodes itself, for most pods when the first of their Job is bound, "
    "so that they cannot start together: create it again without; muster.dev/slice-size (the pods of a Job) and "
    "muster.dev/slice-topology in the pod template keep each Job in one domain"
)


def _templates(obj: Object) -> Iterator[Template]:
    """Yield a template for each replicated job. Jobs are numbered through all of them; a pod names its Job and
    index."""
    spec = part_of(obj, "spec")
    in_order = "InOrder" in found(spec, "startupPolicy.startupPolicyOrder")
    waves: dict[str, int] = {}
    ends: dict[str, float | None] = {}
    first = 0
    for replicated in found(spec, "replicatedJobs.*"):
        if not isinstance(replicated, dict):
            raise UnreadableJobError("its replicatedJobs cannot be read")
        name, jobs = str(replicated.get("name")), count_in(replicated, "replicas", 1)
        if first + jobs > MOST_PODS:
            raise UnreadableJobError(TOO_MANY_JOBS)
        job = part_of(replicated, "template", "spec")
        count, indexed, completions = size_of(job, "Indexed")
        before = [*waves] if in_order else [str(earlier) for earlier in found(replicated, "dependsOn.*.name")]
        waves[name] = max((waves.get(earlier, 0) + 1 for earlier in before), default=0)
        ends[name] = _end(deadline_in(job, "activeDeadlineSeconds"), [ends.get(earlier) for earlier in before])
        series = tuple(series_of_job(first + at) for at in range(jobs))
        first += jobs
        yield Template(
            name,
            part_of(job, "template"),
            series,
            count,
            indexed,
            waves[name],
            affinity=False,
            emptied=True,
            completions=completions,
            deadline_s=ends[name],
            meta=Meta(labels={f"{_LABELS}jobset-name": name_of(obj), f"{_LABELS}replicatedjob-name": name}),
            problem=PLACES_THEM if any(map(_is_exclusive, (obj, replicated["template"], job["template"]))) else "",
        )


def _end(deadline_s: float | None, before: Sequence[float | None]) -> float | None:
    """When the Jobs have ended, in seconds after the start of the first; each begins once those before it have
    ended."""
    known = [end for end in before if end is not None]
    return None if deadline_s is None or len(known) < len(before) else max(known, default=0.0) + deadline_s


def _is_exclusive(component: Object) -> bool:
    return any(isinstance(item, dict) and EXCLUSIVE in item for item in found(component, "metadata.annotations"))


JOBSET = Kind(
    version="jobset.x-k8s.io/v1alpha2",
    name="JobSet",
    plural="jobsets",
    templates=_templates,
    suspend="spec.suspend",
    finished=("Completed", "Failed"),
    active=("status.replicatedJobsStatus.*.active",),
    ran=tuple(f"status.replicatedJobsStatus.*.{name}" for name in ("ready", "succeeded", "failed")),
    managed_by="spec.managedBy",
    managers=("jobset.sigs.k8s.io/jobset-controller",),
    frozen=True,
    resumes=True,
)
