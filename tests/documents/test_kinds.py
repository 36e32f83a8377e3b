"""docs/kinds.md has a row for each kind that is planned before its pods, and the tests that it names exist."""

from __future__ import annotations

import ast
import re

import pytest

from extender.kube.kinds.registry import KINDS
from tests.documents.pages import ROOT

PAGE = (ROOT / "docs" / "kinds.md").read_text()
TESTS = sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE)))
KIND = re.compile(r"^\| ((?:`\w+`(?:, )?)+) \(`([^`]+)`\)", re.MULTILINE)
"""The first cell of a row: kinds, and their version."""


def test_every_kind_that_is_planned_before_its_pods_has_a_row() -> None:
    kinds = [(kind, version) for cell, version in KIND.findall(PAGE) for kind in re.findall(r"\w+", cell)]
    assert len(set(kinds)) == len(kinds)
    without = {(kind.name, kind.version) for kind in KINDS} - set(kinds)
    assert without == set(), "docs/kinds.md has no row for them under 'Planned before their pods'"


@pytest.mark.parametrize("named", TESTS)
def test_a_test_that_is_named_exists(named: str) -> None:
    file, _, name = named.partition("::")
    functions = {
        node.name for node in ast.walk(ast.parse((ROOT / file).read_text())) if isinstance(node, ast.FunctionDef)
    }
    assert name in functions if name else any(function.startswith("test_") for function in functions)
