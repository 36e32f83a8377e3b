"""Thousands of random placements under every policy, and a judge that has to see the faults of a bad one."""

from __future__ import annotations

import pytest

from policies.placement.place import Placed, Shortfall
from tests.policies import program
from tests.policies.campaign import run
from tests.policies.judge import Judge
from tests.policies.world import case

CASES, PROGRAMS, FIRST_PROGRAM, BLOCKS = 2400, 240, 10_000, 4


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_placements_break_no_rule_and_take_no_more_domains_than_needed(block: int) -> None:
    count = CASES // BLOCKS
    outcomes = list(run(block * count, count, most_nodes=30))
    wrong = [f"case {drawn.seed}: {text}" for drawn, _, complaints in outcomes for text in complaints]
    assert not wrong
    placed = sum(isinstance(plan, Placed) for _, plan, _ in outcomes)
    assert count // 4 < placed < count, "both outcomes are common, or this shows little"


@pytest.mark.parametrize("block", range(BLOCKS))
def test_an_integer_program_does_no_better(block: int) -> None:
    count = PROGRAMS // BLOCKS
    outcomes = run(FIRST_PROGRAM + block * count, count, most_nodes=100, against_program=True)
    assert not [f"case {drawn.seed}: {text}" for drawn, _, complaints in outcomes for text in complaints]


def test_judge_and_program_see_a_placement_that_nobody_should_make() -> None:
    seen: set[str] = set()
    for seed in range(400):
        drawn = case(seed, 30)
        names = [node for node, free in sorted(drawn.free.items()) for _ in range(free // drawn.gpus)]
        # The placement by name ignores the levels, like a scheduler without topology.
        nodes = {pod.uid: name for pod, name in zip(drawn.pods, names, strict=False)}
        plan = Placed(nodes) if len(nodes) >= drawn.needed else Shortfall(len(nodes), drawn.needed, "too few")
        judge = Judge(drawn)
        complaints = [*judge.complaints(plan), *program.complaints(judge, plan)]
        seen |= {words for text in complaints for words in SIGNS if words in text}
        if seen == set(SIGNS):
            return
    assert seen == set(SIGNS)


SIGNS = (
    *("is broken", "is cut", "would do", "nearer than", "could be", "go back and forth", "equal ones would fit"),
    *("the program places", "says the program", "the program needs", "the program makes them equal"),
)
