"""Native groups (``spec.schedulingGroup``): kube-scheduler starts them, and asks as often as it likes."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import Ungate
from extender.core.events import NativeGangGone, NativeGangSeen
from policies.model import GANG_GATE, GroupKey, Pod
from tests.builders import cluster, gang, single
from tests.core.script import Script


def group(name: str, size: int) -> list[Pod]:
    return [single(f"{name}-{at}", gpus=8, native_group=name) for at in range(size)]


def test_a_clique_that_holds_the_whole_group_goes_before_all_others() -> None:
    small, large = group("small", 2), group("large", 3)
    script = Script(*cluster("a: 2x8", "b: 4x8"), *small, *large)
    ask = script.core.prioritize
    near, far = ask(small[0], ["a-0", "b-0"])
    assert near > far
    near, far = ask(large[0], ["b-0", "a-0"])
    assert near > far


def test_members_that_are_bound_draw_the_others() -> None:
    first, second = group("pair", 2)
    script = Script(*cluster("a: 2x8", "b: 4x8"), first, second)
    before = script.core.prioritize(second, ["a-0", "b-1"])
    script.see(replace(first, node="b-0"))
    after = script.core.prioritize(second, ["a-0", "b-1"])
    assert before[0] > before[1]
    assert after[1] > after[0]


def test_a_member_that_ends_or_goes_is_counted_no_more() -> None:
    pods = group("train", 3)
    script = Script(*cluster("a: 2x8", "b: 3x8"), *pods)
    assert script.core.prioritize(pods[0], ["a-0", "b-0"]) == [6, 10]
    script.gone(pods[2])
    assert script.core.prioritize(pods[0], ["a-0", "b-0"]) == [10, 6]
    script.see(replace(pods[1], phase="Failed"))
    assert script.core.state.singles.natives.placed(pods[0]) == (1, [])


def test_groups_of_one_name_in_two_namespaces_are_two() -> None:
    here, there = group("train", 2), [replace(pod, namespace="b", uid=f"b-{pod.uid}") for pod in group("train", 5)]
    script = Script(*cluster("a: 2x8", "b: 6x8"), *here, *there)
    assert script.core.prioritize(here[0], ["a-0", "b-0"]) == [10, 6]


def of_job(name: str, size: int, group: str = "", **facts: object) -> list[Pod]:
    """Pods whose Job has a PodGroup of its own."""
    made = gang(group, size, gpus=8) if group else [single(f"{name}-{at}", gpus=8) for at in range(size)]
    return [replace(pod, job_group=f"{name}-x1-{name}-pgt-0-x2", **facts) for pod in made]  # type: ignore[arg-type]


def native_gang(name: str) -> NativeGangSeen:
    return NativeGangSeen(GroupKey("default", f"{name}-x1-{name}-pgt-0-x2"), "group")


def test_a_basic_group_of_a_job_changes_nothing() -> None:
    """Promised room is closed to its pods, and members of a gang are planned, as without the group."""
    ours, alone = of_job("train", 2, "train"), of_job("other", 1)
    script = Script(*cluster("a: 2x8"), *ours)
    assert all(map(script.planned, ours))
    script.see(*alone)
    assert script.filter(alone[0]) == ()


def test_a_job_that_asks_for_a_native_gang_passes_through() -> None:
    gated = of_job("native", 2, "native", gates=(GANG_GATE,))
    script = Script(*cluster("a: 2x8"))
    script.feed(native_gang("native"))
    script.see(*gated)
    assert [effect.name for effect in script.effects if isinstance(effect, Ungate)] == [pod.name for pod in gated]
    assert not any(map(script.planned, gated))
    assert script.filter(gated[0]) == ("a-0", "a-1")


def test_a_native_gang_that_is_seen_after_its_pods_is_taken_out_of_the_plan() -> None:
    pods = of_job("native", 2, "native", gates=(GANG_GATE,))
    script = Script(*cluster("a: 2x8"), *pods)
    script.feed(native_gang("native"))
    assert script.core.state.singles.natives.placed(replace(pods[0], native_group=pods[0].job_group)) == (2, [])
    assert not any(map(script.planned, pods))
    assert not script.core.state.workloads


def test_a_gang_that_is_gone_says_nothing_of_the_next_of_its_name() -> None:
    seen = native_gang("train")
    script = Script(*cluster("a: 2x8"))
    script.feed(seen)
    script.feed(NativeGangGone(seen.key, "another"))
    assert script.core.state.singles.natives.gangs == {seen.key: "group"}
    script.feed(NativeGangGone(seen.key, seen.uid))
    pods = of_job("train", 2, "train")
    script.see(*pods)
    assert all(map(script.planned, pods))


def test_asking_leaves_no_trace() -> None:
    """kube-scheduler calls filter and prioritize on trial, and takes it back without a word."""
    pods, others = group("native", 2), gang("train", 2, gpus=8)
    script = Script(*cluster("a: 2x8", "b: 2x8"), *pods)
    before = script.core.state.claims.snapshot().free.copy()
    for _ in range(3):
        for pod in pods:
            assert script.filter(pod) == ("a-0", "a-1", "b-0", "b-1")
            script.core.prioritize(pod, ["a-0", "b-0"])
    assert (script.core.state.claims.snapshot().free == before).all()
    assert not script.core.state.blocked_singles.pods
    script.see(*others)
    assert all(map(script.planned, others))
