"""RayClusters and RayJobs are read, started, suspended and given back."""

from __future__ import annotations

import pytest
import yaml

from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.ray import RAY_CLUSTER, RAY_JOB
from extender.kube.kinds.read import Reader
from policies.model import GroupKey
from tests.kube.kinds.jobs import (
    affinity_names,
    by_patch,
    pod,
    read,
    sizes,
    slots,
    started,
    stopped_again,
    stored,
    without_status,
)
from tests.kube.kinds.rays import (
    BOTH,
    CLUSTER,
    GROUP,
    HOST,
    JOB,
    REPLICA,
    STOPPED,
    cluster,
    templates,
    tpus,
    workers_of,
)


def test_a_raycluster_is_its_head_and_its_groups_of_workers() -> None:
    job = read(RAY_CLUSTER, cluster({"groupName": "small", "replicas": 3}, {"groupName": "Large", "replicas": 2}))
    assert (job.key, job.problem) == (GroupKey("team", "raycluster-raycluster-kuberay"), "")
    assert list(sizes(job).items()) == [("0-headgroup", 1), ("1-small", 3), ("1-Large", 2)]
    assert job.podsets.minimum == 6


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({"replicas": None}, 1),
        ({"replicas": 0}, 1),
        ({"replicas": 9}, 5),
        ({"minReplicas": None, "replicas": None}, 0),
        ({"suspend": True}, 0),
        ({"numOfHosts": 0}, 1),
    ],
    ids=str,
)
def test_its_replicas_are_counted_as_its_operator_does(group: Object, expected: int) -> None:
    assert sizes(read(RAY_CLUSTER, cluster(group)))["1-workergroup"] == expected


@BOTH
def test_its_pods_fill_its_slots(kind: Kind, manifest: str) -> None:
    obj = stored(manifest)
    head, worker = templates(started(kind, obj))
    job = read(kind, obj)
    made = [pod(head, "head", **{GROUP: "headgroup"}), pod(worker, "w", **{GROUP: workers_of(obj), REPLICA: "0"})]
    assert {member.owner for member in made} == {job.uid}
    assert {member.group_key for member in made} == {job.key}
    assert [member.series for member in made] == [podset.name for podset in job.podsets.podsets][:2]
    assert [member.index for member in made] == [None, None], (
        "a slot is any worker's: the autoscaler removes whom it likes"
    )
    assert not any(podset.indexed for podset in job.podsets.podsets)


def test_each_replica_of_several_hosts_is_a_podset() -> None:
    obj = tpus()
    job = read(RAY_CLUSTER, obj)
    assert sizes(job) == {"0-headgroup": 1, "1-tpu-group/00000": 2, "1-tpu-group/00001": 2}
    assert job.podsets.minimum == 5
    plan = {"0-headgroup": ("h",), "1-tpu-group/00000": ("a", "b"), "1-tpu-group/00001": ("c", "d")}
    _, worker = templates(started(RAY_CLUSTER, obj, plan))
    made = [
        pod(worker, f"w-{at}-{host}", **{GROUP: "tpu-group", REPLICA: str(at), HOST: str(host)})
        for at in range(2)
        for host in range(2)
    ]
    assert {member.identity for member in made} == {slot for slot in slots(job) if "tpu" in slot[0]}
    assert worker["metadata"]["annotations"]["muster.dev/nodes"] == "a,b;c,d", "more replicas may come"


def test_many_hosts_are_led_by_their_index() -> None:
    obj = tpus()
    obj["spec"]["workerGroupSpecs"][0] |= {"replicas": 5, "maxReplicas": 5}
    nodes = {f"1-tpu-group/{at:05d}": (f"n{at}a", f"n{at}b") for at in range(5)}
    _, worker = templates(started(RAY_CLUSTER, obj, {"0-headgroup": ("h",), **nodes}))
    assert worker["metadata"]["annotations"]["muster.dev/nodes"] == "n0a,n0b;n1a,n1b;n2a,n2b;n3a,n3b;n4a,n4b"
    assert worker["metadata"]["labels"] == {"muster.dev/led": "index"}


