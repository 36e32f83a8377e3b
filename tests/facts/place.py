"""A namespace of one fact: jobs and their pods in it, nodes beside it, and the control plane's work for them."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from devcluster import Cluster
from devcluster.api import Object

PATIENCE_S = 60.0
PAGE = 250
T = TypeVar("T")
_numbers = itertools.count(1)


class Place:
    """Everything made through it is gone after the ``with`` block."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self.namespace = f"fact-{next(_numbers)}"
        self._nodes: list[str] = []
        self._batches = itertools.count()
        self._cleanup: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # Without this account the API server refuses pods; the controller makes it a moment after the namespace.
        self.api.wait_for(f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default", bool)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in reversed(self._cleanup):
            undo()
        self.api.delete(self.jobs, {"propagationPolicy": "Background"})
        self.api.wait_for(self.jobs, lambda jobs: not jobs)
        self._delete_pods()
        self.api.wait_for(self.pods, lambda pods: not pods)
        for node in self._nodes:
            self.api.delete(f"/api/v1/nodes/{node}")

    def _delete_pods(self) -> None:
        """The API server ends a request after 60 s, and thousands of pods may take longer: page by page."""
        rest: dict[str, str | int] = {}
        while True:
            page = self.api.delete(self.pods, {"gracePeriodSeconds": 0}, limit=PAGE, **rest)
            rest = {"continue": page["metadata"].get("continue", "")}
            if not rest["continue"]:
                return

    def afterwards(self, undo: Callable[[], object]) -> None:
        """Call ``undo`` at the end, before the objects of the namespace are deleted."""
        self._cleanup.append(undo)

    @property
    def pods(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def jobs(self) -> str:
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    def add_nodes(self, count: int, gpus: int = 8, pods: int = 110) -> list[str]:
        """Nodes of this fact alone: its jobs select them."""
        prefix = f"{self.namespace}-{next(self._batches)}-node"
        added = self.cluster.add_nodes(count, gpus=gpus, prefix=prefix, pods=pods, labels={"fact": self.namespace})
        self._nodes += added
        return added

    def delete_node(self, node: str) -> None:
        """Before the end of the fact."""
        self.api.delete(f"/api/v1/nodes/{node}")
        self._nodes.remove(node)

    def create_job(self, name: str = "train", **spec: Any) -> Object:
        """An Indexed Job, as `job` describes it."""
        return self.api.create(self.jobs, self.job(name, **spec))

    def job(self, name: str = "train", *, slots: int = 2, template: Object | None = None, **spec: Any) -> Object:
        """The manifest of an Indexed Job of this fact; `template` is merged into the template's metadata and spec."""
        given = template or {}
        pod_spec = {
            "restartPolicy": "Never",
            "nodeSelector": {"fact": self.namespace},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": "train"}],
        } | given.get("spec", {})
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"completionMode": "Indexed", "completions": slots, "parallelism": slots, "backoffLimit": 0}
            | {"template": {"metadata": given.get("metadata", {}), "spec": pod_spec}}
            | spec,
        }

    def patch_job(self, patch: Any, name: str = "train", type: str = "application/merge-patch+json") -> Object:  # noqa: A002
        return self.api.patch(f"{self.jobs}/{name}", patch, type)

    def until_job(self, holds: Callable[[Object], bool], name: str = "train") -> Object:
        """Wait until it exists and this holds."""
        reached: Object = self.api.wait_for(
            f"{self.jobs}/{name}", lambda job: job is not None and holds(job), PATIENCE_S
        )
        return reached

    def until_pods(self, holds: Callable[[list[Object]], bool]) -> list[Object]:
        """Wait until this holds of all pods of the namespace."""
        pods: list[Object] = self.api.wait_for(self.pods, holds, PATIENCE_S)
        return pods

    def pods_of(self, name: str = "train") -> list[Object]:
        return self.api.list(self.pods, labelSelector=f"job-name={name}")


def until(
    look: Callable[[], T], holds: Callable[[T], bool], timeout_s: float = PATIENCE_S, *, every_s: float = 0.02
) -> T:
    """Poll ``look``, which has no watch, until its result is as expected."""
    deadline = time.monotonic() + timeout_s
    while not holds(seen := look()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not as expected within {timeout_s} s; last seen: {str(seen)[:1000]}")
        time.sleep(every_s)
    return seen


@contextmanager
def paused(cluster: Cluster, process: str) -> Iterator[None]:
    """Stop a process of the control plane, and resume it at the end."""
    running = cluster.process(process)
    running.signal(signal.SIGSTOP)
    try:
        # The owner of the processes delivers the signal, and that may be after the next request to the API server.
        until(lambda: _state(running.pid), lambda state: state == "T")
        yield
    finally:
        running.signal(signal.SIGCONT)


def _state(pid: int) -> str:
    """The state as ``ps`` shows it: "T" is stopped."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def cpu_s(cluster: Cluster, process: str = "kube-apiserver") -> float:
    """The processor time that a process of the control plane has used so far, user and system."""
    fields = Path(f"/proc/{cluster.process(process).pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def requests_of(cluster: Cluster, namespace: str, account: str = "job-controller") -> Counter[str]:
    """The requests of a controller in a namespace, by verb and resource, as in "patch pods"."""
    user = f"system:serviceaccount:kube-system:{account}"
    counted: Counter[str] = Counter()
    for event in cluster.audit():
        subject = event.get("objectRef", {})
        if event["user"]["username"] == user and subject.get("namespace") == namespace:
            suffix = f"/{subject['subresource']}" if "subresource" in subject else ""
            counted[f"{event['verb']} {subject['resource']}{suffix}"] += 1
    return counted


def conditions(job: Object) -> dict[str, str]:
    """The conditions of a job by type, with their status."""
    return {condition["type"]: condition["status"] for condition in job.get("status", {}).get("conditions", [])}
