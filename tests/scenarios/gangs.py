"""All members or none, whatever the order: gangs without gates, whose members kube-scheduler tries as they come."""

from __future__ import annotations

from collections.abc import Sequence

from policies.model import Pod
from tests.scenarios.pods import bound, gang, interleaved, member, pod, whole
from tests.scenarios.scenario import scenario, until_bound, until_reason
from tests.scenarios.stage import Setting, Stage


@scenario("job x 4: 8 of 8 bound", "job x 7: 0 of 8 bound, NoRoom")
def twelve_gangs_in_the_worst_order(stage: Stage) -> None:
    """12 gangs of 8 whole-node pods on 32 nodes, members created in turn; then one of the four that run is deleted."""
    names = [f"job.{number:02}" for number in range(12)]
    stage.add_nodes(32)
    stage.create(*interleaved([gang(name, 8) for name in names]))
    pods = stage.until(lambda pods: len(whole(pods, names, 8)) == 4)
    running = whole(pods, names, 8)
    for name in names:
        if name not in running:
            until_reason(stage, name, "NoRoom")
            assert bound(stage.pods(), name) == []
    stage.delete(*[f"{running[0]}-{i}" for i in range(8)])


@scenario("job: 4 of 4 bound", "job: 0 of 4 bound, NoRoom")
def two_gangs_that_fit_one_at_a_time(stage: Stage) -> None:
    """2 gangs of 4 on 4 nodes, members created in turn: never half the cluster for each."""
    stage.add_nodes(4)
    stage.create(*interleaved([gang("job.a", 4), gang("job.b", 4)]))


@scenario("job x 2: 0 of 0 bound, 4 succeeded")
def two_jobs_one_after_the_other(stage: Stage) -> None:
    """The case of `make demo`: two jobs of the whole cluster, each started in turn. Each runs in its time, and ends."""
    names = ["job.a", "job.b"]
    stage.add_nodes(4)
    stage.create(*interleaved([gang(name, 4) for name in names]))
    for _ in names:
        pods = stage.until(lambda pods: bool(_at_work(pods, names)))
        (name,) = _at_work(pods, names)
        stage.succeed(*[f"{name}-{i}" for i in range(4)])


@scenario("job x 2: 2 of 4 bound", setting=Setting(muster=False))
def two_jobs_without_muster(stage: Stage) -> None:
    """The same with kube-scheduler alone: each gets half of the cluster, and neither ever starts."""
    stage.add_nodes(4)
    for i in range(4):
        for name in ("job.a", "job.b"):
            stage.create(member(f"{name}-{i}", name, 4))
            if i < 2:
                stage.until(lambda pods, name=name, i=i: len(bound(pods, name)) == i + 1)  # type: ignore[misc]


@scenario("train: 4 of 4 bound")
def a_missing_member(stage: Stage) -> None:
    """3 of 4 members exist, and wait with that reason, until the fourth comes."""
    stage.add_nodes(4)
    *most, last = gang("train", 4)
    stage.create(*most)
    until_reason(stage, "train", "MembersMissing", "3 of 4 members exist")
    assert bound(stage.pods(), "train") == []
    stage.create(last)


@scenario(
    "big: 0 of 3 bound, NoRoom: 2 of 3 members fit at once: 2 of 2 nodes have room for 8 nvidia.com/gpu; "
    "even empty, the nodes that match fit 2 of 3",
    "plain x 2: bound",
)
def singles_beside_a_waiting_gang(stage: Stage) -> None:
    """A gang of 3 whole nodes waits on 2; pods without GPUs and gang take no notice of it."""
    stage.add_nodes(2)
    stage.create(*gang("big", 3))
    until_reason(stage, "big", "NoRoom", "2 of 3 members fit at once")
    stage.create(pod("plain.a", gpus=0), pod("plain.b", gpus=0))


@scenario("elastic: 4 of 4 bound")
def members_beyond_min_member(stage: Stage) -> None:
    """minMember 2 of 4 on 3 nodes: three start, and the fourth when a node is added."""
    stage.add_nodes(3)
    stage.create(*gang("elastic", 4, min_member=2))
    until_bound(stage, "elastic", 3)
    stage.add_nodes(1)


