"""Cliques as a gang meets them: it gets one where that is possible, and what replaces a member stays in it."""

from __future__ import annotations

from dataclasses import replace

from extender.core.engine import Engine
from extender.core.events import Event, NodeSeen, PodSeen, Synced
from policies.api import SortKey, WaitingGang
from policies.chosen import OURS
from policies.model import CLIQUE
from tests.builders import busy, cluster, gang, key, reborn
from tests.core.script import Script


def cliques(script: Script, nodes: list[str]) -> list[str]:
    known = script.core.state.claims.nodes
    return sorted({known[name].labels.get(CLIQUE, "-") for name in nodes})


def test_each_gang_gets_the_clique_that_fits_it_best() -> None:
    large, small = gang("large", 4, created=1), gang("small", 2, created=2)
    script = Script(*cluster("a: 4x8", "b: 3x8"))
    script.see(small)
    script.see(large)
    assert cliques(script, [script.planned(pod) for pod in small]) == ["b"]
    assert cliques(script, [script.planned(pod) for pod in large]) == ["a"]


def test_a_replacement_goes_to_the_clique_of_its_gang_and_not_to_a_tighter_one() -> None:
    pods = gang("train", 3)
    script = Script(*cluster("a: 4x8", "b: 1x8"), *pods)
    script.run(pods)
    again = reborn(pods[2])
    left = next(name for name in ("a-0", "a-1", "a-2", "a-3") if name not in script.bound(pods))
    # Its own node is taken over by somebody else; the whole clique b would be the tighter fit.
    lost = script.bound(pods[2:])[0]
    script.gone(pods[2])
    script.see(busy(lost, 8), again)
    assert script.planned(again) == left


def test_a_gang_that_fits_in_no_clique_still_starts() -> None:
    pods = gang("train", 5)
    script = Script(*cluster("a: 3x8", "b: 3x8"), *pods)
    script.run(pods)
    assert cliques(script, script.bound(pods)) == ["a", "b"]


class ByName:
    """Serves gangs by their name."""

    def order(self, gang: WaitingGang) -> SortKey:
        return (gang.key.name,)


def test_the_policies_that_the_core_is_given_are_in_force() -> None:
    core = Engine(policies=replace(OURS, queue=ByName()))
    pods = [*gang("z", 1, created=1), *gang("y", 1, created=2)]
    events: list[Event] = [*map(NodeSeen, cluster("a: 1x8")), *map(PodSeen, pods), Synced()]
    for event in events:
        core.handle(event, 0.0)
    assert core.state.workloads[key("y")].placement
    assert not core.state.workloads[key("z")].placement
