"""The last runs of a LocalQueue give the expected duration of the next one."""

from __future__ import annotations

import pytest

from policies.model import Basis, Duration
from policies.quota.runs import LEAST, MOST_TIMES, Runs, size_of


@pytest.mark.parametrize(("gpus", "size"), [(0, 0), (1, 1), (2, 2), (3, 4), (8, 8), (9, 16), (512, 512)])
def test_sizes_are_powers_of_two(gpus: int, size: int) -> None:
    assert size_of(gpus) == size


def test_the_middle_one_of_like_size_is_expected() -> None:
    runs = Runs()
    for seconds in (500, 100, 300, 200, 400):
        runs.add(7, seconds)
    assert runs.expected(8) == Duration(300, Basis.HISTORY, percent=50, runs=5, gpus=8)
    assert [(runs.expected(8, percent) or Duration(0, Basis.HISTORY)).seconds for percent in (0, 20, 21, 90, 100)] == [
        100,
        100,
        200,
        500,
        500,
    ]
    assert runs.expected(4) is None


def test_a_few_runs_tell_nothing_and_old_ones_are_forgotten() -> None:
    runs = Runs()
    for _ in range(LEAST):
        assert runs.expected(1) is None
        runs.add(1, 10)
    for at in range(MOST_TIMES):
        runs.add(1, 1000 + at)
    assert runs.times == {1: tuple(range(1000, 1000 + MOST_TIMES))}
    assert Runs(runs.times).times == runs.times
