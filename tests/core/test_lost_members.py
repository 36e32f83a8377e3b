"""A running gang loses a member: the room is kept for the replacement, for a while, and others wait meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Evict
from extender.core.events import OwnerGone
from extender.core.limits import Limits, Preempts
from policies.model import Controller, Dialect, GroupRef, Order, Pod, Selection, Topology
from policies.model.eviction import EvictionTerms
from policies.model.node import CLIQUE
from policies.model.queues import Evicts, Preemption, Strategy
from tests.builders import cluster, coscheduled, gang, key, podgroup, reborn, requests, single
from tests.core.jobs import Controlled, job
from tests.core.owned import owned, owner, told
from tests.core.preempting import ON, Cluster
from tests.core.queues import cluster_queue, come, flavor, in_queue, show
from tests.core.script import Script

GRACE_S = 60.0
JOB = Controller("batch/v1", "Job", "train", "job-train")
SET = Controller("apps/v1", "StatefulSet", "train", "job-train")


def running(size: int = 3, nodes: str = "a: 3x8", limits: Limits | None = None, **facts: object) -> Script:
    """A gang on all nodes, and a gang of one pod that waits."""
    pods = gang("train", size, **facts)  # type: ignore[arg-type]
    script = Script(*cluster(nodes), *pods, limits=limits)
    script.run(pods)
    assert len(script.bound(pods)) == size
    script.see(gang("filler", 1))
    assert script.reason("filler") == "NoRoom"
    return script


def member(script: Script, number: int = 1) -> Pod:
    return script.pods[f"uid-train-{number}"]


def lose(script: Script, pod: Pod, how: str) -> None:
    """The pod ends in this way."""
    match how:
        case "fails":
            script.change(pod, phase="Failed")
        case "is deleted":
            script.change(pod, deleting=True)
            script.advance(5)
            script.gone(script.pods[pod.uid])
        case "fails while it is deleted":
            script.change(pod, deleting=True)
            script.change(pod, phase="Failed")
            script.gone(script.pods[pod.uid])
        case _:
            script.gone(pod)


def filler(script: Script) -> str:
    """The node that is promised to the gang of one pod."""
    return script.planned(script.pods["uid-filler-0"])


@pytest.mark.parametrize("after_s", [0.0, 1.0, 10.0, 55.0])
@pytest.mark.parametrize("how", ["fails", "is deleted", "fails while it is deleted", "is gone"])
def test_a_replacement_gets_the_room_of_the_member_that_it_replaces(how: str, after_s: float) -> None:
    script = running()
    lost = member(script)
    lose(script, lost, how)
    script.advance(after_s)
    assert not filler(script)
    again = reborn(lost)
    script.see(again)
    assert script.planned(again) == lost.node
    script.run([again])
    assert script.reason("train") == "Running"
    assert not script.gang("train").reserved
    script.advance(2 * GRACE_S)
    assert not filler(script)


def test_the_room_is_kept_from_the_observed_end_of_a_member_that_terminates_for_long() -> None:
    script = running()
    lost = member(script)
    script.change(lost, deleting=True)
    again = reborn(lost)
    script.see(again)
    script.advance(300)
    assert not script.planned(again), "the old pod has its room until it is gone"
    script.gone(script.pods[lost.uid])
    assert script.planned(again) == lost.node


def test_when_the_grace_is_over_the_room_is_for_everybody() -> None:
    script = running()
    lost = member(script)
    script.change(lost, deleting=True)
    script.advance(200)
    script.gone(script.pods[lost.uid])
    script.advance(GRACE_S - 2)
    assert not filler(script)
    script.advance(2)
    assert filler(script) == lost.node
    assert not script.gang("train").reserved


def test_a_replacement_that_finds_room_elsewhere_leaves_the_old_room_to_others() -> None:
    script = running(nodes="a: 3x8")
    lost = member(script)
    lose(script, lost, "fails")
    script.see(replace(cluster("a: 3x8")[int(str(lost.node)[-1])], ready=True, unschedulable=True))
    script.see(*cluster("b: 1x8"))
    script.run([script.pods["uid-filler-0"]])
    again = reborn(lost)
    script.see(again)
    assert not script.planned(again)
    script.see(*cluster("c: 1x8"))
    assert script.planned(again) == "c-0"
    assert not script.gang("train").reserved


def test_a_drained_node_is_kept_until_it_is_open_again() -> None:
    """Drained and uncordoned; the replacement comes ten seconds after that."""
    script = running()
    lost = member(script)
    node = next(node for node in cluster("a: 3x8") if node.name == lost.node)
    script.see(replace(node, unschedulable=True))
    lose(script, lost, "is deleted")
    script.see(node)
    script.advance(10)
    assert not filler(script)
    again = reborn(lost)
    script.see(again)
    assert script.planned(again) == lost.node


def test_no_room_is_kept_on_a_node_that_is_gone() -> None:
    script = running()
    lost = member(script)
    lose(script, lost, "fails")
    script.drop(str(lost.node))
    assert not script.gang("train").reserved
    script.see(*cluster("a: 3x8"))
    assert filler(script) == lost.node


def test_no_room_is_kept_for_a_member_that_has_ended_well() -> None:
    script = running(controller=JOB)
    script.change(member(script), phase="Succeeded")
    assert filler(script)


@pytest.mark.parametrize(("controller", "kept"), [(SET, True), (JOB, False)])
def test_a_pod_of_a_set_that_ends_with_0_because_it_is_deleted_is_replaced(
    *, controller: Controller, kept: bool
) -> None:
    """The kubelet calls it Succeeded."""
    script = running(controller=controller)
    lost = member(script)
    script.change(lost, deleting=True)
    script.change(script.pods[lost.uid], phase="Succeeded")
    script.gone(script.pods[lost.uid])
    assert bool(filler(script)) is not kept


def test_no_room_is_kept_for_members_that_a_gang_can_do_without() -> None:
    script = running(min_member=2)
    lose(script, member(script), "is gone")
    assert filler(script)


def test_room_is_kept_for_no_more_members_than_are_missing() -> None:
    script = running(min_member=2)
    lose(script, member(script, 1), "is gone")
    assert filler(script)
    lose(script, member(script, 2), "is gone")
    assert len(script.gang("train").reserved) == 1


def test_a_podgroup_that_asks_for_fewer_keeps_less() -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    script.run(pods)
    script.see(gang("filler", 1))
    lose(script, member(script), "is gone")
    assert not filler(script)
    script.see(podgroup("train", 2, uid=group.uid))
    assert filler(script)


def test_a_gang_that_goes_as_a_whole_keeps_nothing() -> None:
    script = running()
    for number in range(3):
        script.change(member(script, number), deleting=True)
    for number in range(3):
        script.gone(member(script, number))
    assert filler(script)


@pytest.mark.parametrize("order", [None, Order.ONE_BY_ONE])
def test_a_rolling_restart_of_a_statefulset_ends_beside_one_that_waits(order: Order | None) -> None:
    pods = [owned(number) for number in range(3)]
    script = Script(*cluster("a: 3x8"))
    told(script, owner(3, order=order))
    for pod in pods:
        script.see(pod)
        if order is not None:
            script.bind(pod)
            script.post_all()
    if order is None:
        script.run(pods)
    assert len(script.bound(pods)) == 3
    script.see(gang("filler", 1))
    for pod in reversed(pods):
        script.change(pod, deleting=True)
        script.change(script.pods[pod.uid], phase="Succeeded")
        script.gone(script.pods[pod.uid])
        script.advance(1)
        assert not filler(script)
        new = replace(pod, uid=f"{pod.uid}-new", created=9.0)
        script.see(new)
        script.run([new])
        assert script.bound([new])
    script.advance(2 * GRACE_S)
    assert not filler(script)
    told(script, owner(2, order=order))
    lose(script, script.pods["uid-web-2-new"], "is deleted")
    assert filler(script), "it was made smaller"


def test_a_restart_of_muster_forgets_room_whose_pod_is_gone_and_knows_that_of_one_that_failed() -> None:
    for how, knows in (("fails", True), ("is gone", False)):
        before = running()
        lost = member(before)
        lose(before, lost, how)
        script = Script(*cluster("a: 3x8"), *before.pods.values(), now=before.now)
        assert bool(filler(script)) is not knows, how
        script.advance(GRACE_S)
        assert filler(script)


def test_a_pod_that_terminates_across_a_restart_has_its_room_kept() -> None:
    before = running()
    lost = member(before)
    before.change(lost, deleting=True)
    script = Script(*cluster("a: 3x8"), *before.pods.values(), now=before.now)
    script.gone(script.pods[lost.uid])
    assert not filler(script)
    script.see(reborn(lost))
    assert script.planned(script.pods[reborn(lost).uid]) == lost.node


def test_a_replacement_whose_plan_is_taken_back_finds_its_room_again() -> None:
    """kube-scheduler does not take it up, say, or the replacement is deleted, too."""
    script = running()
    lost = member(script)
    lose(script, lost, "is gone")
    again = reborn(lost)
    script.see(again)
    script.gone(again)
    assert not filler(script)
    third = reborn(lost, "third")
    script.see(third)
    assert script.planned(third) == lost.node
    script.advance(25)
    assert not filler(script), "the plan was taken back and made again"
    script.run([third])
    assert script.bound([third])


def test_a_replacement_that_never_starts_keeps_no_room_beyond_the_grace() -> None:
    script = running()
    lost = member(script)
    lose(script, lost, "is gone")
    for life in range(30):
        again = reborn(lost, f"life-{life}")
        script.see(again)
        script.advance(3)
        script.gone(again)
        script.advance(3)
        if filler(script):
            break
    assert filler(script)
    assert script.now - 1000 < 2 * GRACE_S


def test_pods_of_no_gang_wait_too() -> None:
    script = running()
    lost = member(script)
    lose(script, lost, "fails")
    alone = single("alone", gpus=8, priority=1000)
    script.see(alone)
    assert lost.node not in script.filter(alone)
    script.advance(GRACE_S)
    script.gone(script.pods["uid-filler-0"])
    assert lost.node in script.filter(alone)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_kept_room_has_its_quota_and_comes_before_those_who_wait_in_the_queue(strategy: Strategy) -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 24}, strategy=strategy))
    pods = in_queue("train", 3)
    come(script, pods)
    script.run(pods)
    head = in_queue("head", 4, priority=5)
    come(script, head)
    waits = in_queue("filler", 1)
    come(script, waits)
    assert not script.planned(waits[0])
    lost = member(script)
    lose(script, lost, "fails")
    script.advance(5)
    assert not script.planned(waits[0]), "the quota of the lost member is kept, too"
    again = reborn(lost)
    script.see(again)
    assert script.planned(again)
    script.run([again])
    assert script.reason("train") == "Running"


def test_the_reasons_say_what_is_kept_and_for_how_long() -> None:
    script = running()
    script.advance(0.5)
    lost = member(script)
    lose(script, lost, "fails")
    assert script.reason("train") == "Running"
    assert script.message("train") == (
        f"2 of 3 members are bound; room for 1 pod is kept on {lost.node} until 1970-01-01 00:17:41 UTC"
    )
    script.advance(31)
    assert script.message("filler").endswith(
        "; room for 1 pod is kept until 1970-01-01 00:17:41 UTC for replacements of lost members of other gangs"
    )
    script.advance(GRACE_S)
    assert script.message("train") == "2 of 3 members are bound; no room is kept for the others"
    script.run([script.pods["uid-filler-0"]])
    script.see(reborn(lost))
    assert script.reason("train") == "NoRoom"
    assert "; 2 of 3 members are bound; no room is kept for the others" in script.message("train")


@pytest.mark.parametrize("steered", [True, False])
def test_the_room_of_a_leader_is_not_used_up_by_the_replacement_of_a_worker(*, steered: bool) -> None:
    """Both were on one node. ``steered``: Muster plans it, else another scheduler binds it there."""
    roles = {0: ("leader", 6), 1: ("worker", 1), 2: ("worker", 1)}
    pods = [
        replace(pod, requests=requests(gpus), group=GroupRef("train", Dialect.ANNOTATION, 3, role=role))
        for pod, (role, gpus) in zip(gang("train", 3), roles.values(), strict=True)
    ]
    script = Script(*cluster("a: 1x8"), *pods)
    script.run(pods)
    script.see(gang("filler", 1, gpus=5))
    lose(script, member(script, 0), "is deleted")
    lose(script, member(script, 1), "is deleted")
    worker, leader = reborn(pods[1]), reborn(pods[0])
    script.see(worker if steered else replace(worker, node="a-0"))
    script.advance(1)
    assert not filler(script)
    script.see(leader)
    assert script.planned(leader) == "a-0"


def test_a_replacement_that_goes_elsewhere_leaves_the_room_of_another_lost_member() -> None:
    """The two lost members differ in size, and name no role."""
    pods = [replace(pod, requests=requests(6 if pod.index == 0 else 1)) for pod in gang("train", 3)]
    script = Script(*cluster("a: 1x8"), *pods)
    script.run(pods)
    script.see(gang("filler", 1, gpus=5))
    lose(script, member(script, 0), "is deleted")
    lose(script, member(script, 1), "is deleted")
    script.see(*cluster("b: 1x1"))
    elsewhere = Selection(node_selector=(("kubernetes.io/hostname", "b-0"),))
    small, large = replace(reborn(pods[1]), selection=elsewhere), reborn(pods[0])
    script.see(small)
    assert script.planned(small) == "b-0"
    script.run([small])
    script.advance(1)
    assert not filler(script)
    script.see(large)
    assert script.planned(large) == "a-0"


def test_a_replacement_that_fits_beside_kept_room_takes_none_of_it() -> None:
    """The room of the replacement is on another node, where it may not go."""
    pods = [replace(pod, requests=requests(6 if pod.index == 0 else 1)) for pod in gang("train", 3)]
    pods[1] = replace(pods[1], selection=Selection(node_selector=(("kubernetes.io/hostname", "b-0"),)))
    script = Script(*cluster("a: 1x8", "b: 1x1"), *pods)
    script.run(pods)
    script.see(gang("filler", 1, gpus=5))
    lose(script, member(script, 0), "is deleted")
    lose(script, member(script, 1), "is deleted")
    there = Selection(node_selector=(("kubernetes.io/hostname", "a-0"),))
    small, large = replace(reborn(pods[1]), selection=there), reborn(pods[0])
    script.see(small)
    assert script.planned(small) == "a-0"
    script.run([small])
    script.advance(1)
    assert not filler(script)
    script.see(large)
    assert script.planned(large) == "a-0"


def test_a_member_of_a_gang_that_koordinator_or_a_podgroup_names_is_replaced_as_well() -> None:
    for dialect in (Dialect.COSCHEDULING, Dialect.VOLCANO, Dialect.KOORDINATOR):
        group, pods = coscheduled("train", 3)
        ref = GroupRef("train", dialect)
        group, pods = replace(group, dialect=dialect), [replace(pod, group=ref) for pod in pods]
        script = Script(*cluster("a: 3x8"), group, *pods)
        script.run(pods)
        script.see(gang("filler", 1))
        lost = member(script)
        lose(script, lost, "fails")
        script.advance(10)
        script.see(reborn(lost))
        assert script.planned(script.pods[reborn(lost).uid]) == lost.node, dialect


def preempting(limits: Limits, low: list[Pod], *numbers: int, size: int = 3) -> tuple[Cluster, list[Pod]]:
    """A gang of priority 10 loses these members, and ``low`` gets their room before the replacements come."""
    pods = gang("train", size, priority=10)
    script = Cluster(*cluster(f"a: {size}x8"), *pods, limits=limits)
    script.run(pods)
    script.see(low)
    for number in numbers:
        lose(script, member(script, number), "fails")
    script.advance(GRACE_S)
    assert all(map(script.planned, low))
    script.run(low)
    new = [reborn(pods[number]) for number in numbers]
    script.see(new)
    return script, new


def test_a_running_gang_that_has_lost_a_member_evicts_others_for_its_replacement() -> None:
    low = gang("low", 1)
    script, (again,) = preempting(ON, low, 1)
    assert script.reason("train") == "Preempting"
    assert script.evicted == ["low-0"]
    script.leave(low[0])
    assert script.planned(again)
    script.run([again])
    assert (script.reason("train"), script.kept) == ("Running", None)


def test_a_gang_evicts_no_more_than_its_missing_members_need() -> None:
    first, two = gang("one", 1), gang("two", 1)
    script, new = preempting(ON, [*first, *two], 1, 2)
    assert sorted(script.evicted) == ["one-0", "two-0"], "both are missing"
    for pod in (*first, *two):
        script.leave(pod)
    assert all(map(script.planned, new))


def test_nobody_is_evicted_before_all_replacements_are_there() -> None:
    first, two = gang("one", 1), gang("two", 1)
    pods = gang("train", 3, priority=10)
    script = Cluster(*cluster("a: 3x8"), *pods, limits=ON)
    script.run(pods)
    script.see([*first, *two])
    for number in (1, 2):
        lose(script, member(script, number), "fails")
    script.advance(GRACE_S)
    script.run([*first, *two])
    script.see(reborn(pods[1]))
    script.advance(10)
    assert not script.evicted, "it would not be whole"
    script.see(reborn(pods[2]))
    script.advance(5)
    assert sorted(script.evicted) == ["one-0", "two-0"]


def test_nobody_is_evicted_for_members_beyond_the_quorum() -> None:
    pods = gang("train", 3, min_member=2, priority=10)
    low = gang("low", 1)
    script = Cluster(*cluster("a: 3x8"), *pods, limits=ON)
    script.run(pods)
    lose(script, member(script), "fails")
    script.see(low)
    script.run(low)
    script.see(reborn(pods[1]))
    script.advance(30)
    assert not script.evicted
    assert script.reason("train") == "Running"


@pytest.mark.parametrize("limits", [Limits(), replace(ON, preemption=Preempts.DRY_RUN)])
def test_without_preemption_nobody_is_evicted_for_a_replacement(limits: Limits) -> None:
    script, (again,) = preempting(limits, gang("low", 1), 1)
    script.advance(30)
    assert not script.evicted
    assert not script.planned(again)


def test_an_equal_priority_is_not_evicted_for_a_replacement() -> None:
    script, _ = preempting(ON, gang("low", 1, priority=10), 1)
    script.advance(30)
    assert not script.evicted


def test_a_waiting_gang_of_a_higher_priority_evicts_one_that_has_lost_a_member() -> None:
    """An incomplete gang is no safer than one that is whole."""
    script = Cluster(*cluster("a: 2x8"), limits=ON)
    low = gang("train", 2)
    script.see(low)
    script.run(low)
    lose(script, member(script), "fails")
    high = gang("high", 2, priority=10)
    script.see(high)
    script.advance(5)
    assert script.evicted == ["train-0"]
    script.leave(low[0])
    assert all(map(script.planned, high)), "what was kept for it is free, too"


def test_what_muster_evicts_keeps_no_room() -> None:
    script = Cluster(*cluster("a: 2x8"), limits=ON)
    low = gang("low", 2)
    script.see(low)
    script.run(low)
    high = gang("high", 2, priority=10)
    script.see(high)
    script.leave(low[0])
    assert not script.gang("low").reserved
    script.leave(low[1])
    assert all(map(script.planned, high))


def test_a_gang_of_pods_that_stays_incomplete_runs_on() -> None:
    script = running()
    lose(script, member(script), "fails")
    script.advance(5000)
    assert not script.evicted


@pytest.mark.parametrize(
    ("wanted", "declared", "owned_by_set", "evicted"),
    [
        (True, None, False, True),
        (True, None, True, False),
        (True, False, False, False),
        (False, True, False, True),
        (False, True, True, True),
        (False, None, False, False),
    ],
)
def test_incomplete_gangs_give_their_room_back_where_that_is_wanted(
    *, wanted: bool, declared: bool | None, owned_by_set: bool, evicted: bool
) -> None:
    terms = EvictionTerms(when_incomplete=declared)
    pods = gang("train", 3, eviction=terms)
    if owned_by_set:
        ref = GroupRef("train", Dialect.OWNER, 3, owner="statefulset-train")
        pods = [replace(pod, group=ref) for pod in pods]
    script = Script(*cluster("a: 3x8"), *pods, limits=Limits(evict_incomplete=wanted))
    script.run(pods)
    lose(script, member(script), "is gone")
    script.advance(899)
    assert not script.evicted
    script.advance(2)
    assert bool(script.evicted) is evicted
    if evicted:
        assert sorted(script.evicted) == ["train-0", "train-2"]
        assert next(effect.reason for effect in script.effects if isinstance(effect, Evict)) == (
            "its gang has run with 2 of 3 members for 900 s"
        )
        lose(script, member(script, 0), "is deleted")
        assert not script.gang("train").reserved, "what is given back is not kept"


def test_a_gang_that_was_completed_in_time_is_not_evicted() -> None:
    script = running(limits=Limits(evict_incomplete=True))
    lost = member(script)
    lose(script, lost, "fails")
    script.advance(30)
    script.see(reborn(lost))
    script.run([reborn(lost)])
    script.advance(2000)
    assert not script.evicted


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.REFUSED])
def test_a_gang_whose_time_is_over_while_a_member_is_being_bound_is_evicted_if_that_fails(outcome: Outcome) -> None:
    script = running(limits=Limits(evict_incomplete=True))
    lost = member(script)
    lose(script, lost, "fails")
    script.see(fresh := reborn(lost))
    script.bind(fresh)
    script.advance(1000)
    assert not script.evicted
    script.feed_outcome(fresh.uid, outcome)
    assert bool(script.evicted) is (outcome is Outcome.REFUSED)


def test_a_job_that_stays_incomplete_is_suspended() -> None:
    script = Script(*cluster("a: 3x8"))
    controlled = Controlled(script, job(3))
    pods = controlled.run()
    lost = script.pods[pods[1].uid]
    script.change(lost, phase="Failed")
    script.see(gang("filler", 1))
    ends = script.now + 900
    while script.now < ends - 2:
        controlled.wait(0.25)
    assert not controlled.stops
    assert not filler(script), "a job keeps the nodes of its slots"
    controlled.wait(2)
    assert controlled.stops == ["it has run with 2 of 3 members for 900 s"]


def test_a_job_whose_pod_is_made_again_in_time_is_not_suspended() -> None:
    script = Script(*cluster("a: 3x8"))
    controlled = Controlled(script, job(3))
    pods = controlled.run()
    lost = script.pods[pods[1].uid]
    script.change(lost, phase="Failed")
    controlled.wait(600)
    again = reborn(lost)
    script.see(again)
    script.run([again])
    controlled.wait(2000)
    assert not controlled.stops


def test_two_gangs_that_have_lost_members_do_not_block_each_other() -> None:
    """Each waits for room that is kept for the other one, until the other's replacement is late."""
    first, two = gang("train", 2), gang("other", 2)
    script = Script(*cluster("a: 4x8"), *first, *two)
    script.run(first)
    script.run(two)
    lose(script, script.pods[first[0].uid], "fails")
    lose(script, script.pods[two[0].uid], "fails")
    script.drop(str(script.pods[first[0].uid].node))
    again = reborn(first[0])
    script.see(again)
    assert not script.planned(again)
    script.advance(GRACE_S)
    assert script.planned(again)


