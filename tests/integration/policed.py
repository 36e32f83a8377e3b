"""The subjects of the admission policies: pods of a team, in a cluster with Muster installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import MANIFESTS, install
from tests.test_extender_policy import STAMPS as BY_BINDINGS

TEAM = "team"
PODS = f"/api/v1/namespaces/{TEAM}/pods"
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{TEAM}/podgroups"
BY_OWNER = {"muster.dev/gang": "true"}
NAMES = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
STAMPS = dict.fromkeys(BY_BINDINGS, "1")
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@contextmanager
def policed(*components: str) -> Iterator[Cluster]:
    """Muster is installed, with its policies and those of the components, and does not run."""
    with Cluster() as running:
        # First the components: when the last policy of the installation is in force, so are all policies written before
        # it.
        for name in components:
            running.kubectl("apply", "--server-side", "-k", str(MANIFESTS / "components" / name))
        install(running)
        running.add_nodes(2)
        running.api.create("/api/v1/namespaces", {"metadata": {"name": TEAM}})
        running.api.wait_for(f"/api/v1/namespaces/{TEAM}/serviceaccounts/default", bool)
        yield running


class Pods:
    """Pods of one test, by names of their own."""

    def __init__(self, cluster: Cluster, test: str) -> None:
        self._api = cluster.api
        self._prefix = re.sub(r"[^a-z0-9]+", "-", test.lower()).strip("-")[-50:].strip("-")
        self._count = 0

    def create(self, *, node: str = "", gates: tuple[str, ...] = (), spec: Object | None = None, **meta: Any) -> Object:
        self._count += 1
        containers = [{"name": "main", "image": "train"}]
        gating = {"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}
        named = {"name": f"{self._prefix}-{self._count}", **meta}
        wanted = {"schedulerName": "muster", "containers": containers, **gating, **(spec or {})}
        pod = self._api.create(PODS, {"metadata": named, "spec": wanted})
        if not node:
            return pod
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": named["name"]}, "target": target}
        self._api.create(f"{PODS}/{named['name']}/binding", binding)
        return self.now(pod)

    def now(self, pod: Object) -> Object:
        return self._api.get(path(pod))

    def exists(self, pod: Object) -> bool:
        return any(listed["metadata"]["uid"] == pod["metadata"]["uid"] for listed in self._api.list(PODS))


def path(pod: Object) -> str:
    return f"{PODS}/{pod['metadata']['name']}"


def of(pod: Object) -> tuple[str, str, str]:
    return pod["metadata"]["uid"], TEAM, pod["metadata"]["name"]


def eviction(pod: Object, labels: dict[str, str]) -> Object:
    named = {"name": pod["metadata"]["name"], "labels": labels}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": named}
