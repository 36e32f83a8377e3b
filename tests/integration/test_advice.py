"""Advisory mode on the real control plane: pods are bound as they come, and Muster says what it thinks of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, start_muster
from tests.integration.stage import Stage, bound

pytestmark = pytest.mark.xdist_group("advice")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> Iterator[RunningMuster]:
    running = start_muster(cluster, {"mode": "advise"})
    install_gate(cluster)
    yield running
    running.stop()


def test_a_gang_larger_than_the_room_is_bound_one_by_one_and_told_what_it_lacks(stage: Stage) -> None:
    stage.add_nodes(2, clique="only")
    stage.create(*stage.gang("train", 3))
    stage.wait_bound("train", size=2)
    assert stage.wait_reason("train", "NoRoom")
    pods = stage.pods()
    assert len(bound(pods, "train")) == 2
    assert not any(pod["spec"].get("schedulingGates") for pod in pods), "the third is refused by kube-scheduler alone"
    assert stage.advised("would_reject") >= 1
    assert stage.advised("would_hold") == 2
