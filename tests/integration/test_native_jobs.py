"""With the gates GenericWorkload and WorkloadWithJob each Job has a PodGroup of Kubernetes.

A basic one changes nothing for Muster. A Job that asks for a gang is left to kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.stage import GPU, NATIVE, POD_GROUPS
from devcluster import Cluster
from devcluster.api import Object
from devcluster.binaries import minor
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from tests.integration.team import GANG, PLAN, REQUIRED, WORKLOAD, is_gated, node_names

pytestmark = [
    pytest.mark.xdist_group("native-jobs"),
    pytest.mark.skipif(minor() < (1, 37), reason="in Kubernetes 1.36 every Indexed Job is a gang"),
]

JOBS = "/apis/batch/v1/namespaces/default/jobs"
PODS = "/api/v1/namespaces/default/pods"
FREE = {"key": "example.com/reserved", "operator": "DoesNotExist"}
OWN_AFFINITY = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [FREE]}]}}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    # Muster's kube-scheduler runs as it ships, with GenericWorkload off.
    with Cluster(flags={name: flags for name, flags in NATIVE.items() if name != "kube-scheduler"}) as running:
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    cluster.add_nodes(8, gpus=8)
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


def job(name: str, labels: Object, *, said: Object | None = None, pod: Object | None = None, **spec: Object) -> Object:
    """An Indexed Job of two pods of eight GPUs."""
    container = {"name": "main", "image": "train", "resources": {"limits": {GPU: "8"}}}
    made_of = {"schedulerName": "muster", "restartPolicy": "Never", "containers": [container], **(pod or {})}
    template = {"metadata": {"annotations": said or {}}, "spec": made_of}
    size = {"completionMode": "Indexed", "completions": 2, "parallelism": 2}
    return {"metadata": {"name": name, "labels": labels}, "spec": {**size, "template": template, **spec}}


def until_bound(cluster: Cluster, name: str) -> list[Object]:
    def bound(pods: list[Object]) -> list[Object]:
        of_job = [pod for pod in pods if pod["metadata"]["labels"].get("batch.kubernetes.io/job-name") == name]
        return [pod for pod in of_job if pod["spec"].get("nodeName")]

    return bound(cluster.api.wait_for(PODS, lambda pods: len(bound(pods)) == 2))


def policy_of(cluster: Cluster, pod: Object) -> str:
    """The policy of its PodGroup."""
    group = cluster.api.get(f"{POD_GROUPS}/{pod['spec']['schedulingGroup']['podGroupName']}")
    (policy,) = group["spec"]["schedulingPolicy"]
    return str(policy)


@pytest.mark.parametrize("affinity", [{}, {"affinity": OWN_AFFINITY}], ids=["by its template", "by its index"])
def test_a_job_of_ours_is_planned_and_its_pods_are_pinned(
    cluster: Cluster, muster: RunningMuster, affinity: Object
) -> None:
    name = f"ours-{len(affinity)}"
    cluster.api.create(JOBS, job(name, GANG, pod=affinity))
    pods = until_bound(cluster, name)
    assert {policy_of(cluster, pod) for pod in pods} == {"basic"}
    assert all(pod["spec"]["nodeName"] in node_names(pod) for pod in pods)
    assert all("muster.dev/release" in pod["metadata"]["annotations"] for pod in pods)
    cluster.api.delete(f"{JOBS}/{name}", {"propagationPolicy": "Foreground"})


def test_the_pods_of_a_job_that_name_a_gang_are_one(cluster: Cluster, muster: RunningMuster) -> None:
    marks = {"muster.dev/pod-group": "gang", "muster.dev/min-member": "2"}
    cluster.api.create(JOBS, job("gang", {}, said=marks))
    pods = until_bound(cluster, "gang")
    assert {policy_of(cluster, pod) for pod in pods} == {"basic"}
    assert len({pod["metadata"]["annotations"]["muster.dev/release"] for pod in pods}) == 1
    cluster.api.delete(f"{JOBS}/gang", {"propagationPolicy": "Foreground"})


def test_a_job_of_another_object_has_no_group(cluster: Cluster, muster: RunningMuster) -> None:
    """Jobs of a CronJob, a JobSet, an MPIJob, a RayJob or an AppWrapper are such."""
    owner = cluster.api.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "owner"}})
    made = job("owned", GANG)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    cluster.api.create(JOBS, made)
    pods = until_bound(cluster, "owned")
    assert not any("schedulingGroup" in pod["spec"] for pod in pods)
    cluster.api.delete(f"{JOBS}/owned", {"propagationPolicy": "Foreground"})


@pytest.mark.parametrize("said", [{}, {"muster.dev/pod-group": "native", "muster.dev/min-member": "2"}], ids=len)
def test_a_job_that_asks_for_a_native_gang_is_left_alone(cluster: Cluster, muster: RunningMuster, said: Object) -> None:
    name = f"native-{len(said)}"
    scheduling = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    made = cluster.api.create(JOBS, job(name, GANG, said=said, scheduling=scheduling))
    assert not made["spec"].get("suspend")
    pods = until_bound(cluster, name)
    assert {policy_of(cluster, pod) for pod in pods} == {"gang"}
    assert not any(map(is_gated, pods))
    written = {key for pod in pods for key in pod["metadata"].get("annotations", {})}
    assert not written & {WORKLOAD, "muster.dev/release"}
    assert PLAN not in cluster.api.get(f"{JOBS}/{name}")["metadata"].get("annotations", {})
    cluster.api.delete(f"{JOBS}/{name}", {"propagationPolicy": "Foreground"})
