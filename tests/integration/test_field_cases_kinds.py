"""Kinds of jobs, with their own controllers, in situations that users of other schedulers have reported.

Each case states the outcome that a user calls right.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from policies.model import CLIQUE, Pod
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gated, pod

pytestmark = pytest.mark.xdist_group("field-cases-kinds")

GANG = {"muster.dev/gang": "true"}
VERSIONS = {
    "JobSet": "jobset.x-k8s.io/v1alpha2",
    "MPIJob": "kubeflow.org/v2beta1",
    "RayCluster": "ray.io/v1",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/v1",
}


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    for name in ("jobset", "kuberay", "lws"):
        start_controller(cluster, name)
    # It makes a PodGroup for each MPIJob, and gives its pods this scheduler.
    start_controller(cluster, "mpi-operator", options=["--gang-scheduling=muster"])
    return running


def made_of(stage: RealStage, gpus: int = 0, says: dict[str, str] | None = None, **spec: Any) -> Object:
    """A pod template for the nodes of this stage; ``says``: its annotations."""
    home = {"nodeSelector": {"stage": stage.namespace}}
    return {"metadata": {"annotations": says or {}}, "spec": {**pod("", gpus=gpus)["spec"], **home, **spec}}


def path_of(stage: RealStage, kind: str) -> str:
    return f"/apis/{VERSIONS[kind]}/namespaces/{stage.namespace}/{kind.lower()}s"


def create(stage: RealStage, kind: str, name: str, spec: Object, **labels: str) -> str:
    """An object of that kind, to be admitted. Returns its path."""
    meta = {"name": name, "labels": labels or GANG}
    stage.api.create(path_of(stage, kind), {"kind": kind, "apiVersion": VERSIONS[kind], "metadata": meta, "spec": spec})
    return f"{path_of(stage, kind)}/{name}"


def remove(stage: RealStage, path: str) -> None:
    """Delete the object with its pods."""
    stage.api.delete(path, {"propagationPolicy": "Background"})


def replicated(name: str, size: int, template: Object, *, jobs: int = 1, **spec: Any) -> Object:
    """Return a replicated job of a JobSet, of indexed Jobs of ``size`` pods."""
    template = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    job = {"completions": size, "parallelism": size, "backoffLimit": 0, **spec, "template": template}
    return {"name": name, "replicas": jobs, "template": {"spec": job}}


def live(pods: Sequence[Pod], prefix: str = "") -> list[Pod]:
    """Return the live pods that have a node and whose names begin with ``prefix``."""
    return [seen_pod for seen_pod in pods if seen_pod.node and seen_pod.live and seen_pod.name.startswith(prefix)]


def until_on_nodes(stage: RealStage, count: int, prefix: str = "", but: Sequence[Pod] = ()) -> list[Pod]:
    """Wait until ``count`` pods have a node, none of them of ``but``."""
    old = {member.uid for member in but}

    def holds(pods: Sequence[Pod]) -> bool:
        there = live(pods, prefix)
        return len(there) == count and not old.intersection(member.uid for member in there)

    return live(stage.until(holds), prefix)


def reason(stage: RealStage, name: str, code: str) -> str:
    """Return its message, once it waits for the reason ``code``."""
    return stage.until_told(name, lambda seen: seen.state == code).message


def test_of_two_pairs_of_jobs_that_need_each_other_one_runs_and_the_other_holds_nothing(stage: RealStage) -> None:
    """Two replicated jobs each, and room for one pair. koordinator#872"""
    stage.add_nodes(4)
    paths = []
    for name in ("first", "second"):
        jobs = [replicated(role, 2, made_of(stage, 8)) for role in "ab"]
        paths.append(create(stage, "JobSet", name, {"replicatedJobs": jobs}))
    pods = until_on_nodes(stage, 4)
    (name,) = {member.name.partition("-")[0] for member in pods}
    other = "second" if name == "first" else "first"
    reason(stage, f"jobset-{other}", "NoRoom")
    assert not [member for member in stage.pods() if member.name.startswith(other)]
    remove(stage, f"{path_of(stage, 'JobSet')}/{name}")
    until_on_nodes(stage, 4, other)
    remove(stage, f"{path_of(stage, 'JobSet')}/{other}")


