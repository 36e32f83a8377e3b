"""The writes on objects of a real API server: gates by the admission policy, Events and conditions by Muster."""

from __future__ import annotations

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster, install_gate, start_muster
from policies.model import GANG_GATE
from tests.integration.stage import RealStage
from tests.scenarios.pods import FOREIGN_GATE, gang, labelled, member, pod
from tests.scenarios.scenario import until_bound

pytestmark = pytest.mark.xdist_group("objects")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    return running


def test_only_members_of_gangs_for_muster_are_gated(stage: RealStage) -> None:
    stage.create(
        labelled("labelled", "mpi"),
        member("elsewhere", "x", 2, schedulerName="default-scheduler"),
        member("foreign", "x", 2, gates=(FOREIGN_GATE,)),
        pod("plain"),
        member("member", "x", 2),
    )
    assert {seen_pod.name: seen_pod.gates for seen_pod in stage.pods()} == {
        "labelled": (GANG_GATE,),
        "elsewhere": (),
        "foreign": (FOREIGN_GATE, GANG_GATE),
        "plain": (),
        "member": (GANG_GATE,),
    }


def test_a_gang_that_was_gated_at_admission_starts_whole(stage: RealStage) -> None:
    stage.add_nodes(2)
    stage.create(*gang("pair", 2))
    until_bound(stage, "pair", 2)
    assert not any(seen_pod.gates for seen_pod in stage.pods())


def test_the_reason_is_told_in_an_event_on_a_member(stage: RealStage) -> None:
    stage.add_nodes(2)
    stage.create(*gang("big", 3))
    assert stage.until_noted("big", "NoRoom").startswith("2 of 3 members fit at once")


def test_the_reason_is_told_in_an_event_and_a_condition_of_the_pod_group(stage: RealStage) -> None:
    stage.set_group("mpi", 2)
    stage.create(labelled("rank-0", "mpi"))
    assert stage.until_noted("mpi", "MembersMissing") == "1 of 2 members exist"
    assert [
        (condition["status"], condition["reason"], condition["message"]) for condition in stage.conditions("mpi")
    ] == [("False", "MembersMissing", "1 of 2 members exist")]
