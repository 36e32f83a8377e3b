"""Elastic flavors without ProvisioningRequests for kinds that keep a node selector, with their own controllers.

As in test_elastic_jobs, no autoscaler runs: the tests read what it would read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from devcluster.process import Process
from tests.integration.elastic import QUEUES, unschedulable, with_elastic
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.integration.test_kinds import install_runtime
from tests.kube.kinds.train_jobs import TRAINJOB
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("elastic-kinds")

PATIENCE_S = 120.0
SPOT = {"pool": "spot"}


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    manifests = with_elastic(cluster.directory / "with-elastic")
    running = start_muster(cluster, {"elastic": {"flavors": ["spot"], "timeout_s": 300}}, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    for name in ("jobset", "trainer", "appwrapper"):
        start_controller(cluster, name)
    install_runtime(cluster)
    return running


@pytest.fixture(scope="module")
def mpi_operator(cluster: Cluster) -> Process:
    return start_controller(cluster, "mpi-operator")


@pytest.fixture
def research(stage: RealStage) -> Iterator[Queues]:
    queues = Queues(stage)
    stage.add_nodes(1, labels={"pool": "owned"})
    queues.apply(QUEUES.replace("nominalQuota: 8", "nominalQuota: 4"))
    yield queues
    queues.remove()


def made_of(gpus: int) -> Object:
    return {"spec": {**pod("one", gpus=gpus)["spec"], "restartPolicy": "Never"}}


def _jobset() -> tuple[str, Object]:
    job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": made_of(8)}
    spec = {"replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job}}]}
    return "jobsets", {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": spec}


def _mpi_job() -> tuple[str, Object]:
    roles = {"Launcher": {"replicas": 1, "template": made_of(8)}, "Worker": {"replicas": 1, "template": made_of(8)}}
    spec = {"slotsPerWorker": 1, "mpiReplicaSpecs": roles}
    return "mpijobs", {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}


def _train_job() -> tuple[str, Object]:
    obj = yaml.safe_load(TRAINJOB)
    obj["spec"] |= {"trainer": obj["spec"]["trainer"] | {"numNodes": 2}}
    return "trainjobs", obj


def _app_wrapper() -> tuple[str, Object]:
    job = {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "template": made_of(8)}
    inner = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}, "spec": job}
    spec = {"components": [{"template": inner}]}
    return "appwrappers", {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": spec}


@pytest.mark.parametrize(
    "kind",
    [_jobset(), _mpi_job(), _train_job(), _app_wrapper()],
    ids=["JobSet", "MPIJob", "TrainJob", "AppWrapper"],
)
def test_its_pods_ask_for_the_nodes_of_their_flavor_until_they_get_another(
    kind: tuple[str, Object], stage: RealStage, research: Queues, muster: RunningMuster, mpi_operator: Process
) -> None:
    """The node selectors that the job's controller keeps of its templates are gone from the pods of its next start."""
    plural, obj = kind
    path = f"/apis/{obj['apiVersion']}/namespaces/{stage.namespace}/{plural}"
    meta = {"name": "first", "labels": {"kueue.x-k8s.io/queue-name": "research"}}
    stage.api.create(path, {**obj, "metadata": meta})
    for member in unschedulable(stage, 2):
        assert member["spec"]["nodeSelector"] == SPOT
        assert "metadata.name" not in str(member["spec"].get("affinity")), "AppWrapper adds one of its own"
    nodes = stage.add_nodes(2, labels=SPOT)
    assert set(on_nodes(stage, 2)) == set(nodes)
    shown = path.replace(f"{obj['apiVersion']}/", "jobset.x-k8s.io/v1alpha2/").replace("trainjobs", "jobsets")
    stage.api.wait_for(f"{shown if plural == 'trainjobs' else path}/first", lambda seen: leads_to(seen, nodes))
    stage.api.patch(
        f"{path}/first", {"spec": {"runPolicy": {"suspend": True}} if plural == "mpijobs" else {"suspend": True}}
    )
    quota = [{"name": "owned", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": 16}]}]
    groups = [{"coveredResources": ["cpu", "memory", "nvidia.com/gpu"], "flavors": quota}]
    stage.api.patch(research.path("ClusterQueue", "research"), {"spec": {"resourceGroups": groups}})
    stage.add_nodes(1, labels={"pool": "owned"})
    by_node = on_nodes(stage, 2, but=frozenset(nodes))
    assert not any("nodeSelector" in placed["spec"] for placed in by_node.values())
    stage.api.delete(f"{path}/first")


def test_an_appwrapper_awaits_nodes_for_longer_than_it_gives_its_pods(
    stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    """The AppWrapper's controller looks at the pods when a client writes to it, and would delete them then."""
    plural, obj = _app_wrapper()
    path = f"/apis/{obj['apiVersion']}/namespaces/{stage.namespace}/{plural}"
    own = {"workload.codeflare.dev.appwrapper/warmupGracePeriodDuration": "1ms"}
    meta = {"name": "first", "labels": {"kueue.x-k8s.io/queue-name": "research"}, "annotations": own}
    stage.api.create(path, {**obj, "metadata": meta})
    waiting = unschedulable(stage, 2)
    stage.api.patch(f"{path}/first", {"metadata": {"labels": {"note": "look"}}})
    stage.add_nodes(2, labels=SPOT)
    by_node = on_nodes(stage, 2)
    stage.api.wait_for(f"{path}/first", is_ready, PATIENCE_S)
    assert {placed["metadata"]["uid"] for placed in by_node.values()} == {
        waiter["metadata"]["uid"] for waiter in waiting
    }
    stage.api.patch(f"{path}/first", {"spec": {"suspend": True}, "metadata": {"labels": {"muster.dev/hold": "true"}}})
    stage.api.wait_for(f"{path}/first", lambda seen: seen["metadata"]["annotations"] == own, PATIENCE_S)
    stage.api.delete(f"{path}/first")


def is_ready(app_wrapper: Object) -> bool:
    """Whether its controller has seen all of its pods run."""
    conditions = app_wrapper["status"]["conditions"]
    return any(condition["type"] == "PodsReady" and condition["status"] == "True" for condition in conditions)


def test_a_launcher_that_is_made_when_its_workers_run_has_its_room_by_then(
    cluster: Cluster, stage: RealStage, research: Queues, muster: RunningMuster, mpi_operator: Process
) -> None:
    """The operator creates the launcher of a suspended job at once, if it has seen it (mpi.launcher-waits).

    So the operator is away until the job has started without a plan.
    """
    plural, obj = _mpi_job()
    roles = {"Launcher": {"replicas": 1, "template": made_of(0)}, "Worker": {"replicas": 2, "template": made_of(8)}}
    obj["spec"] |= {"launcherCreationPolicy": "WaitForWorkersReady", "mpiReplicaSpecs": roles}
    path = f"/apis/{obj['apiVersion']}/namespaces/{stage.namespace}/{plural}"
    meta = {"name": "first", "labels": {"kueue.x-k8s.io/queue-name": "research"}}
    mpi_operator.terminate()
    stage.api.create(path, {**obj, "metadata": meta})
    stage.api.wait_for(f"{path}/first", lambda job: not job["spec"]["runPolicy"]["suspend"], PATIENCE_S)
    cluster.again(mpi_operator)
    workers = unschedulable(stage, 2)
    assert {worker["metadata"]["labels"]["training.kubeflow.org/job-role"] for worker in workers} == {"worker"}
    nodes = stage.add_nodes(2, labels=SPOT)
    pods = stage.api.wait_for(stage.pods_path, lambda pods: len(pods) == 3 and all(map(has_node, pods)), PATIENCE_S)
    assert {node_of(member) for member in pods if "worker" in member["metadata"]["name"]} == set(nodes)
    (launcher,) = (member for member in pods if "launcher" in member["metadata"]["name"])
    # Pods of such a job may be bound before their nodes are written on it.
    planned = stage.api.wait_for(f"{path}/first", lambda job: _plan(job).startswith("{"))
    assert f"{node_of(launcher)}*1" in json.loads(_plan(planned)).values(), "it was planned with its workers"
    stage.api.delete(f"{path}/first")


def node_of(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def has_node(pod: Object) -> bool:
    return bool(node_of(pod))


def on_nodes(stage: RealStage, count: int, but: frozenset[str] = frozenset()) -> dict[str, Object]:
    """Wait for ``count`` live pods with a node that is not in ``but``; returns them by node."""

    def found(pods: list[Object]) -> dict[str, Object]:
        live = [obj for obj in pods if "deletionTimestamp" not in obj["metadata"]]
        return {obj["spec"]["nodeName"]: obj for obj in live if obj["spec"].get("nodeName", "") not in {*but, ""}}

    return found(stage.api.wait_for(stage.pods_path, lambda pods: len(found(pods)) == count, PATIENCE_S))


def leads_to(job: Object | None, nodes: list[str]) -> bool:
    """Whether its plan, which another life of Muster would read, has these nodes."""
    return all(node in _plan(job) for node in nodes)


def _plan(job: Object | None) -> str:
    return str((job or {}).get("metadata", {}).get("annotations", {}).get("muster.dev/plan", ""))
