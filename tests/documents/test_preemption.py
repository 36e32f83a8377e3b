"""docs/preemption.md: its table has every rule of a ClusterQueue."""

from __future__ import annotations

from policies.model.queues import Evicts
from tests.documents.pages import ROOT

PAGE = ROOT / "docs" / "preemption.md"


def test_the_table_of_rules_has_all_of_them() -> None:
    page = PAGE.read_text()
    assert [rule for rule in Evicts if f"| `{rule}` |" not in page] == []
