"""A kind of job whose own controller runs on the cluster: its objects, and the pods that its controller makes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from devcluster import Cluster
from devcluster.api import Object
from tests.facts.place import conditions

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
PLAN = "muster.dev/plan"
NODES = ("kinds-0", "kinds-1", "kinds-2")
PATIENCE_S = 120.0
_numbers = itertools.count(1)


class Kind:
    """Each object that is created has a namespace of its own, so that its pods are the only ones there."""

    def __init__(self, cluster: Cluster, group: str, plural: str) -> None:
        self.cluster = cluster
        self._api = cluster.api
        self._group = group
        self._plural = plural
        self._namespace = ""
        if not set(NODES) & set(_nodes(cluster)):
            cluster.add_nodes(len(NODES), prefix="kinds")

    def create(self, manifest: Object) -> Object:
        """In a new namespace, in which everything else happens from now on."""
        self._namespace = f"kinds-{next(_numbers)}"
        self._api.create("/api/v1/namespaces", {"metadata": {"name": self._namespace}})
        self._api.wait_for(f"/api/v1/namespaces/{self._namespace}/serviceaccounts/default", bool)
        return self._api.create(self._path(self._group, self._plural), manifest)

    def patch(self, name: str, patch: Any, type: str = MERGE_PATCH) -> Object:  # noqa: A002
        return self.patch_in(self._group, self._plural, name, patch, type)

    def patch_in(self, group: str, plural: str, name: str, patch: Any, type: str = MERGE_PATCH) -> Object:  # noqa: A002
        """The same for an object of another kind in the namespace."""
        return self._api.patch(f"{self._path(group, plural)}/{name}", patch, type)

    def get(self, group: str, plural: str, name: str) -> Object:
        return self._api.get(f"{self._path(group, plural)}/{name}")

    def until(self, group: str, plural: str, holds: Callable[[list[Object]], bool]) -> list[Object]:
        """Wait until this holds of the objects of that kind in the namespace."""
        objects: list[Object] = self._api.wait_for(self._path(group, plural), holds, PATIENCE_S)
        return objects

    def until_pods(self, count: int, each: Callable[[Object], bool] = bool) -> list[Object]:
        """Wait until there are ``count`` pods that are not being deleted, and ``each`` holds of all of them."""

        def there(pods: list[Object]) -> list[Object]:
            return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

        def holds(pods: list[Object]) -> bool:
            return len(there(pods)) == count and all(map(each, there(pods)))

        return there(self.until("/api/v1", "pods", holds))

    def until_own(self, name: str, holds: Callable[[Object], bool]) -> Object:
        """Wait until this holds of the object of this kind."""
        path = f"{self._path(self._group, self._plural)}/{name}"
        reached: Object = self._api.wait_for(path, lambda obj: obj is not None and holds(obj), PATIENCE_S)
        return reached

    def until_condition(self, name: str, type: str, status: str = "True") -> Object:  # noqa: A002
        """Wait until the object of this kind says so in its conditions."""
        return self.until_own(name, lambda obj: conditions(obj).get(type) == status)

    def pods(self) -> list[Object]:
        """All pods of the namespace, including terminating ones."""
        return self.list_of("/api/v1", "pods")

    def list_of(self, group: str, plural: str) -> list[Object]:
        """The objects of that kind in the namespace."""
        return self._api.list(self._path(group, plural))

    def fail(self, pod: Object, exit_code: int = 1, reason: str = "Error") -> None:
        """Report, as a kubelet does, that the pod's containers have ended with an error."""
        path = f"{self._path('/api/v1', 'pods')}/{pod['metadata']['name']}/status"
        ended = {"terminated": {"exitCode": exit_code, "reason": reason}}
        containers = [
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": False,
                "restartCount": 0,
                "state": ended,
            }
            for container in pod["spec"]["containers"]
        ]
        self._api.patch(path, {"status": {"phase": "Failed", "reason": reason, "containerStatuses": containers}})

    def succeed(self, pod: Object) -> None:
        """Let the pod's containers end well."""
        path = f"{self._path('/api/v1', 'pods')}/{pod['metadata']['name']}"
        self._api.patch(path, {"metadata": {"annotations": {"devcluster.muster.dev/run-for": "1ms"}}})

    def remove(self, pod: Object) -> None:
        """Delete the pod as a client other than its controller."""
        self.delete_pod(pod["metadata"]["name"])

    def delete_pod(self, name: str) -> None:
        self._api.delete(f"{self._path('/api/v1', 'pods')}/{name}")

    @contextmanager
    def closed_nodes(self) -> Iterator[None]:
        """No node takes pods until the end of the block."""
        names = _nodes(self.cluster)
        for name in names:
            self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        try:
            yield
        finally:
            for name in names:
                self._api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": False}})

    def _path(self, group: str, plural: str) -> str:
        return f"{group}/namespaces/{self._namespace}/{plural}"


def pod_template(container: str = "main", restart: str = "Never", grace_s: int = 0) -> Object:
    """A template with one container that asks for nothing."""
    containers = [{"name": container, "image": "busybox"}]
    return {
        "metadata": {},
        "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": grace_s, "containers": containers},
    }


def plans_of(pods: list[Object]) -> set[str]:
    """The plans that the pods carry."""
    return {(pod["metadata"].get("annotations") or {}).get(PLAN, "") for pod in pods}


def is_running(pod: Object) -> bool:
    """Whether the kubelet has reported the pod as running."""
    return bool(pod["status"].get("phase") == "Running")


def term_for(node: str) -> Object:
    """Node affinity that names one node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def finish(cluster: Cluster, name: str) -> None:
    """Stop a controller. Its webhooks are kept away from the facts that follow."""
    cluster.process(name).terminate()
    for collection in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        cluster.api.delete(f"/apis/admissionregistration.k8s.io/v1/{collection}")


def _nodes(cluster: Cluster) -> list[str]:
    return [node["metadata"]["name"] for node in cluster.api.list("/api/v1/nodes")]