def owned_and_running(count: int, order: Order | None = None) -> tuple[Script, list[Pod]]:
    """Pods of a StatefulSet that run on all nodes, and a gang of one pod that waits."""
    pods = [owned(number) for number in range(count)]
    script = Script(*cluster(f"a: {count}x8"))
    told(script, owner(count, order=order))
    for pod in pods:
        script.see(pod)
        if order is not None:
            script.run([pod])
    if order is None:
        script.run(pods)
    assert len(script.bound(pods)) == count
    script.see(gang("filler", 1))
    return script, pods


def all_go(script: Script, pods: list[Pod]) -> None:
    """Delete all pods, as a LeaderWorkerSet does when it makes a group again, or a Deployment with Recreate."""
    for pod in pods:
        script.change(pod, deleting=True)
    for pod in pods:
        script.gone(script.pods[pod.uid])


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("order", [None, Order.ONE_BY_ONE])
def test_a_gang_whose_owner_makes_all_of_it_anew_gets_its_room(order: Order | None, count: int) -> None:
    script, pods = owned_and_running(count, order)
    all_go(script, pods)
    script.advance(10)
    assert not filler(script)
    new = [replace(pod, uid=f"{pod.uid}-new", created=9.0) for pod in pods]
    for pod in new:
        script.see(pod)
        if order is not None:
            script.run([pod])
    if order is None:
        script.run(new)
    assert len(script.bound(new)) == count
    assert not script.core.state.room.reserving
    script.advance(2 * GRACE_S)
    assert not filler(script)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("how", ["fails", "is deleted", "fails while it is deleted", "is gone"])
