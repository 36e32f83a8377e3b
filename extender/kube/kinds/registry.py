"""All kinds of jobs that are planned before their pods exist."""

from __future__ import annotations

from collections.abc import Sequence

from extender.kube.keys import GANG, QUEUES, WORKLOAD
from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.ray import RAY_CLUSTER, RAY_JOB
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.kinds.training import TRAINING
from extender.kube.reading.objects import Meta

KINDS: tuple[Kind, ...] = (JOB, JOBSET, *TRAINING, MPI, RAY_CLUSTER, RAY_JOB, TRAIN_JOB, APP_WRAPPER)
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
"""API groups of kinds that make jobs. A job that one of them made is a part of its maker. The admission policy has
the same list."""


class Registry:
    """All kinds that Muster knows, including ``own``, those of its settings."""

    def __init__(self, own: Sequence[Kind] = ()) -> None:
        self.kinds = (*KINDS, *own)
        self._by_name = {(kind.group, kind.name): kind for kind in self.kinds}
        self._own = {(kind.group, kind.name) for kind in own}

    def kind_of(self, version: str, name: str) -> Kind | None:
        """The kind of an object or owner, in any version of its API group."""
        return self._by_name.get((_group(version), name))

    def read_as(self, kind: Kind, meta: Meta) -> Kind:
        """The kind of the job that the object shows: its own, or that of the owner that is read in it."""
        makers = _makers(meta)
        return next(
            (inner for inner in self.kinds if inner.shown_in is kind and (inner.version, inner.name) in makers), kind
        )

    def is_wanted(self, kind: Kind, meta: Meta) -> bool:
        """Whether Muster is to admit the job: its author asks, or the admission policy has marked the object that
        shows it."""
        if kind.shown_in is not None:
            return WORKLOAD in (meta.annotations or {})
        return asks(meta) and self.is_outermost(meta)

    def is_outermost(self, meta: Meta) -> bool:
        """Whether no job of any kind made this one. Jobs of a CronJob or of a workflow are admitted one by one."""
        return not any(
            _group(version) in _GROUPS or (version, kind) == _JOB or (_group(version), kind) in self._own
            for version, kind in _makers(meta)
        )


def asks(meta: Meta) -> bool:
    """Whether the author asks Muster to admit the job by any value but false, or by a queue."""
    values = meta.values_of(GANG)
    return "false" not in values and (any(values) or any((meta.labels or {}).get(key) for key in QUEUES))


def _group(version: str) -> str:
    return version.partition("/")[0]


def _makers(meta: Meta) -> list[tuple[str, str]]:
    return [
        (owner_reference.api_version or "", owner_reference.kind or "")
        for owner_reference in meta.owner_references or ()
        if owner_reference.controller
    ]
