"""docs/preemption.md: the example ends as the page says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from policies.model.queues import Evicts
from tests.builders import busy, cluster, snapshot
from tests.documents.pages import ROOT, blocks

PAGE = ROOT / "docs" / "preemption.md"
(EXAMPLE,) = (block.text for block in blocks(PAGE) if block.language == "python")
ANSWERS = [block.text for block in blocks(PAGE) if block.language == "text"]


def test_the_example_evicts_whom_the_page_says() -> None:
    names: dict[str, Any] = {}
    exec(compile(EXAMPLE, PAGE.name, "exec"), names)  # noqa: S102
    full = snapshot(cluster("a: 2x8", "b: 2x8"), *busy("a-0 a-1 b-0 b-1", 8))
    old, saved, young, production = names["there"]
    lower, higher = replace(production, priority=100), replace(production, priority=1000)
    answers = [
        names["evicted"](full),
        names["evicted"](full, [old, saved, young, lower]),
        names["evicted"](full, [replace(old, protected="it is protected"), saved, young, higher]),
    ]
    assert answers[:2] == ANSWERS[:2]
    assert answers[2].startswith(ANSWERS[2])


def test_the_table_of_rules_has_all_of_them() -> None:
    page = PAGE.read_text()
    assert [rule for rule in Evicts if f"| `{rule}` |" not in page] == []
