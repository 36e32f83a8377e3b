"""The setting ``job_kinds``: kinds of jobs that Muster has no code for, described by the places in their objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations, permutations
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PlainValidator, model_validator

MOST_PODS = 10_000
"""Most pods of a podset: as many as can be planned together."""
KNOWN = {
    "batch": ("Job",),
    "jobset.x-k8s.io": ("JobSet",),
    "kubeflow.org": ("PyTorchJob", "TFJob", "XGBoostJob", "PaddleJob", "JAXJob", "MPIJob"),
    "ray.io": ("RayCluster", "RayJob"),
    "trainer.kubeflow.org": ("TrainJob",),
    "workload.codeflare.dev": ("AppWrapper",),
    "apps": ("StatefulSet", "Deployment", "ReplicaSet"),
    "leaderworkerset.x-k8s.io": ("LeaderWorkerSet",),
}
"""The kinds that Muster has code for, by group."""
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_GROUP = rf"(?=.{{1,253}}/){_LABEL}(\.{_LABEL})*"
_FIELD = r"[A-Za-z_][A-Za-z0-9_-]{0,62}"
_PATH = rf"spec(\.{_FIELD}){{1,15}}"
_SIGN = rf"[A-Za-z][A-Za-z0-9]{{0,99}}|(spec|status|metadata)(\.({_FIELD}|\*)){{1,15}}(=.{{1,100}})?"
_KEY = rf"((?=.{{1,253}}/){_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([A-Za-z0-9_.-]{{0,61}}[A-Za-z0-9])?"


def _like(pattern: str, what: str) -> Callable[[str], str]:
    """A check for text of that pattern. ``what``: describes the pattern in the error."""
    known = re.compile(pattern, re.ASCII)

    def checked(text: str) -> str:
        if not known.fullmatch(text):
            raise ValueError(f"{_excerpt(text)} is not {what}")
        return text

    return checked


def _excerpt(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= 100 else f"{text[:96]}..."


_is_path = _like(_PATH, "a path: names of fields joined with dots, beginning with spec, as in spec.worker.template")


def _count(value: Any) -> int | str:
    if isinstance(value, str):
        return _is_path(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_PODS:
        raise ValueError(f"{_excerpt(value)} is neither a path nor a whole number from 1 to {MOST_PODS:,}")
    return value


Name = Annotated[str, AfterValidator(_like(_LABEL, "a name: up to 63 lower-case letters, digits and hyphens"))]
Path = Annotated[str, AfterValidator(_is_path)]
Sign = Annotated[
    str,
    AfterValidator(
        _like(_SIGN, "a sign: the type of a condition, or a field as in status.active or status.phase=Done")
    ),
]
LabelKey = Annotated[str, AfterValidator(_like(rf"({_KEY})?", "the key of a label"))]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PodSetPlaces(_Strict):
    """A pod template of such a job."""

    name: Name = Field(description="Different in each podset of the kind.")
    template: Path = Field(description="Path of the pod template: metadata and spec.")
    count: Annotated[int | str, PlainValidator(_count)] = Field(
        description="The number of its pods, or its path (1 where the field is absent)."
    )
    index_label: LabelKey = Field(
        default="",
        description="Label of a pod that has its index, from 0. Empty: its pods are alike, and each takes any slot.",
    )
    optional: bool = Field(default=False, description="Without its template it has no pods; else the job is refused.")


class JobKind(_Strict):
    """A kind whose objects are suspended by a field, and whose controller makes pods of templates in them."""

    version: Annotated[
        str, AfterValidator(_like(rf"{_GROUP}/{_LABEL}", "a group and a version, as in science.example.com/v1"))
    ] = Field(description="apiVersion of the kind, GROUP/VERSION.")
    kind: Annotated[str, AfterValidator(_like(r"[A-Z][A-Za-z0-9]{0,62}", "a kind, as in Simulation"))] = Field(
        description="Its name."
    )
    plural: Name = Field(description="Its name in paths of the API server: names.plural of its CRD.")
    suspend: Path = Field("spec.suspend", description="Path of the field that suspends it while it is true.")
    podsets: tuple[PodSetPlaces, ...] = Field(min_length=1, max_length=16, description="One for each pod template.")
    finished: tuple[Sign, ...] = Field(
        max_length=16,
        description="Signs that it has ended. A sign is the type of a condition that is True, a field that is neither "
        "empty nor 0 (status.active), or a field and its value (status.phase=Done); * is every item of a list.",
    )
    stopped: Sign | None = Field(
        default=None,
        description="Sign that its controller has seen that it is suspended. Default: that its pods are gone.",
    )
    began: tuple[Sign, ...] = Field(
        ("status.*",),
        max_length=16,
        description="Signs that its controller has seen it at all: before that, stopped is not waited for.",
    )
    active: tuple[Sign, ...] = Field(("status.active",), max_length=16, description="Signs that it has pods.")
    ran: tuple[Sign, ...] = Field(
        ("status.active", "status.ready"),
        max_length=16,
        description="Signs that pods of it run or have run. If other clients have started it, it is left alone then.",
    )
    managed_by: Path | None = Field(
        default=None,
        description="Path of a field that names its manager. Jobs with others than managers are left alone.",
    )
    managers: tuple[str, ...] = Field((), max_length=16, description="Values of that field, besides nothing.")
    frozen: bool = Field(default=True, description="Its templates may be changed only while it is suspended.")
    resumes: bool = Field(
        default=False, description="When it starts again, succeeded pods that still exist are not made again."
    )

    @property
    def group(self) -> str:
        return self.version.partition("/")[0]

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.kind in KNOWN.get(self.group, ()):
            raise ValueError(f"Muster knows the kind {self.kind} of {self.group} already")
        for set_places, other in combinations(self.podsets, 2):
            if set_places.name == other.name:
                raise ValueError(f"two podsets have the name {set_places.name}")
        for outer, inner in permutations([self.suspend, *(podset.template for podset in self.podsets)], 2):
            if f"{inner}.".startswith(f"{outer}."):
                raise ValueError(f"{inner} is {outer} or a part of it, and each place is one thing alone")
        if self.managers and self.managed_by is None:
            raise ValueError("managers needs managed_by")
        if self.stopped is None and "began" in self.model_fields_set:
            raise ValueError("began needs stopped")
        return self


def _distinct(kinds: tuple[JobKind, ...]) -> tuple[JobKind, ...]:
    for job_kind, other in combinations(kinds, 2):
        if (job_kind.group, job_kind.kind) == (other.group, other.kind):
            raise ValueError(f"the kind {job_kind.kind} of {job_kind.group} is there twice")
        if (job_kind.version, job_kind.plural) == (other.version, other.plural):
            raise ValueError(f"{job_kind.kind} and {other.kind} have the same plural {job_kind.plural}")
    return kinds


JobKinds = Annotated[tuple[JobKind, ...], Field(max_length=32), AfterValidator(_distinct)]
