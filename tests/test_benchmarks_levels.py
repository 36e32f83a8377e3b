"""The benchmark of levels: the figures from its rounds."""

from __future__ import annotations

from msgspec import to_builtins

from benchmarks import levels
from benchmarks.goals import judged
from benchmarks.levels import Run, Setup
from benchmarks.record import Content
from benchmarks.stage import BLOCK, CLIQUE, ZONE, Mode, domains_of
from tests.test_benchmarks import ABOUT, run_of


def run(setup: Setup, number: int, pods_per_s: float, cliques: int = 1) -> Run:
    return Run(setup, run_of(Mode.NOMINATE, number, pods_per_s=pods_per_s, cliques_at_most=cliques))


ROUNDS = [
    run(Setup.NONE, 1, 200.0, cliques=3),
    run(Setup.THREE, 1, 180.0),
    run(Setup.THREE, 2, 100.0),
    run(Setup.NONE, 2, 100.0, cliques=2),
    run(Setup.NONE, 3, 100.0),
    run(Setup.THREE, 3, 50.0),
]


def test_speeds_are_compared_within_a_round_and_the_middle_ratio_tells() -> None:
    assert levels.ratio(ROUNDS) == 0.9
    assert levels.ratio(ROUNDS[:1]) is None
    (table,) = levels.tables(ROUNDS)
    assert [row[:3] for row in table.rows] == [
        ("first fit, no levels", "100", "1.00"),
        ("best fit, three levels", "100", "0.90"),
    ]


def test_several_cliques_are_a_problem_only_where_they_are_known() -> None:
    assert levels.problems(ROUNDS) == []
    assert levels.problems([run(Setup.THREE, 1, 100.0, cliques=2)]) == [
        "best fit, three levels: a gang lies in 2 cliques instead of 1"
    ]


def test_each_setup_goes_first_in_every_other_round() -> None:
    steps = list(levels.benchmark(100, 10, 8, 2, 60.0).steps)
    assert steps == [
        "first fit, no levels, round 1",
        "best fit, three levels, round 1",
        "best fit, three levels, round 2",
        "first fit, no levels, round 2",
    ]


def test_three_levels_are_held_to_nearly_the_speed_without() -> None:
    runs = {
        f"{number}": {"setup": measured.setup, "figures": measured.figures} for number, measured in enumerate(ROUNDS)
    }
    table = judged({"levels-1000": Content("levels-1000", {}, ABOUT, "2026-11-21", to_builtins(runs))})
    (row,) = (row for row in table.rows if "three levels" in row[0] and "first fit" in row[0])
    assert row[1:] == ("at least 0.95", "0.9", "**no**")


def test_domains_nest() -> None:
    labels = [domains_of(number) for number in range(3200)]
    assert len({node_labels[CLIQUE] for node_labels in labels}) == 200
    for near, far in ((CLIQUE, BLOCK), (BLOCK, ZONE)):
        pairs = {(node_labels[near], node_labels[far]) for node_labels in labels}
        assert len(pairs) == len({node_labels[near] for node_labels in labels}), "each is in one domain farther out"
    assert len({node_labels[ZONE] for node_labels in labels}) == 2
