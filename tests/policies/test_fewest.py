"""The fewest domains that hold an amount: never more than necessary, and the rest stays in large pieces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.placement.filling import fewest
from tests.policies.oracle import fewest_nodes


def chosen(sizes: list[int], want: int, preference: list[int] | None = None) -> list[int]:
    order = np.arange(len(sizes)) if preference is None else np.array(preference)
    return [int(at) for at in fewest(np.array(sizes, dtype=np.int64), want, order)]


@pytest.mark.parametrize(
    ("sizes", "want", "expected"),
    [
        ([8, 4, 2], 3, [4]),
        ([8, 4, 2], 4, [4]),
        ([8, 4, 2], 9, [2, 8]),
        ([8, 4, 2], 14, [2, 4, 8]),
        ([8, 8, 7, 2], 9, [2, 7]),
        ([13, 10, 7, 4], 17, [7, 10]),
        ([13, 10, 7, 4], 14, [4, 10]),
        ([8, 8, 3, 1], 9, [1, 8]),
        ([5, 0, 0], 6, [5]),
        ([0, 0], 1, []),
        ([], 1, []),
        ([3, 2], 0, []),
    ],
)
def test_as_few_as_possible_and_as_small_as_will_do(sizes: list[int], want: int, expected: list[int]) -> None:
    assert [sizes[at] for at in chosen(sizes, want)] == expected


@pytest.mark.parametrize(
    ("sizes", "want", "preference", "expected"),
    [
        ([4, 4, 4], 4, [2, 0, 1], [1]),
        ([4, 4, 4], 8, [2, 0, 1], [1, 2]),
        ([4, 4, 4, 9, 9], 13, [2, 1, 0, 4, 3], [2, 4]),
        ([4, 4, 4, 2], 6, [2, 1, 0, 3], [3, 2]),
    ],
)
def test_among_equals_the_preferred_one_goes_first(
    sizes: list[int], want: int, preference: list[int], expected: list[int]
) -> None:
    assert chosen(sizes, want, preference) == expected


@settings(max_examples=400, derandomize=True, deadline=None)
@given(sizes=st.lists(st.integers(0, 9), max_size=7), want=st.integers(1, 40))
def test_nobody_finds_fewer(sizes: list[int], want: int) -> None:
    rows = chosen(sizes, want)
    assert len(rows) == len(set(rows)) == fewest_nodes(sizes, want)
    assert sum(sizes[at] for at in rows) >= min(want, sum(sizes))
