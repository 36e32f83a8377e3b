"""All kinds of jobs that are planned before their pods exist."""

from __future__ import annotations

from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.keys import WORKLOAD
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.ray import RAY_CLUSTER, RAY_JOB
from extender.kube.kinds.read import asks
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.kinds.training import TRAINING
from extender.kube.objects import Meta

KINDS: tuple[Kind, ...] = (JOB, JOBSET, *TRAINING, MPI, RAY_CLUSTER, RAY_JOB, TRAIN_JOB)
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


def read_as(kind: Kind, meta: Meta) -> Kind:
    """The kind of the job that an object of this kind shows: its own, or of whom has made it to be read in it."""
    makers = _makers(meta)
    return next((one for one in KINDS if one.shown_in is kind and (one.version, one.name) in makers), kind)


def is_wanted(kind: Kind, meta: Meta) -> bool:
    """Whether Muster is to admit it: its author asks for it, or the admission policy has said so where it is shown."""
    if kind.shown_in is not None:
        return WORKLOAD in (meta.annotations or {})
    return asks(meta) and is_outermost(meta)


def is_outermost(meta: Meta) -> bool:
    """No job of any kind has made it. The Jobs of a CronJob, or of a workflow, are admitted one by one."""
    makers = _makers(meta)
    return not any(version.partition("/")[0] in _GROUPS or (version, kind) == _JOB for version, kind in makers)


def _makers(meta: Meta) -> list[tuple[str, str]]:
    return [(one.api_version or "", one.kind or "") for one in meta.owner_references or () if one.controller]
