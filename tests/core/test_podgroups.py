"""The life of a PodGroup object: it may come late, change, be deleted, or be created again under the same name.

A PodGroup created again is another gang: starts, Bindings and successes of an earlier one do not belong to it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome, ReportFailed
from extender.core.effects import Report
from extender.core.events import GroupGone
from policies.model import Dialect, GroupRef, PodGroup
from tests.builders import cluster, coscheduled, gang, podgroup
from tests.core.script import Script, stamp_of


def test_a_gang_starts_with_min_member_of_its_podgroup() -> None:
    group, pods = coscheduled("train", 3, min_member=2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    assert sum(bool(script.planned(pod)) for pod in pods) == 2


def test_a_podgroup_that_comes_after_its_pods_is_waited_for() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.reason("train") == "PodGroupMissing"
    assert script.filter(pods[0]) == ()
    script.see(group)
    assert script.planned(pods[0])


@pytest.mark.parametrize(
    ("dialect", "more"),
    [
        (Dialect.COSCHEDULING, ""),
        (Dialect.KOORDINATOR, ", and no member says gang.scheduling.koordinator.sh/min-available"),
    ],
)
def test_what_else_may_say_the_size_is_told_where_there_is_no_podgroup(dialect: Dialect, more: str) -> None:
    pods = [replace(pod, group=GroupRef("train", dialect)) for pod in gang("train", 2)]
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.message("train") == f"there is no PodGroup named train in namespace default{more}"


def test_a_podgroup_for_nobody_starts_nobody() -> None:
    _, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), podgroup("train", 0), *pods)
    assert script.reason("train") == "InvalidPodGroup"
    assert script.message("train") == "the minMember of its PodGroup is 0, not a positive number"
    assert not script.planned(pods[0])


def test_a_podgroup_deleted_while_binds_are_held_fails_them() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    call = script.bind(pods[0])
    script.feed(GroupGone(group.key, group.uid))
    script.advance(0.1)
    assert "PodGroup" in script.answers[call]
    assert script.reason("train") == "PodGroupMissing"
    assert not script.planned(pods[0])


def test_the_deletion_of_an_earlier_podgroup_of_that_name_is_ignored() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.feed(GroupGone(group.key, "an-older-uid"))
    assert script.planned(pods[0])


def test_why_a_gang_waits_is_said_anew_on_a_podgroup_that_is_made_anew_at_once() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 1x1"), group, *pods)
    script.advance(60)
    script.effects.clear()
    script.feed(GroupGone(group.key, group.uid))
    script.see(replace(group, uid="another"))
    script.advance(60)
    assert {(effect.code, effect.group_uid) for effect in script.effects if isinstance(effect, Report)} == {
        ("NoRoom", "another")
    }


def test_why_a_gang_waits_is_said_again_after_a_while_when_it_did_not_get_through() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 1x1"), group, *pods)
    script.advance(20)
    assert [code for code, _ in script.reports] == ["NoRoom"]
    script.feed(ReportFailed(group.key))
    script.advance(30)
    assert len(script.reports) == 1
    script.advance(60)
    assert [code for code, _ in script.reports] == ["NoRoom", "NoRoom"]
    script.advance(900)
    assert len(script.reports) == 2


def test_a_podgroup_being_deleted_is_a_reason() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    call = script.bind(pods[0])
    script.see(replace(group, deleting=True))
    assert script.answers[call]
    assert script.reason("train") == "PodGroupDeleted"


def test_a_podgroup_deleted_in_the_middle_of_a_release_does_not_break_the_release() -> None:
    for marked_first in (True, False):
        group, pods = coscheduled("train", 3)
        script = Script(*cluster("a: 3x8"), group, *pods)
        script.bind_all(pods)
        if marked_first:
            script.see(replace(group, deleting=True))
        script.feed(GroupGone(group.key, group.uid))
        script.post_all()
        script.advance(300)
        assert len(script.bound(pods)) == 3
        assert not script.evicted


def test_a_minimum_that_is_raised_before_the_last_binding_is_seen_does_not_break_the_release() -> None:
    group, pods = coscheduled("train", 3, min_member=2)
    script = Script(*cluster("a: 2x8"), group, *pods[:2])
    script.bind_all(pods[:2])
    script.post(script.pods[next(iter(script.bindings))])
    (last,) = script.bindings
    script.see(replace(group, min_member=3))
    script.change(script.pods[last], node=script.bindings[last].node, stamp=stamp_of(script.bindings[last]))
    script.feed_outcome(last, Outcome.DONE)
    script.advance(300)
    assert not script.evicted
    assert script.reason("train") == "Running"


def test_a_lower_min_member_releases_what_is_held() -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    script.bind_all(pods[:2])
    assert not script.bindings
    script.see(replace(group, min_member=2))
    script.post_all()
    assert len(script.bound(pods)) == 2


def test_a_higher_min_member_gives_back_at_once_the_room_of_a_gang_that_has_too_few_members_now() -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    calls = script.bind_all(pods[:2])
    script.see(replace(group, min_member=4))
    assert all("more are asked for" in script.answers[call] for call in calls)
    assert (script.reason("train"), script.message("train")) == ("MembersMissing", "3 of 4 members exist")
    other, siblings = coscheduled("other", 3)
    script.see(other, *siblings)
    assert script.reason("other") == "Placed"


def test_a_lower_min_member_makes_a_half_released_gang_whole() -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    calls = script.bind_all(pods)
    script.disconnect(calls[-1])
    script.post_all()
    assert script.reason("train") == "Partial"
    script.see(replace(group, min_member=2))
    script.advance(300)
    assert script.reason("train") == "Running"
    assert not script.evicted


def test_a_higher_min_member_does_not_disturb_a_running_gang() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.run(pods)
    script.see(replace(group, min_member=5))
    script.advance(300)
    assert not script.evicted
    assert script.reason("train") == "Running"


def test_a_deleted_podgroup_does_not_disturb_a_running_gang() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.run(pods)
    script.feed(GroupGone(group.key, group.uid))
    script.advance(300)
    assert not script.evicted
    assert (script.reason("train"), script.message("train")) == ("Running", "2 members are bound")
    again = restarted(script)
    assert (again.reason("train"), again.message("train")) == ("Running", "2 members are bound")


@pytest.mark.parametrize("seen_gone", [True, False])
def test_pods_of_an_earlier_podgroup_are_said_to_be_that(seen_gone: bool) -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.run(pods)
    if seen_gone:
        script.feed(GroupGone(group.key, group.uid))
    fresh = podgroup("train", 2, uid="second")
    script.see(fresh)
    for core in (script, restarted(script, fresh)):
        assert core.reason("train") == "MembersMissing"
        assert core.message("train") == "0 of 2 members exist; 2 pods belong to an earlier PodGroup of this name"
    for pod in pods:
        script.change(pod, phase="Succeeded")
    assert script.reason("train") == "MembersMissing"


def restarted(script: Script, *groups: PodGroup) -> Script:
    """The core of a Muster that starts now with these objects."""
    return Script(*script.core.state.claims.nodes.values(), *groups, *script.pods.values())


def test_a_shorter_schedule_timeout_counts_for_what_is_held_already() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    call = script.bind(pods[0], expires_s=600)
    script.see(replace(group, timeout_s=5.0))
    script.advance(5.1)
    assert script.answers[call]


def test_what_one_job_of_a_podgroup_has_finished_is_no_quorum_for_the_next() -> None:
    group, first = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *first)
    script.run(first)
    for pod in first:
        script.change(pod, phase="Succeeded")
    _, second = coscheduled("train", 2, life="-second")
    script.see(second[0])
    for core in (script, restarted(script, group)):
        assert core.message("train") == "1 of 2 members exist"
        assert not core.planned(second[0])
    script.see(second[1])
    script.run(second)
    assert script.message("train") == "2 members are bound"


def test_a_podgroup_made_anew_is_another_gang() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 4x8"), group, *pods)
    script.run(pods)
    script.see(podgroup("train", 2, uid="second"))
    _, fresh = coscheduled("train", 2, life="-second")
    script.see(fresh[0])
    assert script.message("train") == "1 of 2 members exist; 2 pods belong to an earlier PodGroup of this name"
    script.see(fresh[1])
    assert all(script.planned(pod) for pod in fresh)
    script.advance(300)
    assert not script.evicted


@pytest.mark.parametrize("seen_gone", [True, False])
@pytest.mark.parametrize("posted", range(3))
def test_a_podgroup_made_anew_in_the_middle_of_a_release_is_another_gang_when_that_is_over(
    posted: int, seen_gone: bool
) -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    script.bind_all(pods)
    for uid in list(script.bindings)[:posted]:
        script.post(script.pods[uid])
    if seen_gone:
        script.feed(GroupGone(group.key, group.uid))
    script.see(podgroup("train", 3, uid="second"))
    script.post_all()
    assert len(script.bound(pods)) == 3, "what has begun is not left in part"
    assert script.message("train") == "0 of 3 members exist; 3 pods belong to an earlier PodGroup of this name"


@pytest.mark.parametrize("seen_gone", [True, False])
def test_what_a_broken_start_has_bound_gives_way_although_its_podgroup_is_made_anew(seen_gone: bool) -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), group, *pods)
    calls = script.bind_all(pods)
    script.disconnect(calls[-1])
    script.gone(pods[2])
    script.post_all()
    assert script.reason("train") == "Partial"
    script.see(podgroup("train", 3, uid="another project's", dialect=Dialect.VOLCANO))
    script.advance(1)
    assert not script.evicted
    if seen_gone:
        script.feed(GroupGone(group.key, group.uid))
    script.see(podgroup("train", 3, uid="second"))
    script.advance(1)
    assert sorted(script.evicted) == ["train-0", "train-1"], "nobody completes it any more"
    script.advance(script.core.state.limits.partial_s)
    assert len(script.evicted) == 4, "if they could not be evicted it is tried again"
    for pod in pods[:2]:
        script.gone(script.pods[pod.uid])
    fresh = coscheduled("train", 3, life="-second")[1]
    script.see(*fresh)
    assert all(script.planned(pod) for pod in fresh)


@pytest.mark.parametrize("seen_gone", [True, False])
@pytest.mark.parametrize("broken", [True, False])
def test_a_start_that_is_in_part_once_nothing_is_being_bound_ends_with_its_podgroup(
    *, broken: bool, seen_gone: bool
) -> None:
    """``broken``: it was in part before, and is just being completed."""
    group, pods = coscheduled("train", 4)
    script = Script(*cluster("a: 4x8"), group, *pods)
    calls = script.bind_all(pods)
    if broken:
        script.disconnect(calls[-1])
        script.feed_outcome(pods[2].uid, Outcome.REFUSED)
        script.post_all()
        script.bind_all(pods[2:])
    if seen_gone:
        script.feed(GroupGone(group.key, group.uid))
    script.see(podgroup("train", 4, uid="second"))
    assert not script.evicted
    script.feed_outcome(pods[2].uid, Outcome.REFUSED)
    script.post_all()
    script.advance(1)
    assert sorted(script.evicted) == ["train-0", "train-1", "train-3"]
    assert not script.planned(pods[2]), "nobody completes it any more"


@pytest.mark.parametrize("deleting", [True, False])
def test_what_is_promised_while_members_are_being_bound_is_revoked_after_that_when_the_podgroup_has_gone(
    *, deleting: bool
) -> None:
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 3x8"), replace(group, min_member=2), *pods)
    script.bind_all(pods[:2])
    assert script.planned(pods[2])
    if deleting:
        script.see(replace(group, min_member=2, deleting=True))
    else:
        script.feed(GroupGone(group.key, group.uid))
    assert script.planned(pods[2])
    script.post_all()
    assert len(script.bound(pods)) == 2
    assert not script.planned(pods[2])


def test_a_podgroup_that_is_gone_again_before_a_release_is_over_is_none() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.bind_all(pods)
    script.feed(GroupGone(group.key, group.uid))
    script.see(fresh := podgroup("train", 2, uid="second"))
    script.feed(GroupGone(fresh.key, fresh.uid))
    script.post_all()
    assert (script.reason("train"), script.message("train")) == ("Running", "2 members are bound")


@pytest.mark.parametrize("second_ran", [True, False])
def test_members_that_count_again_once_a_later_podgroup_is_gone_have_their_release_again(second_ran: bool) -> None:
    """Seed 6015132: their release was forgotten with the change of the PodGroup, and only a restart read it again."""
    group, pods = coscheduled("train", 3)
    script = Script(*cluster("a: 6x8"), group, *pods)
    script.run(pods)
    script.see(second := podgroup("train", 3, uid="second"))
    _, others = coscheduled("train", 3, life="-second")
    if second_ran:
        script.see(*others)
        script.run(others)
    script.feed(GroupGone(second.key, second.uid))
    if second_ran:
        script.gone(*others)
    script.gone(next(pod for pod in script.pods.values() if pod.stamp and pod.stamp.complete))
    assert [pod.stamp.complete for pod in script.pods.values() if pod.stamp] == [True, True]
    release, afterwards = (core.gang("train").release for core in (script, restarted(script)))
    assert (release.name, release.complete) == (afterwards.name, afterwards.complete) == (pods[2].uid, True)


def test_doubtful_bindings_of_an_earlier_podgroup_go_on_as_those_of_that() -> None:
    """The Bindings may have been written, or are being written still."""
    group, pods = coscheduled("train", 5)
    script = Script(*cluster("a: 5x8"), group, *pods)
    script.bind_all(pods)
    doubtful = list(script.bindings.values())[:3]
    script.see(podgroup("train", 4, uid="second"))
    for effect in doubtful:
        script.feed_outcome(effect.uid, Outcome.UNKNOWN)
    for effect in doubtful:
        script.bind(script.pods[effect.uid], effect.node)
    script.post_all()
    assert {pod.stamp.gang for pod in script.core.state.pods.values() if pod.stamp} == {group.uid}
    assert script.message("train") == "0 of 4 members exist; 5 pods belong to an earlier PodGroup of this name"
