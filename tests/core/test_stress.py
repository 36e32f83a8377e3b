"""The permit gate under load: thousands of binds held at once, and what happens to some of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from extender.core.answers import Outcome
from extender.core.effects import Nominate, PostBinding, Wake
from extender.core.events import BindArrived
from policies.model import Pod
from tests.builders import cluster, gang, reborn, single
from tests.core.invariants import validate
from tests.core.script import Script

GANGS, SIZE = 40, 64
LISTENS_S = 60.0


def team(number: int) -> list[Pod]:
    """The gang of that number: 64 pods of one GPU, two to a clique of 16 nodes."""
    return gang(f"gang{number:02}", SIZE, gpus=1, created=float(number))


def nearly_all_held(apart_s: float = 0.0) -> Script:
    """40 gangs, of each all binds but the last are held; each gang came ``apart_s`` after the one before."""
    nodes = cluster(*(f"c{number:02}: 16x8" for number in range(GANGS // 2 + 1)))
    script = Script(*nodes, *(pod for number in range(GANGS) for pod in team(number)), checked=2000)
    for number in range(GANGS):
        script.bind_all(team(number)[:-1], expires_s=LISTENS_S)
        script.now += apart_s
    assert not script.bindings
    assert not script.answers
    return script


@pytest.fixture
def held() -> Script:
    return nearly_all_held()


def test_each_gang_is_released_in_one_go_when_its_last_member_arrives(held: Script) -> None:
    for number in reversed(range(GANGS)):
        before = len(held.effects)
        held.bind(team(number)[-1])
        released = [effect.uid for effect in held.effects[before:] if isinstance(effect, PostBinding)]
        assert released == [pod.uid for pod in team(number)[:-1]]
    while held.bindings:
        # At once: a Binding that takes longer than the last bind is listened to would have that answered.
        held.post(held.pods[next(iter(held.bindings))], seen=False)
    validate(held.core.state)
    for number in range(GANGS):
        assert len(held.bound(team(number))) == SIZE
        assert held.reason(f"gang{number:02}") == "Running"
    assert set(held.answers.values()) == {""}
    assert len(held.answers) == GANGS * SIZE


def test_each_gang_has_the_deadline_of_its_own_first_hold() -> None:
    held = nearly_all_held(apart_s=0.25)
    failed: dict[str, float] = {}
    while len(failed) < GANGS:
        held.advance(0.05)
        for number in range(GANGS):
            if not held.gang(f"gang{number:02}").members.holds:
                failed.setdefault(f"gang{number:02}", held.now)
    instants = [failed[f"gang{number:02}"] for number in range(GANGS)]
    assert all(0.19 < later - sooner < 0.31 for sooner, later in pairwise(instants)), "as far apart as they came"
    assert not held.bindings
    assert len(held.answers) == GANGS * (SIZE - 1)
    assert all("only 63 of 64 members reached bind before the deadline" in error for error in held.answers.values())


def test_no_binding_is_asked_for_that_could_not_end_in_time() -> None:
    script = Script(*cluster("c: 16x8"), *team(0), checked=50)
    script.bind_all(team(0)[:-1], expires_s=LISTENS_S)
    script.now += LISTENS_S - 2.5
    script.feed(
        BindArrived(999, team(0)[-1].uid, "default", team(0)[-1].name, script.planned(team(0)[-1]), script.now + 60)
    )
    assert not script.bindings
    assert all("too late" in error for error in script.answers.values())
    assert len(script.answers) == SIZE


@pytest.mark.parametrize("how", ["deleted", "preempted", "failed"])
def test_a_held_member_that_goes_fails_its_own_gang_and_no_other(held: Script, how: str) -> None:
    victim = held.pods[team(7)[20].uid]
    if how == "deleted":
        held.gone(victim)
    else:
        held.change(victim, **({"deleting": True} if how == "preempted" else {"phase": "Failed"}))
    assert len(held.answers) == SIZE - 1
    assert all(held.answers.values())
    for number in range(GANGS):
        assert len(held.gang(f"gang{number:02}").members.holds) == (0 if number == 7 else SIZE - 1)
    held.see(reborn(victim))
    everybody = [pod for pod in team(7) if pod.uid != victim.uid] + [reborn(victim)]
    held.run(everybody)
    assert len(held.bound(everybody)) == SIZE


def test_a_node_lost_while_all_are_held_moves_the_gangs_on_it_and_no_other(held: Script) -> None:
    node = held.planned(team(3)[0])
    hit = [number for number in range(GANGS) if node in held.gang(f"gang{number:02}").placement.values()]
    assert 3 in hit
    held.drop(node)
    assert len(held.answers) == len(hit) * (SIZE - 1)
    assert all(node in error for error in held.answers.values())
    for number in range(GANGS):
        assert held.gang(f"gang{number:02}").members.holds or number in hit
    for number in hit:
        assert all(held.planned(pod) not in ("", node) for pod in team(number))
        held.run(team(number))
        assert len(held.bound(team(number))) == SIZE


def test_every_call_is_answered_once_when_all_give_up_at_once(held: Script) -> None:
    for call in list(held.core.state.binds.held):
        held.disconnect(call)
    assert not held.answers, "nobody listens any more"
    held.advance(30)
    assert not held.core.state.binds.held
    assert not held.bindings


def test_members_beyond_the_quorum_are_bound_when_they_come() -> None:
    pods = gang("elastic", SIZE, gpus=1, min_member=32)
    script = Script(*cluster("c: 16x8"), *pods, checked=50)
    script.bind_all(pods[:32])
    first = list(script.bindings)
    assert len(first) == 31, "the last of the quorum comes when the others are in"
    script.bind_all(pods[32:48])
    assert len(script.bindings) == 31 + 16, "who comes during the release goes with it"
    script.post_all()
    for pod in pods[48:]:
        script.bind(pod)
        assert list(script.bindings) == [pod.uid], "who comes later goes at once"
        script.post_all()
    assert len(script.bound(pods)) == SIZE


def test_replacements_of_a_running_gang_need_no_quorum_and_go_back_to_its_clique() -> None:
    pods = gang("train", SIZE, gpus=1)
    other = [replace(single(f"other{number}", gpus=4), node=f"b-{number}") for number in range(16)]
    script = Script(*cluster("a: 16x8", "b: 16x8"), *other, *pods, checked=50)
    script.run(pods)
    (home,) = {node[0] for node in script.bound(pods)}
    lost = [script.pods[pod.uid] for pod in pods[10:14]]
    script.gone(*lost)
    for pod in lost:
        replacement = reborn(pod)
        script.see(replacement)
        assert script.planned(replacement).startswith(home)
        script.bind(replacement)
        assert list(script.bindings) == [replacement.uid]
        script.post_all()
    assert script.reason("train") == "Running"


def test_lost_responses_are_settled_by_looking(held: Script) -> None:
    pods = team(5)
    held.bind(pods[-1])
    lost = list(held.bindings.values())[::7]
    for binding in lost:
        held.feed_outcome(binding.uid, Outcome.UNKNOWN)
    held.post_all()
    assert len(held.bound(pods)) == SIZE - 1 - len(lost)
    for binding in lost:
        held.change(held.pods[binding.uid], node=binding.node, nominated_node=None)
    held.post_all()
    assert len(held.bound(pods)) == SIZE
    assert held.reason("gang05") == "Running"


def test_a_pod_is_written_to_at_most_twice_for_one_change_of_the_cluster(held: Script) -> None:
    """Each write wakes it. A lost node clears the nominations of a gang and renews them, and that is all."""
    node = held.planned(team(3)[0])
    before = len(held.effects)
    held.drop(node)
    held.advance(1)
    writes = Counter(effect.uid for effect in held.effects[before:] if isinstance(effect, Nominate | Wake))
    assert writes
    assert max(writes.values()) <= 2
    assert all(uid in held.core.state.pods for uid in writes)


def test_gangs_that_wait_are_not_written_to_while_others_come_and_go() -> None:
    waiting = [pod for number in range(20) for pod in gang(f"big{number}", 8)]
    busy = [single(f"busy{number}", gpus=8, node=f"a-{number}") for number in range(4)]
    script = Script(*cluster("a: 4x8"), *busy, *waiting, checked=50)
    script.advance(5)
    texts = {script.filtered(pod).reason for pod in waiting}
    before = len(script.effects)
    for number in range(50):
        passing = single(f"passing{number}", gpus=0, node=f"a-{number % 4}")
        script.see(passing)
        script.gone(passing)
    script.gone(busy[0])
    script.advance(5)
    texts |= {script.filtered(pod).reason for pod in waiting}
    assert len(texts) == 1, "another text would make kube-scheduler try again"
    assert not [effect for effect in script.effects[before:] if isinstance(effect, Nominate | Wake)]
