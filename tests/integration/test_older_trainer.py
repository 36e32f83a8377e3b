"""TrainJobs of Kubeflow Trainer 2.1, which has no runtimePatches, with its own controller and webhooks, and Muster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.controllers import start_controller
from devcluster.muster import install_gate, install_job_admission, start_muster
from extender.kube.kinds.trainer import TRAIN_JOB
from policies.model import CLIQUE
from tests.integration.team import Team
from tests.integration.test_kinds import install_runtime
from tests.integration.test_kinds_with_muster import Managed, check_all_or_none
from tests.kube.kinds.test_trainer import TRAINJOB

pytestmark = pytest.mark.xdist_group("older-trainer")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        start_muster(running)
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


def bound(pod: dict[str, dict[str, object]]) -> bool:
    return "nodeName" in pod["spec"]