def mpi_job(stage: RealStage, **spec: Any) -> Object:
    """Two workers with all GPUs of a node each, and a launcher that comes when they are ready."""
    roles = {
        "Launcher": {"replicas": 1, "template": made_of(stage, restartPolicy="Never")},
        "Worker": {"replicas": 2, "template": made_of(stage, 8, restartPolicy="Never")},
    }
    return {"slotsPerWorker": 1, "launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": roles, **spec}


def test_the_launcher_that_comes_last_starts_on_the_room_that_was_kept_for_it(stage: RealStage) -> None:
    """The cpus suffice for all three, and a filler of one waits; its operator counts all in a PodGroup.
    mpi-operator#608"""
    stage.add_nodes(2, cpu="1")
    path = create(stage, "MPIJob", "train", mpi_job(stage))
    reason(stage, "mpijob-train", "NoRoom")
    assert not live(stage.pods())
    stage.add_nodes(1, gpus=0, cpu="1")
    until_on_nodes(stage, 3, "train")
    stage.create(*gated("filler", 1, gpus=0))
    reason(stage, "filler", "NoRoom")
    assert len(live(stage.pods(), "train")) == 3
    remove(stage, path)
    until_on_nodes(stage, 1, "filler")


@pytest.mark.xfail(
    strict=True, reason="of an MPIJob that Muster does not admit it reads the PodGroup alone, which counts the launcher"
)
def test_the_launcher_that_comes_last_is_not_awaited_by_its_workers(stage: RealStage) -> None:
    """No job that Muster admits: the operator makes its workers and a PodGroup of three. mpi-operator#608"""
    stage.add_nodes(2)
    path = create(stage, "MPIJob", "train", mpi_job(stage), unlike="others")
    gang = stage.until_told("train", lambda seen: bool(seen.message))
    remove(stage, path)
    assert gang.state != "MembersMissing"


def test_two_replicated_jobs_that_require_one_machine_wait_for_its_slots(stage: RealStage) -> None:
    """The node takes one pod, and has plenty of cpu. kueue#11287, kueue#4270"""
    (node,) = stage.add_nodes(1, gpus=0, pods=1)
    says = {"kueue.x-k8s.io/podset-required-topology": "kubernetes.io/hostname"}
    jobs = [replicated(role, 1, made_of(stage, says=says)) for role in "ab"]
    path = create(stage, "JobSet", "both", {"replicatedJobs": jobs})
    message = reason(stage, "jobset-both", "NoRoom")
    assert "best has 1 free slot" in message
    assert "have room for 1 pod" in message
    assert stage.api.get(path)["spec"]["suspend"]
    room = {"allocatable": {"pods": "2"}, "capacity": {"pods": "2"}}
    stage.api.patch(f"/api/v1/nodes/{node}/status", {"status": room})
    until_on_nodes(stage, 2)
    remove(stage, path)


def ray(head: Object, *groups: Object, **spec: Any) -> Object:
    return {"headGroupSpec": {"rayStartParams": {}, "template": head}, "workerGroupSpecs": [*groups], **spec}


def workers(name: str, template: Object, count: int, least: int, most: int) -> Object:
    amounts = {"replicas": count, "minReplicas": least, "maxReplicas": most}
    return {"groupName": name, "rayStartParams": {}, "template": template, **amounts}