def test_the_room_of_the_last_member_is_kept_too_where_the_owner_makes_all_anew(how: str, count: int) -> None:
    script, pods = owned_and_running(count)
    for pod in pods:
        lose(script, script.pods[pod.uid], how)
    script.advance(10)
    assert not filler(script)
    assert len(script.core.state.room.reserved_rooms(script.gang("statefulset-web"))) == count


def test_a_gang_that_its_owner_does_not_make_anew_in_time_keeps_nothing() -> None:
    script, pods = owned_and_running(3)
    all_go(script, pods)
    assert "room for 3 pods is kept on a-0, a-1, a-2 until " in script.message("statefulset-web")
    script.advance(GRACE_S - 1)
    assert not filler(script)
    script.advance(2)
    assert filler(script)
    assert key("statefulset-web") not in script.core.state.workloads


@pytest.mark.parametrize("how", ["deleted", "being deleted", "scaled to nothing"])
def test_a_gang_whose_owner_makes_no_pods_any_more_keeps_nothing(how: str) -> None:
    script, pods = owned_and_running(3)
    if how == "deleted":
        script.feed(OwnerGone(key("statefulset-web"), owner(3).uid))
    else:
        told(script, owner(3, ends=True))
    all_go(script, pods)
    assert filler(script)


def test_an_owner_that_is_deleted_after_its_pods_have_gone_frees_their_room() -> None:
    script, pods = owned_and_running(3)
    all_go(script, pods)
    assert not filler(script)
    script.feed(OwnerGone(key("statefulset-web"), owner(3).uid))
    script.advance(0.1)
    assert filler(script)


