"""The levels of Topologies beside those that Muster knows."""

from __future__ import annotations

import pytest

from policies.model.levels import PRESETS, LevelKey, contradiction, levels_from, united


def keys(levels: tuple[LevelKey, ...]) -> list[str]:
    return [level.key for level in levels]


@pytest.mark.parametrize(
    ("known", "topologies", "expected"),
    [
        ([], [["rack", "row"]], ["rack", "row"]),
        (["rack"], [["host", "rack", "row"]], ["host", "rack", "row"]),
        (["rack", "hall"], [["rack", "row", "hall"]], ["rack", "row", "hall"]),
        (["a", "zone"], [["rack", "row"]], ["a", "rack", "row", "topology.kubernetes.io/zone"]),
        (["a"], [["b", "c"], ["c", "d"], ["b"]], ["a", "b", "c", "d"]),
    ],
)
def test_each_comes_beside_its_neighbours(known: list[str], topologies: list[list[str]], expected: list[str]) -> None:
    assert keys(united(levels_from(known), topologies)) == expected


def test_a_name_that_is_another_levels_is_the_whole_label() -> None:
    found = united(PRESETS["coreweave"], [["example.com/rack", "example.com/none", "example.com/hall"]])
    named = {level.key: level.name for level in found}
    assert [named[f"example.com/{one}"] for one in ("rack", "none", "hall")] == [
        "example.com/rack",
        "example.com/none",
        "hall",
    ]


@pytest.mark.parametrize(
    ("mine", "others", "expected"),
    [
        (["a", "b"], [["a", "b"], ["b", "c"]], None),
        (["a", "b", "c"], [["x"], ["c", "x", "a"]], ("a", "c")),
        (["a"], [["a"]], None),
    ],
)
def test_two_orders_that_differ_are_told_by_two_levels(
    mine: list[str], others: list[list[str]], expected: tuple[str, str] | None
) -> None:
    assert contradiction(mine, others) == expected
