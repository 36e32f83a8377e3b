"""Muster on the real control plane, and jobs on which somebody has written what Muster writes.

The administrator may do that, so this is what happens where the admission components do not keep a tenant from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster
from tests.integration.queueing import A100, GPU, Queues, start_with_queues
from tests.integration.stage import RealStage
from tests.manifests_of_queues import TUTORIAL

pytestmark = pytest.mark.xdist_group("forged")
QUEUE, CLUSTER_QUEUE, FLAVOR = "kueue-gang-queue", "heavy-ml-cluster-queue", "a100-gpu-80gb"
PLAN, FLAVORS = "muster.dev/plan", "muster.dev/flavors"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_with_queues(cluster)


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    one = Queues(stage)
    one.apply(TUTORIAL)
    yield one
    one.remove()


def used(queues: Queues, gpus: int) -> None:
    """Wait until the ClusterQueue says that so many GPUs are used of its flavor."""

    def holds(status: dict[str, object]) -> bool:
        text = json.dumps(status.get("flavorsReservation"))
        return f'"{FLAVOR}"' in text and f'"total": "{gpus}"' in text

    queues.status("ClusterQueue", CLUSTER_QUEUE, holds)


@pytest.mark.parametrize(
    "plan",
    [
        None,
        "nodes are awaited until 9999-12-31T23:59:59Z, attempt 999999",
        '{"": "\\ud800*8"}',
    ],
    ids=["a plan", "a text in its place", "no text"],
)
def test_a_forged_plan_is_no_admission(stage: RealStage, queues: Queues, plan: str | None) -> None:
    """D1, D2 and D9: 64 of 32 GPUs, and the neighbour has none."""
    nodes = stage.add_nodes(8, labels=A100)
    queues.job("forged", QUEUE, 8)
    queues.reason("forged", "NoQuota")
    said = {PLAN: plan or json.dumps({"": ",".join(f"{node}*1" for node in nodes)})}
    said[FLAVORS] = json.dumps({"": {GPU: FLAVOR}}) if plan is None else '{"":{"nvidia.com/gpu":"\\ud800"}}'
    stage.api.patch(f"{queues.jobs}/forged", {"metadata": {"annotations": said}, "spec": {"suspend": False}})
    queues.until("forged", lambda job: job["spec"]["suspend"] and PLAN not in job["metadata"].get("annotations", {}))
    queues.job("honest", QUEUE, 4)
    queues.until_started("honest", 4)
    used(queues, 32)
    queues.reason("forged", "NoQuota")


@pytest.mark.parametrize("flavor", ["other", "\\ud800", "\\u001b[31mX"], ids=ascii)
def test_flavors_that_are_edited_are_counted_as_before_after_a_restart(
    stage: RealStage, queues: Queues, flavor: str
) -> None:
    """D6, and the time bomb of D1."""
    stage.add_nodes(8, labels=A100)
    queues.job("first", QUEUE, 4)
    queues.until_started("first", 4)
    said = {FLAVORS: f'{{"":{{"{GPU}":"{flavor}"}}}}'}
    stage.api.patch(f"{queues.jobs}/first", {"metadata": {"annotations": said}})
    stage.muster.restart_extender()
    queues.job("second", QUEUE, 1)
    queues.reason("second", "NoQuota")
    used(queues, 32)
    queues.end("first")
    queues.until_started("second", 1)
