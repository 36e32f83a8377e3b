"""MPIJob v2beta1: workers, and a launcher in a Job of its own, which exists while the MPIJob is suspended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from extender.kube.kinds.kind import Object, Template, count_in, deadline_in, name_of, part_of
from extender.kube.kinds.training import DEADLINE, JOB_NAME, TRAINING, roles_of
from extender.kube.reading.numbering import TRAINING_JOBS, series_of_role
from extender.kube.reading.objects import Meta

_ROLE = "training.kubeflow.org/job-role"


def _templates(obj: Object) -> Iterator[Template]:
    spec = part_of(obj, "spec")
    together = spec.get("runLauncherAsWorker") is True
    waits = spec.get("launcherCreationPolicy") == "WaitForWorkersReady"
    for role, role_spec in roles_of(obj, TRAINING_JOBS["MPIJob"]):
        launches = role.lower() == "launcher"
        yield Template(
            role,
            part_of(role_spec, "template"),
            (series_of_role(role),),
            count_in(role_spec, "replicas", 1 if launches else 0),
            indexed=together or not launches,
            wave=int(waits and launches),
            # The launcher's Job may exist already. Of later changes only annotations reach it, since they are merged.
            affinity=not launches,
            emptied=launches,
            # With runLauncherAsWorker the launcher is worker 0.
            first_index=int(together and not launches),
            grows=not launches,
            deadline_s=deadline_in(obj, DEADLINE),
            meta=Meta(labels={JOB_NAME: name_of(obj), _ROLE: role.lower()}),
        )


# All other fields are those of training-operator's kinds.
MPI = replace(
    TRAINING[0],
    version="kubeflow.org/v2beta1",
    name="MPIJob",
    plural="mpijobs",
    templates=_templates,
    managers=("kubeflow.org/mpi-operator",),
    backs_off=True,
)
