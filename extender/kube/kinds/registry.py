"""All kinds of jobs that are planned before their pods exist."""

from __future__ import annotations

from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.ray import RAY_CLUSTER, RAY_JOB
from extender.kube.kinds.training import TRAINING
from extender.kube.objects import Meta

KINDS: tuple[Kind, ...] = (JOB, JOBSET, *TRAINING, MPI, RAY_CLUSTER, RAY_JOB)
_JOB = (JOB.version, JOB.name)
_GROUPS = frozenset(
    (
        "jobset.x-k8s.io",
        "kubeflow.org",
        "trainer.kubeflow.org",
        "ray.io",
        "workload.codeflare.dev",
        "leaderworkerset.x-k8s.io",
    )
)
"""Of kinds that make jobs, which are part of them then. The admission policy has the same."""
_BY_NAME = {(kind.group, kind.name): kind for kind in KINDS}


def kind_of(version: str, name: str) -> Kind | None:
    """The kind of an object or of an owner, in whichever version of its group."""
    return _BY_NAME.get((version.rpartition("/")[0], name))


def is_outermost(meta: Meta) -> bool:
    """No job of any kind has made it. The Jobs of a CronJob, or of a workflow, are admitted one by one."""
    makers = [(one.api_version or "", one.kind or "") for one in meta.owner_references or () if one.controller]
    return not any(version.partition("/")[0] in _GROUPS or (version, kind) == _JOB for version, kind in makers)
