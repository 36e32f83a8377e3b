"""Faults on the way: members deleted, deadlines, and either process killed at the worst moment.

A gang is caught half way: kube-scheduler stands still while it has yet to try half of the members, and the binds of
the other half are held.
"""

from __future__ import annotations

from tests.scenarios.pods import bound, gang, labelled, member, pod
from tests.scenarios.scenario import scenario, until_reason
from tests.scenarios.stage import Stage

SIZE = 48


@scenario("train: 48 of 48 bound")
def a_member_deleted_while_others_are_held(stage: Stage) -> None:
    """All binds fail at once, the gang waits for a member, and starts when a new one comes."""
    _catch_half_way(stage)
    stage.delete(f"train-{SIZE - 1}")
    stage.until_held(lambda held: held == 0)
    stage.let_scheduler_go_on()
    until_reason(stage, "train", "MembersMissing", "47 of 48 members exist")
    assert bound(stage.pods(), "train") == []
    stage.create(member("train-new", "train", SIZE, gpus=1))


@scenario("train: 48 of 48 bound")
def a_deadline_that_passes(stage: Stage) -> None:
    """kube-scheduler stands still beyond the deadline of the held binds: all fail, and the gang starts later."""
    _catch_half_way(stage)
    stage.until_held(lambda held: held == 0)
    assert bound(stage.pods(), "train") == []
    story = stage.gangs()["train"].story
    assert any("before the deadline" in text for _, text in story), story
    stage.let_scheduler_go_on()


@scenario("train: 48 of 48 bound")
def the_extender_killed_while_binds_are_held(stage: Stage) -> None:
    """kill -9: nothing is bound, and the gang starts whole after a new start."""
    _catch_half_way(stage)
    stage.kill_extender()
    assert bound(stage.pods(), "train") == []
    stage.start_extender()
    stage.let_scheduler_go_on()


@scenario("train: 48 of 48 bound")
def the_extender_killed_in_the_middle_of_a_release(stage: Stage) -> None:
    """kill -9 at the first visible Binding of 48: the release is completed after a new start."""
    stage.add_nodes(SIZE // 8)
    stage.create_until(gang("train", SIZE, gpus=1), lambda pod: bool(pod.node))
    stage.kill_extender()
    assert bound(stage.pods(), "train")
    stage.start_extender()


@scenario("train: 48 of 48 bound")
def kube_scheduler_killed_while_binds_are_held(stage: Stage) -> None:
    """The connections of kube-scheduler close: all held binds fail, nothing is bound; the next one starts the gang."""
    _catch_half_way(stage)
    stage.kill_scheduler()
    stage.until_held(lambda held: held == 0)
    assert bound(stage.pods(), "train") == []
    stage.let_scheduler_go_on()
    stage.start_scheduler()


@scenario("train: 48 of 48 bound")
def a_node_lost_under_a_held_gang(stage: Stage) -> None:
    """All binds fail at once, and the gang is planned again with the replacement node."""
    lost, *_ = _catch_half_way(stage)
    (spare,) = stage.add_nodes(1)
    stage.remove_node(lost)
    stage.until_held(lambda held: held == 0)
    stage.let_scheduler_go_on()
    pods = stage.until(lambda pods: len(bound(pods, "train")) == SIZE)
    assert {pod.node for pod in pods} >= {spare}
    assert lost not in {pod.node for pod in pods}


@scenario("train: 48 of 48 bound")
def a_node_lost_while_the_extender_is_away(stage: Stage) -> None:
    """kill -9 while binds are held, and a node of the plan is removed before the new start: the plan avoids it."""
    lost, *_ = _catch_half_way(stage)
    stage.kill_extender()
    stage.add_nodes(1)
    stage.remove_node(lost)
    stage.start_extender()
    stage.let_scheduler_go_on()
    pods = stage.until(lambda pods: len(bound(pods, "train")) == SIZE)
    assert lost not in {pod.node for pod in pods}


@scenario("mpi: 16 of 16 bound")
def a_pod_group_deleted_while_binds_are_held(stage: Stage) -> None:
    """All binds fail at once, and the gang waits with that reason until a PodGroup of that name exists again."""
    stage.add_nodes(2)
    stage.set_group("mpi", 16)
    stage.stop_scheduler_after(8)
    stage.create_all([labelled(f"mpi-{i}", "mpi", gpus=1) for i in range(16)])
    stage.until_held(lambda held: held == 8)
    stage.remove_group("mpi")
    stage.until_held(lambda held: held == 0)
    until_reason(stage, "mpi", "PodGroupMissing")
    assert bound(stage.pods(), "mpi") == []
    stage.let_scheduler_go_on()
    stage.set_group("mpi", 16)


@scenario("plain: bound")
def a_single_while_the_extender_is_away(stage: Stage) -> None:
    """A single pod is created while no extender runs, and is bound after its start."""
    stage.add_nodes(1)
    stage.kill_extender()
    stage.create(pod("plain", gpus=1))
    stage.start_extender()


def _catch_half_way(stage: Stage) -> list[str]:
    """Half of the gang "train" is held, and kube-scheduler stands still; returns the nodes."""
    nodes = stage.add_nodes(SIZE // 8)
    stage.stop_scheduler_after(SIZE // 2)
    stage.create_all(gang("train", SIZE, gpus=1))
    stage.until_held(lambda held: held == SIZE // 2)
    return nodes