@pytest.mark.parametrize("scales", [True, False], ids=["autoscaling", "fixed"])
def test_a_ray_cluster_starts_with_the_minimum_of_each_group(stage: RealStage, *, scales: bool) -> None:
    """Cpu for all, and GPUs for three of the four workers of the second group. kuberay#4656"""
    stage.add_nodes(3, gpus=1, cpu="1")
    stage.add_nodes(1, gpus=0, cpu="20")
    groups = workers("cpus", made_of(stage), 10, 4, 10), workers("gpus", made_of(stage, 1), 4, 4, 4)
    path = create(stage, "RayCluster", "train", ray(made_of(stage), *groups, enableInTreeAutoscaling=scales))
    reason(stage, "raycluster-train", "NoRoom")
    assert not live(stage.pods())
    stage.add_nodes(1, gpus=1, cpu="1")
    pods = until_on_nodes(stage, 15)
    assert len([member for member in pods if member.series.endswith("gpus")]) == 4
    remove(stage, path)


def ray_queue(cpu: int) -> str:
    return f"""\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: any}}
spec: {{}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: team}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
    - coveredResources: [cpu, memory, nvidia.com/gpu]
      flavors: [{{name: any, resources: [{{name: cpu, nominalQuota: {cpu}}}]}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team, namespace: default}}
spec: {{clusterQueue: team}}
"""


