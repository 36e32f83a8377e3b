"""The writers of each piece of state: read from the signatures and the code, and for the rest held in writers.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache
from inspect import getsourcefile
from pathlib import Path
from types import ModuleType
from typing import Any, get_origin, get_type_hints

import pytest

from extender.core.engine import Engine
from extender.core.gate.advisory import Mode
from extender.core.ledger.state import State

ROOT = Path(__file__).parents[2]
CORE = ROOT / "extender" / "core"
TABLE = Path(__file__).with_name("writers.md").read_text()
ROWS = {
    what: re.findall(r"`([\w./]+)`", files)
    for what, files in re.findall(r"^\| `([\w.]+)` \| .* \| ([\w./`, ]+) \|$", TABLE, re.MULTILINE)
}
PARTS = {name: value for name, value in vars(State()).items() if type(value).__module__.startswith("extender.core")}
CHANGING = ("add", "append", "clear", "pop", "popitem", "put", "setdefault", "update", "remove", "extend", "take")
NAMED_TUPLES = ("_replace", "_asdict", "_fields")
WIRING = ("engine.py", "ledger/state.py")


def written(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that are assigned to, deleted, or changed by a method."""
    for node in ast.walk(tree):
        match node:
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


def assigned(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield the expressions that are assigned to or deleted."""
    calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
    called = {call.value for call in calls if isinstance(call, ast.Attribute)}
    return (expression for expression in written(tree) if expression not in called)


@cache
def trees() -> dict[str, ast.Module]:
    """The files of the core by their path in it."""
    return {str(path.relative_to(CORE)): ast.parse(path.read_text()) for path in sorted(CORE.rglob("*.py"))}


@cache
def written_in_the_core() -> list[tuple[str, tuple[str, ...]]]:
    """All writes: the name of the file, and the names in the written expression."""
    return [(name, attributes(expression)) for name, tree in trees().items() for expression in written(tree)]


def file_of(kind: type | ModuleType | Callable[..., object]) -> str:
    return str(Path(getsourcefile(kind) or "").relative_to(CORE))


@cache
def given() -> dict[str, dict[str, Any]]:
    """The values given to each part of the ledger, by file: read from the signatures of what an engine makes."""
    takers: dict[str, dict[str, Any]] = {name: {} for name in PARTS}
    make = State.make

    def noted(state: State, kind: Any, **others: object) -> Any:
        hints = {name.lstrip("_"): hint for name, hint in get_type_hints(kind.__init__).items()}
        for name in hints.keys() & PARTS.keys() - others.keys():
            takers[name][file_of(kind)] = hints[name]
        return make(state, kind, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(State, "make", noted)
        Engine()
        Engine(mode=Mode.ADVISE)
    return takers


def test_the_table_is_there() -> None:
    assert len(ROWS) > 20
    assert len(ROWS) == TABLE.count("\n| `")


def test_only_the_engine_takes_the_whole_state() -> None:
    takers = [
        f"{name}:{node.lineno}"
        for name, tree in trees().items()
        if name not in WIRING
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "State"
    ]
    assert not takers


@pytest.mark.parametrize("name", PARTS)
def test_what_is_named_like_a_part_is_that_part(name: str) -> None:
    """The engine hands out parts by the names of parameters, which mypy does not see."""
    for file, hint in given()[name].items():
        kind = get_origin(hint) or hint
        assert isinstance(PARTS[name], kind), f"{name} in {file} is a {hint}"


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_written_by_its_own_file_or_by_the_table(name: str) -> None:
    """A field of a part is written where its class is. Any other writer has a row, and has to be given the part."""
    own, others = file_of(type(PARTS[name])), set[tuple[str, str]]()
    for file, names in written_in_the_core():
        if len(names) > 1 and names[1] in (name, f"_{name}") and file != own:
            others.add((f"{name}.{names[0]}", file))
    listed = {(what, file) for what, files in ROWS.items() for file in files if what.startswith(f"{name}.")}
    assert others == listed
    assert all(file in WIRING or file in given()[name] for _, file in others)


def test_what_is_private_is_read_and_written_in_its_own_file_alone() -> None:
    for name, tree in trees().items():
        own = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and _is_self(node.value)}
        own |= {
            node.target.id
            for node in ast.walk(tree)
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr) and node.attr not in NAMED_TUPLES:
                assert _is_self(node.value) or node.attr in own, f"{ast.unparse(node)} in {name}:{node.lineno}"


def test_a_field_of_another_object_is_written_by_its_own_file_or_by_the_table() -> None:
    """Whatever the object is called: ``record.ran`` is a field of a class in the file, or it has a row."""
    fields = {file: fields_of(tree) for file, tree in trees().items()}
    of_the_core = set[str]().union(*fields.values())
    for file, tree in trees().items():
        for name, owner, *_ in filter(lambda names: len(names) > 1, map(attributes, assigned(tree))):
            known = owner == "self" or name in fields[file] or f"{owner.removeprefix('_')}.{name}" in ROWS
            assert known or name not in of_the_core, f"{owner}.{name} is written in {file}"


def fields_of(tree: ast.AST) -> set[str]:
    """The names of the fields of the classes in a file."""
    nodes = list(ast.walk(tree))
    declared = {
        node.target.id for node in nodes if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    stores = (node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store))
    return declared | {node.attr for node in stores if _is_self(node.value)}


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@pytest.mark.parametrize("what", [what for what in ROWS if what.split(".")[0] not in PARTS])
def test_no_other_file_writes_it(what: str) -> None:
    """``release.last``: the attribute ``last`` of an object called ``release``, or of ``self`` in its own file."""
    (writer,), (owner, _, name) = ROWS[what], what.partition(".")
    files = set[str]()
    for file, names in written_in_the_core():
        ours = names[1:2] == ("self",) and file == writer
        if names[:1] == (name,) and (ours or names[1:2] in ((owner,), (f"_{owner}",))):
            files.add(file)
    assert files == {writer}, f"{what} is written in {sorted(files)}"
