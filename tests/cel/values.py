"""Find policies that write a list or a map of an object into the object itself.

Kubernetes 1.37 reads built-in objects lazily. A list, a map or a struct of one cannot be the value of a JSON patch, nor
a part of it; scalars can, and so can what the expression makes itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from policies.devices.parsing import Expr, parse


class Scalar(NamedTuple):
    """A string, a number or a boolean: its value, or its possible values, where known."""

    known: object = None
    among: tuple[object, ...] = ()


class Made(NamedTuple):
    """A list or a map that the expression makes. ``fields``: of a map, by key; ``items``: all that is in it."""

    items: Value
    fields: Mapping[str, Value] | None = None


class Taken(NamedTuple):
    """A part of the object, or of the request's facts. ``texts``: a map of strings; else of any type."""

    texts: bool = False


class Nothing(NamedTuple):
    """No value at all, as an item of an empty list."""


Value = Scalar | Made | Taken | Nothing

_TEXTS = ("annotations", "labels", "nodeSelector", "matchLabels")
_SCALARS = (
    *("size", "string", "int", "bool", "double", "startsWith", "endsWith", "contains", "matches", "replace", "trim"),
    *("join", "has", "hasValue", "isQuantity", "compareTo", "escapeKey", "lowerAscii"),
    *("group", "resource", "subresource", "check", "allowed"),
)
"""Functions that return one, and those of the authorizer."""


def faults(policy: Mapping[str, object], kind: str, group: str) -> list[str]:
    """The paths of JSON patches of this policy for an object of that built-in kind whose value the API server of 1.37
    may refuse."""
    spec = policy["spec"]
    assert isinstance(spec, dict)
    reader = _Reader(
        {variable["name"]: parse(variable["expression"]) for variable in spec.get("variables", ())}, kind, group
    )
    patches = [mutation["jsonPatch"]["expression"] for mutation in spec["mutations"]]
    return [fault for patch in patches for fault in reader.faults(parse(patch))]


class _Reader:
    def __init__(self, variables: Mapping[str, Expr], kind: str, group: str) -> None:
        self._variables = variables
        self._request = {"kind": Scalar(kind), "group": Scalar(group)}
        self._known: dict[str, Value] = {}
        self._found: list[str] = []

    def faults(self, patch: Expr) -> Iterator[str]:
        self._found = []
        self.value(patch, {})
        yield from dict.fromkeys(self._found)

    def value(self, tree: Expr, scope: Mapping[str, Value]) -> Value:
        match tree:
            case Expr("literal", known):
                return Scalar(known)
            case Expr("name", str(name)):
                return scope.get(name, Taken())
            case Expr("list" | "map" as kind, _, parts):
                return _made(kind, [self.value(element, scope) for element in parts if element])
            case Expr("object", _, parts):
                return self._patch(parts, scope)
            case Expr("if", _, (Expr() as condition, Expr() as chosen, Expr() as other)):
                return self._if(self.value(condition, scope), chosen, other, scope)
            case Expr("field" | "field?", str(name), (Expr() as of,)):
                return self._field(of, name, scope)
            case Expr("index" | "index?", _, (Expr() as of, Expr() as key)):
                return _item(self.value(of, scope), self.value(key, scope))
            case Expr("call", str(name), (receiver, *arguments)):
                return self._call(name, receiver, [argument for argument in arguments if argument], scope)
            case Expr(sign, _, parts):
                return _combined(sign, [self.value(operand, scope) for operand in parts if operand])
        raise AssertionError(tree)

    def _patch(self, parts: tuple[Expr | None, ...], scope: Mapping[str, Value]) -> Value:
        """A JSONPatch."""
        fields = {str(key.word): value for key, value in zip(parts[::2], parts[1::2], strict=True) if key and value}
        if "value" in fields and _holds_taken(self.value(fields["value"], scope)):
            path = self.value(fields["path"], scope)
            self._found.append(str(path.known if isinstance(path, Scalar) else "") or str(fields["path"]))
        return Scalar()

    def _if(self, condition: Value, chosen: Expr, other: Expr, scope: Mapping[str, Value]) -> Value:
        known = condition.known if isinstance(condition, Scalar) else None
        if isinstance(known, bool):
            return self.value(chosen if known else other, scope)
        return _either([self.value(chosen, scope), self.value(other, scope)])

    def _field(self, of: Expr, name: str, scope: Mapping[str, Value]) -> Value:
        if of == Expr("name", "variables"):
            if name not in self._known:
                self._known[name] = self.value(self._variables[name], {})
            return self._known[name]
        if of == Expr("field", "kind", (Expr("name", "request"),)):
            return self._request.get(name, Scalar())
        if of == Expr("name", "request") and name in ("operation", "name", "namespace"):
            return Scalar()
        value = self.value(of, scope)
        if isinstance(value, Taken):
            return Scalar() if value.texts else Taken(name in _TEXTS)
        return _item(value, Scalar(name))

    def _call(self, name: str, receiver: Expr | None, arguments: list[Expr], scope: Mapping[str, Value]) -> Value:
        if name in ("map", "filter", "exists", "all", "exists_one"):
            assert receiver is not None
            return self._macro(name, self.value(receiver, scope), arguments, scope)
        own = None if receiver is None else self.value(receiver, scope)
        values = [self.value(argument, scope) for argument in arguments]
        if name == "size" and _is_empty(values[0] if values else own):
            return Scalar(0)
        if name in _SCALARS:
            return Scalar()
        if name in ("split", "range"):
            return Made(Scalar())
        if name in ("dyn", "quantity"):
            return values[0]
        if name == "none":
            return Nothing()
        if name == "flatten":
            return own.items if isinstance(own, Made) and isinstance(own.items, Made | Taken) else Made(Nothing())
        if name == "orValue":
            # The types agree: where a scalar stands in for it, it is one.
            return Scalar() if isinstance(values[0], Scalar) else _either([own or Nothing(), values[0]])
        if name == "or":
            return _either([own or Nothing(), values[0]])
        raise NotImplementedError(f"{name}() of CEL: say in {__name__} what it returns")

    def _macro(self, name: str, of: Value, arguments: list[Expr], scope: Mapping[str, Value]) -> Value:
        # Over a map of strings, and over any map, the macro iterates over the keys.
        item = of.items if isinstance(of, Made) else Scalar() if of == Taken(texts=True) else Taken()
        if item == Nothing():
            return of
        inner = {**scope, str(arguments[0].word): item}
        results = [self.value(argument, inner) for argument in arguments[1:]]
        if name == "filter":
            never = isinstance(results[-1], Scalar) and results[-1].known is False
            return Made(Nothing() if never else item)
        return Made(results[-1]) if name == "map" else Scalar()


