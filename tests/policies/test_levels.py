"""The label keys that are levels: presets, keys and names from the settings, or the keys that the nodes carry.

The levels of Topologies come beside them.
"""

from __future__ import annotations

import re

import pytest

from policies.model import CLIQUE
from policies.model.levels import ALL, PRESETS, LevelKey, contradiction, detected, levels_from, united


def names(keys: list[str]) -> list[str]:
    return [level.name for level in detected(keys)]


def test_presets_combine_in_the_order_given() -> None:
    levels = levels_from(["nvidia", "topograph-0.5", "zone"])
    assert [level.name for level in levels] == ["clique", "accelerator", "leaf", "spine", "core", "zone"]
    assert levels[0].key == CLIQUE


def test_any_label_key_is_a_level_called_by_its_last_part_or_as_one_likes() -> None:
    levels = levels_from(["example.com/rack", "hall=example.com/building", "row"])
    assert [(level.name, level.key) for level in levels] == [
        ("rack", "example.com/rack"),
        ("hall", "example.com/building"),
        ("row", "row"),
    ]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (["nvidia", "a b"], "'a b' is neither a label key nor a preset; presets: nvidia, topograph,"),
        (["=row"], "has no name before the ="),
        (["none=row"], "no level can be called none"),
        (["nvidia", "clique=other"], "two levels have the name clique"),
        (["nvidia", f"nv={CLIQUE}"], f"two levels have the key {CLIQUE}"),
    ],
)
def test_what_cannot_be_a_list_of_levels_is_refused(entries: list[str], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        levels_from(entries)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_detected_by_its_own_labels_in_its_own_order(preset: str) -> None:
    assert detected(level.key for level in PRESETS[preset]) == PRESETS[preset]


def test_detected_levels_of_several_presets_are_nearest_first_and_the_zone_is_last() -> None:
    here = [level.key for level in ALL if level.name in ("clique", "layer-3", "layer-2", "zone")]
    assert names(here) == ["clique", "layer-3", "layer-2", "zone"]
    assert names(["kubernetes.io/hostname"]) == ["clique"], "nothing known is there: the clique, without domains"


def test_the_short_names_of_all_presets_are_different() -> None:
    assert len({level.name for level in ALL}) == len({level.key for level in ALL}) == len(ALL)


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
    levels = united(PRESETS["coreweave"], [["example.com/rack", "example.com/none", "example.com/hall"]])
    named = {level.key: level.name for level in levels}
    assert [named[f"example.com/{label}"] for label in ("rack", "none", "hall")] == [
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
