"""docs/topology.md, placement.md and advisory.md: the tables agree with the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed

from extender.config.catalogue import policy
from extender.core.gate.advisory import Mode
from extender.observe.metrics import Metrics
from policies.model.levels import PRESETS
from policies.strategies import packing
from tests.builders import cluster, gang
from tests.core.script import Script

DOCUMENT = Path(__file__).parent.parent / "docs" / "topology.md"
TEXT = DOCUMENT.read_text()
PLACEMENT = DOCUMENT.with_name("placement.md").read_text()


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_in_the_table_with_its_levels_in_order(preset: str) -> None:
    (row,) = re.findall(rf"^\| `{preset}` \|(.*)\|$", TEXT, re.MULTILINE)
    names = [level.name for level in PRESETS[preset] if not re.fullmatch(r"tier-[1-3]", level.name)]
    places = [re.search(rf"(?<![\w/.-]){name}\b", row) for name in names]
    assert all(places), row
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


@pytest.mark.parametrize("name", re.findall(r"^\| `([a-z-]+)`(?: \(default\))? \| (?:the|-)", PLACEMENT, re.MULTILINE))
def test_every_policy_of_the_table_can_be_chosen(name: str) -> None:
    assert callable(policy(name, "domains").domains)


def test_every_metric_that_is_named_is_told_with_the_labels_that_are_named() -> None:
    script = Script(*cluster("a: 2x8"), *gang("train", 3), mode=Mode.ADVISE)
    samples = [
        sample for family in parsed(Metrics(lambda: script.core.state).render().decode()) for sample in family.samples
    ]
    page = DOCUMENT.with_name("advisory.md").read_text()
    rows = re.findall(r"^\| `(muster_\w+)(?:\{(.*?)\})?` \|", page, re.MULTILINE)
    assert rows
    for metric, labels in rows:
        wanted = [condition.partition("=") for condition in labels.split(",") if condition]
        label_sets = [sample.labels for sample in samples if sample.name == metric]
        assert any(
            all(label in seen and (not equals or seen[label] == value.strip('"')) for label, equals, value in wanted)
            for seen in label_sets
        ), f"{metric}{{{labels}}} is not told: {label_sets}"


def test_the_scores_of_the_document_are_those_of_the_policy() -> None:
    table = PLACEMENT.partition("## Single pods")[2].partition('"In use" counts')[0]
    points = [int(points) for points in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)]
    assert points == [packing.BROKEN, packing.BROKEN_AROUND, packing.NODE_BROKEN, packing.FULL, packing.NODE_FULL]
    assert sum(points) == 100
