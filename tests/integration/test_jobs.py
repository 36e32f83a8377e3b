"""Jobs on the real control plane: planned before their pods exist, started by one write, and started over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, keep_managed_fields, start_muster
from policies.model import Pod
from tests.integration.stage import RealStage
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("jobs")

START_OVER_S = 90.0


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    keep_managed_fields(cluster)  # they tell which clients have written on a pod
    return running


class Jobs:
    """The Jobs of a stage."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        self.path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"

    def create(
        self, name: str, size: int, *, gpus: int = 8, level: str = "", demands: Object | None = None, **spec: Any
    ) -> Object:
        """Create the Job as a user writes it: its pods have only their requests.

        ``demands``: fields of its pods with demands on other pods.
        """
        made = pod(name, gpus=gpus)["spec"]
        template: Object = {"spec": {**made, **self.stage.at_home, "restartPolicy": "Never"}}
        if level:
            template["metadata"] = {"annotations": {"muster.dev/required-topology": level}}
        template["spec"] |= demands or {}
        body = {"completions": size, "parallelism": size, "completionMode": "Indexed", "backoffLimit": 0}
        meta = {"name": name, "labels": {"muster.dev/gang": "true"}}
        return self.stage.api.create(self.path, {"metadata": meta, "spec": {**body, **spec, "template": template}})

    def get(self, name: str) -> Object:
        return self.stage.api.get(f"{self.path}/{name}")

    def until(self, name: str, holds: Callable[[Object], bool], timeout_s: float = START_OVER_S) -> Object:
        settled_job: Object = self.stage.api.wait_for(
            f"{self.path}/{name}", lambda job: bool(job) and holds(job), timeout_s
        )
        return settled_job

    def until_running(self, count: int, but: frozenset[str] = frozenset()) -> list[Pod]:
        """Wait until ``count`` live pods have a node, and none has one of these UIDs."""

        def runs(pods: Any) -> bool:
            live = [member for member in pods if member.live and member.node]
            return len(live) == count and not any(member.uid in but for member in live)

        return [member for member in self.stage.until(runs) if member.live]


@pytest.fixture
def jobs(stage: RealStage) -> Jobs:
    return Jobs(stage)


def test_a_job_is_started_whole_with_nothing_written_on_its_pods(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(2, clique="small")
    stage.add_nodes(4, clique="large")
    jobs.create("train", 4, level="clique")
    pods = jobs.until_running(4)
    assert {stage.cliques[str(member.node)] for member in pods} == {"large"}
    job = jobs.get("train")
    assert job["spec"]["suspend"] is False
    assert sorted(entry.rpartition("*")[0] or entry for entry in _nodes_of(job)) == sorted(
        str(member.node) for member in pods
    )
    for obj in stage.api.list(stage.pods_path):
        writers = {entry["manager"] for entry in obj["metadata"]["managedFields"]}
        assert writers <= {"kube-controller-manager", "kwok"}, writers


EVENLY = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}


@pytest.mark.parametrize("policy", ["Honor", "Ignore"])
def test_a_job_whose_pods_are_spread_starts_with_as_many_on_each_node(
    stage: RealStage, jobs: Jobs, policy: str
) -> None:
    """Each is created with node affinity to its node: by default no other node counts for it."""
    stage.add_nodes(4)
    these = {"matchLabels": {"batch.kubernetes.io/job-name": "train"}}
    spread = {**EVENLY, "labelSelector": these, "nodeAffinityPolicy": policy}
    jobs.create("train", 12, gpus=1, demands={"topologySpreadConstraints": [spread]})
    assert set(Counter(member.node for member in jobs.until_running(12)).values()) == {3}