def _made(kind: str, values: list[Value]) -> Value:
    if kind == "list":
        return Made(_either(values))
    names = [str(key.known) for key in values[::2] if isinstance(key, Scalar)]
    return Made(_either(values[1::2]), dict(zip(names, values[1::2], strict=True)))


def _item(of: Value, key: Value) -> Value:
    if isinstance(of, Made):
        named = of.fields.get(str(key.known)) if of.fields is not None and isinstance(key, Scalar) else None
        return of.items if named is None else named
    return Scalar() if of in (Taken(texts=True), Scalar()) else of


def _combined(sign: str, values: list[Value]) -> Value:
    known = [value.known for value in values if isinstance(value, Scalar) and value.known is not None]
    match sign:
        case "&&" | "||":
            ends = sign == "||"
            if ends in known:
                return Scalar(ends)
            return Scalar((not ends) if known == [not ends] * 2 else None)
        case "!":
            return Scalar(not known[0] if known else None)
        case "==" | "!=":
            return Scalar((known[0] == known[1]) is (sign == "==") if len(known) == 2 else None)
        case "in":
            among = values[1]
            if _is_empty(among):
                return Scalar(known=False)
            if isinstance(among, Made) and isinstance(among.items, Scalar) and known:
                return Scalar(known[0] in among.items.among if among.items.among else None)
            return Scalar()
        case "+" if not all(isinstance(value, Scalar) for value in values):
            return Made(_either(value.items if isinstance(value, Made) else value for value in values))
    return Scalar()


def _either(values: Iterable[Value]) -> Value:
    """Return the value that stands for all of these."""
    present = [value for value in values if value != Nothing()]
    if not present:
        return Nothing()
    if any(isinstance(value, Taken) for value in present):
        return Taken(texts=all(value == Taken(texts=True) or value == Made(Nothing(), {}) for value in present))
    if any(isinstance(value, Made) for value in present):
        fields = [value.fields for value in present if isinstance(value, Made)]
        same = fields[0] if len(present) == 1 or all(other == fields[0] for other in fields) else None
        return Made(_either([value.items if isinstance(value, Made) else value for value in present]), same)
    scalars = [value for value in present if isinstance(value, Scalar)]
    if all(scalar.known is not None for scalar in scalars):
        among = tuple(dict.fromkeys(scalar.known for scalar in scalars))
        return Scalar(among[0] if len(among) == 1 else None, among)
    return Scalar()


def _is_empty(value: Value | None) -> bool:
    return isinstance(value, Made) and value.items == Nothing()


def _holds_taken(value: Value) -> bool:
    return isinstance(value, Taken) or (isinstance(value, Made) and _holds_taken(value.items))
