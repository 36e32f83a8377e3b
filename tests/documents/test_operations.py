"""docs/operations.md: every alert has its advice, and the capacity of a replica is the measured one."""

from __future__ import annotations

import re

import yaml

from benchmarks.capacity import capacity
from benchmarks.official import RESULTS
from benchmarks.record import read
from tests.documents.pages import ROOT

TEXT = (ROOT / "docs" / "operations.md").read_text()


def test_every_alert_has_its_advice_and_no_other() -> None:
    rules = yaml.safe_load((ROOT / "manifests" / "components" / "monitoring" / "alerts.yaml").read_text())
    alerts = [rule["alert"] for group in rules["groups"] for rule in group["rules"]]
    table = TEXT.partition("## Alerts")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`(Muster[A-Z]\w+)`", table)) == sorted(alerts)


def test_the_capacity_is_what_was_measured() -> None:
    contents = {path.stem: read(path) for path in RESULTS.glob("*.json")}
    rows = capacity(contents).rows
    assert all(measured != "-" for _, measured, _ in rows)
    assert all(f"| {what} | {measured} | {grows_with} |" in TEXT for what, measured, grows_with in rows)


def test_what_was_not_measured_is_a_dash() -> None:
    assert {measured for _, measured, _ in capacity({}).rows} == {"-"}
