"""TrainJobs of Kubeflow Trainer 2.1, which has no runtimePatches, with its own controller and webhooks, and Muster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import install_crds_of, install_gate, install_job_admission, start_muster
from extender.kube.kinds.trainer import TRAIN_JOB
from policies.model import CLIQUE
from tests.integration.elastic import QUEUES, unschedulable, with_elastic
from tests.integration.managed import Managed, check_all_or_none
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.integration.team import Team
from tests.integration.test_elastic_kinds import PATIENCE_S, SPOT, on_nodes
from tests.integration.test_kinds import install_runtime
from tests.kube.kinds.train_jobs import TRAINJOB

pytestmark = pytest.mark.xdist_group("older-trainer")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_crds_of(running, "queues")
        elastic = {"elastic": {"flavors": ["spot"], "timeout_s": 60}}
        start_muster(running, elastic, manifests=with_elastic(running.directory / "with-elastic"))
        install_gate(running)
        install_job_admission(running)
        start_controller(running, "trainer-2.1")
        install_runtime(running)
        for clique in ("a", "b"):
            running.add_nodes(4, prefix=clique, labels={CLIQUE: clique})
        yield running


def test_all_of_its_pods_run_or_none(cluster: Cluster) -> None:
    check_all_or_none(cluster, TRAINJOB)


def test_it_is_started_over_when_a_node_is_gone(cluster: Cluster) -> None:
    managed = Managed(cluster, TRAINJOB)
    first = managed.until_running(3)
    managed.lose_node(first[0])
    second = managed.until_running(3, but=frozenset(pod.uid for pod in first))
    managed.check_nodes(second)
    managed.delete()


def test_overrides_of_its_author_stay_beside_those_of_muster(cluster: Cluster) -> None:
    team, train = Team(cluster), yaml.safe_load(TRAINJOB)
    theirs = {"targetJobs": [{"name": "node"}], "metadata": {"labels": {"app": "mine"}}, "spec": {"nodeSelector": {}}}
    train["spec"] |= {"podTemplateOverrides": [theirs], "annotations": {"team.example.com/a": "b"}}
    path = TRAIN_JOB.path_of(team.name, train["metadata"]["name"])
    cluster.api.create(path.rpartition("/")[0], train)
    pods = cluster.api.wait_for(team.pods, lambda pods: len(pods) == 3 and all(map(bound, pods)), 180.0)
    assert {pod["metadata"]["labels"]["app"] for pod in pods} == {"mine"}
    spec = cluster.api.get(path)["spec"]
    assert (spec["podTemplateOverrides"][0], spec["annotations"]["team.example.com/a"]) == (theirs, "b")
    cluster.api.delete(path, {"propagationPolicy": "Background"})


def test_one_whose_nodes_do_not_come_is_given_back_and_starts_when_they_are_there(cluster: Cluster) -> None:
    train = yaml.safe_load(TRAINJOB)
    train["metadata"] = {"name": "first", "labels": {"kueue.x-k8s.io/queue-name": "research"}}
    with RealStage(cluster, None) as stage:
        queues, path = Queues(stage), TRAIN_JOB.path_of(stage.namespace, "first")
        queues.apply(QUEUES.replace("nominalQuota: 16", "nominalQuota: 24"))
        stage.api.create(path.rpartition("/")[0], train)
        assert [pod["spec"]["nodeSelector"] for pod in unschedulable(stage, 3)] == [SPOT] * 3
        stage.api.wait_for(path, is_given_back, PATIENCE_S)
        nodes = stage.add_nodes(3, labels=SPOT)
        assert set(on_nodes(stage, 3)) == set(nodes)
        stage.api.delete(path, {"propagationPolicy": "Background"})
        queues.remove()


def is_given_back(train: Object) -> bool:
    """Whether the TrainJob is suspended, and its overrides are empty."""
    overrides = train["spec"].get("podTemplateOverrides", ())
    values = [value for override in overrides for value in override["metadata"]["annotations"].values()]
    return bool(train["spec"]["suspend"] and values and not any(values))


def bound(pod: dict[str, dict[str, object]]) -> bool:
    return "nodeName" in pod["spec"]
