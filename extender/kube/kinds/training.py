"""The kinds of Kubeflow's training-operator: a pod template and a podset for each role."""

from __future__ import annotations

from collections.abc import Iterator

from extender.kube.kinds.kind import Kind, Object, Template, count_in, deadline_in, name_of, part_of
from extender.kube.reading.numbering import REPLICA_TYPE, TRAINING_JOBS, series_of_role
from extender.kube.reading.objects import Meta

JOB_NAME = "training.kubeflow.org/job-name"
"""A label that training-operator and mpi-operator give all pods of a job."""
DEADLINE = "spec.runPolicy.activeDeadlineSeconds"

_WAITS_FOR_MASTER: tuple[Object, ...] = (
    {"name": "init-pytorch", "resources": {"requests": {"cpu": "50m", "memory": "10Mi"}}},
)
"""The init container that training-operator v1.9.3 adds to workers of a PyTorchJob by default."""


def roles_of(obj: Object, field: str) -> Iterator[tuple[str, Object]]:
    """The roles in that field of the spec, in rank order."""
    roles = part_of(obj, "spec", field)
    for role in sorted(roles, key=series_of_role):
        yield role, part_of(roles, role)


def _kind(name: str, field: str) -> Kind:
    def templates(obj: Object) -> Iterator[Template]:
        has_master = "Master" in part_of(obj, "spec", field)
        for role, spec in roles_of(obj, field):
            pods, series, count = part_of(spec, "template"), (series_of_role(role),), count_in(spec, "replicas", 1)
            waits = name == "PyTorchJob" and role == "Worker" and has_master
            least = _least(obj, count) if role == "Worker" else None
            added = _WAITS_FOR_MASTER if waits else ()
            labels = Meta(labels={JOB_NAME: name_of(obj), REPLICA_TYPE: role.lower()})
            yield Template(
                role,
                pods,
                series,
                count,
                added=added,
                minimum=least,
                grows=True,
                meta=labels,
                deadline_s=deadline_in(obj, DEADLINE),
            )

    return Kind(
        version="kubeflow.org/v1",
        name=name,
        plural=f"{name.lower()}s",
        templates=templates,
        suspend="spec.runPolicy.suspend",
        finished=("Succeeded", "Failed"),
        active=("status.replicaStatuses.*.active",),
        ran=tuple(f"status.replicaStatuses.*.{name}" for name in ("active", "succeeded", "failed")),
        managed_by="spec.runPolicy.managedBy",
        managers=("kubeflow.org/training-operator",),
        # With restartPolicy Never the job fails at once if a pod of an earlier start still terminates.
        same_names=True,
    )


def _least(obj: Object, count: int) -> int | None:
    """How many workers an elastic PyTorchJob or PaddleJob can begin with; None for others."""
    policy = obj["spec"].get("elasticPolicy")
    if not isinstance(policy, dict) or policy.get("minReplicas") is None:
        return None
    return max(1, min(count, count_in(policy, "minReplicas", count)))


TRAINING = tuple(_kind(name, field) for name, field in TRAINING_JOBS.items() if name != "MPIJob")
