"""No decision follows the order of a set: the hash seed of the process gives it, and every replica has another one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_PURE = [path for folder in ("extender/core", "policies") for path in sorted(Path(folder).rglob("*.py"))]
_TYPES = {"set", "frozenset", "AbstractSet", "Set", "MutableSet"}
_OPEN = {"Collection", "Iterable"}
"""May be a set."""
_MAKE_SETS = {"set", "frozenset", "union", "difference", "intersection", "symmetric_difference"}
_ORDERLESS = {"any", "all", "sum", "len", "sorted", "min", "max", "update", "isdisjoint", "issubset", *_MAKE_SETS}
"""The functions that give the same result for every order of a set, or of a generator over one."""
_KEEP_ORDER = {
    "list",
    "tuple",
    "iter",
    "next",
    "enumerate",
    "zip",
    "map",
    "filter",
    "chain",
    "join",
    "fromkeys",
    "dict",
}
_KEEP_ORDER |= {"Counter", "deque", "extend", "from_iterable", "reversed", "listed", "array", "product", "combinations"}


class _Names(ast.NodeVisitor):
    """The names of fields and functions, with whether they are annotated as sets."""

    def __init__(self) -> None:
        self.fields: dict[str, bool] = {}
        self.functions: dict[str, bool] = {}

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        name = node.target.attr if isinstance(node.target, ast.Attribute) else getattr(node.target, "id", "")
        self._note(self.fields, name, node.annotation)
        self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        is_field = any(
            getattr(decorator, "id", getattr(decorator, "attr", "")).endswith("property")
            for decorator in node.decorator_list
        )
        self._note(self.fields if is_field else self.functions, node.name, node.returns)
        self.generic_visit(node)

    def _note(self, names: dict[str, bool], name: str, annotation: ast.expr | None) -> None:
        """A name that stands on several classes is a set's if all say so that do not leave it open."""
        if _root(annotation) not in _OPEN:
            names[name] = names.get(name, True) and _root(annotation) in _TYPES


def _root(annotation: ast.expr | None) -> str:
    """``frozenset[str]`` -> ``"frozenset"``; empty if the root is no plain name."""
    root = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return root.id if isinstance(root, ast.Name) else ""


