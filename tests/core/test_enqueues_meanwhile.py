"""PodGroups that were taken up, or wait for that, while nodes are lost, Muster restarts, or nobody answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Enqueued
from extender.core.effects import Enqueue, Report
from extender.core.events import GroupGone, GroupJobGone, GroupJobSeen
from policies.model import (
    Dialect,
    GroupJob,
    GroupRef,
    Pod,
    PodGroup,
    Stamp,
)
from tests.builders import cluster, requests
from tests.core.script import Script
from tests.core.taken_up import (
    JOB,
    KEY,
    TAKEN_UP,
    UNREADABLE,
    WAITS,
    asked,
    free,
    made,
    pods_of,
    scripted,
    taken_up,
)


def test_a_node_that_is_lost_before_the_pods_come_is_planned_around() -> None:
    script = scripted(WAITS, nodes="a: 2x8")
    taken_up(script)
    script.see(*cluster("b: 2x8"))
    script.drop("a-0")
    script.advance(1)
    pods = pods_of(made())
    script.see(*pods)
    script.run(pods)
    assert "a-0" not in script.bound(pods)
    assert len(script.bound(pods)) == 2


@pytest.mark.parametrize("there", [0, 1])
def test_after_a_restart_one_that_was_taken_up_is_planned_before_all_others(there: int) -> None:
    job = made()
    group = replace(TAKEN_UP, created=9.0)
    old = [
        Pod(f"o{at}", "default", f"o{at}", requests(8), group=GroupRef("old", Dialect.ANNOTATION, 2)) for at in (0, 1)
    ]
    script = Script(*cluster("a: 2x8"), group, *pods_of(job)[:there], *old, synced=False)
    script.feed(GroupJobSeen(job))
    script.feed_synced()
    script.advance(1)
    assert asked(script) == 0
    pods = pods_of(job)
    script.see(*pods)
    script.run(pods)
    assert (script.reason(KEY.name), script.reason("old")) == ("Running", "NoRoom")


@pytest.mark.parametrize("how", ["its PodGroup", "its job"])
def test_it_is_forgotten_with_its_objects(how: str) -> None:
    script = scripted(WAITS)
    if how == "its PodGroup":
        script.feed(GroupGone(KEY, "group-uid", Dialect.VOLCANO))
    else:
        script.feed(GroupJobGone(KEY, JOB.uid))
    script.advance(1)
    assert free(script) == 2
    assert KEY not in script.core.state.workloads


def test_a_restarted_job_is_planned_anew_when_its_podgroup_is() -> None:
    script = scripted(WAITS, nodes="a: 4x8")
    taken_up(script)
    pods = pods_of(made())
    script.see(*pods)
    script.run(pods)
    script.feed(GroupGone(KEY, "group-uid", Dialect.VOLCANO))
    for pod in pods:
        script.gone(script.pods[pod.uid])
    script.see(replace(WAITS, uid="second"))
    script.advance(1)
    assert Enqueue(KEY, "second") in script.effects
    script.effects.clear()
    script.feed(Enqueued(KEY))
    script.see(replace(TAKEN_UP, uid="second"))
    again = pods_of(made(), life="-2")
    script.see(*again)
    script.run(again)
    assert script.reason(KEY.name) == "Running"


@pytest.mark.parametrize("nodes", ["a: 2x8", "a: 1x8"])
def test_one_that_cannot_be_planned_before_its_pods_is_taken_up_at_once(nodes: str) -> None:
    script = scripted(WAITS, nodes=nodes, job=UNREADABLE)
    assert asked(script) == 1


def test_those_from_before_the_start_are_asked_for_when_muster_acts() -> None:
    script = scripted(WAITS, synced=False)
    assert asked(script) == 0
    script.feed_synced()
    script.advance(1)
    assert asked(script) == 1


@pytest.mark.parametrize(
    "group", [TAKEN_UP, replace(WAITS, deleting=True), replace(WAITS, job=None, dialect=Dialect.COSCHEDULING)]
)
def test_nothing_else_is_asked_for(group: PodGroup) -> None:
    script = scripted(group)
    assert asked(script) == 0
    assert free(script) == 2


def test_one_whose_job_is_another_schedulers_is_left_to_it() -> None:
    script = Script(*cluster("a: 2x8"), WAITS)
    script.advance(10)
    assert asked(script) == 0
    assert KEY not in script.core.state.workloads


@pytest.mark.parametrize("job", [made(), UNREADABLE], ids=["planned", "not planned"])
def test_what_failed_is_asked_for_again_ever_more_seldom(job: GroupJob) -> None:
    script = scripted(WAITS, job=job)
    pauses = []
    for _ in range(12):
        asked(script)
        script.feed(Enqueued(KEY, "the right is missing"))
        assert free(script) == 2, "it keeps no room meanwhile"
        began = script.now
        while not asked(script):
            script.advance(1)
        pauses.append(int(script.now - began) // 5 * 5)
    assert pauses[:3] == [5, 10, 20]
    assert pauses[-2:] == [900, 900]


@pytest.mark.parametrize("how", ["taken up", "gone"])
def test_what_failed_is_not_asked_for_when_it_waits_no_more(how: str) -> None:
    script = scripted(WAITS)
    script.feed(Enqueued(KEY, "no answer"))
    asked(script)
    if how == "gone":
        script.feed(GroupGone(KEY, "group-uid", Dialect.VOLCANO))
    else:
        script.see(TAKEN_UP)
    script.advance(10_000)
    assert asked(script) == 0
    assert script.core.next_wake() is None


@pytest.mark.parametrize("job", [made(), UNREADABLE], ids=["planned", "not planned"])
def test_a_podgroup_that_is_made_anew_does_not_rest_for_what_the_one_before_it_failed_at(job: GroupJob) -> None:
    script = scripted(WAITS, job=job)
    for _ in range(10):
        script.feed(Enqueued(KEY, "the right is missing"))
        script.advance(900)
    script.feed(Enqueued(KEY, "the right is missing"))
    script.feed(GroupGone(KEY, "group-uid", Dialect.VOLCANO))
    script.effects.clear()
    script.see(replace(WAITS, uid="second"))
    assert script.effects.count(second := Enqueue(KEY, "second")) == 1
    script.feed(Enqueued(KEY, "the right is missing"))
    script.advance(6)
    assert script.effects.count(second) == 2


def test_its_reports_are_for_a_podgroup_of_volcano_only_where_a_job_of_volcano_made_it_and_for_one_of_kai() -> None:
    for group, uid, dialect in [
        (TAKEN_UP, "group-uid", Dialect.VOLCANO),
        (replace(TAKEN_UP, job=None), None, Dialect.COSCHEDULING),
        (replace(TAKEN_UP, job=None, dialect=Dialect.KAI), "group-uid", Dialect.KAI),
    ]:
        ref = GroupRef(KEY.name, group.dialect)
        pods = [Pod(f"u{at}", "default", f"p{at}", requests(8), group=ref) for at in range(2)]
        script = Script(*cluster("a: 2x8"), group, *pods)
        script.run(pods)
        script.advance(60)
        (told,) = [effect for effect in script.effects if isinstance(effect, Report)]
        assert (told.code, told.group_uid, told.dialect) == ("Running", uid, dialect)


@pytest.mark.parametrize("restarted", [False, True])
def test_nobody_is_awaited_in_place_of_a_pod_that_was_moved_to_another_gang(restarted: bool) -> None:
    script = scripted(WAITS, nodes="a: 3x8")
    taken_up(script)
    stays, goes = pods_of(made())
    moved = replace(goes, group=GroupRef("other", Dialect.ANNOTATION, min_member=2))
    if restarted:
        script = Script(*cluster("a: 3x8"), TAKEN_UP, stays, moved, synced=False)
        script.feed(GroupJobSeen(made()))
        script.feed_synced()
    else:
        script.see(stays, goes)
        script.see(moved)
    script.advance(1)
    assert script.reason(KEY.name) == "MembersMissing"
    assert free(script) == 3


def test_nobody_is_awaited_in_place_of_a_pod_that_an_earlier_podgroup_has_bound() -> None:
    stays, runs = pods_of(made())
    bound = replace(runs, node="a-0", stamp=Stamp("earlier", "release", complete=True))
    script = Script(*cluster("a: 3x8"), TAKEN_UP, stays, bound, synced=False)
    script.feed(GroupJobSeen(made()))
    script.feed_synced()
    script.advance(1)
    assert script.reason(KEY.name) == "MembersMissing"
    assert free(script) == 2
