"""Gangs in the words of other projects, on the real control plane: manifests as those projects' documents print them.

Only ``schedulerName`` says Muster's, and pods that a document shows once are there several times.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, start_muster
from policies.model import GANG_GATE
from tests.integration.podgroups import install_podgroups
from tests.manifests_of_others import KAI, KAI_POD, KOORDINATOR, KUEUE, VOLCANO, VOLCANO_POD, YUNIKORN

pytestmark = pytest.mark.xdist_group("dialects")
CLIQUE = "nvidia.com/gpu.clique"
PATIENCE_S = 60.0
POLL_EVERY_S = 0.01
REQUIRED = {"muster.dev/required-topology": "clique"}
"""The annotation of members where the project has none for it: nodes come one by one."""
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    """Start a Muster that serves Volcano's name as well: a profile, a setting, and the policy of the gate."""
    install_podgroups(cluster.api)
    running = start_muster(
        cluster,
        {"scheduler_names": ["muster", "volcano"], "topology_levels": ["nvidia", "rack=topology/rack"]},
        {"profiles": [{"schedulerName": "muster"}, {"schedulerName": "volcano"}]},
    )
    install_gate(cluster, "volcano")
    return running


class Team:
    """A namespace, and all nodes of the cluster: each has room for one pod of the manifests."""

    def __init__(self, cluster: Cluster, muster: RunningMuster) -> None:
        self._cluster, self._api, self._muster = cluster, cluster.api, muster
        self.name = f"team-{next(_numbers)}"
        self.pods_path = f"/api/v1/namespaces/{self.name}/pods"
        self._cliques: dict[str, str] = {}
        self._api.create("/api/v1/namespaces", {"metadata": {"name": self.name}})
        self._api.wait_for(f"/api/v1/namespaces/{self.name}/serviceaccounts/default", bool)

    def close(self) -> None:
        self._api.delete(f"/apis/batch/v1/namespaces/{self.name}/jobs", propagationPolicy="Background")
        self._api.delete(self.pods_path, {"gracePeriodSeconds": 0})
        self._api.wait_for(self.pods_path, lambda pods: not pods)
        self._api.delete("/api/v1/nodes", labelSelector=f"team={self.name}")

    def nodes(self, clique: str, count: int, rack: str = "r1", **room: Any) -> None:
        labels = {"team": self.name, CLIQUE: f"uuid.{clique}", "topology/rack": rack}
        prefix = f"{self.name}-{clique}-{len(self._cliques)}"
        added = self._cluster.add_nodes(count, prefix=prefix, labels=labels, **room)
        self._cliques |= dict.fromkeys(added, clique)

    def create(self, *pods: Object) -> None:
        for pod in pods:
            self._api.create(self.pods_path, pod)

    def apply(self, manifest: Object) -> None:
        group, _, version = manifest["apiVersion"].rpartition("/")
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        self._api.create(f"{base}/namespaces/{self.name}/{manifest['kind'].lower()}s", manifest)

    def until_told(self, gang: str, code: str) -> str:
        """Wait until the gang's reason is this one; returns its words."""
        deadline, answer = time.monotonic() + PATIENCE_S, dict[str, Any]()
        while answer.get("state") != code:
            assert time.monotonic() < deadline, f"{gang} is told {answer}, and not {code}"
            page = httpx.get(f"{self._muster.url}/gangs/{self.name}/{gang}", trust_env=False)
            answer = page.json() if page.status_code == httpx.codes.OK else {}
            time.sleep(POLL_EVERY_S)  # a page that one has to ask for
        assert self.bound() == []
        return str(answer["message"])

    def bound(self) -> list[Object]:
        return [pod for pod in self._api.list(self.pods_path) if pod["spec"].get("nodeName")]

    def until_bound(self, count: int) -> list[Object]:
        self._api.wait_for(self.pods_path, lambda pods: sum("nodeName" in pod["spec"] for pod in pods) == count)
        return self.bound()

    def cliques(self, pods: Sequence[Object]) -> set[str]:
        return {self._cliques[pod["spec"]["nodeName"]] for pod in pods}

    def until_status(self, group: str, holds: Callable[[Object], bool]) -> Object:
        """Wait until this holds of the status of that PodGroup of KAI-Scheduler."""
        path = f"/apis/scheduling.run.ai/v2alpha2/namespaces/{self.name}/podgroups/{group}"
        answer = self._api.wait_for(path, lambda obj: holds(obj.get("status", {})), PATIENCE_S)
        return dict(answer["status"])

    def open_gate(self, gate: str) -> None:
        for pod in self._api.list(self.pods_path):
            patch = {"spec": {"schedulingGates": [{"name": gate, "$patch": "delete"}]}}
            path = f"{self.pods_path}/{pod['metadata']['name']}"
            self._api.patch(path, patch, "application/strategic-merge-patch+json")

    def gates(self) -> list[set[str]]:
        return [
            {gate["name"] for gate in pod["spec"].get("schedulingGates", [])} for pod in self._api.list(self.pods_path)
        ]


