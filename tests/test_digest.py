"""The digest of the core's effects: blind to names and words, and to nothing else."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import get_args

import pytest

from extender.core.effects import Effect, Evict, Nominate, Report, TryPod, Write
from extender.core.engine import Engine
from extender.core.events import PodSeen, Synced
from policies.model import GroupKey, Pod
from tests.digest.__main__ import differences, summary
from tests.digest.effects import FORMS, Stream, arguments, form, named, recorded

TEXT = "8 of 12 nodes have too few GPUs"
REPORT = Report(GroupKey("team", "train"), None, ("u1", "train-0"), "NoRoom", TEXT, warning=True)
NOMINATE = Nominate("u1", "team", "train-0", "node-3")


def digest(*effects: Effect) -> str:
    stream = Stream()
    stream.feed(list(effects))
    return stream.digest


def test_every_field_of_every_effect_has_its_place() -> None:
    effects = {
        effect_type
        for alternative in get_args(Effect | Write)
        for effect_type in get_args(alternative) or (alternative,)
    }
    assert set(FORMS) == effects
    for effect, (_, names) in FORMS.items():
        left_out = {"shape"} if effect is TryPod else set()
        assert {field.name for field in fields(effect)} - left_out == set(names.values()), effect


@pytest.mark.parametrize(
    "other",
    [
        replace(REPORT, code="NoQuota"),
        replace(REPORT, message="7 of 12 nodes have too few GPUs"),
        replace(REPORT, message=""),
        replace(REPORT, warning=False),
        replace(REPORT, key=GroupKey("team", "other")),
        Evict("u1", "team", "train-0", "why"),
    ],
)
def test_what_changes_the_digest(other: Effect) -> None:
    assert digest(REPORT) != digest(other)


def test_what_does_not_change_the_digest() -> None:
    assert digest(REPORT) == digest(replace(REPORT, message="too few GPUs on 8 nodes, of 12 altogether"))
    assert form({"b": 1, "a": frozenset({"y", "x"})}) == form({"a": {"x", "y"}, "b": 1})


def test_the_order_and_the_event_of_effects_count() -> None:
    assert digest(REPORT, NOMINATE) != digest(NOMINATE, REPORT)
    late = Stream()
    late.feed([REPORT])
    late.feed([NOMINATE])
    assert late.digest != digest(REPORT, NOMINATE)


def test_the_arguments_of_prose_are_numbers_and_names() -> None:
    text = "3 of 8 pods fit on node-1, and team/train needs 40Gi. It waits 1.5 s."
    assert arguments(text) == ("1.5", "3", "40Gi", "8", "node-1", "team/train")
    assert named(replace(REPORT, message=text))["why"] == (True, arguments(text))


def test_the_effects_of_each_core_are_recorded() -> None:
    with recorded() as streams:
        for uid in ("a", "b"):
            core = Engine()
            core.handle(PodSeen(Pod(uid, "team", uid)), 0.0)
            core.handle(Synced(0.0), 0.0)
    assert [stream.events for stream in streams.values()] == [2, 2]
    Engine().handle(Synced(0.0), 0.0)
    assert len(streams) == 2, "and none after the block"


def test_the_summary_knows_no_names_and_the_differences_do() -> None:
    before = {"tests/core/test_a.py::test_x": ["1", "2"], "tests/core/test_a.py::test_y": ["3"]}
    moved = {"tests/core/test_b.py::test_x": ["1", "2"], "tests/core/test_b.py::test_y": ["3"]}
    assert summary(before) == summary(moved)
    changed = {**before, "tests/core/test_a.py::test_y": ["4"]}
    assert summary(before) != summary(changed)
    assert differences(before, changed) == ["tests/core/test_a.py::test_y"]
