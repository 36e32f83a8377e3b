"""What goes wrong on the way: members deleted, deadlines, and either process killed at the worst moment.

A gang is caught half way by a toll gate behind Muster: half of its members are held, the others have yet to be tried.
The hold is shorter than as shipped, and so is the longest backoff, which must be shorter than the hold.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, start_muster
from tests.integration.stage import Stage, bound
from tests.integration.tollgate import TollGate

pytestmark = pytest.mark.xdist_group("faults")
SIZE = 48


@pytest.fixture(scope="module")
def tollgate() -> Iterator[TollGate]:
    with TollGate() as gate:
        yield gate


@pytest.fixture(scope="module")
def muster(cluster: Cluster, tollgate: TollGate) -> RunningMuster:
    return start_muster(cluster, {"bind_timeout_s": 8}, {"podMaxBackoffSeconds": 3}, [tollgate.entry])


@pytest.fixture
def half_way(stage: Stage, tollgate: TollGate) -> Iterator[TollGate]:
    """Half of the gang "train" is held, and kube-scheduler stands still."""
    stage.add_nodes(SIZE // 8)
    tollgate.close_after(SIZE // 2)
    stage.create_all(stage.gang("train", SIZE, gpus=1))
    tollgate.wait_stopped()
    stage.wait_held(lambda held: held == SIZE // 2)
    yield tollgate
    tollgate.open()


def test_a_member_deleted_while_the_others_are_held_lets_them_all_go(stage: Stage, half_way: TollGate) -> None:
    stage.delete(f"train-{SIZE - 1}")
    stage.wait_held(lambda held: held == 0, timeout_s=2)
    half_way.open()
    stage.wait_reason("train", "MembersMissing")
    assert bound(stage.pods(), "train") == []
    stage.create(stage.pod("train-new", gpus=1, gang="train", size=SIZE))
    stage.wait_bound("train", size=SIZE)


def test_a_gang_whose_deadline_passes_holds_nothing_and_starts_later(stage: Stage, half_way: TollGate) -> None:
    stage.wait_held(lambda held: held == 0, timeout_s=8)
    assert bound(stage.pods(), "train") == []
    assert any("before the deadline" in text for _, text in stage.explain("train")["story"])
    half_way.open()
    stage.wait_bound("train", size=SIZE)


def test_the_extender_killed_while_binds_are_held_starts_nothing_partial(stage: Stage, half_way: TollGate) -> None:
    stage.muster.extender.kill()
    assert bound(stage.pods(), "train") == []
    stage.muster.restart_extender()
    half_way.open()
    stage.wait_bound("train", size=SIZE)


def test_the_extender_killed_in_the_middle_of_a_release_completes_it_after_its_return(stage: Stage) -> None:
    """The first Binding that anybody sees is the moment of the kill: the rest of the release is still to be posted."""
    stage.add_nodes(SIZE // 8)
    version = stage.api.get(stage.pods_path)["metadata"]["resourceVersion"]
    with stage.api.watch(stage.pods_path, version) as changes:
        stage.create_all(stage.gang("train", SIZE, gpus=1))
        next(pod for _, pod in changes if pod["spec"].get("nodeName"))
        stage.muster.extender.kill()
    before = len(bound(stage.pods(), "train"))
    stage.muster.restart_extender()
    stage.wait_bound("train", size=SIZE)
    assert before > 0


def test_kube_scheduler_killed_while_binds_are_held_starts_nothing_partial(stage: Stage, half_way: TollGate) -> None:
    stage.muster.scheduler.kill()
    stage.wait_held(lambda held: held == 0, timeout_s=5)
    assert bound(stage.pods(), "train") == []
    half_way.open()
    stage.muster.restart_scheduler()
    stage.wait_bound("train", size=SIZE)


def test_a_node_that_goes_away_under_a_held_gang_is_planned_around(stage: Stage, half_way: TollGate) -> None:
    spare = stage.add_nodes(1)
    stage.remove_node(stage.nodes[0])
    stage.wait_held(lambda held: held == 0, timeout_s=2)
    half_way.open()
    stage.wait_bound("train", size=SIZE)
    assert any(pod["spec"]["nodeName"] == spare[0] for pod in stage.pods())


def test_a_plain_pod_is_scheduled_while_the_extender_restarts(stage: Stage) -> None:
    stage.add_nodes(1)
    stage.muster.extender.kill()
    stage.create(stage.pod("plain", gpus=1))
    stage.muster.restart_extender()
    stage.wait_scheduled("plain")