@pytest.fixture
def team(cluster: Cluster, muster: RunningMuster) -> Iterator[Team]:
    new_team = Team(cluster, muster)
    yield new_team
    new_team.close()


def starts_as_a_whole(team: Team, gang: str, members: Sequence[Object], **room: Any) -> list[Object]:
    """Check that the gang waits for its last member, then for room, and is bound whole in the clique that holds it."""
    *first, last = members
    team.nodes("a", 1, **room)
    team.create(*first)
    assert team.until_told(gang, "MembersMissing").startswith(f"{len(first)} of {len(members)} members exist")
    team.create(last)
    assert "members fit at once" in team.until_told(gang, "NoRoom")
    assert all(GANG_GATE in gates for gates in team.gates())
    team.nodes("b", len(members), **room)
    bound = team.until_bound(len(members))
    assert team.cliques(bound) == {"b"}
    return bound


def test_a_group_of_plain_pods_of_kueue(team: Team) -> None:
    pods = [_pod(KUEUE) for _ in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] = CLIQUE
    starts_as_a_whole(team, "sample-group", pods, cpu="4")


def test_where_kueue_runs_its_gate_comes_off_first(team: Team) -> None:
    team.nodes("a", 2, cpu="4")
    pods = [_pod(KUEUE) for _ in range(2)]
    for pod in pods:
        pod["metadata"]["labels"]["kueue.x-k8s.io/managed"] = "true"
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    team.create(*pods)
    assert "gated by kueue.x-k8s.io/admission" in team.until_told("sample-group", "Gated")
    assert team.gates() == [{GANG_GATE, "kueue.x-k8s.io/admission"}] * 2
    team.open_gate("kueue.x-k8s.io/admission")
    team.until_bound(2)


def test_a_level_of_kueue_that_is_none_of_musters_is_told(team: Team) -> None:
    team.nodes("a", 2, cpu="4")
    pods = [_pod(KUEUE) for _ in range(2)]
    for pod in pods:
        pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"] = "cloud.provider.com/topology-rack"
    team.create(*pods)
    assert '"cloud.provider.com/topology-rack"' in team.until_told("sample-group", "UnknownTopology")


def test_a_gang_of_koordinator(team: Team) -> None:
    pods = [_pod(KOORDINATOR, name=f"pod-example{number}") for number in (1, 2)]
    for pod in pods:
        pod["metadata"]["annotations"] |= REQUIRED
    starts_as_a_whole(team, "gang-example", pods, pods=1)


