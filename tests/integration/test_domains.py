"""Levels, slices, roles, ranks and scores on the real control plane: the domains in which pods end up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster

pytestmark = pytest.mark.xdist_group("domains")
CLIQUE, BLOCK = "nvidia.com/gpu.clique", "cloud.google.com/gce-topology-block"
INDEX = "batch.kubernetes.io/job-completion-index"
GROUP, SIZE = "muster.dev/pod-group", "muster.dev/min-member"
REQUIRED, SLICE = "muster.dev/required-topology", "muster.dev/slice-size"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    return running


class Site:
    """A namespace whose pods can use the nodes of this test alone."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster, self._api, self.name = cluster, cluster.api, name
        self.pods_path = f"/api/v1/namespaces/{name}/pods"
        self._labels: dict[str, dict[str, str]] = {}
        self._api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self._api.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default", bool)

    def close(self) -> None:
        for job in self._api.list(f"/apis/batch/v1/namespaces/{self.name}/jobs"):
            path = f"/apis/batch/v1/namespaces/{self.name}/jobs/{job['metadata']['name']}"
            self._api.delete(path, propagationPolicy="Background")
        self._api.delete(f"/apis/apps/v1/namespaces/{self.name}/replicasets")
        self._api.delete(self.pods_path, {"gracePeriodSeconds": 0})
        self._api.wait_for(self.pods_path, lambda pods: not pods)
        self._api.delete("/api/v1/nodes", labelSelector=f"site={self.name}")

    def nodes(self, clique: str, count: int, *, block: str = "", gpus: int = 4) -> list[str]:
        """Nodes CLIQUE-0, CLIQUE-1 ... of this site; those of the clique "-" are in none."""
        labels = {"site": self.name} | ({BLOCK: block} if block else {})
        labels |= {} if clique == "-" else {CLIQUE: f"uuid.{clique}"}
        prefix = f"{self.name}-{clique.strip('-') or 'none'}"
        added = self._cluster.add_nodes(count, gpus=gpus, prefix=prefix, labels=labels)
        self._labels |= dict.fromkeys(added, labels)
        return added

    def pod(
        self,
        name: str,
        *,
        gpus: int = 4,
        cpu: int = 1,
        memory: str = "1Gi",
        marks: dict[str, str] | None = None,
        **spec: Any,
    ) -> Object:
        amounts = {"cpu": str(cpu), "memory": memory} | ({"nvidia.com/gpu": str(gpus)} if gpus else {})
        container = {"name": "main", "image": "train", "resources": {"requests": amounts, "limits": amounts}}
        body = {"schedulerName": "muster", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
        return {
            "metadata": {"name": name, "annotations": marks or {}},
            "spec": {"nodeSelector": {"site": self.name}} | body,
        }

    def gang(self, name: str, size: int, marks: dict[str, str] | None = None, **pod: Any) -> None:
        own_marks = {GROUP: name, SIZE: str(size)} | (marks or {})
        self.create(
            self.pod(f"{name}-{number}", marks=own_marks | {INDEX: str(number)}, **pod) for number in range(size)
        )

    def create(self, pods: Iterator[Object]) -> None:
        self._api.create_all((self.pods_path, pod) for pod in pods)

    def job(self, name: str, size: int, marks: dict[str, str]) -> None:
        """An Indexed Job, made by its controller."""
        template = self.pod("", marks={GROUP: name} | marks, restartPolicy="Never")
        template["metadata"].pop("name")
        spec = {"completions": size, "parallelism": size, "completionMode": "Indexed", "template": template}
        self._api.create(f"/apis/batch/v1/namespaces/{self.name}/jobs", {"metadata": {"name": name}, "spec": spec})

    def replicas(self, name: str, size: int, marks: dict[str, str]) -> str:
        """A ReplicaSet. Returns its path."""
        template = self.pod("", marks={GROUP: name} | marks)
        template["metadata"] = {"annotations": template["metadata"]["annotations"], "labels": {"app": name}}
        spec = {"replicas": size, "selector": {"matchLabels": {"app": name}}, "template": template}
        path = f"/apis/apps/v1/namespaces/{self.name}/replicasets"
        self._api.create(path, {"metadata": {"name": name}, "spec": spec})
        return f"{path}/{name}"

    def bound(self, count: int) -> list[Object]:
        """The pods, as soon as ``count`` of them have a node."""
        pods: list[Object] = self._api.wait_for(self.pods_path, lambda pods: sum(map(_node, pods)) >= count)
        return pods

    def homes(self, pods: list[Object], label: str = CLIQUE) -> Counter[str]:
        """How many of them are in each domain."""
        return Counter(self._labels[pod["spec"]["nodeName"]].get(label, "-").removeprefix("uuid.") for pod in pods)

    def delete(self, pod: Object) -> None:
        self._api.delete(f"{self.pods_path}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})


@pytest.fixture
def site(cluster: Cluster, muster: RunningMuster, request: pytest.FixtureRequest) -> Iterator[Site]:
    new_site = Site(cluster, request.node.name.split("_")[1])
    yield new_site
    new_site.close()


def test_singles_fill_the_broken_clique_although_kube_scheduler_prefers_empty_nodes(site: Site) -> None:
    site.nodes("whole", 3)
    broken = site.nodes("broken", 3)
    # Little is left of their CPUs and memory, which speaks against these nodes by 90 of kube-scheduler's points.
    for node, gpus in zip(broken, (2, 0, 0), strict=True):
        site.create(iter([site.pod(f"busy-{node}", gpus=gpus, cpu=80, memory="960Gi", nodeName=node)]))
    site.bound(3)
    for number in range(10):
        site.create(iter([site.pod(f"single-{number}", gpus=1)]))
    pods = site.bound(13)
    assert site.homes(pods) == {"broken": 13}, "it has room for exactly so many"


def test_slices_of_16_have_a_clique_each_in_one_block_and_the_launcher_goes_anywhere(site: Site) -> None:
    for clique, block in (("a", "x"), ("b", "x"), ("c", "x"), ("d", "y"), ("e", "y")):
        site.nodes(clique, 18, block=block)
    site.nodes("-", 1, gpus=0)
    sliced = {SIZE: "49", REQUIRED: BLOCK, SLICE: "16", "muster.dev/slice-topology": CLIQUE}
    site.job("train", 48, sliced)
    launcher = {GROUP: "train", SIZE: "49", REQUIRED: "none"}
    site.create(iter([site.pod("launcher", gpus=0, cpu=40, marks=launcher)]))
    pods = site.bound(49)
    workers = sorted((pod for pod in pods if _index(pod) >= 0), key=_index)
    for first in (0, 16, 32):
        assert list(site.homes(workers[first : first + 16]).values()) == [16]
    assert site.homes(workers) == {"a": 16, "b": 16, "c": 16}
    assert [_marks(pod)["muster.dev/rank"] for pod in workers] == [str(rank) for rank in range(48)], "10 after 9"
    assert all(_marks(pod)["muster.dev/domain"] == f"uuid.{site.homes([pod]).popitem()[0]}" for pod in workers)
    lost = workers[20]
    site.delete(lost)
    uid = lost["metadata"]["uid"]
    again = next(
        pod for pod in _until(site, lambda pod: _index(pod) == 20 and _node(pod) and pod["metadata"]["uid"] != uid)
    )
    assert site.homes([again]) == site.homes([lost]), "d and e are empty, and its slice is where it is"


def test_reasons_of_a_waiting_gang_name_who_is_there_and_until_when(
    site: Site, cluster: Cluster, muster: RunningMuster
) -> None:
    site.nodes("rack-3", 4)
    site.nodes("rack-4", 2)
    site.gang("train-7", 1, {REQUIRED: "clique"}, nodeSelector={CLIQUE: "uuid.rack-3"}, activeDeadlineSeconds=7200)
    site.gang("train-9", 1, {REQUIRED: "clique"}, nodeSelector={CLIQUE: "uuid.rack-3"})
    cluster.api.wait_for(site.pods_path, lambda pods: sum("startTime" in pod["status"] for pod in pods) == 2)
    groups = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{site.name}/podgroups"
    group = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "spec": {"minMember": 3}}
    cluster.api.create(groups, {**group, "metadata": {"name": "big", "annotations": {REQUIRED: CLIQUE}}})
    members = [site.pod(f"big-{number}") for number in range(3)]
    for member in members:
        member["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "big"}
    site.create(iter(members))

    def why(group: Object | None) -> str:
        conditions = (group or {}).get("status", {}).get("conditions", [])
        return next((str(condition["message"]) for condition in conditions if condition["reason"] == "NoRoom"), "")

    message = why(cluster.api.wait_for(f"{groups}/big", lambda group: bool(why(group))))
    assert "required nvidia.com/gpu.clique for 3 x 4 GPUs: 2 cliques, best has 2 free nodes (uuid.rack-3)" in message
    assert "; 1 node short; held there by train-7 (ends by 20" in message
    assert " UTC), train-9 (ends unknown); " in message
    events = cluster.api.list(f"/apis/events.k8s.io/v1/namespaces/{site.name}/events")
    assert message in [event["note"] for event in events if event["regarding"]["name"] == "big"]
    page = httpx.get(f"{muster.url}/gangs/{site.name}/big", trust_env=False).raise_for_status().json()
    assert page["message"] == message.partition("; expected ")[0], "the report may add when it is expected to start"


def test_balanced_halves_what_best_fit_would_fill_up(site: Site, muster: RunningMuster) -> None:
    for clique in "ab":
        site.nodes(clique, 18)
    muster.restart_extender({"topology_policy": "balanced"})
    site.gang("train", 24)
    assert site.homes(site.bound(24)) == {"a": 12, "b": 12}


def test_scaled_down_replicas_leave_the_domain_with_the_fewest_of_them(site: Site, cluster: Cluster) -> None:
    site.nodes("a", 2)
    site.nodes("b", 4)
    path = site.replicas("web", 6, {SIZE: "6"})
    assert site.homes(site.bound(6)) == {"a": 2, "b": 4}
    # Its controller removes pods that are not ready before it looks at their deletion cost.
    cluster.api.wait_for(path, lambda obj: obj["status"].get("readyReplicas") == 6)
    cluster.api.patch(path, {"spec": {"replicas": 4}})
    left = cluster.api.wait_for(site.pods_path, lambda pods: len(pods) == 4)
    assert site.homes(left) == {"b": 4}


def _until(site: Site, holds: Any) -> list[Object]:
    pods: list[Object] = site._api.wait_for(site.pods_path, lambda pods: any(map(holds, pods)))
    return [pod for pod in pods if holds(pod)]


def _node(pod: Object) -> bool:
    return "nodeName" in pod["spec"]


def _marks(pod: Object) -> dict[str, str]:
    marks: dict[str, str] = pod["metadata"]["annotations"]
    return marks


def _index(pod: Object) -> int:
    return int(_marks(pod).get(INDEX, "-1"))
