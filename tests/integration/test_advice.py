"""Advisory mode on the real control plane counts what enforcing would have done. How it ends: a shared scenario."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, start_muster
from tests.integration.stage import RealStage
from tests.scenarios.pods import gated
from tests.scenarios.scenario import until_bound

pytestmark = pytest.mark.xdist_group("advice")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> Iterator[RunningMuster]:
    running = start_muster(cluster, {"mode": "advise"})
    yield running
    running.stop()


def test_a_gang_larger_than_the_room_is_told_what_it_lacks_and_counted(stage: RealStage) -> None:
    stage.add_nodes(2, clique="only")
    stage.create(*gated("train", 3))
    until_bound(stage, "train", 2)
    assert stage.until_noted("train", "NoRoom")
    assert stage.advised("would_reject") >= 1
    assert stage.advised("would_hold") == 2
