"""docs/topology.md: its policy works and is as short as it says, its table has every preset, its example reads so."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from extender.catalogue import policy
from policies.levels import PRESETS

TEXT = (Path(__file__).parent.parent / "docs" / "topology.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_the_policy_of_the_document_passes_the_test_of_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, test = blocks("python")
    (tmp_path / "emptiest.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "emptiest", raising=False)
    names: dict[str, object] = {}
    exec(compile(test, "docs/topology.md", "exec"), names)  # noqa: S102
    tests = [run for name, run in names.items() if name.startswith("test_") and callable(run)]
    assert len(tests) == 1
    tests[0]()
    assert len(code.split("class ")[1].splitlines()) + code.count("\nimport ") + code.count("\nfrom ") <= 20


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_is_in_the_table_with_its_levels_in_order(preset: str) -> None:
    (row,) = re.findall(rf"^\| `{preset}` \|(.*)\|$", TEXT, re.MULTILINE)
    names = [level.name for level in PRESETS[preset] if not re.fullmatch(r"tier-[1-3]", level.name)]
    places = [re.search(rf"(?<![\w/.-]){name}\b", row) for name in names]
    assert all(places), row
    starts = [place.start() for place in places if place]
    assert starts == sorted(starts)


@pytest.mark.parametrize("name", re.findall(r"^\| `([a-z-]+)`(?: \(default\))? \| (?:the|-)", TEXT, re.MULTILINE))
def test_every_policy_of_the_table_can_be_chosen(name: str) -> None:
    assert callable(policy(name, "domains").domains)
