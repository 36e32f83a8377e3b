"""A PodGroup that is made anew under its name is another gang: what an earlier one has begun, bound or finished."""

from __future__ import annotations

import pytest

from extender.core.answers import Outcome
from extender.core.events import GroupGone
from policies.model import Dialect
from tests.builders import cluster, coscheduled, podgroup
from tests.core.script import Script


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


def test_a_podgroup_that_is_gone_again_before_a_release_is_over_is_none() -> None:
    group, pods = coscheduled("train", 2)
    script = Script(*cluster("a: 2x8"), group, *pods)
    script.bind_all(pods)
    script.feed(GroupGone(group.key, group.uid))
    script.see(fresh := podgroup("train", 2, uid="second"))
    script.feed(GroupGone(fresh.key, fresh.uid))
    script.post_all()
    assert (script.reason("train"), script.message("train")) == ("Running", "2 members are bound")


def test_doubtful_bindings_of_an_earlier_podgroup_go_on_as_those_of_that() -> None:
    """Some of them may have been written, and others are being written still."""
    group, pods = coscheduled("train", 5)
    script = Script(*cluster("a: 5x8"), group, *pods)
    script.bind_all(pods)
    doubtful = list(script.bindings.values())[:3]
    script.see(podgroup("train", 4, uid="second"))
    for one in doubtful:
        script.feed_outcome(one.uid, Outcome.UNKNOWN)
    for one in doubtful:
        script.bind(script.pods[one.uid], one.node)
    script.post_all()
    assert {one.stamp.gang for one in script.core.state.pods.values() if one.stamp} == {group.uid}
    assert script.message("train") == "0 of 4 members exist; 5 pods belong to an earlier PodGroup of this name"
