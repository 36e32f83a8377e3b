"""Each act on a workload is one method with few callers: the table in acts.md, held against the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.core.test_writers import CORE, attributes

TABLE = Path(__file__).with_name("acts.md").read_text()
ROWS = re.findall(r"^\| [^`]+ \| `(\w+)\.(\w+)` \| `([\w/]+\.py)` \| ([^|]+) \| (?:`(\w+)` )?\|", TABLE, re.MULTILINE)
ALSO_CALLED = {"job": ("record",)}
"""Other names of an object whose method an act is."""
NAMESAKES = {"Evict": {"preemption/preempt.py"}}
"""Files in which something else has the name of an effect."""


def functions(body: list[ast.stmt], before: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions of a file, with the names of their classes."""
    for item in body:
        if isinstance(item, ast.ClassDef):
            yield from functions(item.body, f"{item.name}.")
        elif isinstance(item, ast.FunctionDef):
            yield f"{before}{item.name}", item


@cache
def calls() -> list[tuple[str, str, tuple[str, ...]]]:
    """The calls in the core: the file, the function that calls, and the names in the expression, the last first."""
    files = {str(path.relative_to(CORE)): ast.parse(path.read_text()).body for path in sorted(CORE.rglob("*.py"))}
    return [
        (file, name, attributes(call.func))
        for file, body in files.items()
        for name, function in functions(body)
        for call in ast.walk(function)
        if isinstance(call, ast.Call)
    ]


def test_the_table_is_read() -> None:
    assert len(ROWS) > 20
    assert len(ROWS) == TABLE.count("\n| ") - 1, "a row is not read"


@pytest.mark.parametrize(("owner", "method", "file", "callers"), [row[:4] for row in ROWS])
def test_an_act_is_taken_by_these_and_no_others(owner: str, method: str, file: str, callers: str) -> None:
    """``acts.start`` is the method ``start`` of any object called ``acts``, or of ``self`` in its own file."""
    assert f"    def {method}(" in (CORE / file).read_text()
    known = (owner, *ALSO_CALLED.get(owner, ()))
    forms = {(method, name) for name in (*known, *(f"_{name}" for name in known))}
    callers_found = {
        name
        for where, name, called in calls()
        if called[:2] in forms or (called[:2] == (method, "self") and where == file)
    }
    assert callers_found == set(re.findall(r"`([\w.]+)`", callers))


@pytest.mark.parametrize("effect", sorted({row[4] for row in ROWS if row[4]}))
def test_an_effect_is_asked_for_where_its_act_is(effect: str) -> None:
    made = {where for where, _, called in calls() if called == (effect,)}
    assert made - NAMESAKES.get(effect, set()) == {file for _, _, file, _, of in ROWS if of == effect}
