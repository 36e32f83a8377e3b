"""Each piece of state has one file that writes it: the table in writers.md, held against the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "extender" / "core"
TABLE = Path(__file__).with_name("writers.md").read_text()
ROWS = re.findall(r"^\| `([\w.]+)` \| .* \| `([\w./]+)` \|$", TABLE, re.MULTILINE)
CHANGING = ("add", "append", "clear", "pop", "popitem", "put", "setdefault", "update", "remove", "extend", "take")


def written(tree: ast.AST) -> Iterator[ast.expr]:
    """What is assigned to, deleted, or changed by a method."""
    for found in ast.walk(tree):
        match found:
            case ast.Assign(targets=targets) | ast.Delete(targets=targets):
                for target in targets:
                    yield from target.elts if isinstance(target, ast.Tuple) else [target]
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                yield target
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in CHANGING:
                yield value


def attributes(expression: ast.expr) -> tuple[str, ...]:
    """The names in ``a.b.c[...]``, the last first: ``("c", "b", "a")``."""
    while isinstance(expression, ast.Subscript):
        expression = expression.value
    names: list[str] = []
    while isinstance(expression, ast.Attribute):
        names.append(expression.attr)
        expression = expression.value
    return (*names, expression.id) if isinstance(expression, ast.Name) else tuple(names)


@cache
def written_in_the_core() -> list[tuple[str, tuple[str, ...]]]:
    """All of that: the name of the file, and the names in what is written."""
    trees = {str(path.relative_to(CORE)): ast.parse(path.read_text()) for path in sorted(CORE.rglob("*.py"))}
    return [(name, attributes(expression)) for name, tree in trees.items() for expression in written(tree)]


def test_the_table_is_there() -> None:
    assert len(ROWS) > 20
    assert len({what for what, _ in ROWS}) == len(ROWS)
    assert len(ROWS) == TABLE.count("\n| `")


@pytest.mark.parametrize(("what", "writer"), ROWS)
def test_nobody_else_writes_it(what: str, writer: str) -> None:
    """``release.last``: the attribute ``last`` of whatever is called ``release``, or of ``self`` in its own file."""
    owner, _, name = what.partition(".")
    found = []
    for file, names in written_in_the_core():
        ours = names[1:2] == ("self",) and file == writer
        if names[:1] == (name,) and (ours or names[1:2] in ((owner,), (f"_{owner}",))):
            found.append(file)
    assert set(found) == {writer}, f"{what} is written in {sorted(set(found))}"