def test_workers_that_an_autoscaler_adds_beyond_the_quota_wait_for_it(stage: RealStage) -> None:
    """A queue with quota for the head and two workers; three more are asked for. kueue#11977"""
    queues = Queues(stage)
    queues.apply(ray_queue(4))
    stage.add_nodes(1, gpus=0, cpu="50")
    small = {"resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "500m"}}}
    head = made_of(stage)
    group = workers("cpus", made_of(stage), 2, 1, 9)
    more = {"enableInTreeAutoscaling": True, "autoscalerOptions": small}
    queue = {"kueue.x-k8s.io/queue-name": "team"}
    path = create(stage, "RayCluster", "train", ray(head, group, **more), **queue)
    until_on_nodes(stage, 3)
    stage.api.patch(path, {"spec": {"workerGroupSpecs": [{**group, "replicas": 5}]}}, "application/merge-patch+json")
    pods = stage.until(lambda pods: len([member for member in pods if member.live]) == 6)
    message = stage.until_told("raycluster-train", lambda seen: "more members wait" in seen.message).message
    assert (
        "3 more members wait: ClusterQueue team: it asks for 1 cpu of flavor any, and 0.5 of 4 cpu are left" in message
    )
    waiting = [member for member in pods if not member.node]
    assert all(member.gates for member in waiting)
    assert len(waiting) == 3
    assert used(queues, "3500m") == "3500m"
    for total, cpu in ((4, 5), (5, 6), (6, 7)):
        quota = [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": cpu}]}]
        groups = [{"coveredResources": ["cpu", "memory", "nvidia.com/gpu"], "flavors": quota}]
        stage.api.patch(queues.path("ClusterQueue", "team"), {"spec": {"resourceGroups": groups}})
        until_on_nodes(stage, total)
        used(queues, f"{total * 1000 + 500}m")
    remove(stage, path)
    queues.remove()


def used(queues: Queues, amount: str) -> str:
    """Wait until the queue reports that it uses this amount of cpu, and return it."""

    def says(status: Object) -> str:
        return str(status["flavorsUsage"][0]["resources"][0]["total"])

    return says(queues.status("ClusterQueue", "team", lambda status: says(status) == amount))


@pytest.mark.parametrize("completions", [4, 5, 6])
def test_the_tail_of_a_job_runs_alone(stage: RealStage, completions: int) -> None:
    """Four pods run at once, and there are nodes for four. KAI-Scheduler#1347"""
    stage.add_nodes(4)
    jobs = [replicated("workers", 4, made_of(stage, 8), completions=completions, completionMode="Indexed")]
    path = create(stage, "JobSet", "train", {"replicatedJobs": jobs})
    pods = until_on_nodes(stage, 4)
    left = completions - 4
    if left:
        stage.succeed(*(member.name for member in pods))
        tail = until_on_nodes(stage, left, "train")
        stage.create(*gated("other", 4 - left))
        stage.until(lambda pods: len(bound(pods, "other")) == 4 - left)
        pods = tail
    stage.succeed(*(member.name for member in pods))
    stage.api.wait_for(path, lambda job: has(job, "Completed"), 60.0)
    remove(stage, path)


def has(obj: Object, condition: str) -> bool:
    conditions = obj.get("status", {}).get("conditions", ())
    return any(entry["type"] == condition and entry["status"] == "True" for entry in conditions)


def fail(stage: RealStage, name: str) -> None:
    """Have its container end with an error, as a kubelet reports it."""
    ended: Object = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    ended["state"] = {"terminated": {"exitCode": 1, "reason": "Error"}}
    stage.api.patch(f"{stage.pods_path}/{name}/status", {"status": {"phase": "Failed", "containerStatuses": [ended]}})


def test_one_job_of_a_jobset_starts_again_on_its_room(stage: RealStage) -> None:
    """Each of two Jobs is in a clique of its own, and a filler waits for two nodes. jobset#1129, jobset#918"""
    clique_of = {
        name: clique for clique in "abc" for name in stage.add_nodes(2, labels={CLIQUE: f"{stage.namespace}.{clique}"})
    }
    stage.create(*gated("there", 2, topology="clique"))
    stage.until(lambda pods: len(bound(pods, "there")) == 2)
    says = {"muster.dev/slice-size": "2", "muster.dev/slice-topology": "clique", "muster.dev/required-topology": "none"}
    rules = {"failurePolicy": {"maxRestarts": 3, "rules": [{"name": "one", "action": "RestartJob"}]}}
    jobs = [replicated("workers", 2, made_of(stage, 8, says), jobs=2)]
    path = create(stage, "JobSet", "train", {"replicatedJobs": jobs, **rules})
    pods = until_on_nodes(stage, 4, "train")
    first, second = ([member for member in pods if member.name.startswith(f"train-workers-{at}")] for at in range(2))
    cliques = [{clique_of[member.node or ""] for member in members} for members in (first, second)]
    assert sorted(len(group) for group in cliques) == [1, 1]
    stage.create(*gated("filler", 2))
    reason(stage, "filler", "NoRoom")
    fail(stage, second[0].name)
    again = until_on_nodes(stage, 2, "train-workers-1", second)
    assert {clique_of[member.node or ""] for member in again} == cliques[1]
    there = {member.uid for member in live(stage.pods())}
    assert {member.uid for member in first} <= there
    assert not bound(stage.pods(), "filler")
    assert not stage.api.get(path)["spec"].get("suspend")
    remove(stage, path)


@pytest.mark.parametrize("surge", [2, 0], ids=["with room for a surge", "without"])
def test_a_serving_gang_is_rolled_out_group_by_group(stage: RealStage, surge: int) -> None:
    """Two groups of two pods, and nodes for three groups or for two. kueue#8769"""
    queues = Queues(stage)
    queues.apply(ray_queue(100))
    stage.add_nodes(4 + surge, labels={CLIQUE: f"{stage.namespace}.a"})
    rolls = {"maxUnavailable": 2, "maxSurge": 2}
    queue = {"kueue.x-k8s.io/queue-name": "team"}
    template = made_of(stage, 8)
    template["metadata"]["labels"] = queue
    spec = {
        "replicas": 2,
        "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": rolls},
        "leaderWorkerTemplate": {"size": 2, "workerTemplate": template},
    }
    path = create(stage, "LeaderWorkerSet", "serve", spec, **GANG, **queue)
    first = until_on_nodes(stage, 4)
    template = {**template, "metadata": {"labels": queue, "annotations": {"revision": "2"}}}
    change = {"spec": {"leaderWorkerTemplate": {"workerTemplate": template}}}
    stage.api.patch(path, change, "application/merge-patch+json")
    until_on_nodes(stage, 4, but=first)
    stage.api.wait_for(path, lambda obj: obj["status"].get("updatedReplicas") == 2 and has(obj, "Available"), 60.0)
    stage.until(lambda pods: len([member for member in pods if member.live]) == 4)
    remove(stage, path)
    stage.until(lambda pods: not pods)
    queues.remove()