def test_what_its_operator_adds_to_its_pods_is_asked_for() -> None:
    head, worker = (dict(podset.template.requests) for podset in read(RAY_CLUSTER, cluster()).podsets.podsets)
    assert (head["cpu"], worker["cpu"]) == (1000, 1000)
    obj = cluster(enableInTreeAutoscaling=True)
    del obj["spec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]
    head, worker = (dict(podset.template.requests) for podset in read(RAY_CLUSTER, obj).podsets.podsets)
    assert (head["cpu"], head["memory"]) == (1500, (5 << 30) + (512 << 20))
    assert (worker["cpu"], worker["memory"]) == (200, 256 << 20)
    obj["spec"]["autoscalerOptions"] = {"resources": {"requests": {"cpu": "2"}}}
    head, _ = (dict(podset.template.requests) for podset in read(RAY_CLUSTER, obj).podsets.podsets)
    assert (head["cpu"], head["memory"]) == (3000, 5 << 30)


def test_with_the_autoscaler_the_fewest_replicas_are_enough_of_each_group() -> None:
    obj = cluster(
        {"groupName": "a", "replicas": 4, "minReplicas": 2},
        {"groupName": "b", "replicas": 4, "minReplicas": 0},
        enableInTreeAutoscaling=True,
    )
    job = read(RAY_CLUSTER, obj)
    assert {podset.name: (podset.minimum, podset.count) for podset in job.podsets.podsets} == {
        "0-headgroup": (1, 1),
        "1-a": (2, 4),
        "1-b": (0, 4),
    }
    obj["spec"]["enableInTreeAutoscaling"] = False
    assert read(RAY_CLUSTER, obj).podsets.minimum == 9


def test_the_pods_that_the_autoscaler_adds_are_not_led_to_the_nodes_of_the_others() -> None:
    head, worker = templates(started(RAY_CLUSTER, cluster(enableInTreeAutoscaling=True)))
    assert list(affinity_names(head)) == ["n0"]
    assert "affinity" not in worker["spec"]
    assert "muster.dev/nodes" not in worker["metadata"]["annotations"]
    assert worker["metadata"]["annotations"]["muster.dev/workload"]


def test_replicas_of_several_hosts_that_the_autoscaler_adds_are_beyond_the_plan() -> None:
    obj = tpus()
    obj["spec"]["enableInTreeAutoscaling"] = True
    _, worker = templates(started(RAY_CLUSTER, obj))
    assert "affinity" not in worker["spec"]
    assert worker["metadata"]["annotations"]["muster.dev/nodes"].count(";") == 1


@BOTH
def test_it_is_given_back_as_its_author_wrote_it(kind: Kind, manifest: str) -> None:
    obj = stored(manifest)
    running = by_patch(obj, started(kind, obj))
    assert list(affinity_names(templates(running)[1])) == ["n0"]
    assert read(kind, running).podsets == read(kind, obj).podsets
    status = STOPPED if kind is RAY_CLUSTER else {"jobDeploymentStatus": "Suspended"}
    assert without_status(by_patch(running, stopped_again(kind, running, **status))) == obj


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        # ray-operator would say RayClusterSuspending next.
        ({}, False),
        (STOPPED, True),
        ({"state": "ready", "conditions": [{"type": "HeadPodReady", "status": "True"}]}, False),
        ({"state": "ready", "conditions": [{"type": "RayClusterSuspending", "status": "True"}]}, False),
        ({"state": "suspended", "conditions": [{"type": "RayClusterSuspended", "status": "False"}]}, False),
    ],
    ids=str,
)
def test_a_raycluster_has_stopped_when_its_pods_are_gone(status: Object, expected: bool) -> None:
    assert read(RAY_CLUSTER, stored(CLUSTER, **status)).stopped is expected


@pytest.mark.parametrize(
    ("status", "stopped", "finished", "running"),
    [
        ({}, False, False, False),
        ({"jobDeploymentStatus": ""}, False, False, False),
        ({"jobDeploymentStatus": "Suspended"}, True, False, False),
        ({"jobDeploymentStatus": "Suspending", "rayClusterStatus": {"availableWorkerReplicas": 1}}, False, False, True),
        ({"jobDeploymentStatus": "Initializing"}, False, False, False),
        ({"jobDeploymentStatus": "Running"}, False, False, True),
        ({"jobDeploymentStatus": "Retrying"}, False, False, False),
        ({"jobDeploymentStatus": "Complete"}, False, True, False),
        ({"jobDeploymentStatus": "Failed"}, False, True, False),
    ],
    ids=str,
)
def test_a_rayjob_says_how_it_stands_without_conditions(
    status: Object, stopped: bool, finished: bool, running: bool
) -> None:
    job = read(RAY_JOB, stored(JOB, **status))
    assert (job.stopped, job.finished, job.running) == (stopped, finished, running)


