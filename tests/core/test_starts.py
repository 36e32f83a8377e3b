"""A finished member counts for the start that it belonged to, and for no other."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Pod, PodGroup
from tests.builders import cluster, coscheduled, gang, reborn, single
from tests.core.script import Script


def finish(script: Script, *pods: Pod) -> None:
    for pod in pods:
        script.change(pod, phase="Succeeded")


def bare(pods: list[Pod]) -> list[Pod]:
    """Made by a person, or by something that is no controller: without an owner that counts, and without an index."""
    return [replace(pod, owner="", index=None) for pod in pods]


def restarted(script: Script, nodes: str, *groups: PodGroup) -> Script:
    return Script(*cluster(nodes), *groups, *script.pods.values(), now=script.now)


def job(completions: int, least: int, **facts: object) -> list[Pod]:
    """The pods that a Job makes one after the other."""
    return [replace(pod, **facts) for pod in gang("job", completions, min_member=least)]  # type: ignore[arg-type]


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("again", [False, True])
def test_the_next_wave_of_a_job_needs_a_quorum_of_its_own(indexed: bool, again: bool) -> None:
    """Completions 6, parallelism 2: when the first two have finished, another pod is quicker on one of the nodes."""
    pods = job(6, 2, **({} if indexed else {"index": None}))
    script = Script(*cluster("a: 2x8"), *pods[:2])
    script.run(pods[:2])
    finish(script, *pods[:2])
    script.see(single("busy", gpus=8, node="a-1"))
    if again:
        script = restarted(script, "a: 2x8")
    script.see(pods[2])
    assert (script.reason("job"), script.planned(pods[2])) == ("MembersMissing", "")
    script.see(pods[3])
    assert (script.reason("job"), script.planned(pods[2])) == ("NoRoom", "")
    script.gone(script.pods["uid-busy"])
    script.run(pods[2:4])
    assert len(script.bound(pods[2:4])) == 2


def test_a_pod_that_a_job_makes_while_another_runs_needs_no_quorum() -> None:
    pods = job(6, 2)
    script = Script(*cluster("a: 2x8"), *pods[:2])
    script.run(pods[:2])
    finish(script, pods[0])
    script.see(pods[2])
    script.run(pods[2:3])
    assert script.bound(pods[2:3])
    finish(script, pods[1], pods[2])
    script.see(pods[3])
    assert not script.planned(pods[3]), "nobody runs any more, and nobody was lost: a new start"


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("make", [bare, list], ids=["bare", "another Job's"])
def test_the_next_pods_of_a_podgroup_need_a_quorum_of_their_own(make: object, again: bool) -> None:
    group, first = coscheduled("train", 2)
    first, second = make(first), make(coscheduled("train", 2, life="-next")[1])  # type: ignore[operator]
    script = Script(*cluster("a: 2x8"), group, *first)
    script.run(first)
    finish(script, *first)
    script.see(single("busy", gpus=8, node="a-1"))
    if again:
        script = restarted(script, "a: 2x8", group)
    script.see(second[0])
    assert (script.reason("train"), script.planned(second[0])) == ("MembersMissing", "")
    script.see(second[1])
    assert script.reason("train") == "NoRoom"


def test_bare_pods_that_were_deleted_in_part_do_not_stand_for_the_next_ones() -> None:
    group, pods = coscheduled("train", 3)
    first, second = bare(pods), bare(coscheduled("train", 3, life="-next")[1])
    script = Script(*cluster("a: 3x8"), group, *first)
    script.run(first)
    finish(script, *first)
    script.gone(script.pods[first[0].uid])
    script.see(second[:2])
    assert (script.reason("train"), script.message("train")) == ("MembersMissing", "2 of 3 members exist")


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("least", [3, 2])
def test_a_member_that_was_lost_when_the_others_had_finished_is_replaced_alone(
    least: int, indexed: bool, again: bool
) -> None:
    """The replacement completes the last start. If it waited for pods that never come, its Job would never end."""
    pods = job(3, least, **({} if indexed else {"index": None}))
    script = Script(*cluster("a: 3x8"), *pods)
    script.run(pods)
    finish(script, *pods[:2])
    script.change(pods[2], phase="Failed")
    if again:
        script = restarted(script, "a: 3x8")
    replacement = reborn(pods[2])
    script.see(replacement)
    script.run([replacement])
    assert script.bound([replacement])
    assert script.reason("job") == "Running"
    script.advance(300)
    assert not script.evicted


def test_two_that_were_lost_when_the_others_had_finished_start_together() -> None:
    pods = job(3, 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.run(pods)
    finish(script, pods[0])
    script.change(pods[1], phase="Failed")
    script.change(pods[2], phase="Failed")
    script.see(reborn(pods[1]))
    assert not script.planned(reborn(pods[1])), "the finished one counts for its own slot, and no more"
    script.see(reborn(pods[2]))
    script.run([reborn(pods[1]), reborn(pods[2])])
    assert len(script.bound([reborn(pods[1]), reborn(pods[2])])) == 2


@pytest.mark.parametrize("again", [False, True])
def test_what_a_member_that_is_gone_said_of_the_size_of_its_start_is_forgotten_with_it(again: bool) -> None:
    """A restart can read only the members that exist, and must change nothing."""
    pods = job(3, 2)
    script = Script(*cluster("a: 3x8"), *pods[:2])
    script.run(pods[:2])
    script.see(pods[2])
    script.run(pods[2:])
    finish(script, *pods)
    script.gone(script.pods[pods[2].uid])
    if again:
        script = restarted(script, "a: 3x8")
    script.see(reborn(pods[0]))
    assert (script.reason("job"), script.message("job")) == ("MembersMissing", "1 of 2 members exist")


def test_who_finishes_in_the_middle_of_a_release_counts_for_it() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.bind_all(pods)
    quick = script.pods[next(iter(script.bindings))]
    script.post(quick)
    finish(script, quick)
    script.post_all()
    assert script.reason("train") == "Running"
    assert script.gang("train").release.complete
