"""What the integration tests say about a cluster: gangs are created, things happen to them, and how they stand."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster

PATIENCE_S = 60.0
POLL_EVERY_S = 0.004
T = TypeVar("T")
_numbers = itertools.count(1)


class Stage:
    """A namespace and its nodes, and what can be done and seen there."""

    def __init__(self, cluster: Cluster, muster: RunningMuster) -> None:
        self.cluster = cluster
        self.muster = muster
        self.api = cluster.api
        self.namespace = f"stage-{next(_numbers)}"
        self.nodes: list[str] = []

    def __enter__(self) -> Self:
        self.api.create("/api/v1/namespaces", {"metadata": {"name": self.namespace}})
        # Without this account the API server refuses pods; the controller makes it a moment after the namespace.
        self.api.wait_for(f"/api/v1/namespaces/{self.namespace}/serviceaccounts/default", bool)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self.api.list(f"/apis/batch/v1/namespaces/{self.namespace}/jobs"):
            name = job["metadata"]["name"]
            self.api.delete(f"/apis/batch/v1/namespaces/{self.namespace}/jobs/{name}", propagationPolicy="Background")
        self.api.delete(self.pods_path, {"gracePeriodSeconds": 0})
        self.api.wait_for(self.pods_path, lambda pods: not pods)
        for node in self.nodes:
            self.api.delete(f"/api/v1/nodes/{node}")

    @property
    def pods_path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def add_nodes(self, count: int, gpus: int = 8, *, clique: str = "") -> list[str]:
        """Nodes of this stage, in the NVLink clique of that name if one is given."""
        prefix = f"{self.namespace}-{len(self.nodes)}-node"
        labels = {"stage": self.namespace} | ({"nvidia.com/gpu.clique": f"{self.namespace}.{clique}"} if clique else {})
        added = self.cluster.add_nodes(count, gpus=gpus, prefix=prefix, labels=labels)
        self.nodes += added
        return added

    def pod(self, name: str, *, gpus: int = 8, gang: str | None = None, size: int = 0, **spec: Any) -> Object:
        """A pod of the annotation dialect; without a gang a plain one. Keywords go into its spec."""
        requests = {"cpu": "1"} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        annotations = {"muster.dev/pod-group": gang, "muster.dev/min-member": str(size)} if gang else {}
        container = {"name": "main", "image": "train", "resources": {"requests": requests, "limits": requests}}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {
                "schedulerName": "muster",
                "terminationGracePeriodSeconds": 0,
                # Only this stage's nodes, whatever other tests have left behind for a moment.
                "nodeSelector": {"stage": self.namespace},
                "containers": [container],
                **spec,
            },
        }

    def create(self, *pods: Object) -> list[Object]:
        return [self.api.create(self.pods_path, pod) for pod in pods]

    def create_all(self, pods: Iterable[Object]) -> None:
        """Create many pods as fast as the API server takes them, in no certain order."""
        self.api.create_all((self.pods_path, pod) for pod in pods)

    def remove_node(self, name: str) -> None:
        self.nodes.remove(name)
        self.api.delete(f"/api/v1/nodes/{name}")

    def gang(self, name: str, size: int, **pod: Any) -> list[Object]:
        """The members of a gang, not created yet."""
        return [self.pod(f"{name}-{i}", gang=name, size=size, **pod) for i in range(size)]

    def delete(self, *names: str) -> None:
        for name in names:
            self.api.delete(f"{self.pods_path}/{name}", {"gracePeriodSeconds": 0})

    def get(self, name: str) -> Object:
        return self.api.get(f"{self.pods_path}/{name}")

    def wait(self, holds: Callable[[list[Object]], bool], timeout_s: float = PATIENCE_S) -> list[Object]:
        """Wait until the namespace's pods are so, and return them."""
        pods: list[Object] = self.api.wait_for(self.pods_path, holds, timeout_s)
        return pods

    def wait_bound(self, *gangs: str, size: int, timeout_s: float = PATIENCE_S) -> None:
        """Wait until each of these gangs has that many bound members."""
        self.wait(lambda pods: all(len(bound(pods, gang)) >= size for gang in gangs), timeout_s)

    def pods(self) -> list[Object]:
        return self.api.list(self.pods_path)

    def wait_scheduled(self, name: str, timeout_s: float = PATIENCE_S) -> None:
        self.api.wait_for(f"{self.pods_path}/{name}", lambda pod: pod and pod["spec"].get("nodeName"), timeout_s)

    def wait_unschedulable(self, name: str) -> str:
        """Wait until kube-scheduler has turned the pod down, and return what it says."""

        def refusal(pod: Object | None) -> str:
            conditions = (pod or {}).get("status", {}).get("conditions", [])
            return next((str(one["message"]) for one in conditions if one.get("reason") == "Unschedulable"), "")

        return refusal(self.api.wait_for(f"{self.pods_path}/{name}", lambda pod: bool(refusal(pod))))

    def wait_reason(self, gang: str, code: str, timeout_s: float = PATIENCE_S) -> str:
        """Wait for the report of this reason, a Kubernetes Event on the gang or a member, and return its text."""

        def told(event: Object) -> bool:
            return event["reason"] == code and str(event["regarding"]["name"]).startswith(gang)

        path = f"/apis/events.k8s.io/v1/namespaces/{self.namespace}/events"
        events = self.api.wait_for(path, lambda events: any(map(told, events)), timeout_s)
        return next(str(event["note"]) for event in events if told(event))

    def explain(self, gang: str) -> Object:
        """What the extender says about the gang now."""
        answer: Object = self._ask(f"/gangs/{self.namespace}/{gang}").json()
        return answer

    def held(self) -> int:
        """How many binds the extender holds."""
        lines = self._ask("/metrics").text.splitlines()
        return next(int(float(line.split()[1])) for line in lines if line.startswith("muster_held_binds "))

    def filter_calls(self) -> int:
        """How often kube-scheduler has called filter."""
        lines = self._ask("/metrics").text.splitlines()
        counts = (
            line.split()[1] for line in lines if line.startswith("muster_verb_calls_total{") and '"filter"' in line
        )
        return int(sum(map(float, counts)))

    def advised(self, verdict: str) -> int:
        """How often the extender, in advisory mode, would have said so."""
        lines = self._ask("/metrics").text.splitlines()
        start = f'muster_advisory_verdicts_total{{verdict="{verdict}"}}'
        return next(int(float(line.split()[1])) for line in lines if line.startswith(start))

    def wait_held(self, holds: Callable[[int], bool], timeout_s: float = PATIENCE_S) -> int:
        return self._poll(self.held, holds, timeout_s)

    def wait_at_rest(self) -> None:
        """Wait until no gang of this namespace is on its way: each is bound whole, or waits for a reason."""
        moving = {"New", "Placed", "Holding", "Releasing", "Forgotten"}

        def states() -> list[str]:
            return [one["state"] for one in self._ask("/gangs").json() if one["namespace"] == self.namespace]

        self._poll(states, lambda seen: not moving & set(seen), PATIENCE_S)

    def _ask(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.muster.url}{path}", trust_env=False).raise_for_status()

    def _poll(self, look: Callable[[], T], holds: Callable[[T], bool], timeout_s: float) -> T:
        """The extender's own pages have no watch: ask again until they are as expected."""
        deadline = time.monotonic() + timeout_s
        while not holds(seen := look()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"not as expected within {timeout_s} s; last seen: {seen}")
            time.sleep(POLL_EVERY_S)
        return seen


def gang_of(pod: Object) -> str:
    meta = pod["metadata"]
    key = "muster.dev/pod-group"
    named = meta.get("annotations", {}).get(key) or meta.get("labels", {}).get("scheduling.x-k8s.io/pod-group")
    return str(named or "")


def bound(pods: Iterable[Object], gang: str) -> list[str]:
    """Names of the gang's members that have a node."""
    return [pod["metadata"]["name"] for pod in pods if gang_of(pod) == gang and pod["spec"].get("nodeName")]


def interleaved(gangs: Sequence[Sequence[Object]]) -> list[Object]:
    """The worst order: the first member of every gang, then the second of every gang, and so on."""
    return [pod for members in itertools.zip_longest(*gangs) for pod in members if pod is not None]
