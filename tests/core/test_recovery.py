"""After a restart: bound pods are the truth, a nomination is a hint, and nothing is started in part."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Nominate
from policies.model import Stamp
from tests.builders import cluster, coscheduled, gang, podgroup, reborn
from tests.core.levels import IN_CLIQUE, asking, homes
from tests.core.script import Script


def restarted(script: Script, nodes: str) -> Script:
    """A new core that reads the API objects as they are now."""
    return Script(*cluster(nodes), *script.pods.values(), now=script.now)


def test_a_restart_while_binds_are_held_takes_the_same_placement_up_again() -> None:
    pods = gang("train", 2)
    before = Script(*cluster("a: 4x8"), *pods)
    before.bind(pods[0])
    script = restarted(before, "a: 4x8")
    assert [script.planned(pod) for pod in pods] == [before.planned(pod) for pod in pods]
    script.run(pods)
    assert len(script.bound(pods)) == 2


def test_a_nomination_that_does_not_hold_any_more_is_only_a_hint() -> None:
    pods = [replace(pod, nominated_node="a-0") for pod in gang("train", 2)]
    script = Script(*cluster("a: 2x8"), *pods)
    assert {script.planned(pod) for pod in pods} == {"a-0", "a-1"}


def test_nominations_that_are_left_over_are_cleared() -> None:
    pods = [replace(pod, nominated_node="a-0") for pod in gang("train", 3)]
    script = Script(*cluster("a: 2x8"), *pods)
    cleared = [effect.uid for effect in script.effects if isinstance(effect, Nominate) and effect.node is None]
    assert cleared == [pod.uid for pod in pods]


def test_a_nomination_of_an_earlier_life_that_is_written_late_is_cleared() -> None:
    _, pods = coscheduled("train", 2)
    member = pods[0]
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.reason("train") == "PodGroupMissing"
    script.change(member, nominated_node="a-0")
    script.advance(60)
    assert script.pods[member.uid].nominated_node is None


def test_two_gangs_with_nominations_for_the_same_room_do_not_both_get_it() -> None:
    first = [replace(pod, nominated_node=f"a-{index}") for index, pod in enumerate(gang("one", 2))]
    two = [replace(pod, nominated_node=f"a-{index}") for index, pod in enumerate(gang("two", 2))]
    script = Script(*cluster("a: 2x8"), *first, *two)
    assert sum(bool(script.planned(pod)) for pod in first + two) == 2


def test_a_restart_in_the_middle_of_a_release_completes_it() -> None:
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.bind_all(pods)
    before.post(before.pods[next(iter(before.bindings))])
    script = restarted(before, "a: 3x8")
    assert script.reason("train") in ("Partial", "Placed")
    script.run([pod for pod in pods if not script.bound([pod])])
    assert len(script.bound(pods)) == 3
    script.advance(300)
    assert not script.evicted


def test_a_restart_in_the_middle_of_a_release_that_cannot_be_completed_holds_nothing_in_part() -> None:
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.bind_all(pods)
    before.post(before.pods[next(iter(before.bindings))])
    script = restarted(before, "a: 1x8")
    script.advance(100)
    assert len(set(script.evicted)) == 1


def test_a_restart_after_a_member_of_a_running_gang_was_lost_evicts_nobody() -> None:
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.run(pods)
    before.gone(before.pods[pods[1].uid])
    script = restarted(before, "a: 3x8")
    script.advance(300)
    assert not script.evicted
    replacement = reborn(pods[1])
    script.see(replacement)
    script.run([replacement])
    assert script.bound([replacement])


@pytest.mark.parametrize("lost", range(3))
def test_a_restart_evicts_nobody_whichever_member_of_a_running_gang_was_lost(lost: int) -> None:
    """The one whose Binding said that all are in may be the one that is gone."""
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.run(pods)
    before.gone(before.pods[pods[lost].uid])
    script = restarted(before, "a: 2x8")
    script.see(reborn(pods[lost]))
    script.advance(300)
    assert not script.evicted
    assert len(script.bound(pods)) == 2


def test_a_release_whose_last_member_is_still_without_a_node_did_break_off() -> None:
    pods = gang("train", 3)
    before = Script(*cluster("a: 3x8"), *pods)
    before.bind_all(pods)
    for uid in list(before.bindings):
        before.post(before.pods[uid], seen=False)
        before.change(
            before.pods[uid], node=before.bound([before.pods[uid]])[0], stamp=before.core.state.pods[uid].stamp
        )
    script = restarted(before, "a: 2x8")
    assert script.reason("train") in ("Partial", "NoRoom")
    script.advance(100)
    assert len(set(script.evicted)) == 2


def test_the_word_of_another_podgroups_release_does_not_make_this_one_whole() -> None:
    group, old = coscheduled("train", 2)
    before = Script(*cluster("a: 4x8"), group, *old)
    before.run(old)
    _, new = coscheduled("train", 2, life="-second")
    bound = replace(new[0], node="a-3", stamp=Stamp("second", new[1].uid, complete=False))
    script = Script(*cluster("a: 4x8"), podgroup("train", 2, uid="second"), *before.pods.values(), bound, new[1])
    script.run(new[1:])
    assert script.reason("train") == "Running"
    script = Script(*cluster("a: 3x8"), podgroup("train", 2, uid="second"), *before.pods.values(), bound, new[1])
    script.change(new[1], gates=("acme/quota",))
    script.advance(100)
    assert script.evicted == [bound.name]


def test_a_restart_beside_running_and_waiting_gangs_changes_nothing() -> None:
    running, waiting = gang("running", 2, created=1), gang("waiting", 2, created=2)
    before = Script(*cluster("a: 2x8"), *running, *waiting)
    before.run(running)
    script = restarted(before, "a: 2x8")
    assert script.reason("running") == "Running"
    assert script.reason("waiting") == "NoRoom"
    script.advance(100)
    assert not script.evicted


def test_a_watch_event_from_before_our_binding_does_not_unbind_the_pod() -> None:
    pods = gang("train", 1)
    script = Script(*cluster("a: 1x8"), *pods)
    script.bind(pods[0])
    script.post(pods[0], seen=False)
    script.see(pods[0])
    assert script.bound(pods) == ["a-0"]
    other = gang("other", 1)
    script.see(other)
    assert not script.planned(other[0])


def test_events_told_twice_change_nothing() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.see(*cluster("a: 2x8"))
    calls = [script.bind(pods[0])]
    script.see([script.pods[pod.uid] for pod in pods])
    calls.append(script.bind(pods[1]))
    script.see([script.pods[pod.uid] for pod in pods])
    script.post_all()
    script.see([script.pods[pod.uid] for pod in pods])
    assert script.answers == dict.fromkeys(calls, "")
    for pod in list(script.pods.values()):
        script.gone(pod)
    assert not len(script.core.state.claims)


def test_the_outcome_of_a_binding_that_nobody_asked_for_is_ignored() -> None:
    script = Script(*cluster("a: 1x8"))
    script.feed_outcome("unknown", Outcome.DONE)
    script.disconnect(77)


def test_nothing_is_planned_before_the_lists_are_read() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods, synced=False)
    script.advance(100)
    assert not script.effects


@pytest.mark.parametrize("with_group", [True, False])
def test_a_gang_that_has_ended_says_so_before_and_after_a_restart(with_group: bool) -> None:
    group, pods = coscheduled("train", 2) if with_group else (None, gang("train", 2))
    groups = [group] if group is not None else []
    script = Script(*cluster("a: 2x8"), *groups, *pods)
    script.run(pods)
    script.change(pods[0], phase="Succeeded")
    assert script.reason("train") == "Running"
    script.change(pods[1], phase="Failed")
    again = Script(*cluster("a: 2x8"), *groups, *script.pods.values())
    for core in (script, again):
        assert (core.reason("train"), core.message("train")) == ("Ended", "2 members have ended, 1 of them failed")
    again.advance(60)
    assert not again.reports, "it was told when it ended"


def test_a_gang_is_not_stamped_as_the_one_that_its_first_member_was_moved_from() -> None:
    others, ours = gang("other", 3, created=1.0), gang("train", 3, min_member=4, created=2.0)
    before = Script(*cluster("a: 8x8"), *others)
    before.see(*ours)
    before.change(others[0], group=ours[0].group)
    before.run(train := [before.pods[others[0].uid], *ours])
    assert {pod.stamp.gang for pod in (before.pods[pod.uid] for pod in train) if pod.stamp} == {"job-train"}
    before.gone(before.pods[ours[1].uid])
    script = restarted(before, "a: 8x8")
    assert script.gang("train").release.complete
    script.advance(100)
    assert not script.evicted


def test_replacements_are_stamped_as_their_release_though_they_have_another_controller() -> None:
    others, ours = gang("other", 3, created=1.0), gang("train", 2, created=2.0)
    before = Script(*cluster("a: 8x8"), *others)
    before.see(*ours)
    before.run(ours)
    before.change(others[0], group=ours[0].group)
    before.run([moved := before.pods[others[0].uid]])
    before.gone(*(before.pods[pod.uid] for pod in ours))
    again = gang("train", 2, life="again", created=3.0)
    before.see(again[0])
    before.run([again[0]])
    before.gone(before.pods[moved.uid])
    before.see(again[1])
    script = restarted(before, "a: 2x8")
    assert script.gang("train").release.complete
    script.advance(100)
    assert not script.evicted


def test_a_binding_of_an_earlier_life_that_is_shown_late_draws_the_others_into_its_domain() -> None:
    pods = asking(gang("train", 3, min_member=2), IN_CLIQUE)
    script = Script(*cluster("a: 3x8", "b: 3x8"), *pods)
    elsewhere = "b-0" if homes(script, pods) == "a a a" else "a-0"
    script.change(pods[0], node=elsewhere)
    assert homes(script, pods) == " ".join([elsewhere[0]] * 3)
    script.run(pods[1:])
    assert len(script.bound(pods)) == 3


def test_a_member_that_is_bound_elsewhere_in_the_required_domain_changes_no_plan() -> None:
    pods = asking(gang("train", 3), IN_CLIQUE)
    script = Script(*cluster("a: 4x8"), *pods)
    others = [script.planned(pod) for pod in pods[1:]]
    free = next(name for name in ("a-0", "a-1", "a-2", "a-3") if name not in map(script.planned, pods))
    script.change(pods[0], node=free)
    assert [script.planned(pod) for pod in pods[1:]] == others