def test_an_owned_gang_that_is_evicted_for_another_one_keeps_nothing() -> None:
    pods = [owned(number) for number in range(2)]
    script = Cluster(*cluster("a: 2x8"), limits=ON)
    told(script, owner(2))
    script.see(pods)
    script.run(pods)
    high = gang("high", 2, priority=10)
    script.see(high)
    assert len(script.evicted) == 2
    all_go(script, pods)
    assert all(map(script.planned, high))


def test_an_incomplete_gang_of_a_queue_takes_back_what_others_have_borrowed() -> None:
    script = Cluster(*cluster("a: 3x8"), limits=ON)
    rules = Preemption(reclaim=Evicts.ANY)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 24}, cohort="all", preemption=rules))
    show(script, cluster_queue("other", {"gpus": 0}, cohort="all"))
    pods = in_queue("train", 3)
    come(script, pods)
    script.run(pods)
    lose(script, member(script), "fails")
    script.advance(GRACE_S)
    low = in_queue("low", 1, "other")
    come(script, low)
    script.run(low)
    again = reborn(pods[1])
    come(script, [again])
    assert script.evicted == ["low-0"]
    script.leave(low[0])
    script.advance(1)
    assert script.planned(again)


@pytest.mark.parametrize("cordoned", [False, True])
def test_nobody_is_evicted_while_the_pod_that_is_replaced_terminates_on_an_open_node(*, cordoned: bool) -> None:
    script = Cluster(*cluster("a: 3x8"), limits=ON)
    pods, low = gang("train", 2, priority=10), gang("low", 1)
    script.see([*pods, *low])
    script.run([*pods, *low])
    lost = member(script)
    if cordoned:
        node = next(node_there for node_there in cluster("a: 3x8") if node_there.name == lost.node)
        script.see(replace(node, unschedulable=True))
    script.change(lost, deleting=True)
    again = reborn(pods[1])
    script.see(again)
    script.advance(30)
    assert bool(script.evicted) is cordoned
    if not cordoned:
        script.gone(script.pods[lost.uid])
        assert script.planned(again) == lost.node


