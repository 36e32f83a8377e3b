"""Nodes that list more than eight names of resources, as nodes with GPUs do: Muster continues, and jobs run."""

from __future__ import annotations

import httpx
import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs

EIGHT = {
    "cpu": "72",
    "memory": "480Gi",
    "pods": "110",
    "ephemeral-storage": "1Ti",
    "hugepages-1Gi": "0",
    "hugepages-2Mi": "0",
    "hugepages-32Mi": "0",
    "nvidia.com/gpu": "4",
}
"""With the fourth size of huge pages of a kubelet for arm64 there are nine."""
NINTH = {"hugepages-64Ki": "0"}


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


@pytest.fixture
def jobs(stage: RealStage) -> Jobs:
    return Jobs(stage)


def grace(stage: RealStage, name: str, resources: dict[str, str]) -> None:
    """A node with these resources."""
    made: Object = {
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "arm64", "stage": stage.namespace},
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "status": {"capacity": resources, "allocatable": resources},
    }
    stage.api.create("/api/v1/nodes", made)
    stage.adopt(name)


def is_well(muster: RunningMuster) -> bool:
    return muster.extender.running and httpx.get(f"{muster.url}/readyz", trust_env=False).text == "ok\n"


def test_a_job_runs_on_a_node_with_nine_names(muster: RunningMuster, stage: RealStage, jobs: Jobs) -> None:
    grace(stage, "grace-0", EIGHT | NINTH)
    jobs.create("train", 2, gpus=2)
    jobs.until_running(2)
    assert is_well(muster)
    muster.restart_extender()
    assert is_well(muster)
    stage.add_nodes(1)
    jobs.create("again", 1)
    jobs.until_running(3)
    assert is_well(muster)


def test_a_ninth_name_may_come_with_an_update_of_the_nodes_status(
    muster: RunningMuster, stage: RealStage, jobs: Jobs
) -> None:
    grace(stage, "grace-1", EIGHT)
    jobs.create("train", 2, gpus=1)
    jobs.until_running(2)
    more = EIGHT | NINTH | {f"example.com/device-{number}": "0" for number in range(9)} | {"example.com/late": "2"}
    stage.api.patch("/api/v1/nodes/grace-1/status", {"status": {"capacity": more, "allocatable": more}})
    jobs.create("next", 2, gpus=1, demands=None)
    jobs.until_running(4)
    assert is_well(muster)
    muster.restart_extender()
    assert is_well(muster)
