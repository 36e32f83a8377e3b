"""A rolling update changes the declarations of new members, beside others that run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Dialect, GroupRef, Pod, Topology
from tests.builders import cluster, gang
from tests.core.script import Script


def sized(pod: Pod, size: int | None, **facts: object) -> Pod:
    """A pod of the next revision."""
    ref = GroupRef("train", Dialect.ANNOTATION, size)
    named = replace(pod, uid=f"{pod.uid}-new", name=f"{pod.name}-new", node=None, stamp=None, group=ref, created=9.0)
    return replace(named, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 3, 4])
def test_a_new_minmember_is_rolled_out_member_by_member(size: int) -> None:
    """A StatefulSet of three, one replaced after the other: each new one waits until it is bound."""
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods)
    for pod in pods:
        script.gone(script.pods[pod.uid])
        new = sized(pod, size)
        script.see(new)
        assert script.reason("train") != "Contradiction"
        script.run([new])
        assert script.bound([new])
    script.advance(300)
    assert not script.evicted
    assert script.gang("train").min_member == size


def test_those_that_run_do_not_contradict_those_that_wait() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods)
    script.gone(script.pods[pods[1].uid])
    new = sized(pods[1], 2, priority=7, topology=Topology(required="clique"))
    script.see(new)
    script.run([new])
    assert script.bound([new])


def test_those_that_wait_must_agree() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods)
    for pod, size in zip(pods[:2], (3, 4), strict=True):
        script.gone(script.pods[pod.uid])
        script.see(sized(pod, size))
    assert script.reason("train") == "Contradiction"
    assert script.message("train") == "its members have different minMembers: 3, 4"


def test_a_gang_that_runs_says_what_its_newest_member_says() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 4x8"), *pods)
    script.run(pods)
    new = sized(pods[0], 5)
    script.see(new)
    script.run([new])
    again = Script(*cluster("a: 4x8"), *script.pods.values(), now=script.now)
    for core in (script, again):
        core.advance(300)
        assert core.gang("train").min_member == 5
        assert not core.evicted
