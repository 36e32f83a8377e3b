"""A gang that cannot be planned gets a reason in words, never a crash, and is planned once the cause is fixed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.events import ClaimSeen
from policies.model import Dialect, GroupRef, Pod, Topology
from policies.model.devices import ClaimUse
from tests.builders import cluster, gang, podgroup, requests
from tests.core.script import Script

CASES: list[tuple[str, Callable[[Pod], Pod], str, str]] = [
    (
        "two minMembers",
        lambda pod: replace(pod, group=GroupRef("train", Dialect.ANNOTATION, 3)),
        "Contradiction",
        "its members have different minMembers: 2, 3",
    ),
    (
        "a member without minMember",
        lambda pod: replace(pod, group=GroupRef("train", Dialect.ANNOTATION)),
        "Contradiction",
        "its members have different minMembers: 2, none",
    ),
    ("two priorities", lambda pod: replace(pod, priority=5), "Contradiction", "different priorities: 0, 5"),
    (
        "two schedulers",
        lambda pod: replace(pod, scheduler="default-scheduler"),
        "Contradiction",
        "different schedulers: default-scheduler, muster",
    ),
    (
        "two dialects",
        lambda pod: replace(pod, group=GroupRef("train", Dialect.COSCHEDULING, 2)),
        "Contradiction",
        "different dialects: annotation, coscheduling",
    ),
    (
        "an unreadable annotation",
        lambda pod: replace(pod, group=GroupRef("train", Dialect.ANNOTATION, None, "min-member is not a number: x")),
        "InvalidPodGroup",
        "pod train-1: min-member is not a number: x",
    ),
    (
        "resource claims",
        lambda pod: replace(pod, device_claims=(ClaimUse("gpu", "", "gpus"),)),
        "ResourceClaims",
        "pod train-1 has ResourceClaims, and there is no DeviceClass",
    ),
    ("an unbound volume", lambda pod: replace(pod, claims=("data",)), "VolumeNotBound", "volume claim data"),
    (
        "a foreign gate",
        lambda pod: replace(pod, gates=("acme/quota",)),
        "Gated",
        "1 of 2 members are gated by acme/quota",
    ),
]


@pytest.mark.parametrize(("what", "spoil", "code", "words"), CASES, ids=[case[0] for case in CASES])
def test_a_gang_that_cannot_be_planned_says_why_and_starts_when_it_is_mended(
    what: str, spoil: Callable[[Pod], Pod], code: str, words: str
) -> None:
    good, bad = gang("train", 2)
    script = Script(*cluster("a: 2x8"), good, spoil(bad))
    assert not script.planned(good), what
    assert (script.reason("train"), words in script.message("train")) == (code, True), script.message("train")
    assert script.filter(good) == ()
    script.advance(3)
    assert [code_told for code_told, _ in script.reports] == [code]
    script.gone(spoil(bad))
    script.see(replace(bad, uid="uid-mended"))
    assert script.planned(good)


def test_a_podgroup_says_the_size_whatever_its_pods_say() -> None:
    pods = [
        replace(pod, group=GroupRef("train", Dialect.KOORDINATOR, 2 + at)) for at, pod in enumerate(gang("train", 2))
    ]
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.message("train") == "its members have different minMembers: 2, 3"
    script.see(podgroup("train", 2, dialect=Dialect.KOORDINATOR))
    assert script.planned(pods[0])


def test_what_a_member_that_runs_has_asked_of_the_topology_contradicts_nobody() -> None:
    pods = [replace(pod, topology=Topology("clique")) for pod in gang("train", 2)]
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods)
    other = replace(pods[0], uid="other", name="other", index=2, topology=Topology())
    small = replace(other, uid="small", name="small", index=3, requests=requests(1), topology=Topology("clique"))
    script.see(other, small)
    assert script.planned(other)
    assert script.planned(small)


def test_a_member_that_others_gate_keeps_no_other_back_once_the_gang_runs() -> None:
    pods = gang("train", 4, min_member=2)
    script = Script(*cluster("a: 4x8"), *pods[:2])
    script.run(pods[:2])
    script.see(replace(pods[2], gates=("acme/quota",)))
    assert "1 more member waits: 1 of 3 members are gated by acme/quota" in script.message("train")
    script.see(pods[3])
    assert script.planned(pods[3])


def test_a_member_that_has_a_node_already_keeps_no_other_back_by_its_claims() -> None:
    bound, other = gang("train", 2)
    script = Script(*cluster("a: 2x8"), replace(bound, node="a-0", device_claims=(ClaimUse("gpu", "", "gpus"),)), other)
    assert script.planned(other)


def test_what_cannot_be_read_of_a_member_that_runs_keeps_no_other_back() -> None:
    pods = gang("train", 3, min_member=2)
    script = Script(*cluster("a: 3x8"), *pods[:2])
    script.run(pods[:2])
    script.change(pods[0], group=GroupRef("train", Dialect.ANNOTATION, None, "min-member is not a number: x"))
    script.see(pods[2])
    assert script.planned(pods[2])


def test_a_gang_that_never_says_its_size_is_not_guessed() -> None:
    pods = [replace(pod, group=GroupRef("train", Dialect.ANNOTATION)) for pod in gang("train", 2)]
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.reason("train") == "MinMemberMissing"
    assert script.message("train") == "no member says muster.dev/min-member: the size of the gang is never guessed"
    assert not script.planned(pods[0])


def test_bound_pods_of_a_gang_that_never_says_its_size_are_not_evicted() -> None:
    pods = [replace(pod, group=GroupRef("train", Dialect.ANNOTATION)) for pod in gang("train", 2)]
    script = Script(*cluster("a: 2x8"), replace(pods[0], node="a-0"), pods[1])
    script.change(pods[1], node="a-1")
    script.advance(300)
    assert not script.evicted


def test_a_volume_claim_that_gets_its_volume_lets_the_gang_start() -> None:
    pods = [replace(pod, claims=("data",)) for pod in gang("train", 2)]
    script = Script(*cluster("a: 2x8"), *pods)
    assert script.reason("train") == "VolumeNotBound"
    script.feed(ClaimSeen("default", "data", bound=True))
    script.advance(0.1)
    assert script.planned(pods[0])


def test_a_contradiction_that_appears_while_binds_are_held_binds_nobody() -> None:
    pods = gang("train", 2)
    odd = replace(gang("train", 3)[2], group=GroupRef("train", Dialect.ANNOTATION, 9))
    script = Script(*cluster("a: 2x8"), *pods)
    script.bind(pods[0], expires_s=10)
    script.see(odd)
    script.bind(pods[1], expires_s=10)
    assert not script.bindings
    script.advance(10)
    assert not script.bound(pods)
    assert script.reason("train") == "Contradiction"


def test_a_member_that_leaves_its_gang_while_held_is_treated_as_gone() -> None:
    """Labels and annotations of a pending pod can be edited."""
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    call = script.bind(pods[0])
    script.change(pods[0], group=GroupRef("other", Dialect.ANNOTATION, 1))
    assert script.answers[call]
    assert script.reason("train") == "MembersMissing"
    assert script.planned(pods[0]), "its new gang is complete"


def test_a_member_that_becomes_a_single_frees_its_promise() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.change(pods[0], group=None)
    assert set(script.filter(pods[0])) == {"a-0", "a-1"}


def test_a_running_gang_that_gets_a_contradicting_member_keeps_running() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 3x8"), *pods)
    script.run(pods)
    script.see(replace(gang("train", 3)[2], group=GroupRef("train", Dialect.ANNOTATION, 9)))
    script.advance(200)
    assert len(script.bound(pods)) == 2
    assert not script.evicted


def test_members_that_say_another_size_one_after_the_other_give_their_room_back_with_the_first() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 3x8"), *pods)
    calls = script.bind_all(pods[:2])
    for number, pod in enumerate(pods):
        group = pod.group
        assert group is not None
        script.change(pod, group=group._replace(min_member=4))
        if not number:
            assert set(calls) <= script.answers.keys()
            assert script.reason("train") == "Contradiction"
    assert (script.reason("train"), script.message("train")) == ("MembersMissing", "3 of 4 members exist")
    others = gang("other", 3)
    script.see(*others)
    assert script.reason("other") == "Placed"
