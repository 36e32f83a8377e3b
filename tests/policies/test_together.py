"""Pods of one native group, of which each asks for itself: all are drawn into one clique, or into few that are near."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from policies.model import Node
from policies.placement.request import rows_of
from policies.strategies.scoring import marks
from policies.strategies.together import Together
from tests.builders import busy, cluster, single, snapshot

BLOCK = "cloud.google.com/gce-topology-block"


def in_block(name: str, nodes: Sequence[Node]) -> list[Node]:
    return [replace(node, labels={**node.labels, BLOCK: name}) for node in nodes]


def clique_of(node: str) -> str:
    return node.partition("-")[0]


def placed(nodes: Sequence[Node], count: int, *there: str, taken: Sequence[str] = ()) -> list[str]:
    """The nodes of ``count`` pods that take a whole node each.

    Each pod goes to the best node that is left, while Muster's knowledge stays the same.

    ``there``: the nodes of bound pods of the group.
    """
    view = snapshot(list(nodes), *busy(" ".join((*there, *taken)), 8))
    free, chosen = [name for name in view.names if name not in (*there, *taken)], []
    for _ in range(count):
        given = marks(single("p", gpus=8), free, view, Together(count), rows_of(there, view))
        chosen.append(free.pop(int(np.argmax(given))))
    return chosen


@pytest.mark.parametrize(
    ("cliques", "count", "goes"),
    [
        (("a: 4x8", "b: 4x8"), 4, {"a"}),
        (("a: 6x8", "b: 4x8", "c: 5x8"), 4, {"b"}),
        (("a: 2x8", "b: 3x8", "c: 4x8"), 6, {"c", "b"}),
        (("a: 1x8", "-: 6x8"), 1, {"a"}),
    ],
)
def test_the_tightest_clique_that_holds_all_or_the_fewest(cliques: Sequence[str], count: int, goes: set[str]) -> None:
    nodes = placed(cluster(*cliques), count)
    assert {clique_of(node) for node in nodes} == goes


def test_a_group_too_large_for_a_clique_stays_inside_the_tightest_block_that_holds_it() -> None:
    x = in_block("x", cluster("a: 4x8", "b: 4x8", "c: 4x8"))
    y = in_block("y", cluster("d: 3x8", "e: 3x8"))
    assert {clique_of(node) for node in placed([*x, *y], 5)} == {"d", "e"}
    assert {clique_of(node) for node in placed([*x, *y], 7)} == {"a", "b"}


def test_the_others_of_the_group_are_joined_where_they_are() -> None:
    nodes = cluster("a: 2x8", "b: 4x8")
    assert {clique_of(node) for node in placed(nodes, 2)} == {"a"}
    assert {clique_of(node) for node in placed(nodes, 2, "b-0")} == {"b"}


def test_room_that_is_taken_is_no_room() -> None:
    assert {clique_of(node) for node in placed(cluster("a: 4x8", "b: 6x8"), 4, taken=["a-1"])} == {"b"}


def test_the_next_clique_is_behind_by_more_than_kube_scheduler_makes_up_for() -> None:
    """At the shipped weight of 5 a mark is worth 50 of its points, and its resource scores differ by 150 at most."""
    view = snapshot(cluster("a: 2x8", "b: 3x8", "c: 4x8", "d: 5x8"))
    given = marks(single("p", gpus=8), ["a-0", "b-0", "c-0", "d-0"], view, Together(2))
    assert given == [10, 6, 3, 1]


def test_without_levels_nothing_is_said() -> None:
    view = snapshot(cluster("-: 2x8"))
    assert marks(single("p"), ["n-0", "n-1"], replace(view, levels=()), Together(2)) == [0, 0]
