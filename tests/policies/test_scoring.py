"""Scores: broken domains are filled before whole ones, and kube-scheduler gets marks of 0 to 10."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from policies.api import NOBODY
from policies.chosen import OURS
from policies.model import Node, Pod
from policies.placement.snapshot import Counts, Rows, Snapshot
from policies.strategies.affinity import Affinity
from policies.strategies.packing import Packing
from policies.strategies.scoring import WeightedSum, marks
from tests.builders import busy, cluster, node, requests, single, snapshot

BLOCK = "cloud.google.com/gce-topology-block"


def ranking(view: Snapshot, pod: Pod) -> list[str]:
    """Nodes by their score, the best first; of equals by name."""
    scores = Packing().score(pod, np.arange(len(view.names)), view).tolist()
    return [name for _, name in sorted(zip((-score for score in scores), view.names, strict=True))]


def test_the_fuller_node_of_a_clique_scores_higher() -> None:
    view = snapshot(cluster("a: 3x8"), *busy("a-1", 6), *busy("a-2", 2))
    assert ranking(view, single("s")) == ["a-1", "a-2", "a-0"]


def test_a_whole_node_of_a_broken_clique_scores_higher_than_one_of_a_whole_clique() -> None:
    view = snapshot(cluster("a: 2x8", "b: 2x8"), *busy("b-0", 8))
    assert ranking(view, single("s"))[:2] == ["b-0", "b-1"]


def test_a_node_in_no_clique_is_used_before_a_whole_node_of_any_clique() -> None:
    view = snapshot(cluster("a: 2x8", "-: 1x8", "b: 2x8"), *busy("b-0", 4))
    assert ranking(view, single("s")) == ["b-0", "n-0", "b-1", "a-0", "a-1"]


@pytest.mark.parametrize("gpus", [1, 8], ids=lambda gpus: f"{gpus} GPUs in use in clique b")
def test_a_broken_clique_is_ahead_of_a_whole_one_by_more_than_kube_scheduler_can_make_up_for(gpus: int) -> None:
    """At the shipped weight of 5 a mark is worth 50 of its points, and its resource scores differ by 150 at most."""
    nodes = [replace(host, labels={**host.labels, BLOCK: "y"}) for host in cluster("b: 16x8")]
    view = snapshot([*blocks(), *nodes], *busy("b-0", gpus), *busy("c-0 c-1", 8))
    whole, in_broken_block, in_broken_clique = marks(single("s"), ["a-0", "d-0", "b-1"], view, OURS.scoring)
    assert whole < in_broken_block, "the block y is broken already, x is not"
    assert in_broken_clique - in_broken_block >= 3


def test_a_broken_node_is_filled_before_a_whole_one_of_its_clique() -> None:
    view = snapshot(cluster("a: 18x8"), *busy("a-0", 1))
    broken, whole = marks(single("s"), ["a-0", "a-1"], view, OURS.scoring)
    assert broken - whole >= 2


def test_gpus_count_for_a_pod_that_asks_for_them_and_cpu_for_one_that_does_not() -> None:
    view = snapshot(cluster("a: 2x8"), *busy("a-0", 4), single("cpu", gpus=0, cpu=48, node="a-1"))
    assert ranking(view, single("s", gpus=1))[0] == "a-0"
    assert ranking(view, single("s", gpus=0))[0] == "a-1"


def test_marks_are_0_for_the_whole_and_unknown_and_10_for_the_full() -> None:
    view = snapshot(cluster("a: 2x8", "b: 1x8", "c: 16x8"), *busy("b-0", 8), *busy("c-0", 1))
    points = marks(single("s"), ["b-0", "gone", "a-0", "c-0", "c-1"], view, Packing())
    assert points == [10, 0, 0, 8, 6], "a clique with one GPU of 128 in use is broken, if hardly"
    assert marks(single("s"), [], view, Packing()) == []


def test_a_pod_that_asks_for_nothing_or_for_what_nobody_has_gets_no_marks() -> None:
    view = snapshot(cluster("a: 2x8"), *busy("a-0", 8))
    for amounts in ((("pods", 1),), (("example.com/fpga", 1),), ()):
        assert marks(Pod("uid", "default", "odd", amounts), ["a-0", "a-1"], view, Packing()) == [0, 0]


@dataclass
class Fixed:
    """Gives every node the same score."""

    value: int

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:
        return np.full(len(rows), self.value)


@pytest.mark.parametrize(
    ("weighted", "expected"),
    [
        ([(100, 1), (0, 1)], 50),
        ([(100, 3), (0, 1)], 75),
        ([(1, 1), (0, 99)], 1),
        ([(500, 1)], 100),
        ([(-500, 1), (60, 1)], 30),
        ([], 0),
    ],
)
def test_weights_count_in_proportion_and_no_policy_leaves_its_bounds(
    weighted: list[tuple[int, int]], expected: int
) -> None:
    both = WeightedSum([(Fixed(value), weight) for value, weight in weighted])
    view = snapshot(cluster("a: 2x8"))
    assert both.score(single("s"), np.arange(2), view).tolist() == [expected, expected]


@pytest.mark.parametrize(("score", "mark"), [(-7, 0), (1, 1), (35, 4), (400, 10)])
def test_a_mark_is_a_whole_number_from_0_to_10(score: int, mark: int) -> None:
    assert marks(single("s"), ["a-0"], snapshot(cluster("a: 1x8")), Fixed(score)) == [mark]


def test_an_overcommitted_node_is_full_and_not_more_than_that() -> None:
    over = [single(name, gpus=8, node="a-0") for name in "xy"]
    view = snapshot(cluster("a: 1x8", "b: 1x8"), *over)
    assert marks(Pod("uid", "default", "s", requests(1)), ["a-0", "b-0"], view, Packing()) == [10, 0]


def rows_of(view: Snapshot, names: str) -> Rows:
    return np.array([view.rows[name] for name in names.split()], dtype=np.intp)


def blocks() -> list[Node]:
    """Two blocks of two cliques with two nodes each; a node in block x alone, and one in nothing."""
    inside = [
        node(f"{clique}-{number}", clique=clique, labels={BLOCK: "x" if clique in "ab" else "y"})
        for clique in "abcd"
        for number in range(2)
    ]
    return [*inside, node("loose", labels={BLOCK: "x"}), node("lone")]


def test_the_clique_of_the_placed_members_comes_before_its_block_and_that_before_the_rest() -> None:
    view = snapshot(blocks())
    names = ["a-1", "b-0", "loose", "c-0", "lone"]
    scores = Affinity().score(single("m"), rows_of(view, " ".join(names)), view, rows_of(view, "a-0"))
    assert dict(zip(names, scores.tolist(), strict=True)) == {"a-1": 100, "b-0": 34, "loose": 34, "c-0": 0, "lone": 0}


def test_the_clique_with_more_of_the_gang_is_nearer_to_it() -> None:
    view = snapshot(blocks())
    a, b = Affinity().score(single("m"), rows_of(view, "a-1 b-1"), view, rows_of(view, "a-0 a-0 b-0")).tolist()
    assert a > b > 0


def test_siblings_outside_every_domain_are_near_to_nobody() -> None:
    view = snapshot(blocks())
    a, lone = Affinity().score(single("m"), rows_of(view, "a-0 lone"), view, rows_of(view, "lone a-1")).tolist()
    assert (a, lone) == (50, 0)


def test_a_member_joins_its_gang_although_another_clique_is_fuller() -> None:
    view = snapshot(cluster("a: 4x8", "b: 4x8"), *busy("b-0 b-1 b-2", 8), *busy("a-0", 8))
    points = marks(single("m", gpus=8), ["a-1", "b-3"], view, OURS.scoring, rows_of(view, "a-0"))
    assert points[0] > points[1]


def test_affinity_says_nothing_about_a_pod_without_placed_siblings() -> None:
    """The weight of affinity would otherwise press the marks of single pods into a third of their range."""
    view = snapshot(cluster("a: 2x8", "b: 1x8"), *busy("b-0", 8))
    assert marks(single("s"), ["a-0", "b-0"], view, OURS.scoring) == [0, 10]
    flat = snapshot(cluster("-: 2x8"), *busy("n-0", 8))
    assert marks(single("m"), ["n-0", "n-1"], flat, OURS.scoring, rows_of(flat, "n-1")) == [10, 7]
    assert marks(single("m"), ["a-0"], view, WeightedSum([(Affinity(), 1)])) == [0]