@scenario("train: 4 of 4 bound")
def a_replacement_in_a_running_gang(stage: Stage) -> None:
    """A member of a running gang is lost; its replacement needs no new quorum."""
    stage.add_nodes(4)
    stage.create(*gang("train", 4))
    until_bound(stage, "train", 4)
    stage.delete("train-2")
    stage.until(lambda pods: len(pods) == 3)
    stage.create(member("train-2b", "train", 4))


@scenario("high: 2 of 2 bound", "low: 2 of 2 bound", "first: 0 of 0 bound, 2 succeeded")
def the_higher_priority_goes_first(stage: Stage) -> None:
    """Room for one gang at a time: of two that wait, the one of higher priority is next although it came later."""
    stage.add_nodes(2)
    stage.create(*gang("first", 2))
    until_bound(stage, "first", 2)
    stage.create(*gang("low", 2))
    until_reason(stage, "low", "NoRoom")
    stage.create(*gang("high", 2, priorityClassName="high"))
    until_reason(stage, "high", "NoRoom")
    stage.succeed("first-0", "first-1")
    until_bound(stage, "high", 2)
    assert bound(stage.pods(), "low") == []
    stage.add_nodes(2)


@scenario("low: 1 of 1 bound", "first: 0 of 0 bound, 1 succeeded", "urgent: bound")
def a_single_of_higher_priority_goes_first(stage: Stage) -> None:
    """Room for one gang or pod at a time: a single pod of higher priority is next although it came later."""
    stage.add_nodes(1)
    stage.create(*gang("first", 1, priorityClassName="high"))  # never evicted
    until_bound(stage, "first", 1)
    stage.create(*gang("low", 1))
    until_reason(stage, "low", "NoRoom")
    stage.create(pod("urgent", priorityClassName="high"))
    stage.succeed("first-0")
    stage.until(lambda pods: any(pod.node for pod in pods if pod.name == "urgent"))
    assert bound(stage.pods(), "low") == []
    stage.add_nodes(1)


@scenario("train: 2 of 2 bound")
def cordoned_nodes(stage: Stage) -> None:
    """With one of 2 nodes cordoned, the gang of 2 waits, with the node counted as closed, until it is open."""
    node, _ = stage.add_nodes(2)
    stage.cordon(node)
    stage.create(*gang("train", 2))
    until_reason(stage, "train", "NoRoom", "1 of 2 nodes have room for 8 nvidia.com/gpu; 1 node is cordoned")
    assert bound(stage.pods(), "train") == []
    stage.cordon(node, on=False)


@scenario("train: 3 of 3 bound")
def one_release_is_stamped_whole(stage: Stage) -> None:
    """Every Binding names the same release; the last one says that it is whole, and then a second member does."""
    stage.add_nodes(3)
    stage.create(*gang("train", 3))
    until_bound(stage, "train", 3)
    stage.until(lambda pods: sum(pod.stamp is not None and pod.stamp.complete for pod in pods) == 2)
    stamps = [seen.stamp for seen in stage.pods() if seen.stamp is not None]
    assert len({(stamp.gang, stamp.release, stamp.quorum, stamp.at) for stamp in stamps}) == 1


@scenario("train: 2 of 2 bound")
def a_job_made_anew_under_its_name(stage: Stage) -> None:
    """A running gang is deleted and created again with the same names: another gang, which starts as a whole."""
    stage.add_nodes(2)
    stage.create(*gang("train", 2))
    until_bound(stage, "train", 2)
    (before,) = {seen.stamp.release for seen in stage.pods() if seen.stamp is not None}
    stage.delete("train-0", "train-1")
    stage.until(lambda pods: not pods)
    stage.create(gang("train", 2)[0])
    until_reason(stage, "train", "MembersMissing", "1 of 2 members exist")
    stage.create(gang("train", 2)[1])
    until_bound(stage, "train", 2)
    assert before not in {seen.stamp.release for seen in stage.pods() if seen.stamp is not None}


def _at_work(pods: Sequence[Pod], names: list[str]) -> list[str]:
    return whole([seen for seen in pods if not seen.terminal], names, 4)
