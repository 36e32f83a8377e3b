"""The kinds of Kubeflow's training-operator: a pod template and a podset for each role."""

from __future__ import annotations

from collections.abc import Iterator

from extender.kube.kinds.kind import Kind, Object, Template, count_in, part_of
from extender.kube.numbering import series_of_role


def roles_of(obj: Object, field: str) -> Iterator[tuple[str, Object]]:
    """The roles in that field of the spec, in rank order."""
    roles = part_of(obj, "spec", field)
    for role in sorted(roles, key=series_of_role):
        yield role, part_of(roles, role)


def _kind(name: str, field: str) -> Kind:
    def templates(obj: Object) -> Iterator[Template]:
        for role, spec in roles_of(obj, field):
            yield Template(role, part_of(spec, "template"), (series_of_role(role),), count_in(spec, "replicas", 1))

    return Kind(
        version="kubeflow.org/v1",
        name=name,
        plural=f"{name.lower()}s",
        templates=templates,
        suspend="spec.runPolicy.suspend",
        finished=("Succeeded", "Failed"),
        active="status.replicaStatuses.*.active",
        ran=tuple(f"status.replicaStatuses.*.{one}" for one in ("active", "succeeded", "failed")),
        managed_by="spec.runPolicy.managedBy",
        managers=("kubeflow.org/training-operator",),
    )


TRAINING = tuple(
    _kind(name, field)
    for name, field in (
        ("PyTorchJob", "pytorchReplicaSpecs"),
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("PaddleJob", "paddleReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
    )
)
