"""Members of a ReplicaSet are bound with the cost of removing them: a gang that is scaled down keeps whole domains."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import PostBinding
from extender.core.gate.stamps import COST
from policies.model import Pod
from tests.builders import cluster, gang
from tests.core.levels import blocks, homes
from tests.core.script import Script


def replicas(size: int, *, min_member: int = 1, life: str = "") -> list[Pod]:
    pods = gang("web", size, min_member=min_member, life=life)
    return [replace(pod, index=None, removed_by_cost=True) for pod in pods]


def costs(script: Script) -> dict[str, int]:
    return {effect.uid: int(effect.annotations[COST]) for effect in script.effects if isinstance(effect, PostBinding)}


def kept(script: Script, pods: list[Pod], count: int) -> list[Pod]:
    """The pods that a ReplicaSet keeps when ``count`` are to stay."""
    by_uid = costs(script)
    return sorted(sorted(pods, key=lambda pod: by_uid[pod.uid])[-count:], key=lambda pod: pod.name)


def test_whoever_is_in_the_domain_with_the_fewest_members_goes_first() -> None:
    pods = replicas(6, min_member=6)
    script = Script(*cluster("a: 2x8", "b: 1x8", "c: 3x8"), *pods)
    script.run(pods)
    assert [homes(script, kept(script, pods, count)) for count in (5, 3, 2)] == ["c c c a a", "c c c", "c c"]


def test_the_widest_level_counts_first() -> None:
    pods = replicas(7, min_member=7)
    script = Script(*blocks("x a: 3x8", "y b: 2x8", "y c: 2x8"), *pods)
    script.run(pods)
    assert sorted(homes(script, kept(script, pods, 4)).split()) == ["b", "b", "c", "c"]


def test_of_one_domain_the_highest_rank_goes_first() -> None:
    pods = replicas(3)
    script = Script(*cluster("a: 3x8"), *pods)
    script.run(pods)
    assert kept(script, pods, 2) == pods[:2]


def test_members_that_are_there_count_for_those_that_come() -> None:
    pods, more = replicas(2), replicas(3, life="-more")
    script = Script(*cluster("a: 2x8", "b: 3x8"), *pods)
    script.run(pods)
    assert homes(script, pods) == "a a"
    more = [replace(pod, name=f"more-{number}") for number, pod in enumerate(more)]
    script.see(more)
    script.run(more)
    by_uid = costs(script)
    assert sorted(by_uid[pod.uid] for pod in more) == [3, 4, 5], "the domain of those that are there is the smaller one"


def test_who_is_not_removed_by_cost_gets_none() -> None:
    pods = gang("train", 2)
    script = Script(*cluster("a: 2x8"), *pods)
    script.run(pods)
    assert not any(COST in effect.annotations for effect in script.effects if isinstance(effect, PostBinding))