def test_a_replacement_is_looked_at_again_when_the_room_kept_for_another_one_goes_with_its_node() -> None:
    """``Script`` checks after each event that each waiting gang is going to be looked at."""
    script, pods = owned_and_running(2)
    all_go(script, pods)
    script.see(replace(pods[1], uid="uid-web-1-new", created=9.0))
    kept = script.core.state.room.reserved_rooms(script.gang("statefulset-web"))
    assert len(kept) == 2
    for claim in kept:
        script.drop(claim.node)
    assert not script.gang("statefulset-web").reserved


@pytest.mark.parametrize("held", [False, True])
def test_a_replacement_is_not_bound_on_a_node_that_has_left_the_required_clique(*, held: bool) -> None:
    """The last look before a release is one of first starts: later members are bound when they are at bind."""
    pods = [replace(pod, topology=Topology("clique")) for pod in gang("train", 3)]
    nodes = cluster("a: 3x8", "b: 1x8")
    script = Script(*nodes, *pods)
    script.run(pods)
    lost = pods[1]
    node = script.pods[lost.uid].node or ""
    script.gone(script.pods[lost.uid])
    new = replace(lost, uid="uid-train-new", name="train-new")
    script.see(new)
    script.advance(2)
    assert script.planned(new) == node
    (there,) = [node_there for node_there in nodes if node_there.name == node]
    script.see(replace(there, labels={**there.labels, CLIQUE: "b"}))
    if held:
        script.bind(new, node)
        script.post_all()
    script.advance(2)
    assert (script.bound([new]), script.reason("train")) == ([], "NoRoom")
    script.see(there)
    script.advance(35)
    script.bind(new, script.planned(new))
    script.post_all()
    assert script.bound([new]) == [node]
