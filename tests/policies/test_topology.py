"""The clique of a gang: the tightest that holds it, else the fewest, and the other rules for its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.model import CLIQUE, Node, Pod
from policies.placement.place import Placed, Shortfall, place
from tests.builders import busy, cluster, gang, node, requests, snapshot

Case = tuple[str, list[str], list[Pod], int, str]


def spread(found: Placed | Shortfall, nodes: Sequence[Node]) -> str:
    """``"a*3 b*1"``: three members in clique a, one in clique b; ``-`` stands for the nodes in no clique."""
    assert isinstance(found, Placed)
    clique = cliques(nodes)
    where = [clique[name] for name in found.nodes.values()]
    return " ".join(f"{name}*{where.count(name)}" for name in sorted(set(where)))


def cliques(nodes: Sequence[Node]) -> dict[str, str]:
    return {host.name: host.labels.get(CLIQUE, "-") for host in nodes}


def siblings(*nodes: str) -> list[tuple[Pod, str]]:
    """Other members of the gang, and where they are."""
    return list(zip(gang("train", len(nodes) + 1)[1:], nodes, strict=True))


WHOLE_NODES: list[Case] = [
    ("the one with the least room that holds it", ["a: 4x8", "b: 2x8", "c: 3x8"], [], 2, "b*2"),
    ("room, not size", ["a: 4x8", "b: 3x8"], busy("a-0 a-1", 8), 2, "a*2"),
    ("of equal rooms the broken one", ["a: 3x8", "b: 4x8"], busy("b-0", 8), 3, "b*3"),
    ("of equal rooms the fuller one", ["a: 4x8", "b: 5x8"], busy("a-0 b-0 b-1", 8), 3, "b*3"),
    ("of equals the first by name", ["b: 2x8", "a: 2x8"], [], 2, "a*2"),
    ("a clique before nodes in none", ["a: 4x8", "-: 2x8"], [], 2, "a*2"),
    ("nodes in none where no clique holds it", ["a: 2x8", "b: 2x8", "-: 3x8"], [], 3, "-*3"),
    ("nodes without the label are not one clique", ["a: 1x8", "-: 9x8"], [], 1, "a*1"),
    ("nothing left over rather than the smallest set", ["a: 13x8", "b: 10x8", "c: 8x8", "d: 4x8"], [], 17, "a*13 d*4"),
    ("the fewest cliques, cut to fit", ["a: 13x8", "b: 10x8", "c: 7x8", "d: 4x8"], [], 17, "b*10 c*7"),
    ("nodes in none help to break fewer", ["a: 13x8", "b: 3x8", "c: 2x8", "-: 7x8"], [], 20, "-*7 a*13"),
    ("but stay free while as few cliques do", ["a: 5x8", "b: 4x8", "-: 1x8"], [], 9, "a*5 b*4"),
    ("everything there is", ["a: 2x8", "b: 1x8", "-: 1x8"], [], 4, "-*1 a*2 b*1"),
    ("no clique at all", ["-: 4x8"], [], 3, "-*3"),
]


@pytest.mark.parametrize(
    ("what", "nodes", "bound", "size", "expected"), WHOLE_NODES, ids=[row[0] for row in WHOLE_NODES]
)
def test_a_gang_of_whole_nodes_gets(what: str, nodes: list[str], bound: list[Pod], size: int, expected: str) -> None:
    here = cluster(*nodes)
    assert spread(place(gang("train", size), size, snapshot(here, *bound)), here) == expected


def test_the_classic_case_leaves_every_gang_in_one_clique() -> None:
    """Four cliques of 16 with 13, 10, 7 and 4 nodes free, and gangs of 7, 4, 13 and 10 whole nodes, in that order."""
    here = cluster("a: 16x8", "b: 16x8", "c: 16x8", "d: 16x8")
    taken = [
        f"{name}-{number}" for name, free in zip("abcd", (13, 10, 7, 4), strict=True) for number in range(16 - free)
    ]
    bound = busy(" ".join(taken), 8)
    for size, expected in ((7, "c*7"), (4, "d*4"), (13, "a*13"), (10, "b*10")):
        plan = place(gang(f"train-{size}", size), size, snapshot(here, *bound))
        assert spread(plan, here) == expected
        assert isinstance(plan, Placed)
        bound += busy(" ".join(plan.nodes.values()), 8)


def test_the_whole_gang_goes_before_its_clique() -> None:
    """An elastic gang takes members beyond minMember, even if they have to be in another clique."""
    here = cluster("a: 3x8", "b: 2x8")
    assert spread(place(gang("train", 4, min_member=2), 2, snapshot(here)), here) == "a*3 b*1"
    assert spread(place(gang("train", 6, min_member=2), 2, snapshot(here)), here) == "a*3 b*2"


def test_replacements_go_where_the_rest_of_their_gang_is() -> None:
    here = cluster("a: 2x8", "b: 4x8")
    lost = gang("train", 1)
    view = snapshot(here, *busy("a-0 b-0 b-1", 8))
    assert spread(place(lost, 1, view), here) == "a*1"
    assert spread(place(lost, 1, view, beside=siblings("b-0", "b-1", "gone")), here) == "b*1"
    full = snapshot(here, *busy("b-0 b-1 b-2 b-3", 8))
    assert spread(place(lost, 1, full, beside=siblings("b-0", "b-1")), here) == "a*1"


@pytest.mark.parametrize(
    ("nodes", "bound", "workers", "launcher"),
    [
        # It fits beside the workers.
        (["a: 2x8", "b: 3x8"], [], "a", "a"),
        # The tightest clique has no room for it, the next one has.
        (["a: 2x8", "b: 3x8"], [replace(pod, requests=requests(0, 30)) for pod in busy("a-0 a-1", 0)], "b", "b"),
        # No clique has room for both, and it never splits the workers.
        (["a: 2x8", "-: 9x8"], [replace(pod, requests=requests(0, 30)) for pod in busy("a-0 a-1", 0)], "a", "-"),
    ],
)
def test_a_launcher_goes_with_its_workers_and_never_parts_them(
    nodes: list[str], bound: list[Pod], workers: str, launcher: str
) -> None:
    here = cluster(*nodes)
    first = replace(gang("job", 1, gpus=0, cpu=32)[0], uid="launcher", name="launcher", index=None)
    members = [*gang("job", 2, cpu=32), first]
    plan = place(members, 3, snapshot(here, *bound))
    assert isinstance(plan, Placed)
    at = plan.nodes.pop("launcher")
    assert spread(plan, here) == f"{workers}*2"
    assert cliques(here)[at] == launcher


@pytest.mark.parametrize(
    ("free", "size", "expected"),
    [
        # GPUs free on n-0, n-1 ... in turn; members of one GPU.
        ((2, 2, 2, 2, 8), 8, {4: 8}),
        ((8, 5, 3, 8), 3, {2: 3}),
        ((8, 8, 7, 2), 9, {2: 7, 3: 2}),
        ((8, 4, 8, 4), 8, {0: 8}),
        ((4, 4, 4), 8, {0: 4, 1: 4}),
    ],
)
def test_inside_a_clique_the_fewest_nodes_and_of_those_the_fullest(
    free: tuple[int, ...], size: int, expected: dict[int, int]
) -> None:
    here = cluster(f"a: {len(free)}x8")
    bound = [pod for at, gpus in enumerate(free) for pod in busy(f"a-{at}", 8 - gpus)]
    plan = place(gang("train", size, gpus=1), size, snapshot(here, *bound))
    assert isinstance(plan, Placed)
    where = list(plan.nodes.values())
    assert {int(name[2:]): where.count(name) for name in where} == expected


def test_of_nodes_with_equal_room_the_fuller_ones_are_filled() -> None:
    here = [*cluster("a: 2x8"), node("wide", 16, clique="a")]
    plan = place(gang("train", 1), 1, snapshot(here, *busy("wide", 8)))
    assert isinstance(plan, Placed)
    assert list(plan.nodes.values()) == ["wide"], "half of it is in use already; the others are whole"


def test_members_get_consecutive_slots_in_the_order_of_their_ranks() -> None:
    here = cluster("a: 2x4", "b: 4x4")
    members = gang("train", 24, gpus=1)
    plan = place(members[::-1], 24, snapshot(here))
    assert isinstance(plan, Placed)
    by_rank = [plan.nodes[pod.uid] for pod in members]
    blocks = [by_rank[at] for at in range(0, 24, 4)]
    assert by_rank == [name for name in blocks for _ in range(4)], "each node has a block of ranks"
    assert blocks == ["b-0", "b-1", "b-2", "b-3", "a-0", "a-1"], "and so has each clique"


def test_neighbours_in_rank_are_on_nodes_that_are_neighbours_by_name() -> None:
    here = cluster("a: 3x8")
    members = gang("train", 8, gpus=1)
    plan = place(members, 8, snapshot(here, *busy("a-0", 1), *busy("a-1", 8), *busy("a-2", 6)))
    assert isinstance(plan, Placed)
    assert [plan.nodes[pod.uid] for pod in members] == ["a-0"] * 7 + ["a-2"]


def test_the_answer_does_not_depend_on_the_order_in_which_nodes_were_seen() -> None:
    here = cluster("a: 3x8", "b: 4x8", "-: 2x8", "c: 4x8")
    members = [*gang("train", 5, gpus=4), *gang("extra", 2, gpus=1)]
    first = place(members, 7, snapshot(here))
    for turn in range(1, len(here)):
        assert place(members, 7, snapshot(here[turn:] + here[:turn])) == first


def test_a_launcher_finds_the_one_clique_among_many_tighter_ones_that_holds_it_too() -> None:
    tight = [f"{name}: 2x8" for name in "abcdefghij"]
    here = cluster(*tight, "z: 3x8")
    names = " ".join(f"{name}-{at}" for name in "abcdefghij" for at in (0, 1))
    bound = [replace(pod, requests=requests(0, 30)) for pod in busy(names, 0)]
    first = replace(gang("job", 1, gpus=0, cpu=32)[0], uid="launcher", name="launcher", index=None)
    members = [*gang("job", 2, cpu=32), first]
    assert spread(place(members, 3, snapshot(here, *bound)), here) == "z*3"
