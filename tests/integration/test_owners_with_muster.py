"""Kinds that cannot be suspended, as their projects write them plus the opt-in, with their controllers and Muster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from extender.kube.reading.topology import REQUIRED
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

    def __init__(
        self, cluster: Cluster, manifest: str, spec: Object | None = None, *, requires: str = "", **labels: str
    ) -> None:
        self.api = cluster.api
        self.team = Team(cluster, **labels)
        obj = yaml.safe_load(manifest)
        obj["spec"] |= spec or {}
        if not labels:
            obj["metadata"]["labels"] = {**obj["metadata"].get("labels", {}), **OPT_IN}
        for template in templates(obj):
            template["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": 8}}
            if requires:
                template.setdefault("metadata", {}).setdefault("annotations", {})[REQUIRED] = requires
        self.kind = obj["kind"]
        plural = f"{self.kind.lower()}s"
        self._path = f"/apis/{obj['apiVersion']}/namespaces/{self.team.name}/{plural}/{obj['metadata']['name']}"
        self.api.create(self._path.rpartition("/")[0], obj)

    def now(self) -> Object:
        return self.api.get(self._path)

    def patch(self, spec: Object) -> None:
        self.api.patch(self._path, {"spec": spec}, "application/merge-patch+json")

    def until_noted(self, code: str) -> None:
        """Wait until an Event with that reason regards the object that a user has written."""

        def told(events: list[Object]) -> bool:
            return any(event["reason"] == code and event["regarding"]["kind"] == self.kind for event in events)

        self.api.wait_for(f"/apis/events.k8s.io/v1/namespaces/{self.team.name}/events", told, PATIENCE_S)

    def until_pods(self, count: int, each: Callable[[Object], bool]) -> list[Object]:
        """Wait until there are ``count`` pods that are not being deleted, and ``each`` holds of all of them."""

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
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions", ())
    )


def cliques(pods: list[Object]) -> set[str]:
    return {pod["spec"]["nodeName"].partition("-")[0] for pod in pods}


def open_only(cluster: Cluster, *nodes: str) -> None:
    """All others are closed. Without any all open, in any order: the controller manager takes their taints off."""
    names = [node["metadata"]["name"] for node in cluster.api.list("/api/v1/nodes")]
    for name in names:
        cluster.api.patch(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": bool(nodes) and name not in nodes}})


@pytest.mark.parametrize("kind", MANIFESTS)
def test_all_of_its_pods_run_in_one_clique_or_none(cluster: Cluster, muster: RunningMuster, kind: str) -> None:
    open_only(cluster, "b-0", "b-1")
    owned = Owned(cluster, MANIFESTS[kind], requires="clique")
    owned.until_noted("NoRoom")
    assert all(is_gated(pod) for pod in owned.api.list(owned.team.pods))
    open_only(cluster)
    pods = owned.until_running(3)
    assert len(cliques(pods)) == 1
    owned.delete()


@pytest.mark.parametrize("policy", ["LeaderCreated", "LeaderReady"])
def test_each_group_runs_in_one_clique_or_waits(cluster: Cluster, muster: RunningMuster, policy: str) -> None:
    open_only(cluster, "b-0", "b-1", "b-2", "b-3", "c-0", "c-1", "c-2")
    owned = Owned(cluster, LEADER_WORKER_SET, {"startupPolicy": policy}, requires="clique")
    owned.until_noted("NoRoom")
    owned.api.wait_for(owned.team.pods, lambda pods: sum(map(is_ready, pods)) == 4, PATIENCE_S)
    assert {pod["spec"].get("nodeName", "")[:1] for pod in owned.api.list(owned.team.pods)} == {"b", ""}
    open_only(cluster)
    pods = owned.until_running(12)
    groups = {number: [pod for pod in pods if group_of(pod) == number] for number in "012"}
    assert {number: len(group) for number, group in groups.items()} == dict.fromkeys("012", 4)
    assert sorted(cliques(group).pop() for group in groups.values() if len(cliques(group)) == 1) == ["b", "c", "d"]
    owned.delete()


def group_of(pod: Object) -> str:
    number: str = pod["metadata"]["labels"]["leaderworkerset.sigs.k8s.io/group-index"]
    return number


@pytest.mark.parametrize("kind", MANIFESTS)
def test_what_runs_goes_on_when_it_is_scaled_and_when_pods_are_made_again(
    cluster: Cluster, muster: RunningMuster, kind: str
) -> None:
    owned = Owned(cluster, MANIFESTS[kind], {"replicas": 2})
    first = owned.until_running(2)
    owned.patch({"replicas": 4})
    pods = owned.until_running(4)
    assert names(first) <= names(pods)
    owned.patch({"replicas": 2})
    pods = owned.until_running(2)
    owned.delete_pod(pods[0])
    again = owned.until_pods(2, lambda pod: is_ready(pod) and uid(pod) != uid(pods[0]))
    assert uid(pods[1]) in {uid(pod) for pod in again}
    owned.patch({"replicas": 0})
    owned.until_pods(0, is_ready)
    owned.patch({"replicas": 3})
    assert len(cliques(owned.until_running(3))) == 1
    owned.delete()


@pytest.mark.parametrize(
    ("manifest", "spec"),
    [
        (STATEFUL_SET, {}),
        (STATEFUL_SET, {"podManagementPolicy": "Parallel"}),
        (DEPLOYMENT, {}),
        (DEPLOYMENT, {"strategy": {"type": "Recreate"}}),
    ],
    ids=["OrderedReady", "Parallel", "RollingUpdate", "Recreate"],
)
def test_it_is_rolled_out_without_a_quorum(
    cluster: Cluster, muster: RunningMuster, manifest: str, spec: Object
) -> None:
    """No node is free but those of its clique, where a Deployment needs one more for its surge."""
    open_only(cluster, *(["b-0", "b-1", "b-2", "b-3"] if "strategy" not in spec else ["b-0", "b-1", "b-2"]))
    owned = Owned(cluster, manifest, spec)
    first = {uid(pod) for pod in owned.until_running(3)}
    template = {"metadata": {"annotations": {"revision": "2"}}}
    owned.patch({"template": template})
    pods = owned.until_pods(3, lambda pod: is_ready(pod) and uid(pod) not in first)
    assert {pod["metadata"]["annotations"]["revision"] for pod in pods} == {"2"}
    assert cliques(pods) == {"b"}
    owned.delete()
    open_only(cluster)


def test_a_group_that_is_restarted_starts_as_a_whole_again(cluster: Cluster, muster: RunningMuster) -> None:
    spec = yaml.safe_load(LEADER_WORKER_SET)["spec"]["leaderWorkerTemplate"]
    owned = Owned(
        cluster,
        LEADER_WORKER_SET,
        {"replicas": 1, "leaderWorkerTemplate": {**spec, "restartPolicy": "RecreateGroupOnPodRestart"}},
    )
    first = owned.until_running(4)
    owned.delete_pod(next(pod for pod in first if pod["metadata"]["name"].endswith("-0-1")))
    before = {uid(pod) for pod in first}
    pods = owned.until_pods(4, lambda pod: is_ready(pod) and uid(pod) not in before)
    assert len(cliques(pods)) == 1
    assert len({pod["metadata"]["annotations"]["muster.dev/release"] for pod in pods}) == 1
    owned.delete()


def test_the_room_of_pods_that_come_later_is_kept_from_others(cluster: Cluster, muster: RunningMuster) -> None:
    """Two sets, each of three pods that come one by one, and room for one of them: only that one starts."""
    open_only(cluster, "b-0", "b-1", "b-2", "b-3")
    owned = [Owned(cluster, STATEFUL_SET) for _ in range(2)]
    waiting = owned[1]
    waiting.until_noted("NoRoom")
    owned[0].until_running(3)
    assert [pod["spec"].get("nodeName") for pod in waiting.api.list(waiting.team.pods)] == [None]
    owned[0].delete()
    waiting.until_running(3)
    waiting.delete()
    open_only(cluster)


def test_a_job_that_is_asked_for_when_its_pods_are_there_starts_as_a_whole(
    cluster: Cluster, muster: RunningMuster
) -> None:
    """The template says that its pods are a gang, so none of them has started; then the Job says so itself."""
    open_only(cluster, "b-0", "b-1", "b-2", "b-3")
    team = Team(cluster)
    containers = [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": 8}}}]
    job = team.job(
        labels={"app": "train"}, spec={"backoffLimit": 0}, pod={"schedulerName": "muster", "containers": containers}
    )
    job["spec"]["template"]["metadata"] = {"labels": OPT_IN}
    team.create(job)
    first = cluster.api.wait_for(team.pods, lambda pods: len(pods) == 2)
    assert not any("nodeName" in pod["spec"] for pod in first)
    team.patch({"metadata": {"labels": OPT_IN}})
    before = {uid(pod) for pod in first}
    pods = cluster.api.wait_for(
        team.pods, lambda pods: len(pods) == 2 and all(is_ready(pod) and uid(pod) not in before for pod in pods)
    )
    assert cliques(pods) == {"b"}
    assert "muster.dev/plan" in team.now()["metadata"]["annotations"]
    cluster.api.delete(f"{team.jobs}/train", {"propagationPolicy": "Background"})
    cluster.api.wait_for(team.pods, lambda pods: not pods)
    open_only(cluster)


def names(pods: list[Object]) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def uid(pod: Object) -> str:
    text: str = pod["metadata"]["uid"]
    return text
