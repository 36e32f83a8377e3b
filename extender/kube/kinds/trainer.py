"""TrainJob of Kubeflow Trainer v2: its controller makes a JobSet of the TrainJob and a runtime.

Muster reads the job in that JobSet, which exists while the TrainJob is suspended, and starts and stops the TrainJob.
Additions for the JobSet go into an entry of ``runtimePatches``, which the admission policy creates. The entry stays:
without it trainer v2.3.0 cannot unsuspend the JobSet any more. Tolerations in the entry replace those of the runtime
and of earlier entries. So it repeats all that the JobSet shows while a flavor adds some, and else has none.

Trainer 2.1 has no such entries. There the JobSet's annotations go into ``spec.annotations``, and those of templates
into ``podTemplateOverrides``. The admission policy writes both ways, and the API server keeps the one that its CRD has
a field for, which shows the version of Trainer. Trainer 2.0 can override no annotation of a template.

A running TrainJob cannot be changed in either way, and its controller leaves the JobSet alone. So the plan of a job
that was started without one is written on the JobSet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace

import msgspec

from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.keys import FLAVORS, HOLD, NODE_LABELS, NODES, OWN, PLAN, WORKLOAD
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind, Object, found, part_of, put
from extender.kube.kinds.template import TOLERATED, originals_of
from extender.kube.reading.objects import Meta
from extender.kube.reading.queue_name import SHOWN, any_queue_of

MANAGER = "muster.dev/muster"
"""The manager of Muster's entry in ``runtimePatches``."""
_OF_TEMPLATES = (POD_GROUP, MIN_MEMBER, WORKLOAD, NODES)
_OF_JOB = (PLAN, FLAVORS)
_PATCHES = "spec.runtimePatches.*"
_SHOWN = "spec.annotations"

TRAIN_JOB: Kind = replace(
    JOBSET,
    version="trainer.kubeflow.org/v1alpha1",
    name="TrainJob",
    plural="trainjobs",
    managers=("trainer.kubeflow.org/trainjob-controller", *JOBSET.managers),
    shown_in=JOBSET,
)


def carried(train_job: Object, jobset: Object, *, entry: bool) -> Object:
    """A copy of the TrainJob with the changes that were made to a copy of its JobSet.

    ``entry``: also write the entry or the overrides, which are immutable while pods are active.
    Raises UnreadableJobError.
    """
    after = deepcopy(train_job)
    put(after, "spec.suspend", next(found(jobset, "spec.suspend"), False))
    written = next(found(jobset, "metadata.annotations"), None) or {}
    own = next(found(after, "metadata.annotations"), None) or {}
    plan = {key: written[key] for key in _OF_JOB if key in written}
    put(after, "metadata.annotations", {key: value for key, value in own.items() if key not in _OF_JOB} | plan)
    if not after["metadata"]["annotations"] and "annotations" not in train_job["metadata"]:
        del after["metadata"]["annotations"]
    if entry:
        meta = msgspec.convert(train_job["metadata"], Meta)
        write = _override if WORKLOAD in (next(found(after, _SHOWN), None) or {}) else _patch
        write(after, _marks(jobset, meta), dict(_written(jobset)))
    return after


def before_start(before: Object, after: Object) -> Object:
    """``after`` reduced to the entry. Trainer before v2.2.1 refuses the entry in the write that starts the job."""
    return {**after, "metadata": before["metadata"], "spec": {**after["spec"], "suspend": True}}


def _patch(train_job: Object, marks: Object, written: Mapping[str, Object]) -> None:
    """Write the entry that Trainer 2.2 and later read."""
    others = [item for item in found(train_job, _PATCHES) if isinstance(item, dict) and item.get("manager") != MANAGER]
    jobs = [{"name": name, "template": {"spec": {"template": pod}}} for name, pod in written.items()]
    template = {"metadata": {"annotations": marks}, "spec": {"replicatedJobs": jobs}}
    ours = {"manager": MANAGER, "trainingRuntimeSpec": {"template": template}}
    put(train_job, "spec.runtimePatches", [*others, ours])


def _override(train_job: Object, marks: Object, written: Mapping[str, Object]) -> None:
    """Write the overrides that Trainer 2.1 reads. Only their content shows which overrides are Muster's."""
    override = next(found(train_job, _SHOWN), None) or {}
    shown = {key: value for key, value in override.items() if key not in (*_OF_JOB, OWN)}
    put(train_job, _SHOWN, shown | marks)
    others = [
        override
        for override in found(train_job, "spec.podTemplateOverrides.*")
        if WORKLOAD not in (next(found(override, "metadata.annotations"), None) or {})
    ]
    ours = [{"targetJobs": [{"name": name}], **pod} for name, pod in written.items()]
    put(train_job, "spec.podTemplateOverrides", [*others, *ours])


def _marks(jobset: Object, meta: Meta) -> Object:
    """The annotations for the JobSet itself. ``meta``: the TrainJob's metadata.

    As in the admission policy, these show whether the TrainJob is held, and its queue.
    """
    annotations = next(found(jobset, "metadata.annotations"), None) or {}
    shown = {WORKLOAD: "", HOLD: str("true" in meta.values_of(HOLD)).lower(), SHOWN: any_queue_of(meta)[0]}
    return shown | {key: annotations[key] for key in (*_OF_JOB, OWN) if key in annotations}


def _written(jobset: Object) -> Iterator[tuple[str, Object]]:
    """Yield Muster's part of the template of each replicated job.

    A missing annotation gets an empty value. Tolerations are listed while Muster has added some, and labels of nodes
    from the first time that Muster asked for them.
    """
    originals = originals_of(msgspec.convert(jobset["metadata"], Meta))
    for replicated in found(jobset, "spec.replicatedJobs.*"):
        if not isinstance(replicated, dict):
            continue
        name, pod = str(replicated.get("name")), part_of(replicated, "template", "spec", "template")
        annotations = next(found(pod, "metadata.annotations"), None) or {}
        marks = {key: annotations.get(key, "") for key in _OF_TEMPLATES}
        marks |= {key: annotations[key] for key in (NODE_LABELS,) if key in annotations}
        ours: Object = {"metadata": {"annotations": marks}}
        if TOLERATED in originals.get(name, {}):
            ours["spec"] = {"tolerations": [*found(pod, "spec.tolerations.*")]}
        yield name, ours
