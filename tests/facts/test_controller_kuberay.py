"""RayCluster and RayJob, ray-operator v1.6.0, without webhooks as in its default installation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from tests.facts.fact import fact
from tests.facts.kinds import JSON_PATCH, NODES, PATIENCE_S, Kind, finish, is_running, plans_of, term_for
from tests.facts.place import conditions, paused
from tests.facts.rays import plan, ray_cluster, ray_job, slot

FIRST, SECOND = NODES[:2]
GROUP = "/apis/ray.io/v1"
CLUSTERS = (GROUP, "rayclusters")
SUSPEND = {"spec": {"suspend": True}}


@pytest.fixture(scope="module")
def operator(cluster: Cluster, scheduler: object) -> Iterator[None]:
    start_controller(cluster, "kuberay")
    yield
    finish(cluster, "kuberay")


@pytest.fixture
def kind(cluster: Cluster, operator: None) -> Kind:
    return Kind(cluster, *CLUSTERS)


@pytest.fixture
def jobs(cluster: Cluster, operator: None) -> Kind:
    return Kind(cluster, GROUP, "rayjobs")


def running(kind: Kind, name: str, **how: Any) -> list[Object]:
    """Create a RayCluster and unsuspend it; its pods when the operator has seen all of them ready."""
    kind.create(ray_cluster(name, **how))
    kind.patch(name, plan(FIRST), JSON_PATCH)
    kind.until_condition(name, "RayClusterProvisioned")
    return kind.list_of("/api/v1", "pods")


def course(kind: Kind, since: Object) -> list[tuple[str, str]]:
    """RayClusterSuspending and RayClusterSuspended as they changed after this version, until neither holds."""
    seen: list[tuple[str, str]] = []
    path = f"{GROUP}/namespaces/{since['metadata']['namespace']}/rayclusters"
    with kind.cluster.api.watch(path, since["metadata"]["resourceVersion"], PATIENCE_S) as changes:
        for state in itertools.chain([since], (obj for _, obj in changes)):
            by_type = conditions(state)
            now = (by_type["RayClusterSuspending"], by_type["RayClusterSuspended"])
            if now not in seen:
                seen.append(now)
            if now == ("False", "False"):
                break
    return seen


def status_is(deployment: str) -> Any:
    return lambda job: job.get("status", {}).get("jobDeploymentStatus") == deployment


@fact(
    "ray.slots",
    "A RayCluster is created with `spec.suspend: true`, and unsuspended; its workers have one host for each replica, "
    "or two.",
    result="Suspended: no pod, RayClusterSuspended=True. The podsets are the head (`spec.headGroupSpec`, one pod) and "
    "`spec.workerGroupSpecs`, `replicas` times `numOfHosts`. All pods are created at once, with random names, labelled "
    "`ray.io/cluster`, `ray.io/group` (`headgroup` for the head), and workers "
    "`ray.io/worker-group-replica-index`, with more than one host `ray.io/replica-host-index` as well.",
    consequence="The slot of a worker is its replica's index times the hosts, plus the host's index. A RayCluster "
    "never finishes.",
    slow=True,
)
@pytest.mark.parametrize("hosts", [1, 2])
def test_slots(kind: Kind, hosts: int) -> None:
    kind.create(ray_cluster("slots", hosts=hosts))
    kind.until_condition("slots", "RayClusterSuspended")
    assert not kind.pods()
    with kind.closed_nodes():
        kind.patch("slots", plan(FIRST), JSON_PATCH)
        pods = kind.until_pods(1 + 2 * hosts)
        assert {pod["metadata"]["labels"]["ray.io/cluster"] for pod in pods} == {"slots"}
        workers = [
            ("w", str(replica), str(host) if hosts > 1 else None) for replica in range(2) for host in range(hosts)
        ]
        assert sorted(map(slot, pods), key=str) == sorted([("headgroup", None, None), *workers], key=str)


@fact(
    "ray.unsuspend",
    "One PATCH unsuspends a RayCluster and writes annotations, node affinity, a node selector, a scheduling gate and a "
    "scheduler's name into its templates.",
    result="Accepted. Every pod carries all five.",
    consequence="One PATCH admits it, with affinity or with the plan that the policy reads.",
    slow=True,
)
def test_everything_may_be_written(kind: Kind) -> None:
    kind.create(ray_cluster("written"))
    more: Any = {
        "nodeSelector": {"disk": "fast"},
        "schedulerName": "muster",
        "schedulingGates": [{"name": "muster.dev/gate"}],
    }
    kind.patch("written", plan(FIRST, **more), JSON_PATCH)
    pods = kind.until_pods(3)
    assert plans_of(pods) == {FIRST}
    for pod in pods:
        assert {name: pod["spec"][name] for name in more} == more
        assert pod["spec"]["affinity"] == term_for(FIRST)


@fact(
    "ray.running-template",
    "The templates of a running RayCluster get another plan; then a worker is deleted, another fails, and the head is "
    "deleted.",
    result="Accepted. The pods stay; each replacement has the index of the one that it replaces and the new plan, and "
    "the others stay.",
    consequence="A lost slot gets its new node by one PATCH of the running cluster, without a suspension.",
    slow=True,
)
def test_a_running_template_may_be_changed(kind: Kind) -> None:
    pods = {slot(pod): pod for pod in running(kind, "changed")}
    kind.patch("changed", plan(SECOND), JSON_PATCH)
    first, other, head = (pods["w", "0", None], pods["w", "1", None], pods["headgroup", None, None])
    for victim, hit in ((first, kind.remove), (other, kind.fail), (head, kind.remove)):
        hit(victim)
        uid = victim["metadata"]["uid"]
        after = kind.until_pods(3, lambda pod, uid=uid: pod["metadata"]["uid"] != uid and is_running(pod))  # type: ignore[misc]
        assert {slot(pod) for pod in after} == set(pods)
        kept = {slot(pod) for pod in after if pod["metadata"]["uid"] == pods[slot(pod)]["metadata"]["uid"]}
        assert kept == set(pods) - {slot(victim)}
        pods = {slot(pod): pod for pod in after}
        assert plans_of([pods[slot(victim)]]) == {SECOND}


@fact(
    "ray.recreate",
    "The templates of a running RayCluster with `upgradeStrategy: Recreate` are changed.",
    result="All pods are deleted and made again at once.",
    consequence="Muster does not write a template of such a cluster while it runs.",
    slow=True,
    for_users=True,
)
def test_recreated(kind: Kind) -> None:
    before = {
        pod["metadata"]["uid"] for pod in running(kind, "recreated", more={"upgradeStrategy": {"type": "Recreate"}})
    }
    kind.patch("recreated", plan(SECOND), JSON_PATCH)
    assert plans_of(kind.until_pods(3, lambda pod: pod["metadata"]["uid"] not in before)) == {SECOND}


@fact(
    "ray.multi-host",
    "A worker of a replica of two hosts is deleted.",
    result="Both workers of that replica are deleted and made again, with the same indexes; the other replica and the "
    "head stay.",
    consequence="A replica of several hosts is lost as a whole: both of its slots get new pods.",
    slow=True,
    for_users=True,
)
def test_a_replica_restarts_whole(kind: Kind) -> None:
    before = {slot(pod): pod["metadata"]["uid"] for pod in running(kind, "hosts", hosts=2)}
    (victim,) = (pod for pod in kind.pods() if slot(pod) == ("w", "0", "0"))
    kind.remove(victim)
    lost = {before["w", "0", "0"], before["w", "0", "1"]}
    after = kind.until_pods(5, lambda pod: pod["metadata"]["uid"] not in lost)
    assert {slot(pod) for pod in after} == set(before)
    assert len({pod["metadata"]["uid"] for pod in after} & set(before.values())) == 3


@fact(
    "ray.suspend-again",
    "A running RayCluster is suspended, and unsuspended while its pods still terminate.",
    result="It starts again only when the pods are gone and RayClusterSuspended=True, whatever "
    "`spec.suspend` says meanwhile.",
    consequence="Here, and only here, the condition tells that the room is free, and two runs do not mix.",
    slow=True,
    for_users=True,
)
def test_suspended_again(kind: Kind) -> None:
    running(kind, "again", grace_s=30)
    with paused(kind.cluster, "kwok"):
        kind.patch("again", SUSPEND)
        kind.until_condition("again", "RayClusterSuspending")
        kind.until("/api/v1", "pods", lambda pods: all("deletionTimestamp" in pod["metadata"] for pod in pods))
        resumed = kind.patch("again", plan(SECOND), JSON_PATCH)
        assert len(kind.pods()) == 3
    assert course(kind, resumed) == [("True", "False"), ("False", "True"), ("False", "False")]
    kind.until_pods(3, lambda pod: plans_of([pod]) == {SECOND})
    kind.patch("again", SUSPEND)
    kind.until_condition("again", "RayClusterSuspended")
    assert not kind.pods()


@fact(
    "ray.elastic",
    "`replicas` of a group of workers of a running RayCluster is raised and lowered.",
    result="The lowest free indexes are created; which ones are deleted is not defined (Ray's autoscaler names them).",
    consequence="Indexes beyond the plan are gated by the policy, and a gap is filled again: a slot of a RayCluster "
    "may come and go.",
    slow=True,
    for_users=True,
)
def test_elastic(kind: Kind) -> None:
    running(kind, "elastic", most=4)
    for size in (4, 2, 4):
        path = "/spec/workerGroupSpecs/0/replicas"
        kind.patch("elastic", [{"op": "replace", "path": path, "value": size}], JSON_PATCH)
        indexes = {slot(pod)[1] for pod in kind.until_pods(1 + size)} - {None}
        assert len(indexes) == size
        assert indexes <= {str(index) for index in range(4)}


@fact(
    "rayjob.start",
    "A RayJob is created with `spec.suspend: true`, and unsuspended with a plan while no node takes its pods. Without "
    "`shutdownAfterJobFinishes`, too.",
    result="Suspended: `jobDeploymentStatus: Suspended` and no RayCluster. Unsuspended: a RayCluster with a random "
    "name (`status.rayClusterName`) that has the plan, and its pods; the submitter, a Job of the RayJob's name, comes "
    "when the cluster is ready, without a plan. Without `shutdownAfterJobFinishes`: ValidationFailed.",
    consequence="The quorum is the cluster; the submitter is a wave of its own, of one pod, planned when it comes. The "
    "admission policy may suspend a RayJob only if it shuts its cluster down.",
    slow=True,
)
def test_a_job_starts(jobs: Kind) -> None:
    jobs.create(ray_job("started"))
    jobs.until_own("started", status_is("Suspended"))
    assert not jobs.list_of(*CLUSTERS)
    with jobs.closed_nodes():
        jobs.patch("started", plan(FIRST, "/spec/rayClusterSpec"), JSON_PATCH)
        assert plans_of(jobs.until_pods(3)) == {FIRST}
        status = jobs.until_own("started", status_is("Initializing"))["status"]
        (made,) = jobs.list_of(*CLUSTERS)
        assert status["rayClusterName"] == made["metadata"]["name"] != "started"
        assert not jobs.list_of("/apis/batch/v1", "jobs")
    (submitter,) = (pod for pod in jobs.until_pods(4) if pod["metadata"]["labels"].get("job-name") == "started")
    assert plans_of([submitter]) == {""}
    jobs.create(ray_job("kept", shutdownAfterJobFinishes=False))
    jobs.until_own("kept", status_is("ValidationFailed"))


@fact(
    "rayjob.suspend-again",
    "A running RayJob is suspended, and unsuspended with another plan.",
    result="The RayCluster, the submitter and their pods are deleted; then `jobDeploymentStatus: Suspended`. The new "
    "RayCluster has another name and the new plan.",
    consequence="A RayJob is planned again by suspension, and starts at its beginning. The RayCluster's name changes: "
    "the gang is known by the RayJob that owns it.",
    slow=True,
    for_users=True,
)
def test_a_job_is_suspended_again(jobs: Kind) -> None:
    jobs.create(ray_job("again"))
    jobs.patch("again", plan(FIRST, "/spec/rayClusterSpec"), JSON_PATCH)
    jobs.until_pods(4)
    first = jobs.until_own("again", status_is("Running"))["status"]["rayClusterName"]
    jobs.patch("again", SUSPEND)
    jobs.until_own("again", status_is("Suspended"))
    jobs.until("/api/v1", "pods", lambda pods: not pods)
    assert not jobs.list_of(*CLUSTERS)
    jobs.patch("again", plan(SECOND, "/spec/rayClusterSpec"), JSON_PATCH)
    jobs.until_pods(4)
    second = jobs.until_own("again", status_is("Running"))["status"]["rayClusterName"]
    assert second != first
    (made,) = jobs.list_of(*CLUSTERS)
    assert made["metadata"]["ownerReferences"][0]["name"] == "again"


@fact(
    "rayjob.failed",
    "The submitter of a RayJob fails.",
    result="`jobDeploymentStatus: Failed`, and the RayCluster is deleted, because of `shutdownAfterJobFinishes`.",
    consequence="Finished is `jobDeploymentStatus` Complete or Failed; a RayJob has no conditions.",
    slow=True,
    for_users=True,
)
def test_a_job_fails(jobs: Kind) -> None:
    jobs.create(ray_job("failing", submitterConfig={"backoffLimit": 0}))
    jobs.patch("failing", plan(FIRST, "/spec/rayClusterSpec"), JSON_PATCH)
    pods = jobs.until_pods(4, is_running)
    jobs.fail(next(pod for pod in pods if "job-name" in pod["metadata"]["labels"]))
    failed = jobs.until_own("failing", status_is("Failed"))
    assert "conditions" not in failed["status"]
    jobs.until(*CLUSTERS, lambda clusters: not clusters)