def test_a_raycluster_runs_when_its_head_or_a_worker_does() -> None:
    ready = {"conditions": [{"type": "HeadPodReady", "status": "True"}]}
    for status, running in ((ready, True), ({"availableWorkerReplicas": 1}, True), ({"state": "ready"}, False)):
        assert read(RAY_CLUSTER, stored(CLUSTER, **status)).running is running


def test_a_rayjob_is_its_cluster_and_then_its_submitter() -> None:
    obj = stored(JOB)
    job = read(RAY_JOB, obj)
    assert {podset.name: (podset.count, podset.wave) for podset in job.podsets.podsets} == {
        "0-headgroup": (1, 0),
        "1-small-group": (1, 0),
        "": (1, 1),
    }
    assert (job.podsets.minimum, job.podsets.first_wave) == (3, 2)
    submitter = pod(started(RAY_JOB, obj)["spec"]["submitterPodTemplate"], "rayjob-sample-x", "job-uid")
    assert (submitter.owner, submitter.series, submitter.index) == (job.uid, "", None)


@pytest.mark.parametrize("mode", [None, "K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode"])
def test_only_the_submitter_of_a_job_that_is_written_down_is_planned(mode: str | None) -> None:
    obj = stored(JOB)
    obj["spec"]["submissionMode"] = mode
    podsets = read(RAY_JOB, obj).podsets.podsets
    assert (len(podsets) == 3) is (mode in (None, "K8sJobMode"))
    assert dict(podsets[0].template.requests)["cpu"] == (1500 if mode == "SidecarMode" else 1000)
    del obj["spec"]["submitterPodTemplate"]
    assert len(read(RAY_JOB, obj).podsets.podsets) == 2


def test_a_rayjob_that_cannot_be_suspended_is_left_alone() -> None:
    for change in ({"shutdownAfterJobFinishes": False}, {"clusterSelector": {"ray.io/cluster": "there"}}):
        obj = stored(JOB)
        obj["spec"] |= change
        assert not read(RAY_JOB, obj).managed


@BOTH
def test_another_manager_keeps_it(kind: Kind, manifest: str) -> None:
    for manager, managed in (("ray.io/kuberay-operator", True), ("kueue.x-k8s.io/multikueue", False)):
        obj = stored(manifest)
        obj["spec"]["managedBy"] = manager
        assert read(kind, obj).managed is managed


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        ([{}, {}], "two groups of its workerGroupSpecs have the same groupName, or that of the head"),
        (
            [{"groupName": "headgroup"}],
            "two groups of its workerGroupSpecs have the same groupName, or that of the head",
        ),
        ([{"groupName": None}], "its workerGroupSpecs cannot be read"),
        ([{"groupName": ""}], "its workerGroupSpecs cannot be read"),
        ([{"minReplicas": "two"}], "its minReplicas is not a number of pods"),
        ([{"minReplicas": 7, "maxReplicas": None, "numOfHosts": 2000}], "it has 14,001 pods, and no more than 10,000"),
        ([{"replicas": 1 << 30, "maxReplicas": None, "numOfHosts": 2}], "it has more than 10,000 replicas"),
        ([{"template": None}], "it has no template"),
    ],
    ids=str,
)
def test_groups_that_cannot_be_planned_are_the_reason(groups: list[Object], problem: str) -> None:
    assert read(RAY_CLUSTER, cluster(*groups)).problem.startswith(problem)


def test_its_pods_have_the_labels_of_ray_operator_by_which_a_spread_may_select_them() -> None:
    """No template has the labels. Without them a planner puts two such workers on one node: kube-scheduler refuses."""
    obj = yaml.safe_load(CLUSTER)
    obj["metadata"] |= {"namespace": "team", "uid": "uid"}
    podsets = Reader().read(RAY_CLUSTER, obj).podsets.podsets
    types = [dict(podset.template.labels).get("ray.io/node-type") for podset in podsets]
    assert types == ["head", *["worker"] * (len(podsets) - 1)]
