"""A member has one state. Muster's decisions follow a table; the API server's facts take precedence."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from extender.core.effects import AnswerBind
from extender.core.workload.members import LEGAL, PLACED, IllegalTransitionError, Members, MemberState
from extender.core.workload.release import Hold
from extender.core.workload.slots import Stage
from tests.builders import cluster, gang
from tests.core.script import Script

WAITING, BOUND, DONE = MemberState.WAITING, MemberState.BOUND, MemberState.DONE


def members_in(state: MemberState) -> Members:
    """A set of one member, which has reached that state in legal steps."""
    (pod,) = gang("train", 1)
    members = Members()
    shown = {BOUND: replace(pod, node="a"), DONE: replace(pod, deleting=True)}
    members.put(shown.get(state, pod))
    member = members[pod.uid]
    members.show(member)
    paths = {
        MemberState.ASSUMED: [MemberState.ASSUMED],
        MemberState.HELD: [MemberState.ASSUMED, MemberState.HELD],
        MemberState.BINDING: [MemberState.ASSUMED, MemberState.BINDING],
        MemberState.UNKNOWN: [MemberState.ASSUMED, MemberState.BINDING, MemberState.UNKNOWN],
    }
    for step in paths.get(state, []):
        if step is MemberState.HELD:
            members.hold(member, Hold(1, "a", 0.0, 60.0))
        else:
            members.move(member, step, "a")
    assert member.state is state
    return members


@pytest.mark.parametrize(("before", "after"), list(product(MemberState, MemberState)))
def test_only_the_steps_of_the_table_are_legal(before: MemberState, after: MemberState) -> None:
    members = members_in(before)
    (member,) = members
    if after in LEGAL[before]:
        members.move(member, after, "a")
        assert member.state is after
        assert bool(member.node) is (after in PLACED)
    else:
        with pytest.raises(IllegalTransitionError, match=f"from {before.value} to {after.value}"):
            members.move(member, after, "a")
        assert member.state is before, "nothing is half done"


@pytest.mark.parametrize("before", MemberState)
def test_what_the_api_server_shows_goes_before_every_decision(before: MemberState) -> None:
    members = members_in(before)
    (member,) = members
    live = replace(member.pod, node=None, deleting=False)
    members.put(replace(live, node="b"))
    members.show(member)
    assert (member.state, member.node, members.slots.reached(Stage.BOUND)) == (BOUND, "", 1)
    members.put(live)
    members.show(member)
    assert (member.state, members.slots.reached(Stage.BOUND)) == (WAITING, 0)


def test_a_pod_that_is_being_bound_while_it_is_deleted_is_being_bound() -> None:
    """The room is not free before the outcome of the Binding is known."""
    members = members_in(MemberState.BINDING)
    (member,) = members
    members.put(replace(member.pod, deleting=True))
    members.show(member)
    assert (member.state, member.node) == (MemberState.BINDING, "a")


def test_an_illegal_step_ends_with_the_story_of_the_gang(monkeypatch: pytest.MonkeyPatch) -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind(pods[0])
    illegal = {**LEGAL, MemberState.HELD: ()}
    monkeypatch.setattr("extender.core.workload.members.LEGAL", illegal)
    with pytest.raises(IllegalTransitionError) as raised:
        script.bind(pods[1])
    assert "Placed: 2 members have a node" in "".join(raised.value.__notes__)
    assert not any(isinstance(effect, AnswerBind) for effect in script.effects)
