"""The objects of a load test of gangs: its namespace, and gangs of pause pods or suspended Jobs at a constant rate."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from extender.kube.dialects.words import MIN_MEMBER, POD_GROUP
from extender.kube.keys import GANG as GANG_LABEL

RUN = "bench.muster.dev/run"
"""The label of everything that a run makes: its id."""
GANG = "bench.muster.dev/gang"
"""The label of a pod and of a Job: the name of its gang."""
OWNER = "bench.muster.dev/owner"
"""The annotation of the namespace: host, process and start of the process that makes the run."""
PREFIX = "muster-bench-"
"""How the namespace of a run begins; the id of the run follows."""
WARM_UP = "warm-up"
NAMESPACES = "/api/v1/namespaces"

Object = dict[str, Any]


class Kind(StrEnum):
    """Makers of a gang's pods: the load test itself, or the Job controller when Muster has started the Job."""

    PODS = "pods"
    JOB = "job"


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of a load test's pods."""

    scheduler: str
    image: str
    resources: Mapping[str, str]
    node_selector: Mapping[str, str]
    tolerated: tuple[str, ...] = ()
    priority_class: str = ""

    def spec(self) -> Object:
        """The pod's spec. It fits the Pod Security Standard `restricted`, and the pod sees no token."""
        container = {
            "name": "pause",
            "image": self.image,
            "resources": {"requests": dict(self.resources), "limits": dict(self.resources)},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        user = {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}}
        spec: Object = {
            "schedulerName": self.scheduler,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 1,
            "securityContext": user,
            "containers": [container],
            "nodeSelector": dict(self.node_selector),
            "tolerations": [{"key": key, "operator": "Exists"} for key in self.tolerated],
        }
        return spec | ({"priorityClassName": self.priority_class} if self.priority_class else {})


@dataclass(frozen=True, slots=True)
class Course:
    """``gangs`` of ``size`` pods at a constant rate.

    ``rate``: pods a second on average, since all pods of a gang are due at once.
    ``lifetime_s``: how long a gang lives after its last member was bound; None: until the end of the run.
    """

    kind: Kind
    gangs: int
    size: int
    rate: float
    shape: Shape
    lifetime_s: float | None = None
    run: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def namespace(self) -> str:
        """The namespace that the run makes for itself."""
        return f"{PREFIX}{self.run}"

    @property
    def pods(self) -> int:
        """The number of all pods, without those of the gang that is not timed."""
        return self.gangs * self.size

    @property
    def seconds(self) -> float:
        """The time from the first gang until the last one is due."""
        return (self.gangs - 1) * self.size / self.rate

    def due_s(self, number: int) -> float:
        """When that gang is due, in seconds after the first one."""
        return number * self.size / self.rate

    def names(self) -> list[str]:
        """The names of the gangs in the order in which they are due."""
        return [f"gang-{number}" for number in range(self.gangs)]

    def namespace_object(self) -> Object:
        """The namespace, with the marks by which `--clean` finds it."""
        owner = {OWNER: f"{socket.gethostname()}/{os.getpid()}/{started(os.getpid())}"}
        return {"metadata": {"name": self.namespace, "labels": {RUN: self.run}, "annotations": owner}}

    def objects(self, gang: str) -> Iterator[tuple[str, Object]]:
        """Yield the objects of a gang, each with the path that it is posted to."""
        if self.kind is Kind.JOB:
            yield f"/apis/batch/v1/namespaces/{self.namespace}/jobs", self._job(gang)
            return
        for index in range(self.size):
            meta: Object = {"name": f"{gang}-{index}", "labels": self._labels(gang)}
            meta["annotations"] = {POD_GROUP: gang, MIN_MEMBER: str(self.size)}
            yield (
                f"{NAMESPACES}/{self.namespace}/pods",
                {"metadata": meta, "spec": self.shape.spec() | {"restartPolicy": "Never"}},
            )

    def _job(self, gang: str) -> Object:
        pod = self.shape.spec() | {"restartPolicy": "Never"}
        return {
            "metadata": {"name": gang, "labels": {**self._labels(gang), GANG_LABEL: "true"}},
            "spec": {
                "suspend": True,
                "completionMode": "Indexed",
                "completions": self.size,
                "parallelism": self.size,
                "backoffLimit": 0,
                "template": {"metadata": {"labels": self._labels(gang)}, "spec": pod},
            },
        }

    def _labels(self, gang: str) -> dict[str, str]:
        return {RUN: self.run, GANG: gang}

    def described(self) -> Object:
        """The settings, as written in a file."""
        return {
            "kind": self.kind.value,
            "gangs": self.gangs,
            "size": self.size,
            "rate": self.rate,
            "lifetime_s": self.lifetime_s,
            "scheduler_name": self.shape.scheduler,
            "image": self.shape.image,
            "resources": dict(self.shape.resources),
            "tolerations": list(self.shape.tolerated),
            "node_selector": dict(self.shape.node_selector),
            "priority_class": self.shape.priority_class,
        }


def started(process: int) -> str:
    """When the process was started, as the kernel counts; empty if it has ended. Process ids are used again.

    Without /proc, all living processes count as started at the same time.
    """
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return "" if Path("/proc/self").exists() or not _is_there(process) else "0"
    return "" if state in "ZX" else fields[18]


def _is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process
        return True
    return True