def test_a_job_on_the_host_network_starts_on_as_many_nodes(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(4)
    ports = pod("train", gpus=1)["spec"]["containers"][0] | {"ports": [{"containerPort": 2222}]}
    jobs.create("train", 4, demands={"hostNetwork": True, "containers": [ports]})
    assert len({member.node for member in jobs.until_running(4)}) == 4


def test_a_job_waits_suspended_and_says_why(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(2)
    jobs.create("big", 3)
    assert "2 of 3 members fit at once" in stage.until_noted("big", "NoRoom")
    assert jobs.get("big")["spec"]["suspend"] is True
    assert not stage.pods()
    stage.add_nodes(1)
    jobs.until_running(3)


def test_pods_without_an_index_start_whole(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(3)
    jobs.create("work", 3, completionMode="NonIndexed")
    jobs.until_running(3)


def test_a_job_of_many_nodes_is_pinned_by_index(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(12)
    jobs.create("wide", 12)
    pods = jobs.until_running(12)
    assert len({member.node for member in pods}) == 12


def test_two_jobs_that_fit_only_one_at_a_time_never_share_the_room(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(4)
    jobs.create("first", 3)
    jobs.create("second", 3)
    first = jobs.until_running(3)
    assert len({member.owner for member in first}) == 1
    stage.succeed(*(member.name for member in first))
    second = jobs.until_running(3, but=frozenset(member.uid for member in first))
    assert len({member.owner for member in second}) == 1


def test_a_deleted_node_under_a_running_job_starts_it_over_whole(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(4)
    jobs.create("train", 3)
    before = jobs.until_running(3)
    lost = str(before[0].node)
    stage.remove_node(lost)
    after = jobs.until_running(3, but=frozenset(member.uid for member in before))
    assert lost not in {member.node for member in after}
    assert not jobs.get("train")["status"].get("failed"), "its controller has counted no failure"


def test_nodes_of_another_zone_than_its_volume_are_planned_around(stage: RealStage, jobs: Jobs) -> None:
    """Only the label of the volume tells the zone, and Muster does not read it."""
    zone, claims = "topology.kubernetes.io/zone", f"/api/v1/namespaces/{stage.namespace}/persistentvolumeclaims"
    stage.add_nodes(3, labels={zone: "there"})
    access = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {"capacity": {"storage": "1Gi"}, "csi": {"driver": "example.com", "volumeHandle": "data"}, **access}
    named = {"name": stage.namespace, "labels": {zone: "here"}}
    stage.api.create("/api/v1/persistentvolumes", {"metadata": named, "spec": volume})
    claim = {**access, "volumeName": stage.namespace, "resources": {"requests": {"storage": "1Gi"}}}
    stage.api.create(claims, {"metadata": {"name": "data"}, "spec": claim})
    mounted = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
    jobs.create("train", 3, demands=mounted)
    jobs.until("train", lambda job: job["spec"]["suspend"] is False)
    here = stage.add_nodes(3, labels={zone: "here"})
    assert {member.node for member in jobs.until_running(3)} == set(here)
    events = stage.api.list(f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events")
    assert any("no available volume zone" in event["note"] for event in events if event["reason"] == "Suspended")


def test_a_quota_that_keeps_its_pods_from_being_created_suspends_it_again(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(3)
    quota = {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "2"}}}
    stage.api.create(f"/api/v1/namespaces/{stage.namespace}/resourcequotas", quota)
    jobs.create("train", 3)
    jobs.until("train", lambda job: job["spec"]["suspend"] is False)
    jobs.until("train", lambda job: job["spec"]["suspend"] is True)
    assert not any(member.node for member in stage.pods())


def test_a_job_that_its_owner_holds_is_as_its_user_wrote_it(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(2)
    jobs.create("train", 2)
    jobs.until_running(2)
    hold = {"metadata": {"labels": {"muster.dev/hold": "true"}}, "spec": {"suspend": True}}
    stage.api.patch(f"{jobs.path}/train", hold)
    jobs.until("train", lambda job: not any(key.startswith("muster.dev/") for key in _annotations(job)))
    template = jobs.get("train")["spec"]["template"]
    assert "affinity" not in template["spec"]
    stage.until(lambda pods: not pods)
    stage.api.patch(f"{jobs.path}/train", {"metadata": {"labels": {"muster.dev/hold": None}}})
    jobs.until_running(2)


def test_an_extender_that_is_killed_in_the_middle_takes_the_plan_from_the_job(stage: RealStage, jobs: Jobs) -> None:
    stage.add_nodes(4)
    jobs.create("train", 4)
    jobs.until("train", lambda job: job["spec"]["suspend"] is False)
    stage.kill_extender()
    stage.start_extender()
    jobs.until_running(4)
    assert jobs.get("train")["spec"]["suspend"] is False


def _nodes_of(job: Object) -> list[str]:
    plan: dict[str, str] = json.loads(job["metadata"]["annotations"]["muster.dev/plan"])
    return [node for nodes in plan.values() for node in nodes.split(",")]


def _annotations(job: Object) -> dict[str, str]:
    return {**job["metadata"].get("annotations", {}), **job["spec"]["template"]["metadata"].get("annotations", {})}
