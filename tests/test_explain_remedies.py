"""The remedies of muster explain are true of every gang: the holders that it says to wait for are enough, and each is
needed. Where it counts nodes, as many are enough, and fewer are not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations_with_replacement
from random import Random
from typing import Any

import pytest

from policies.model import CLIQUE, Node, Pod, Topology
from policies.placement.place import Placed, place, placing
from tests.builders import busy, cluster, gang, node, requests, single, snapshot
from tests.explaining import CLIQUE_ONLY, explained

ZONE = "topology.kubernetes.io/zone"
SLICES = Topology(slice_size=2, slice_level="clique")


def starts(members: Sequence[Pod], nodes: list[Node], there: Sequence[Pod]) -> bool:
    return isinstance(place(members, len(members), snapshot(nodes, *there)), Placed)


def test_whom_a_sliced_gang_waits_for_is_counted_in_whole_slices() -> None:
    nodes, there = cluster("a: 3x8", "b: 3x8"), busy("a-0 a-1 b-0 b-1", 8)
    explanation = explained("wait", *nodes, *there, *gang("wait", 4, topology=SLICES))
    assert explanation.remedies[0] == (
        "wait for pod default/busy-a-0 and pod default/busy-b-0 to finish: that frees enough in the cluster"
    )


def test_whom_a_leader_and_its_workers_wait_for_is_counted_for_all_of_them() -> None:
    leader, *workers = gang("wait", 3, topology=CLIQUE_ONLY)
    members = [replace(leader, requests=requests(4, cpu=2)), *workers]
    explanation = explained("wait", *cluster("a: 3x8"), *busy("a-0 a-1", 8), *members)
    assert explanation.remedies == [
        "wait for pod default/busy-a-0 and pod default/busy-a-1 to finish: that frees enough in clique a",
        "at least 1 more node with 8 GPUs free in clique a",
    ]


def test_roles_that_never_fit_beside_each_other_are_told_so() -> None:
    leader, worker = gang("wait", 2, topology=CLIQUE_ONLY)
    explanation = explained("wait", *cluster("a: 1x8"), replace(leader, requests=requests(2, cpu=2)), worker)
    assert explanation.remedies == [
        "add nodes or use fewer pods: even if all nodes that are open to it were empty, not all of it would fit"
    ]


def test_a_gang_is_planned_few_times_to_find_out_whom_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other calls wait while an explanation is made."""
    planned: list[int] = []

    def counted(members: Sequence[Pod], *rest: Any) -> Any:
        planned.append(len(members))
        return placing(members, *rest)

    monkeypatch.setattr("extender.observe.explain.inquiry.placing", counted)
    leader, *workers = gang("wait", 12, topology=CLIQUE_ONLY)
    members = [replace(leader, requests=requests(4, cpu=2)), *workers]
    there = busy(" ".join(f"a-{at}" for at in range(12)), 8)
    explanation = explained("wait", *cluster("a: 12x8"), *there, *members)
    assert not any("to finish" in remedy for remedy in explanation.remedies)
    assert len(planned) <= 5


@pytest.mark.parametrize("seed", range(120))
def test_remedies_are_true(seed: int) -> None:
    chance = Random(seed)  # noqa: S311 - it is a test
    nodes, members = _nodes(chance), _members(chance)
    there = [
        single(f"busy-{cluster_node.name}", gpus=chance.choice([8, 8, 4]), cpu=0, node=cluster_node.name)
        for cluster_node in nodes
        if chance.random() < 0.45
    ]
    if starts(members, nodes, there):
        return
    for remedy in explained("wait", *nodes, *there, *members).remedies:
        if remedy.startswith("wait for pod") and "more to finish" not in remedy:
            ends = re.findall(r"default/(busy-\w+)", remedy)
            assert starts(members, nodes, [tenant for tenant in there if tenant.name not in ends]), remedy
            for kept in ends:
                gone = {*ends} - {kept}
                assert not starts(members, nodes, [tenant for tenant in there if tenant.name not in gone]), remedy
        if more := re.match(r"(at least )?(\d) more nodes? with .* free in (clique|zone) (\w+)$", remedy):
            least, count, level, name = more.groups()
            assert least or _starts_with(members, nodes, there, level, name, int(count)), remedy
            assert count == "1" or not _starts_with(members, nodes, there, level, name, int(count) - 1), remedy


def _nodes(chance: Random) -> list[Node]:
    cliques = [(f"z{zone}", f"z{zone}c{at}") for zone in range(chance.randint(1, 2)) for at in range(3)]
    return [
        node(f"{clique}n{number}", clique=clique, labels={ZONE: zone})
        for zone, clique in cliques
        for number in range(chance.randint(1, 4))
    ]


def _members(chance: Random) -> list[Pod]:
    size, gpus = chance.randint(2, 3), chance.choice([8, 8, 4])
    level = chance.choice(["clique", "zone"])
    match chance.choice(["required", "sliced", "sliced in one", "roles"]):
        case "required":
            return gang("wait", 2 * size, gpus=gpus, topology=Topology(required=level))
        case "sliced":
            sliced = Topology(slice_size=size, slice_level="clique")
            return gang("wait", size * chance.randint(1, 3), gpus=gpus, topology=sliced)
        case "sliced in one":
            sliced = Topology(required="zone", slice_size=size, slice_level="clique")
            return gang("wait", size * chance.randint(1, 3), gpus=gpus, topology=sliced)
    leader, *workers = gang("wait", 2 * size, gpus=gpus, topology=Topology(required=level))
    return [replace(leader, requests=requests(chance.choice([2, 4, 8]), cpu=2)), *workers]


def _starts_with(
    members: Sequence[Pod], nodes: list[Node], there: Sequence[Pod], level: str, name: str, count: int
) -> bool:
    """Whether ``count`` more empty nodes in that domain are enough, in whichever of its cliques they are."""
    if level == "clique":
        zone, cliques = name[:2], [name]
    else:
        zone, cliques = (
            name,
            sorted({cluster_node.labels[CLIQUE] for cluster_node in nodes if cluster_node.labels[ZONE] == name}),
        )
    more = combinations_with_replacement(cliques, count)
    added = [
        [node(f"new-{at}", clique=clique, labels={ZONE: zone}) for at, clique in enumerate(choice)] for choice in more
    ]
    return any(starts(members, nodes + new_nodes, there) for new_nodes in added)