class _Function:
    """A function, or the top of a module, with its variables that hold sets."""

    def __init__(self, node: ast.AST, names: _Names) -> None:
        self._names = names
        self._here = list(_own(node))
        self.sets: set[str] = set()
        arguments = getattr(node, "args", None)
        if isinstance(arguments, ast.arguments):
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            self.sets |= {argument.arg for argument in every if _root(argument.annotation) in _TYPES}
        for statement in self._here:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                self.sets |= {statement.target.id} if _root(statement.annotation) in _TYPES else set()
            if isinstance(statement, ast.Assign) and self._is_set(statement.value):
                self.sets |= {target.id for target in statement.targets if isinstance(target, ast.Name)}

    def places(self) -> Iterator[int]:
        """The lines at which the order of a set comes out."""
        free = {
            id(arg) for node in self._here if _called(node) in _ORDERLESS and not _has_key(node) for arg in _args(node)
        }
        for node in self._here:
            match node:
                case ast.For(iter=source) if self._is_set(source):
                    yield node.lineno
                case ast.ListComp() | ast.GeneratorExp() | ast.DictComp() if id(node) not in free:
                    yield from (node.lineno for generator in node.generators if self._is_set(generator.iter))
                case ast.List(elts=parts) | ast.Tuple(elts=parts):
                    yield from self._starred(parts)
                case ast.Call():
                    yield from self._call(node)

    def _call(self, call: ast.Call) -> Iterator[int]:
        name = _called(call)
        if name in _KEEP_ORDER or _has_key(call):
            yield from (call.lineno for arg in call.args if self._is_set(arg))
        if name not in _ORDERLESS:
            yield from self._starred(call.args)
        if name == "pop" and not call.args and isinstance(call.func, ast.Attribute) and self._is_set(call.func.value):
            yield call.lineno

    def _starred(self, parts: list[ast.expr]) -> Iterator[int]:
        yield from (
            argument.lineno for argument in parts if isinstance(argument, ast.Starred) and self._is_set(argument.value)
        )

    def _is_set(self, node: ast.expr) -> bool:
        match node:
            case ast.Set() | ast.SetComp():
                return True
            case ast.BinOp(left=left, op=ast.Sub() | ast.BitAnd() | ast.BitOr() | ast.BitXor(), right=right):
                return self._is_set(left) or self._is_set(right) or "keys" in (_called(left), _called(right))
            case ast.IfExp(body=body, orelse=other):
                return self._is_set(body) or self._is_set(other)
            case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                return name in _MAKE_SETS or self._names.functions.get(name, False)
            case ast.Name(id=name):
                return name in self.sets
            case ast.Attribute(attr=name):
                return self._names.fields.get(name, False)
        return False


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """Each node below this one, and none of a function inside it."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef):
            yield from _own(child)


def _called(node: ast.AST) -> str:
    func = node.func if isinstance(node, ast.Call) else None
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def _args(node: ast.AST) -> list[ast.expr]:
    return node.args if isinstance(node, ast.Call) else []


def _has_key(node: ast.AST) -> bool:
    """Whether the call has a key: ``min``, ``max`` and ``sorted`` keep the order of items with equal keys."""
    return isinstance(node, ast.Call) and any(keyword.arg == "key" for keyword in node.keywords)


def _places(tree: ast.Module, names: _Names) -> list[int]:
    functions = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))]
    return sorted({line for function in functions for line in _Function(function, names).places()})


def test_no_order_of_a_set_comes_out_in_the_core_or_the_policies() -> None:
    trees, names = {path: ast.parse(path.read_text()) for path in _PURE}, _Names()
    for tree in trees.values():
        names.visit(tree)
    assert [f"{path}:{line}" for path, tree in trees.items() for line in _places(tree, names)] == []


@pytest.mark.parametrize(
    "line",
    [
        "for one in {node for node in nodes}: tell(one)",
        "for one in before.keys() - after.keys(): tell(one)",
        "for one in this.done: tell(one)",
        "for one in made(): tell(one)",
        "tell([one for one in given])",
        "tell(', '.join({*nodes}))",
        "tell(', '.join(str(one) for one in given))",
        "tell((*nodes, *given))",
        "tell(next(iter(given)))",
        "tell(given.pop())",
        "tell(min(given, key=len))",
        "tell(min((one for one in given), key=len))",
        "found = set(nodes); tell(list(found))",
        "found = {one: 1 for one in given | this.done}",
        "tell(dict.fromkeys(given))",
    ],
)
def test_an_order_that_comes_out_is_found(line: str) -> None:
    assert _lines_of(line), line


@pytest.mark.parametrize(
    "line",
    [
        "for one in sorted(given): tell(one)",
        "for one in dict.fromkeys(nodes): tell(one)",
        "for one in nodes: tell(one)",
        "tell({one for one in given})",
        "tell(any(one.gone for one in given))",
        "tell(min(given))",
        "tell({*given, *nodes})",
        "tell(given.union(one for one in given))",
        "tell(len(given), one in given)",
        "tell(dict(pairs) | more)",
    ],
)
def test_what_is_the_same_in_every_order_is_none(line: str) -> None:
    assert not _lines_of(line), line


def _lines_of(line: str) -> list[int]:
    tree = ast.parse(
        "class This:\n    done: frozenset[str]\n"
        "def made() -> set[str]: ...\n"
        f"def decide(this: This, nodes: list[str], given: frozenset[str]) -> None:\n    {line}\n"
    )
    names = _Names()
    names.visit(tree)
    return _places(tree, names)
