"""The victims of random small clusters beside the best choice of all, and the same answer in any order."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from policies.preemption.victims import Choice, search
from policies.statement import Statement
from tests.policies.preemption.brute import best, case, fits, price

SEEDS = 2_500
PARTS = 10


COSTLY = (4031, 8826)
"""Members of two shapes, and many choices: each of them is placed."""


@pytest.mark.parametrize("seeds", [*(range(first, SEEDS, PARTS) for first in range(PARTS)), COSTLY])
def test_the_victims_are_those_that_cost_least_of_all_choices(seeds: Sequence[int]) -> None:
    for seed in seeds:
        of = case(seed)
        answer, wanted = search(of.request, Statement(of.snapshot()), of.candidates, of.limits), best(of)
        if wanted is None:
            assert not isinstance(answer, Choice), f"seed {seed} evicts {answer.text}, and that does not help"
            continue
        assert isinstance(answer, Choice), f"seed {seed} does not evict any of {wanted[1]}: {answer.text}"
        names = tuple(victim.name for victim in answer.victims)
        assert fits(of, list(answer.victims)), f"seed {seed}: there is no room without {names}"
        assert price(list(answer.victims)) == wanted[0], f"seed {seed} evicts {names}, and not one of {wanted[1]}"
        assert names in wanted[1], f"seed {seed} evicts {names}, which is not allowed"
        assert set(answer.nodes) == {pod.uid for pod in of.request.pods}


def test_the_answer_is_the_same_in_any_order_of_arrival() -> None:
    for seed in range(400):
        of, chance = case(seed), Random(seed)
        answers = []
        for _ in range(3):
            candidates = chance.sample(of.candidates, len(of.candidates))
            answer = search(of.request, Statement(of.snapshot(chance)), candidates, of.limits)
            nodes = dict(answer.nodes) if isinstance(answer, Choice) else None
            answers.append((answer.text, nodes))
        assert answers[0] == answers[1] == answers[2], f"seed {seed}"
