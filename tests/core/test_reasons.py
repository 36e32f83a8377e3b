"""Reasons of surplus members, of pods of another scheduler, of ordered pods and of priorities; and their recipients."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.effects import Report
from extender.observe.views import view
from policies.model import Controller, Dialect, GroupRef, Pod
from tests.builders import busy, cluster, coscheduled, gang, reborn
from tests.core.script import Script
from tests.explaining import explain

STATEFUL = Controller("apps/v1", "StatefulSet", "web", "uid-web")
JOB = Controller("batch/v1", "Job", "train", "job-train")


def reported(script: Script) -> list[Report]:
    return [effect for effect in script.effects if isinstance(effect, Report)]


def elastic(script: Script, size: int, least: int) -> list[Pod]:
    """A gang that runs with ``least`` members; the others find no room."""
    pods = gang("train", size, min_member=least)
    script.see(pods)
    script.run([pod for pod in pods if script.planned(pod)])
    return pods


def test_members_beyond_the_quorum_that_wait_have_a_reason() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = elastic(script, 4, 2)
    assert script.reason("train") == "Running"
    assert script.message("train") == (
        "2 members are bound; 2 more members wait: 0 of 1 members fit at once: "
        "0 of 2 nodes have room for 8 nvidia.com/gpu"
    )
    assert view(script.core.state, script.gang("train"), script.now).waiting == 2
    explanation = explain(script.core.state, script.gang("train"), script.now)
    assert explanation.remedies[0] == "2 more nodes with 8 GPUs free in the cluster"
    script.advance(100)
    last = reported(script)[-1]
    assert (last.code, last.message) == ("Running", script.message("train"))
    assert last.member is not None
    assert not script.bound([pod for pod in pods if pod.uid == last.member[0]]), "it is told on a pod that waits"


def test_the_reason_of_surplus_members_ends_with_them() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = elastic(script, 4, 2)
    waiting = [pod for pod in pods if not script.bound([pod])]
    script.gone(waiting[0])
    assert "2 members are bound; 1 more member waits: " in script.message("train")
    script.gone(waiting[1])
    assert script.message("train") == "2 members are bound"
    assert view(script.core.state, script.gang("train"), script.now).waiting == 0


def test_surplus_members_that_somebody_else_gates_say_so() -> None:
    pods = gang("train", 3, min_member=2)
    script = Script(*cluster("a: 3x8"), *pods[:2])
    script.run(pods[:2])
    script.see(replace(pods[2], gates=("example.com/quota",)))
    assert script.message("train") == (
        "2 members are bound; 1 more member waits: 1 of 3 members are gated by example.com/quota"
    )


def test_pods_that_forgot_the_scheduler_name_are_told_so_wherever_they_run() -> None:
    lost = [replace(pod, scheduler="default-scheduler") for pod in gang("train", 2)]
    for pods in (lost, [replace(pod, node=f"a-{at}") for at, pod in enumerate(lost)]):
        script = Script(*cluster("a: 2x8"))
        script.see(pods)
        script.advance(10)
        assert script.reason("train") == "OtherScheduler"
        assert script.message("train") == (
            "its pods have schedulerName default-scheduler, which Muster does not serve: nothing starts them together; "
            "set schedulerName: muster in the pod template"
        )
        assert [code for code, _ in script.reports] == ["OtherScheduler"]
    script = Script(*cluster("a: 2x8"), *lost)
    for at, pod in enumerate(lost):
        script.change(pod, node=f"a-{at}")
    script.advance(1000)
    assert [code for code, _ in script.reports] == ["OtherScheduler"], "told once, bound or not"


def test_nothing_is_written_on_gangs_that_are_another_schedulers_own() -> None:
    """A PodGroup of the coscheduling plugin, or a name that another installation may serve."""
    group, pods = coscheduled("train", 2)
    for facts in (
        [group, *(replace(pod, scheduler="default-scheduler") for pod in pods)],
        [replace(pod, scheduler="muster-blue") for pod in gang("train", 2)],
    ):
        script = Script(*cluster("a: 2x8"), *facts)
        script.advance(100)
        assert script.reason("train") == "OtherScheduler"
        assert not script.reports


def test_pods_of_a_stateful_set_come_one_after_the_other_and_the_reason_says_so() -> None:
    pod = replace(gang("web", 1, min_member=4)[0], controller=STATEFUL)
    script = Script(*cluster("a: 4x8"), pod)
    assert script.message("web") == (
        "1 of 4 members exist; StatefulSet web creates its pods one after the other "
        "unless its podManagementPolicy is Parallel"
    )
    explanation = explain(script.core.state, script.gang("web"), script.now)
    assert any("podManagementPolicy: Parallel" in remedy for remedy in explanation.remedies)
    assert any('muster.dev/gang: "true"' in remedy for remedy in explanation.remedies)


def test_a_gang_of_high_priority_is_told_that_nobody_is_preempted() -> None:
    script = Script(*cluster("a: 2x8"), *busy("a-0", 8), *gang("big", 2, priority=1000))
    assert script.message("big").endswith("; its priority is 1000, but preemption is off")
    script = Script(*cluster("a: 2x8"), *busy("a-0", 8), *gang("big", 2))
    assert "preempt" not in script.message("big")


def test_the_owner_is_told_too() -> None:
    script = Script(*cluster("a: 1x8"), *[replace(pod, controller=JOB) for pod in gang("train", 2)])
    script.advance(5)
    (report,) = reported(script)
    assert report.owner == JOB
    again = Script(*cluster("a: 1x8"), *[replace(pod, controller=None) for pod in gang("train", 2)])
    again.advance(5)
    assert reported(again)[0].owner is None


def test_a_replacement_that_waits_is_no_surplus() -> None:
    script = Script(*cluster("a: 2x8"))
    pods = gang("train", 2)
    script.see(pods)
    script.run(pods)
    (lost,) = script.bound(pods[1:])
    script.gone(pods[1])
    script.see(busy(lost, 8), reborn(pods[1]))
    assert script.reason("train") == "NoRoom"


@pytest.mark.parametrize("size", [1, 2])
def test_verbs_follow_the_number(size: int) -> None:
    script = Script(*cluster("a: 2x8"))
    pods = gang("train", size)
    script.see(pods)
    assert (" member has a node" if size == 1 else " members have a node") in script.message("train")
    script.run(pods)
    assert script.message("train") == ("1 member is bound" if size == 1 else "2 members are bound")


def test_a_size_that_differs_is_no_other_scheduler() -> None:
    ours, other = gang("train", 2)
    script = Script(*cluster("a: 2x8"), ours, replace(other, scheduler="default-scheduler", node="a-0"))
    assert script.reason("train") == "Contradiction"
    assert GroupRef("train", Dialect.ANNOTATION, 2) == ours.group


def test_a_gang_whose_pods_are_all_being_deleted_does_not_run() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods)
    for pod in pods:
        script.change(script.pods[pod.uid], deleting=True)
    assert (script.reason("train"), script.message("train")) == ("Ended", "2 members are being deleted")
    script.advance(5)
    assert "Ended" not in [code for code, _ in script.reports], "nobody need be told"
