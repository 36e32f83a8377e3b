"""A Job that is made larger while it runs, with the admission policies as they ship."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from tests.integration.stage import RealStage
from tests.integration.test_jobs import Jobs


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


def test_a_pod_of_a_job_that_was_made_larger_while_it_runs_goes_where_there_is_room(stage: RealStage) -> None:
    """The template names the nodes of the others, which are full."""
    jobs = Jobs(stage)
    stage.add_nodes(3)
    jobs.create("train", 2)
    before = jobs.until_running(2)
    stage.api.patch(f"{jobs.path}/train", {"spec": {"parallelism": 3, "completions": 3}})
    after = jobs.until_running(3)
    assert len({pod.node for pod in after}) == 3
    assert {pod.uid for pod in before} < {pod.uid for pod in after}
