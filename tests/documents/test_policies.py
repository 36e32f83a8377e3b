"""docs/policies.md: the policies work, are as short as they look, and the table has all that ship."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from extender.config import catalogue
from policies.model import GroupKey
from tests.documents.pages import ROOT, blocks

PAGE = ROOT / "docs" / "policies.md"
EMPTIEST, ITS_TEST, PATIENCE = (block.text for block in blocks(PAGE) if block.language == "python")


def test_the_topology_policy_passes_its_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "emptiest.py").write_text(EMPTIEST)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "emptiest", raising=False)
    names: dict[str, object] = {}
    exec(compile(ITS_TEST, PAGE.name, "exec"), names)  # noqa: S102
    tests = [run for name, run in names.items() if name.startswith("test_") and callable(run)]
    assert len(tests) == 1
    tests[0]()
    lines = len(EMPTIEST.split("class ")[1].splitlines()) + EMPTIEST.count("\nimport ") + EMPTIEST.count("\nfrom ")
    assert lines <= 20


def test_the_queue_policy_lets_nobody_wait_for_ever() -> None:
    names: dict[str, type] = {}
    exec(compile(PATIENCE, PAGE.name, "exec"), names)  # noqa: S102
    order = names["Patience"]().order

    def gang(created: float, priority: int) -> SimpleNamespace:
        return SimpleNamespace(key=GroupKey("team", "train"), created=created, priority=priority)

    assert order(gang(0, 1000)) < order(gang(0, 0))
    assert order(gang(0, 0)) < order(gang(3601, 1000))


@pytest.mark.parametrize("method", ["order", "domains", "score"])
def test_the_table_has_the_policies_that_ship(method: str) -> None:
    (row,) = (line for line in PAGE.read_text().splitlines() if line.startswith("|") and f"`{method}(" in line)
    named = re.findall(r"`([a-z-]+)`", row.split("|")[5])
    with pytest.raises(ValueError, match="is not a known policy") as known:
        catalogue.policy("no such policy", method)
    assert f"known here: {', '.join(named)}" in str(known.value)
