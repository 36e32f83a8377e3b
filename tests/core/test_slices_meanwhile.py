"""What changes while a plan is made in slices is seen."""

from __future__ import annotations

from dataclasses import replace

from extender.core.effects import Nominate, Ungate
from extender.core.events import BindArrived, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from extender.core.limits import Limits
from policies.model import GANG_GATE, Node, Pod
from tests.builders import cluster, gang, node, single
from tests.core.invariants import validate
from tests.core.script import Script
from tests.core.sliced import ONE, appear, choosy, step, until_walking


def half_planned(*facts: Node | Pod, pods: list[Pod]) -> Script:
    """The gang's plan is being made."""
    script = Script(*facts, limits=ONE)
    appear(script, pods)
    until_walking(script)
    for _ in range(6):
        step(script)
    assert not any(map(script.planned, pods))
    assert script.core.passes[1]
    return script


def test_room_that_is_taken_while_a_plan_is_made_is_not_promised() -> None:
    pods = choosy("train", 2, gpus=8)
    script = half_planned(*cluster("a: 2x8", "b: 2x8"), pods=pods)
    script.see(*(single(f"busy-{name}", gpus=8, node=name) for name in ("a-0", "b-1")))
    script.advance(1)
    assert sorted(map(script.planned, pods)) == ["a-1", "b-0"]


def test_a_node_that_goes_while_a_plan_is_made_is_not_promised() -> None:
    pods = choosy("train", 2, gpus=8)
    script = half_planned(*cluster("a: 2x8", "b: 2x8"), pods=pods)
    script.feed(NodeGone("a-0"))
    script.feed(NodeSeen(node("c-0", clique="c")))
    script.advance(1)
    assert sorted(map(script.planned, pods)) == ["b-0", "b-1"]


def test_a_member_that_goes_while_a_plan_is_made_is_promised_nothing() -> None:
    pods = choosy("train", 3, gpus=8)
    script = half_planned(*cluster("a: 4x8"), pods=pods)
    script.gone(pods[0])
    script.advance(1)
    assert script.reason("train") == "MembersMissing"
    assert not script.core.state.claims.promised_nodes


def test_room_that_comes_while_a_plan_is_made_is_found() -> None:
    pods = choosy("train", 2, gpus=8)
    busy = single("busy", gpus=8, node="a-0")
    script = half_planned(*cluster("a: 2x8"), busy, pods=pods)
    script.gone(busy)
    script.advance(3)
    assert sorted(map(script.planned, pods)) == ["a-0", "a-1"]


def large(count: int = 250) -> list[Pod]:
    return gang("large", count, gpus=1, gates=(GANG_GATE,))


def half_promised(script: Script, pods: list[Pod]) -> None:
    appear(script, pods)
    while not 0 < len(script.gang("large").placement) < len(pods):
        step(script)


def test_no_gate_comes_off_before_every_member_has_its_node() -> None:
    pods = large()
    script = Script(*cluster("a: 40x8"), limits=ONE, checked=50)
    half_promised(script, pods)
    assert not any(isinstance(effect, Ungate) for effect in script.effects)
    script.advance(5)
    assert all(map(script.planned, pods))
    assert sum(isinstance(effect, Ungate) for effect in script.effects) == len(pods)
    assert script.reason("large") == "Placed"


def test_a_gang_that_loses_a_member_while_it_is_promised_its_nodes_gives_them_back() -> None:
    pods = large()
    script = Script(*cluster("a: 40x8"), limits=ONE, checked=50)
    half_promised(script, pods)
    script.feed(PodGone(pods[0].uid))
    script.advance(5)
    assert not script.gang("large").placement
    assert not script.core.state.claims.promised_nodes
    assert script.reason("large") == "MembersMissing"


def test_room_that_is_taken_from_a_gang_that_is_promised_its_nodes_is_looked_for_again() -> None:
    pods = large(160)
    script = Script(*cluster("a: 30x8"), limits=ONE, checked=50)
    half_promised(script, pods)
    free = [name for name in script.core.state.claims.nodes if name not in script.core.state.claims.promised_nodes]
    script.see(*(single(f"busy-{name}", gpus=8, node=name) for name in free[:8]))
    script.advance(5)
    assert all(map(script.planned, pods))
    validate(script.core.state)


def nominated(pods: list[Pod], *nodes: str) -> list[Pod]:
    return [replace(pod, nominated_node=name) for pod, name in zip(pods, nodes, strict=True)]


def restarted(limits: Limits) -> Script:
    """A running gang, one that was nominated, one whose nominations fit no more, and one that waits."""
    running = [replace(pod, node=name) for pod, name in zip(gang("runs", 2), ("a-0", "a-1"), strict=True)]
    led = nominated(gang("led", 2), "b-0", "b-1")
    misled = nominated(gang("misled", 2), "a-0", "gone")
    script = Script(*cluster("a: 4x8", "b: 4x8"), limits=limits, synced=False)
    appear(script, [*running, *led, *misled, *gang("waits", 20)])
    return script


def test_a_restart_is_taken_in_in_slices() -> None:
    script = restarted(ONE)
    script.feed(Synced())
    state = script.core.state
    assert not state.recovered
    script.feed(BindArrived(1, "uid-led-0", "default", "led-0", "b-0", script.now + 60))
    assert script.answers[1] == "Muster is starting; try again"
    while not state.recovered:
        assert script.reason("waits") == "New", "nobody is planned anew before what was promised is known"
        step(script)
    assert dict(script.gang("led").placement) == {"uid-led-0": "b-0", "uid-led-1": "b-1"}
    script.advance(5)
    at_once = restarted(Limits())
    at_once.feed(Synced())
    at_once.advance(5)
    for name in ("runs", "led", "misled", "waits"):
        assert script.reason(name) == at_once.reason(name)
        assert script.gang(name).placement == at_once.gang(name).placement
    assert script.gang("misled").placement


def test_what_happens_in_the_middle_of_a_restart_is_seen() -> None:
    script = restarted(ONE)
    script.feed(Synced())
    script.feed(PodGone("uid-runs-1"))
    script.feed(PodSeen(single("taken", gpus=8, node="b-0")))
    script.feed(PodSeen(gang("runs", 3, min_member=2)[2]))
    assert script.gang("runs").release.complete, "it ran before, and has lost a member since"
    script.advance(5)
    assert script.core.state.recovered
    assert "b-0" not in script.gang("led").placement.values()
    assert all(script.gang(name).placement for name in ("led", "misled"))
    assert script.planned(gang("runs", 3)[2])


def test_a_nomination_is_written_once_for_each_member() -> None:
    pods = large(210)
    script = Script(*cluster("a: 40x8"), limits=ONE, checked=50)
    script.see(*pods)
    script.advance(5)
    written = [effect.uid for effect in script.effects if isinstance(effect, Nominate)]
    assert sorted(written) == sorted(pod.uid for pod in pods)


def test_room_that_comes_back_after_a_gang_was_looked_at_is_news_to_it() -> None:
    """Less was free when it was looked at than at the beginning of that pass."""
    small, large = single("small", gpus=1, node="a-0"), single("large", gpus=7, node="a-0")
    pods = choosy("train", 1, gpus=7)
    script = Script(*cluster("a: 1x8"), small, limits=ONE)
    appear(script, [*choosy("first", 16, terms=100), *pods])
    until_walking(script)
    for event in (PodGone(small.uid), PodSeen(large)):
        script.feed(event)
    while script.reason("train") != "NoRoom":
        step(script)
    script.feed(PodGone(large.uid))
    script.advance(5)
    assert script.planned(pods[0]) == "a-0"
