"""Which label keys are levels: presets, keys and names from the settings, or what the nodes carry."""

from __future__ import annotations

import re

import pytest

from policies.model import CLIQUE
from policies.model.levels import ALL, PRESETS, detected, levels_from


def names(keys: list[str]) -> list[str]:
    return [level.name for level in detected(keys)]


def test_presets_combine_in_the_order_given() -> None:
    found = levels_from(["nvidia", "topograph-0.5", "zone"])
    assert [level.name for level in found] == ["clique", "accelerator", "leaf", "spine", "core", "zone"]
    assert found[0].key == CLIQUE


def test_any_label_key_is_a_level_called_by_its_last_part_or_as_one_likes() -> None:
    found = levels_from(["example.com/rack", "hall=example.com/building", "row"])
    assert [(level.name, level.key) for level in found] == [
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
