"""Scores: what is broken is filled before what is whole, and kube-scheduler gets marks of 0 to 10."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from policies.model import Pod
from policies.packing import Packing
from policies.scoring import WeightedSum, marks
from policies.snapshot import Counts, Rows, Snapshot
from tests.builders import busy, cluster, requests, single, snapshot


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


def test_a_node_in_no_clique_is_used_before_any_clique_is_broken_further() -> None:
    view = snapshot(cluster("a: 2x8", "-: 1x8", "b: 2x8"), *busy("b-0", 4))
    assert ranking(view, single("s")) == ["n-0", "b-0", "b-1", "a-0", "a-1"]


def test_gpus_count_for_a_pod_that_asks_for_them_and_cpu_for_one_that_does_not() -> None:
    view = snapshot(cluster("a: 2x8"), *busy("a-0", 4), single("cpu", gpus=0, cpu=48, node="a-1"))
    assert ranking(view, single("s", gpus=1))[0] == "a-0"
    assert ranking(view, single("s", gpus=0))[0] == "a-1"


def test_marks_are_0_for_the_whole_and_unknown_and_10_for_the_full() -> None:
    view = snapshot(cluster("a: 2x8", "b: 1x8", "c: 16x8"), *busy("b-0", 8), *busy("c-0", 1))
    found = marks(single("s"), ["b-0", "gone", "a-0", "c-0", "c-1"], view, Packing())
    assert found == [10, 0, 0, 1, 1], "a clique with one GPU of 128 in use is broken, if hardly"
    assert marks(single("s"), [], view, Packing()) == []


def test_a_pod_that_asks_for_nothing_or_for_what_nobody_has_gets_no_marks() -> None:
    view = snapshot(cluster("a: 2x8"), *busy("a-0", 8))
    for asked in ((("pods", 1),), (("example.com/fpga", 1),), ()):
        assert marks(Pod("uid", "default", "odd", asked), ["a-0", "a-1"], view, Packing()) == [0, 0]


@dataclass
class Fixed:
    """Gives every node the same score."""

    value: int

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot) -> Counts:
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


def test_an_overcommitted_node_is_full_and_not_more_than_that() -> None:
    over = [single(name, gpus=8, node="a-0") for name in "xy"]
    view = snapshot(cluster("a: 1x8", "b: 1x8"), *over)
    assert marks(Pod("uid", "default", "s", requests(1)), ["a-0", "b-0"], view, Packing()) == [10, 0]
