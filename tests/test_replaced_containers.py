"""No statement writes into a container that it replaces while it runs, because the write would be lost.

``self.amounts[self.line(name)] = amount`` takes ``self.amounts`` before ``line`` puts a larger array in its place.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FILES = sorted(path for package in ("dashboard", "extender", "policies") for path in (ROOT / package).rglob("*.py"))
Replaced = dict[str, set[str]]
"""Method -> the attributes of ``self`` that a call of it puts something else into; "*": any."""


def attribute(node: ast.AST) -> str | None:
    """Return the name in ``self.name``."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return None


def called(node: ast.AST) -> Iterator[str]:
    """Yield the methods of ``self`` that the expression calls."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and (name := attribute(inner.func)) is not None:
            yield name


def assigned(method: ast.AST) -> Iterator[str]:
    """Yield the attributes of ``self`` that are assigned to."""
    for node in ast.walk(method):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            yield "*"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and (name := attribute(node)):
            yield name


def replaced(owner: ast.ClassDef) -> Replaced:
    """Find out which fields each method replaces, also by the methods that it calls."""
    methods = {node.name: node for node in owner.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    fields = {name: set(assigned(method)) for name, method in methods.items()}
    calls = {name: set(called(method)) & methods.keys() for name, method in methods.items()}
    while True:
        more = {name: fields[name].union(*(fields[other] for other in calls[name])) for name in methods}
        if more == fields:
            return fields
        fields = more


def held(node: ast.AST) -> Iterator[tuple[ast.expr, list[ast.AST]]]:
    """Yield a container, and the expressions evaluated between taking it and writing into it or calling it."""
    match node:
        case ast.Assign(targets=targets):
            for target in targets:
                if isinstance(target, ast.Subscript):
                    yield target.value, [target.slice]
        case ast.AugAssign(target=ast.Subscript(value=value, slice=index), value=amount):
            yield value, [index, amount]
        case ast.AugAssign(target=target, value=amount):
            yield target, [amount]
        case ast.Call(func=ast.Attribute(value=value), args=arguments, keywords=keywords):
            yield value, [*arguments, *keywords]


def faults(source: str) -> Iterator[str]:
    """Yield each place where a container is replaced behind the reference that is written to."""
    for owner in ast.walk(ast.parse(source)):
        if not isinstance(owner, ast.ClassDef):
            continue
        methods = replaced(owner)
        for node in ast.walk(owner):
            for container, between in held(node):
                base = container
                while isinstance(base, ast.Subscript):
                    base = base.value
                if (name := attribute(base)) is None:
                    continue
                for method in (method for expression in between for method in called(expression)):
                    if methods.get(method, set()) & {name, "*"}:
                        yield f"line {node.lineno}: {ast.unparse(container)} is replaced by {method}()"  # type: ignore[attr-defined]


@cache
def written(path: Path) -> str:
    return path.read_text()


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_container_is_replaced_behind_a_reference(path: Path) -> None:
    assert list(faults(written(path))) == []


def test_the_fault_of_old_is_found() -> None:
    old = """
class Table:
    def put(self, amounts):
        for name, amount in amounts:
            self.amounts[self.line(name), 0] = amount
        self.amounts[0, 1] += self.line("cpu")
        self.names.extend(self.line(name) for name in amounts)

    def line(self, name):
        self.grow()
        return self.lines[name]

    def grow(self):
        self.amounts = larger(self.amounts)
"""
    assert sorted(fault.partition(":")[0] for fault in faults(old)) == ["line 5", "line 6"]
