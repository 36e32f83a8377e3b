"""A job of 64 whole-node pods loses a node on the real control plane, and runs again, whole and in one clique."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from tests.facts.silence import SILENT, kubelets_that_fall_silent
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs

pytestmark = pytest.mark.xdist_group("job-node-loss")

SIZE = 64
SPARE = 16
PATIENCE_S = 150.0


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> Iterator[RunningMuster]:
    running = start_muster(cluster, {"node_loss_s": 2})
    install_gate(cluster)
    install_job_admission(cluster)
    with kubelets_that_fall_silent(cluster):
        yield running


@pytest.fixture(scope="module")
def place(cluster: Cluster, muster: RunningMuster) -> Iterator[RealStage]:
    """Two cliques, of which the larger one has room for the job after the loss of a node, too."""
    with RealStage(cluster, muster) as stage:
        stage.add_nodes(SIZE, clique="tight")
        stage.add_nodes(SIZE + SPARE, clique="wide")
        yield stage


class Train:
    """The job. A quota keeps it at the point at which the node is lost."""

    def __init__(self, stage: RealStage, name: str) -> None:
        self.stage, self.name, self.jobs = stage, name, Jobs(stage)
        self._quotas = f"/api/v1/namespaces/{stage.namespace}/resourcequotas"

    def start(self, pods: int) -> None:
        """Create the job, and wait until it is started and ``pods`` of its pods exist."""
        if pods < SIZE:
            self.stage.api.create(self._quotas, {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(pods)}}})
        self.jobs.create(self.name, SIZE, level="clique")
        self.jobs.until(self.name, lambda job: job["spec"]["suspend"] is False, PATIENCE_S)
        self.until(lambda listed: len(listed) == pods and (pods < SIZE or all(map(_runs, listed))))

    def nodes(self) -> list[str]:
        """The nodes of its plan, by index."""
        plan = json.loads(self.jobs.get(self.name)["metadata"]["annotations"]["muster.dev/plan"])
        runs = [entry.partition("*") for entry in plan[""].split(",")]
        return [node for node, _, times in runs for _ in range(int(times or 1))]

    def until_started_over(self) -> None:
        """Wait until the job was suspended, and let all its pods be created again."""
        self.jobs.until(self.name, lambda job: job["spec"]["suspend"] is True, PATIENCE_S)
        self.stage.api.delete(f"{self._quotas}/pods")

    def until(self, holds: Callable[[list[Object]], bool]) -> list[Object]:
        """Wait until this holds of its pods, without the terminating ones."""
        found: list[Object] = []

        def so(pods: Any) -> bool:
            nonlocal found
            found = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and self._is_its(pod)]
            return holds(found)

        self.stage.api.wait_for(self.stage.pods_path, so, PATIENCE_S)
        return found

    def delete(self) -> None:
        self.stage.api.delete(f"{self.jobs.path}/{self.name}", {"propagationPolicy": "Background"})
        self.stage.api.delete(self.stage.pods_path, {"gracePeriodSeconds": 0})
        self.stage.api.wait_for(self.stage.pods_path, lambda pods: not pods, PATIENCE_S)

    def _is_its(self, pod: Object) -> bool:
        return str(pod["metadata"]["name"]).startswith(f"{self.name}-")


def silent(stage: RealStage, node: str) -> None:
    """Silence the kubelet of the node and of its pods from now on."""
    mark = {"metadata": {"labels": {SILENT: "true"}}}
    for pod in stage.api.list(stage.pods_path):
        if pod["spec"].get("nodeName") == node:
            stage.api.patch(f"{stage.pods_path}/{pod['metadata']['name']}", mark)
    stage.api.patch(f"/api/v1/nodes/{node}", mark)


def deleted(stage: RealStage, node: str) -> None:
    stage.remove_node(node)


@pytest.mark.parametrize("lose", [silent, deleted])
@pytest.mark.parametrize(("when", "pods"), [("planned", 0), ("starting", SIZE // 2), ("running", SIZE)])
def test_it_runs_again(place: RealStage, when: str, pods: int, lose: Callable[[RealStage, str], None]) -> None:
    train = Train(place, f"{when}-{lose.__name__}")
    train.start(pods)
    lost = train.nodes()[0]
    clique = place.cliques[lost]
    before = {pod["metadata"]["uid"] for pod in train.until(lambda listed: len(listed) == pods)}
    lose(place, lost)
    if pods < SIZE:
        train.until_started_over()
    again = train.until(lambda listed: len(listed) == SIZE and all(_runs(pod) and _new(pod, before) for pod in listed))
    nodes = {str(pod["spec"]["nodeName"]) for pod in again}
    assert len(nodes) == SIZE
    assert lost not in nodes
    assert len({place.cliques[node] for node in nodes}) == 1, "in one clique"
    assert not train.jobs.get(train.name)["status"].get("failed"), "no failure was counted"
    train.delete()
    if lose is silent:
        place.remove_node(lost)
    place.add_nodes(1, clique=clique)


def _runs(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _new(pod: Object, before: set[str]) -> bool:
    return pod["metadata"]["uid"] not in before
