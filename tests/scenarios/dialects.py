"""How a gang is named: annotations, labels, PodGroup objects, and what happens when they contradict each other."""

from __future__ import annotations

from tests.scenarios.pods import bound, labelled, member, pod
from tests.scenarios.scenario import scenario, until_bound, until_reason
from tests.scenarios.stage import Stage


@scenario("mpi: 3 of 3 bound")
def a_pod_group_object(stage: Stage) -> None:
    """minMember 3 of a PodGroup: two members wait for the third."""
    stage.add_nodes(3)
    stage.set_group("mpi", 3)
    stage.create(labelled("mpi-0", "mpi"), labelled("mpi-1", "mpi"))
    until_reason(stage, "mpi", "MembersMissing", "2 of 3 members exist")
    assert bound(stage.pods(), "mpi") == []
    stage.create(labelled("mpi-2", "mpi"))


@scenario("late: 2 of 2 bound")
def a_pod_group_that_comes_late(stage: Stage) -> None:
    """Members that name a PodGroup wait until it is there."""
    stage.add_nodes(2)
    stage.create(labelled("late-0", "late"), labelled("late-1", "late"))
    until_reason(stage, "late", "PodGroupMissing", "no PodGroup named late")
    stage.set_group("late", 2)


@scenario("gone: 0 of 2 bound, PodGroupMissing: there is no PodGroup named gone in namespace the namespace")
def a_deleted_pod_group(stage: Stage) -> None:
    """The PodGroup is deleted before the last member comes: no member starts."""
    _delete_group(stage)


@scenario("gone: 2 of 2 bound")
def a_pod_group_made_anew(stage: Stage) -> None:
    """The same, and then a PodGroup of that name is created again."""
    _delete_group(stage)
    until_reason(stage, "gone", "PodGroupMissing")
    assert bound(stage.pods(), "gone") == []
    stage.set_group("gone", 2)


@scenario("mpi: 4 of 4 bound")
def a_pod_group_made_anew_under_a_running_gang(stage: Stage) -> None:
    """The new PodGroup is another gang: a new member does not count the two that run, and waits for a second one."""
    stage.add_nodes(4)
    stage.set_group("mpi", 2)
    stage.create(labelled("mpi-0", "mpi"), labelled("mpi-1", "mpi"))
    until_bound(stage, "mpi", 2)
    stage.remove_group("mpi")
    stage.set_group("mpi", 2)
    stage.create(labelled("mpi-2", "mpi"))
    until_reason(stage, "mpi", "MembersMissing", "1 of 2 members exist")
    assert len(bound(stage.pods(), "mpi")) == 2
    stage.create(labelled("mpi-3", "mpi"))


@scenario("job: 3 of 3 bound")
def a_pod_group_that_is_edited(stage: Stage) -> None:
    """minMember 4 with 3 members: they wait until it is lowered to 3."""
    stage.add_nodes(4)
    stage.set_group("job", 4)
    stage.create(*[labelled(f"job-{i}", "job") for i in range(3)])
    until_reason(stage, "job", "MembersMissing", "3 of 4 members exist")
    stage.set_group("job", 3)


@scenario("worker: 2 of 2 bound")
def labels_in_place_of_annotations(stage: Stage) -> None:
    """The keys of the annotation dialect as labels."""
    stage.add_nodes(2)
    pods = [pod(f"worker-{i}") for i in range(2)]
    for obj in pods:
        obj["metadata"]["labels"] = {"muster.dev/pod-group": "worker", "muster.dev/min-member": "2"}
    stage.create(*pods)
    until_bound(stage, "worker", 2)
    assert all(seen.stamp is not None for seen in stage.pods())


@scenario("odd: 0 of 2 bound, Contradiction: its members have different minMembers: 2, 3")
def two_sizes_in_one_gang(stage: Stage) -> None:
    """Two members, of which one says 2, the other 3: no member starts."""
    stage.add_nodes(2)
    stage.create(member("odd-0", "odd", 2), member("odd-1", "odd", 3))


@scenario("odd: 0 of 2 bound, Contradiction: its members have different priorities: 0, 1000")
def two_priorities_in_one_gang(stage: Stage) -> None:
    """Two members, one with a priority class, the other without: no member starts."""
    stage.add_nodes(2)
    stage.create(member("odd-0", "odd", 2), member("odd-1", "odd", 2, priorityClassName="high"))


@scenario(
    "lonely: 0 of 1 bound, MinMemberMissing: "
    "no member says muster.dev/min-member: the size of the gang is never guessed"
)
def no_size_at_all(stage: Stage) -> None:
    """A member that names a gang and no size does not start."""
    stage.add_nodes(1)
    stage.create(member("lonely-0", "lonely", None))


def _delete_group(stage: Stage) -> None:
    stage.add_nodes(2)
    stage.set_group("gone", 2)
    stage.create(labelled("gone-0", "gone"))
    until_reason(stage, "gone", "MembersMissing", "1 of 2 members exist")
    stage.remove_group("gone")
    stage.create(labelled("gone-1", "gone"))
