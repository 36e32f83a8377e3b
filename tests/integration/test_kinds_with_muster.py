"""Each project's own manifests, plus a queue, with its own controller and Muster: all of a job's pods run, or none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.controllers import start_controller
from devcluster.muster import install_gate, install_job_admission, start_muster
from extender.kube.kinds.trainer import TRAIN_JOB
from policies.model import CLIQUE
from tests.integration.managed import Managed, check_all_or_none
from tests.integration.team import Team
from tests.integration.test_kinds import CONTROLLERS, install_runtime
from tests.integration.training import TRAINING
from tests.kube.kinds.appwrappers import MIXED
from tests.kube.kinds.batch_jobs import INDEXED, PI
from tests.kube.kinds.rays import CLUSTER as RAY_CLUSTER
from tests.kube.kinds.rays import JOB as RAY_JOB
from tests.kube.kinds.test_jobset import WORKERS
from tests.kube.kinds.train_jobs import TRAINJOB
from tests.kube.kinds.training_jobs import PI as MPI_PI
from tests.kube.kinds.training_jobs import PYTORCH

pytestmark = pytest.mark.xdist_group("kinds-with-muster")

MANIFESTS = {
    "Indexed Job": INDEXED,
    "Job": PI,
    "JobSet": WORKERS,
    "PyTorchJob": PYTORCH,
    **TRAINING,
    "MPIJob": MPI_PI,
    "RayCluster": RAY_CLUSTER,
    "RayJob": RAY_JOB,
    "TrainJob": TRAINJOB,
    "AppWrapper": MIXED,
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        start_muster(running)
        install_gate(running)
        install_job_admission(running)
        for name in (*CONTROLLERS, "mpi-operator"):
            start_controller(running, name)
        install_runtime(running)
        for clique in ("a", "b"):
            running.add_nodes(9, prefix=clique, labels={CLIQUE: clique})
        yield running


@pytest.mark.parametrize("name", MANIFESTS)
def test_all_of_its_pods_run_or_none(cluster: Cluster, name: str) -> None:
    check_all_or_none(cluster, MANIFESTS[name])


@pytest.mark.parametrize(
    "name", ["JobSet", "PyTorchJob", *TRAINING, "MPIJob", "RayCluster", "RayJob", "TrainJob", "AppWrapper"]
)
def test_it_is_started_over_when_a_node_is_gone(cluster: Cluster, name: str) -> None:
    managed = Managed(cluster, MANIFESTS[name])
    total = sum(podset.count for podset in managed.now().podsets.podsets)
    first = managed.until_running(total)
    managed.lose_node(first[0])
    second = managed.until_running(total, but=frozenset(pod.uid for pod in first))
    assert first[0].node not in {pod.node for pod in second}
    managed.check_nodes(second)
    managed.delete()


def test_it_is_not_started_beside_a_pod_of_the_same_name_that_has_yet_to_go(cluster: Cluster) -> None:
    """training-operator would take that pod for one that has failed, and the job would be over."""
    managed = Managed(cluster, PYTORCH.replace("OnFailure", "Never"))
    first = managed.until_running(4)

    def it_waits() -> None:
        managed.until(managed.is_clean)
        with pytest.raises(TimeoutError):
            managed.until(lambda obj: not managed.kind.is_suspended(obj), 3.0)

    managed.lose_node(first[-1], it_waits)
    second = managed.until_running(4, but=frozenset(pod.uid for pod in first))
    managed.check_nodes(second)
    managed.delete()


def test_a_worker_more_of_a_training_job_that_runs_goes_where_there_is_room(cluster: Cluster) -> None:
    """The nodes of the plan are full."""
    managed = Managed(cluster, PYTORCH)
    first = managed.until_running(4)
    managed.change({"pytorchReplicaSpecs": {"Worker": {"replicas": 4}}})
    grown = managed.until_running(5)
    assert {pod.uid for pod in first} < {pod.uid for pod in grown}
    assert not managed.now().suspended
    managed.delete()


def test_workers_that_the_autoscaler_of_ray_adds_are_planned_and_its_cluster_shrinks(cluster: Cluster) -> None:
    managed = Managed(cluster, RAY_CLUSTER.replace("  rayVersion", "  enableInTreeAutoscaling: true\n  rayVersion"))
    first = managed.until_running(2)
    managed.check_nodes(first)
    managed.scale(4)
    grown = managed.until_running(5)
    assert {pod.uid for pod in first} < {pod.uid for pod in grown}
    # Not the last one: the others keep their indexes.
    managed.scale(3, next(pod.name for pod in first if pod.series != "0-headgroup"))
    shrunk = managed.until_running(4)
    assert {pod.uid for pod in shrunk} < {pod.uid for pod in grown}
    assert not managed.now().suspended
    managed.delete()


@pytest.mark.parametrize("way", ["client", "forced"])
def test_a_trainjob_applied_again_runs_on_as_it_is(cluster: Cluster, way: str) -> None:
    """The webhook of Trainer has written amounts in another form, which are immutable; patches are a list, too."""
    team, train = Team(cluster), yaml.safe_load(TRAINJOB)
    path = TRAIN_JOB.path_of(team.name, "torch-ddp")
    train["metadata"]["namespace"] = team.name
    del train["spec"]["suspend"]
    limits = {"nvidia.com/gpu": 8, "cpu": "1000m", "memory": "1024Mi"}
    train["spec"]["trainer"]["resourcesPerNode"] = {"limits": limits, "requests": {"cpu": 1}}
    runtime_spec = {"template": {"metadata": {"annotations": {"example.com/said": "yes"}}}}
    train["spec"]["runtimePatches"] = [{"manager": "example.com/team", "trainingRuntimeSpec": runtime_spec}]
    team.apply(train, way)
    assert "error" not in team.apply(train, way).lower(), "it waits"
    pods = cluster.api.wait_for(
        team.pods, lambda listed: len(listed) == 3 and all("nodeName" in pod["spec"] for pod in listed)
    )
    started = cluster.api.get(path)["spec"]
    assert "error" not in team.apply(train, way).lower(), "it runs"
    assert cluster.api.get(path)["spec"] == started
    assert {pod["metadata"]["uid"] for pod in cluster.api.list(team.pods)} == {pod["metadata"]["uid"] for pod in pods}
    cluster.api.delete(path, {"propagationPolicy": "Background"})


def test_a_rayjob_that_has_failed_is_left_with_nothing_of_muster(cluster: Cluster) -> None:
    failing = MANIFESTS["RayJob"].replace("  entrypoint:", "  submitterConfig: {backoffLimit: 0}\n  entrypoint:")
    managed = Managed(cluster, failing)
    pods = managed.until_running(3)
    managed.fail(next(pod for pod in pods if not pod.series))
    managed.until(lambda obj: obj["status"]["jobDeploymentStatus"] == "Failed")
    managed.until(lambda _: not managed.now().marked)
    managed.delete()


def test_a_component_that_fails_runs_again_by_the_same_plan_and_its_appwrapper_ends_with_nothing_of_muster(
    cluster: Cluster,
) -> None:
    """The Job of an AppWrapper, which its controller creates again after a pause."""
    pause = "annotations: {workload.codeflare.dev.appwrapper/retryPausePeriodDuration: 1s}"
    managed = Managed(
        cluster,
        MIXED.replace("  name: mixed\n", f"  name: mixed\n  {pause}\n").replace(
            "        completionMode", "        backoffLimit: 0\n        completionMode"
        ),
    )
    first = managed.until_running(5)
    plan = managed.now().plan
    managed.fail(next(pod for pod in first if pod.index == 0))
    second = managed.until_running(5, but=frozenset(pod.uid for pod in first))
    assert managed.now().plan == plan
    managed.check_nodes(second)
    for pod in second:
        managed.succeed(pod)
    managed.until(lambda obj: obj["status"]["phase"] == "Succeeded")
    managed.until(lambda _: not managed.now().marked)
    managed.delete()


@pytest.mark.parametrize("name", ["Indexed Job", "Job"])
def test_what_has_finished_is_not_waited_for_when_the_rest_starts_again(cluster: Cluster, name: str) -> None:
    managed = Managed(cluster, MANIFESTS[name])
    total = sum(podset.count for podset in managed.now().podsets.podsets)
    first = managed.until_running(total)
    managed.succeed(first[0])
    managed.until(lambda obj: obj["status"].get("succeeded") == 1)
    managed.suspend()
    second = managed.until_running(total - 1, but=frozenset(pod.uid for pod in first))
    managed.check_nodes(second)
    for pod in second:
        managed.succeed(pod)
    managed.until(lambda obj: any(condition["type"] == "Complete" for condition in obj["status"].get("conditions", ())))
    managed.delete()
