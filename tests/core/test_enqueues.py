"""PodGroups whose job makes no pods until a scheduler has taken them up: planned first, then taken up.

Meanwhile nodes are lost, Muster restarts, or no answer comes.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Enqueued
from extender.core.effects import Enqueue, Report
from extender.core.events import GroupGone, GroupJobGone, GroupJobSeen, GroupSeen, Synced
from policies.model import (
    Dialect,
    GroupJob,
    GroupRef,
    Pod,
    PodGroup,
    PodSet,
    PodSets,
    Stamp,
)
from tests.builders import cluster, gang, requests
from tests.core.script import Script
from tests.core.sliced import ONE
from tests.core.taken_up import (
    JOB,
    KEY,
    REF,
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


def test_it_is_planned_before_its_pods_exist_and_taken_up_once() -> None:
    script = scripted(WAITS)
    assert asked(script) == 1
    assert free(script) == 0
    script.feed(Enqueued(KEY))
    script.see(WAITS)
    script.advance(20)
    assert asked(script) == 0


def test_its_pods_take_the_nodes_of_their_slots_and_start_together() -> None:
    script = scripted(WAITS, nodes="a: 3x8")
    taken_up(script)
    planned = dict(script.gang(KEY.name).members.slots.planned)
    pods = pods_of(made())
    script.see(*pods)
    script.run(pods)
    assert [script.core.state.pods[pod.uid].node for pod in pods] == [planned[pod.identity] for pod in pods]
    assert script.reason(KEY.name) == "Running"
    assert script.gang(KEY.name).podsets is None, "from now on it is a gang like any other"
    script.advance(300)
    assert free(script) == 1


def reported(script: Script) -> list[tuple[str, str | None]]:
    """The reports that are written on a PodGroup, since this was asked last."""
    reports = [effect for effect in script.effects if isinstance(effect, Report) and not effect.pending]
    script.effects.clear()
    return [(report.code, report.group_uid) for report in reports]


def test_what_is_said_before_it_is_seen_to_be_taken_up_is_written_on_it_then() -> None:
    script, pods = scripted(WAITS), pods_of(made())
    script.see(*pods)
    script.run(pods)
    script.advance(5)
    assert not reported(script)
    script.see(TAKEN_UP)
    script.advance(5)
    assert reported(script) == [("Running", "group-uid")]


def test_after_a_restart_it_is_written_on_one_that_does_not_say_so_that_it_runs() -> None:
    script, pods = scripted(WAITS), pods_of(made())
    taken_up(script)
    script.see(*pods)
    script.run(pods)
    again = Script(*cluster("a: 2x8"), TAKEN_UP, *script.pods.values(), synced=False)
    again.feed(GroupJobSeen(made()))
    again.feed_synced()
    again.advance(30)
    assert reported(again) == [("Running", "group-uid")]


def test_without_room_its_pods_do_not_come_and_its_job_says_why() -> None:
    script = scripted(WAITS, nodes="a: 1x8")
    script.advance(60)
    (report,) = [effect for effect in script.effects if isinstance(effect, Report)]
    assert (report.code, report.group_uid, report.owner, report.pending) == ("NoRoom", "group-uid", JOB, True)
    assert asked(script) == 0
    script.see(*cluster("b: 2x8"))
    script.advance(1)
    assert asked(script) == 1


def test_its_room_is_nobody_elses_while_its_pods_are_made() -> None:
    script = scripted(WAITS)
    taken_up(script)
    other = Pod("other", "default", "other", requests(8))
    assert not set(script.filter(other)) & {"a-0", "a-1"}


def test_those_that_do_not_come_in_time_have_no_room_and_are_planned_when_they_come() -> None:
    script = scripted(WAITS)
    taken_up(script)
    script.advance(60)
    assert free(script) == 2
    assert KEY not in script.core.state.workloads
    pods = pods_of(made())
    script.see(*pods)
    script.run(pods)
    assert script.reason(KEY.name) == "Running"


def test_its_room_is_kept_until_the_watch_shows_that_it_was_taken_up() -> None:
    script = scripted(WAITS)
    script.feed(Enqueued(KEY))
    script.advance(100)
    assert free(script) == 0
    assert (script.core.next_wake() or script.now + 1) > script.now
    script.see(TAKEN_UP)
    pods = pods_of(made())
    script.see(*pods)
    script.run(pods)
    assert script.reason(KEY.name) == "Running"


def test_one_that_is_not_seen_to_be_taken_up_is_asked_for_again() -> None:
    """A proxy has answered for the API server: a 404 that the PodGroup is gone, or a page."""
    script = scripted(WAITS)
    assert asked(script) == 1
    script.feed(Enqueued(KEY))
    script.advance(50)
    assert asked(script) == 0
    script.advance(20)
    assert asked(script) == 1
    script.feed(Enqueued(KEY))
    script.see(TAKEN_UP)
    script.advance(200)
    assert asked(script) == 0


def test_the_queue_that_its_podgroup_names_is_its_own() -> None:
    script = scripted(replace(WAITS, queue="team"))
    assert script.gang(KEY.name).queue == "team"


def test_fewer_start_if_they_are_enough() -> None:
    job = made(3, minimum=2)
    script = scripted(WAITS, job=job)
    taken_up(script)
    pods = pods_of(job)
    script.see(*pods)
    script.run(pods[:2])
    assert script.reason(KEY.name) == "Running"
    script.see(*cluster("b: 1x8"))
    script.run(pods[2:])
    assert script.core.state.pods["u2"].node == "b-0"


def test_of_several_tasks_each_gets_what_it_needs() -> None:
    (worker,) = made(4, minimum=1).podsets.podsets
    master = replace(worker.template, series="0-master", group=REF._replace(role="master"))
    job = GroupJob(JOB, PodSets(KEY, (worker, PodSet(master, 1, 1))))
    minima = (("master", 1), ("worker", 1))
    script = scripted(replace(WAITS, minima=minima), job=job, nodes="a: 2x8")
    assert asked(script) == 1
    assert sorted(slot[0] for slot in script.gang(KEY.name).members.slots.planned) == ["uid0-master", "uid1-worker"]


def test_no_room_is_kept_for_some_of_those_that_its_job_needs_when_its_podgroup_says_fewer() -> None:
    """A user has edited it: a member without a node still keeps it from being taken up."""
    script = scripted(replace(WAITS, min_member=1), nodes="a: 1x8")
    assert asked(script) == 0
    assert free(script) == 1
    assert script.reason(KEY.name) == "NoRoom"
    script.see(*cluster("b: 1x8"))
    script.advance(1)
    assert asked(script) == 1


def test_no_room_is_kept_for_the_least_of_its_job_when_its_podgroup_says_more() -> None:
    """Someone has edited it, so that pods beyond the minima of the tasks have to start as well."""
    (worker,) = made(2, minimum=1).podsets.podsets
    master = replace(worker.template, series="0-master", group=REF._replace(role="master"))
    job = GroupJob(JOB, PodSets(KEY, (worker, PodSet(master, 1, 1))))
    script = scripted(replace(WAITS, min_member=3), job=job, nodes="a: 2x8")
    assert asked(script) == 0
    assert free(script) == 2
    script.see(*cluster("b: 1x8"))
    script.advance(1)
    assert asked(script) == 1


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


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_after_a_restart_no_pods_are_awaited_of_one_whose_pods_have_ended(phase: str) -> None:
    """The fact that it runs could not be written on its PodGroup."""
    script, pods = scripted(WAITS), pods_of(made())
    taken_up(script)
    script.see(*pods)
    script.run(pods)
    for pod in pods:
        script.change(pod, phase=phase)
    again = Script(*cluster("a: 2x8"), TAKEN_UP, *script.pods.values(), synced=False)
    again.feed(GroupJobSeen(made()))
    again.feed_synced()
    again.advance(1)
    assert (free(again), again.reason(KEY.name)) == (2, "Ended")


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
        (report,) = [effect for effect in script.effects if isinstance(effect, Report)]
        assert (report.code, report.group_uid, report.dialect) == ("Running", uid, dialect)


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


@pytest.mark.parametrize("seen_late", [False, True])
def test_after_a_restart_it_is_planned_although_counting_what_pods_ask_for_takes_several_slices(
    seen_late: bool,
) -> None:
    script = Script(*cluster("a: 4x8"), *gang("other", 2), limits=ONE, synced=False)
    script.feed(GroupJobSeen(made()))
    if not seen_late:
        script.feed(GroupSeen(WAITS))
    script.feed(Synced(script.now))
    assert not script.core.state.process.counted
    if seen_late:
        script.feed(GroupSeen(WAITS))
    script.advance(1)
    assert asked(script) == 1
