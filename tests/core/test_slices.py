"""Planning in slices: each is bounded whatever pods say, others come in between, and what they change is seen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.limits import Limits
from policies.model import Pod, Topology
from tests.builders import cluster, gang
from tests.core.invariants import validate
from tests.core.script import Script
from tests.core.sliced import NODES, appear, choosy, pinned, step, ticks, until_walking


def test_a_gang_of_too_many_shapes_is_told_so_with_the_limit() -> None:
    script = Script(*cluster("a: 4x8"), *choosy("odd", 5), limits=Limits(shapes=4))
    assert script.reason("odd") == "TooManyShapes"
    assert "5 different shapes" in script.message("odd")
    assert "may have at most 4 (max_gang_shapes)" in script.message("odd")
    script.see(*choosy("fine", 4, gpus=8))
    assert script.reason("fine") == "Placed"


def test_pins_are_no_shapes() -> None:
    """A plan that was forgotten leaves each member pinned to its node."""
    pods = pinned(gang("pinned", 3), "a-2", "a-0", "a-1")
    script = Script(*cluster("a: 4x8"), *pods, limits=Limits(shapes=2))
    assert [script.planned(pod) for pod in pods] == ["a-2", "a-0", "a-1"]
    full = pinned(gang("late", 3), "a-3", "a-1", "a-2")
    script.see(full)
    assert script.reason("late") == "NoRoom"
    assert script.message("late").startswith(
        "1 of 3 members fit at once: the others are pinned to, or have volumes on, nodes that are full"
    )


def test_pinned_members_and_others_are_placed_together() -> None:
    pods = gang("mixed", 4, gpus=4)
    pods = [*pinned(pods[:3], "a-0", "a-0", "b-0"), pods[3]]
    script = Script(*cluster("a: 1x8", "b: 2x8"), *pods, limits=Limits(shapes=2))
    assert [script.planned(pod) for pod in pods[:3]] == ["a-0", "a-0", "b-0"]
    assert script.planned(pods[3]) == "b-0"


def test_pinned_members_do_not_break_what_they_require() -> None:
    pods = [replace(pod, topology=Topology("clique")) for pod in pinned(gang("apart", 3), "a-0", "a-1", "b-0")]
    script = Script(*cluster("a: 2x8", "b: 2x8"), *pods, limits=Limits(shapes=2))
    assert script.reason("apart") == "NoRoom"
    assert not any(map(script.planned, pods))


@pytest.mark.parametrize(
    "pods",
    [
        choosy("odd", 16, terms=120),
        choosy("odd", 16, terms=120, gpus=1),
        choosy("many", 300, terms=60),
        gang("large", 1500, gpus=1),
        gang("large", 1500, gpus=9),
        [replace(pod, topology=Topology("clique")) for pod in gang("close", 1000, gpus=1)],
    ],
    ids=["no room", "room", "too many", "large", "large, no room", "a clique"],
)
def test_no_slice_is_long(pods: list[Pod]) -> None:
    script = Script(*NODES, checked=10_000)
    script.see(gang("first", 2))
    appear(script, pods)
    counted = ticks(script)
    assert max(counted) < 16_000
    assert script.reason(pods[0].group_key.name if pods[0].group_key else "") in ("Placed", "NoRoom", "TooManyShapes")
    validate(script.core.state)


def test_one_namespace_leaves_a_pass_to_the_others() -> None:
    crowd = [choosy(f"odd{number:02}", 16, terms=100, namespace="greedy") for number in range(40)]
    limits = Limits(excess_units=5000)
    script = Script(*cluster("a: 6x8", "b: 6x8"), limits=limits, checked=10_000)
    for pods in crowd:
        appear(script, pods)
    until_walking(script)
    modest = gang("modest", 2)
    appear(script, modest)
    slices = 0
    while not script.planned(modest[0]):
        step(script)
        slices += 1
    greedy = [gang for key, gang in script.core.state.workloads.items() if key.namespace == "greedy"]
    looked_at = sum(gang.telling.reason.code == "NoRoom" for gang in greedy)
    assert looked_at < 20
    assert slices * limits.slice_units < 60_000
    script.advance(5)
    assert {gang.telling.reason.code for gang in greedy} == {"NoRoom"}, "all are looked at in the end"
