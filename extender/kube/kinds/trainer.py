"""TrainJob of Kubeflow Trainer v2: a runtime says what its pods are, and its controller makes a JobSet of both.

It is read in that JobSet, which exists while it is suspended. It is started and stopped by itself: what is to be
written on the JobSet goes into an entry of ``runtimePatches``, which the admission policy makes. The entry stays:
without it trainer v2.3.0 cannot unsuspend the JobSet any more. Tolerations in it replace those of the runtime, and of
the entries before it: it has all of them, as the JobSet shows them, while a flavor has brought some, and else none.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import msgspec

from extender.kube.dialects import MIN_MEMBER, POD_GROUP
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.keys import FLAVORS, HOLD, NODES, OWN, PLAN, WORKLOAD
from extender.kube.kinds.kind import Kind, Object, found, part_of, put
from extender.kube.kinds.template import kept_of
from extender.kube.kinds.tolerated import TOLERATED
from extender.kube.objects import Meta
from extender.kube.queues.naming import SHOWN, queue_of

MANAGER = "muster.dev/muster"
"""Of our entry in ``runtimePatches``."""
_OF_TEMPLATES = (POD_GROUP, MIN_MEMBER, WORKLOAD, NODES)
_OF_JOB = (PLAN, FLAVORS)
_PATCHES = "spec.runtimePatches.*"

TRAIN_JOB: Kind = replace(
    JOBSET,
    version="trainer.kubeflow.org/v1alpha1",
    name="TrainJob",
    plural="trainjobs",
    managers=("trainer.kubeflow.org/trainjob-controller", *JOBSET.managers),
    shown_in=JOBSET,
)


def carried(train_job: Object, jobset: Object, *, entry: bool) -> Object:
    """A copy of the TrainJob with what was written on a copy of its JobSet. ``entry``: also what goes into the entry,
    which nobody may change while pods of it are active. Raises UnreadableJobError."""
    after = deepcopy(train_job)
    put(after, "spec.suspend", next(found(jobset, "spec.suspend"), False))
    written = next(found(jobset, "metadata.annotations"), None) or {}
    own = next(found(after, "metadata.annotations"), None) or {}
    plan = {key: written[key] for key in _OF_JOB if key in written}
    put(after, "metadata.annotations", {key: value for key, value in own.items() if key not in _OF_JOB} | plan)
    if not after["metadata"]["annotations"] and "annotations" not in train_job["metadata"]:
        del after["metadata"]["annotations"]
    if entry:
        others = [one for one in found(after, _PATCHES) if isinstance(one, dict) and one.get("manager") != MANAGER]
        meta = msgspec.convert(train_job["metadata"], Meta)
        put(after, "spec.runtimePatches", [*others, _entry(jobset, meta)])
    return after


def _entry(jobset: Object, meta: Meta) -> Object:
    """``meta``: of the TrainJob. As the admission policy does it shows whether that is held, and its queue."""
    said = next(found(jobset, "metadata.annotations"), None) or {}
    shown = {WORKLOAD: "", HOLD: str("true" in meta.said(HOLD)).lower(), SHOWN: queue_of(meta)[0]}
    marks = shown | {key: said[key] for key in (*_OF_JOB, OWN) if key in said}
    kept = kept_of(msgspec.convert(jobset["metadata"], Meta))
    jobs = [
        {
            "name": one.get("name"),
            "template": {
                "spec": {"template": _written(one, tolerates=TOLERATED in kept.get(str(one.get("name")), {}))}
            },
        }
        for one in found(jobset, "spec.replicatedJobs.*")
        if isinstance(one, dict)
    ]
    template = {"metadata": {"annotations": marks}, "spec": {"replicatedJobs": jobs}}
    return {"manager": MANAGER, "trainingRuntimeSpec": {"template": template}}


def _written(replicated: Object, *, tolerates: bool) -> Object:
    """What is Muster's of its template; an annotation that is not there has lost its value. ``tolerates``: Muster has
    added to its tolerations."""
    pod = part_of(replicated, "template", "spec", "template")
    said = next(found(pod, "metadata.annotations"), None) or {}
    annotations = {"metadata": {"annotations": {key: said.get(key, "") for key in _OF_TEMPLATES}}}
    return annotations | ({"spec": {"tolerations": [*found(pod, "spec.tolerations.*")]}} if tolerates else {})