def test_a_podgroup_of_volcano_whose_pods_keep_its_schedulers_name(team: Team) -> None:
    group = yaml.safe_load(VOLCANO)
    group["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    team.apply(group)
    pods = [_pod(VOLCANO_POD, name=f"test-{number}", scheduler="volcano") for number in range(3)]
    starts_as_a_whole(team, "test", pods, gpus=1)


def test_members_that_come_before_their_podgroup_wait_for_it_and_for_its_tasks(team: Team) -> None:
    team.nodes("a", 4, gpus=1)
    pods = [_pod(VOLCANO_POD, name=f"test-{number}", scheduler="volcano") for number in range(4)]
    for pod, task in zip(pods, ("worker", "worker", "worker", "master"), strict=True):
        pod["metadata"]["annotations"]["volcano.sh/task-spec"] = task
    team.create(*pods[:3])
    assert "no PodGroup named test" in team.until_told("test", "PodGroupMissing")
    group = yaml.safe_load(VOLCANO)
    group["spec"]["minTaskMember"] = {"master": 1, "worker": 2}
    team.apply(group)
    assert team.until_told("test", "MembersMissing") == "0 of 1 members of role master exist"
    team.create(pods[3])
    team.until_bound(4)


def test_a_podgroup_that_says_what_muster_would_not_do_is_told(team: Team) -> None:
    group = yaml.safe_load(VOLCANO)
    group["spec"]["subGroupPolicy"] = [{"name": "task", "subGroupSize": 2}]
    team.apply(group)
    team.create(_pod(VOLCANO_POD, scheduler="volcano"))
    assert "subGroupPolicy" in team.until_told("test", "InvalidPodGroup")


def test_a_podgroup_of_kai_with_each_subgroup_in_a_rack_of_its_own(team: Team) -> None:
    team.apply(yaml.safe_load(KAI))
    names = ["a1", "a2", "b1", "b2", "b3"]
    pods = [_pod(KAI_POD, name=f"pod-{name}") for name in names]
    for pod, name in zip(pods, names, strict=True):
        pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] = f"subgroup-{name[0]}"
    team.nodes("a", 2, rack="r1", pods=1)
    team.nodes("b", 2, rack="r2", pods=1)
    team.nodes("c", 1, rack="r3", pods=1)
    team.create(*pods[:4])
    assert team.until_told("sample1", "MembersMissing") == "4 of 5 members exist"
    team.create(pods[4])
    assert "members fit at once" in team.until_told("sample1", "NoRoom")
    (waits,) = team.until_status("sample1", lambda status: "NoRoom" in str(status))["schedulingConditions"]
    assert (waits["type"], waits["status"]) == ("UnschedulableOnNodePool", "True")
    team.nodes("b", 1, rack="r2", pods=1)
    bound = team.until_bound(5)
    of = {sub: team.cliques([member for member in bound if member["metadata"]["name"][4] == sub]) for sub in "ab"}
    assert of == {"a": {"a"}, "b": {"b"}}
    team.until_status("sample1", lambda status: "schedulingConditions" not in status)


def test_a_podgroup_of_koordinator(team: Team) -> None:
    spec = {"minMember": 2, "scheduleTimeoutSeconds": 100}
    kind = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup"}
    team.apply({**kind, "metadata": {"name": "gang-example", "annotations": REQUIRED}, "spec": spec})
    pods = [_pod(KOORDINATOR, name=f"pod-example{number}") for number in (1, 2)]
    for pod in pods:
        pod["metadata"] |= {"annotations": {}, "labels": {"pod-group.scheduling.sigs.k8s.io": "gang-example"}}
    starts_as_a_whole(team, "gang-example", pods, pods=1)


def test_an_application_of_yunikorn(team: Team) -> None:
    job = yaml.safe_load(YUNIKORN)
    job["spec"]["template"]["spec"]["schedulerName"] = "muster"
    job["spec"]["template"]["metadata"]["annotations"] |= REQUIRED
    team.nodes("a", 1, pods=1)
    team.apply(job)
    assert "members fit at once" in team.until_told("gang-scheduling-job-example", "NoRoom")
    assert team.gates() == [{GANG_GATE}] * 2
    team.nodes("b", 2, pods=1)
    assert team.cliques(team.until_bound(2)) == {"b"}


def test_a_task_group_that_lacks_a_pod_keeps_its_application_waiting(team: Team) -> None:
    """The annotations are those of a Spark application: the driver names all groups, the executors only their own."""
    groups = '[{"name": "spark-driver", "minMember": 1}, {"name": "spark-executor", "minMember": 2}]'
    team.nodes("a", 4, pods=1)
    meta = yaml.safe_load(YUNIKORN)["spec"]["template"]

    def pod(name: str, role: str, **more: str) -> Object:
        obj = copy.deepcopy(meta)
        obj["metadata"] |= {"name": name, "annotations": {"yunikorn.apache.org/task-group-name": role, **more}}
        obj["spec"]["schedulerName"] = "muster"
        return dict(obj)

    team.create(pod("driver", "spark-driver", **{"yunikorn.apache.org/task-groups": groups}))
    team.create(pod("exec-1", "spark-executor"), pod("spare", "spark-driver"))
    message = team.until_told("gang-scheduling-job-example", "MembersMissing")
    assert message == (
        "1 of 2 members of role spark-executor exist; Muster makes no placeholders for pods that are yet to come"
    )
    team.create(pod("exec-2", "spark-executor"))
    team.until_bound(4)


def _pod(manifest: str, *, name: str = "", scheduler: str = "muster") -> Object:
    pod: Object = copy.deepcopy(yaml.safe_load(manifest))
    pod["spec"]["schedulerName"] = scheduler
    if name:
        pod["metadata"]["name"] = name
    return pod
