"""Kinds that cannot be suspended, as their projects write them plus the opt-in, with their controllers and Muster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from policies.model import CLIQUE
from tests.integration.team import Team, is_gated
from tests.kube.kinds.manifests import DEPLOYMENT, LEADER_WORKER_SET, REPLICA_SET, STATEFUL_SET

pytestmark = pytest.mark.xdist_group("owners-with-muster")

PATIENCE_S = 120.0
OPT_IN = {"muster.dev/gang": "true"}
MANIFESTS = {"StatefulSet": STATEFUL_SET, "Deployment": DEPLOYMENT, "ReplicaSet": REPLICA_SET}
CLIQUES = {"a": 2, "b": 4, "c": 4, "d": 4}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_gate(running)
        install_job_admission(running)
        start_controller(running, "lws")
        for clique, count in CLIQUES.items():
            running.add_nodes(count, prefix=clique, labels={CLIQUE: clique})
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_muster(cluster)


class Owned:
    """An object as its author has applied it, with a pod for each node, in a namespace of its own."""

    def __init__(self, cluster: Cluster, manifest: str, spec: Object | None = None, **labels: str) -> None:
        self.api = cluster.api
        self.team = Team(cluster, **labels)
        obj = yaml.safe_load(manifest)
        obj["spec"] |= spec or {}
        if not labels:
            obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), **OPT_IN}
        for template in templates(obj):
            template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
        self.kind = obj["kind"]
        plural = f"{self.kind.lower()}s"
        self._path = f"/apis/{obj['apiVersion']}/namespaces/{self.team.name}/{plural}/{obj['metadata']['name']}"
        self.api.create(self._path.rpartition("/")[0], obj)

    def now(self) -> Object:
        return self.api.get(self._path)

    def patch(self, spec: Object) -> None:
        self.api.patch(self._path, {"spec": spec}, "application/merge-patch+json")

    def until_noted(self, code: str) -> None:
        """Wait until an Event with that reason is about the object that people have written."""

        def told(events: list[Object]) -> bool:
            return any(one["reason"] == code and one["regarding"]["kind"] == self.kind for one in events)

        self.api.wait_for(f"/apis/events.k8s.io/v1/namespaces/{self.team.name}/events", told, PATIENCE_S)

    def until_pods(self, count: int, each: Callable[[Object], bool]) -> list[Object]:
        """Wait until there are so many pods that are not being deleted, and this holds of each."""

        def holds(pods: list[Object]) -> bool:
            return len(there(pods)) == count and all(map(each, there(pods)))

        return there(self.api.wait_for(self.team.pods, holds, PATIENCE_S))

    def until_running(self, count: int) -> list[Object]:
        return self.until_pods(count, is_ready)

    def delete_pod(self, pod: Object) -> None:
        self.api.delete(f"{self.team.pods}/{pod['metadata']['name']}")

    def delete(self) -> None:
        self.api.delete(self._path, {"propagationPolicy": "Background"})
        self.api.wait_for(self.team.pods, lambda pods: not pods, PATIENCE_S)


def templates(obj: Object) -> list[Object]:
    if obj["kind"] != "LeaderWorkerSet":
        return [obj["spec"]["template"]]
    both = obj["spec"]["leaderWorkerTemplate"]
    return [both[key] for key in ("leaderTemplate", "workerTemplate") if key in both]


def there(pods: list[Object]) -> list[Object]:
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def is_ready(pod: Object) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ()))


def cliques(pods: list[Object]) -> set[str]:
    return {pod["spec"]["nodeName"].partition("-")[0] for pod in pods}


def open_only(cluster: Cluster, *nodes: str) -> None:
    """All others are closed. Without any all are opened, one large clique after the other."""
    names = [node["metadata"]["name"] for node in cluster.api.list("/api/v1/nodes")]
    for name in sorted(names, key=lambda name: (name.startswith("a"), name)):
        cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": bool(nodes) and name not in nodes}})


@pytest.mark.parametrize("kind", MANIFESTS)
def test_all_of_its_pods_run_in_one_clique_or_none(cluster: Cluster, muster: RunningMuster, kind: str) -> None:
    open_only(cluster, "b-0", "b-1")
    owned = Owned(cluster, MANIFESTS[kind])
    owned.until_noted("NoRoom")
    assert all(is_gated(pod) for pod in owned.api.list(owned.team.pods))
    open_only(cluster)
    pods = owned.until_running(3)
    assert len(cliques(pods)) == 1
    owned.delete()


@pytest.mark.parametrize("policy", ["LeaderCreated", "LeaderReady"])
def test_each_group_runs_in_one_clique_or_waits(cluster: Cluster, muster: RunningMuster, policy: str) -> None:
    open_only(cluster, "b-0", "b-1", "b-2", "b-3", "c-0", "c-1", "c-2")
    owned = Owned(cluster, LEADER_WORKER_SET, {"startupPolicy": policy})
    owned.until_noted("NoRoom")
    owned.api.wait_for(owned.team.pods, lambda pods: sum(map(is_ready, pods)) == 4, PATIENCE_S)
    assert {pod["spec"].get("nodeName", "")[:1] for pod in owned.api.list(owned.team.pods)} == {"b", ""}
    open_only(cluster)
    pods = owned.until_running(12)
    groups = {number: [one for one in pods if group_of(one) == number] for number in "012"}
    assert {number: len(some) for number, some in groups.items()} == dict.fromkeys("012", 4)
    assert sorted(cliques(some).pop() for some in groups.values() if len(cliques(some)) == 1) == ["b", "c", "d"]
    owned.delete()


def group_of(pod: Object) -> str:
    number: str = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
    return number
