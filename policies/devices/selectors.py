"""Evaluate the selectors of device requests: a strict part of CEL, which refuses the rest by name.

Why not a library: three were tried in November 2026 on the 43 selectors of ``tests/policies/devices/vendors.py``, which
NVIDIA, Intel, AMD and Google ship or print. Functions of quantities and versions were added to each.

============================== ===== ======= ===== ============== ==========
                               right refused wrong one evaluation installs
============================== ===== ======= ===== ============== ==========
common-expression-language 0.10   41       2     0          18 us       6 MB
cel-python 0.5                    39       2     2         801 us      20 MB
cel-expr-python 0.1.3             36       0     7          62 us      50 MB
this file                         43       0     0           8 us          0
============================== ===== ======= ===== ============== ==========

- No library has quantities, versions, or maps that are empty where a domain is missing. Without types of our own a
  quantity has to be a number and a version a list: ``memory > 5`` is answered then, where CEL fails.
- A wrong answer is worse than none. What is refused here is left to kube-scheduler, and named.
- What a selector looks at is seen while it is evaluated. So devices with the same values there are evaluated once:
  an answer that is remembered takes 0.5 us. No library shows that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from policies.devices.parsing import Expr, parse
from policies.devices.patterns import UnreadPatternError, matcher
from policies.model.devices import Facts, Flag, Path, Quantity, Value, Version
from policies.model.quantities import exact

_LONGEST = 10 << 10
"""The API server accepts no longer selector."""
_INT = 1 << 63
_ATTRIBUTES, _CAPACITY = "attributes", "capacity"


class UnreadSelectorError(Exception):
    """The selector uses an unsupported part of CEL; the message names it."""


class SelectorError(Exception):
    """CEL fails on a device, which makes kube-scheduler give up its attempt."""


class Maps(NamedTuple):
    """``device.attributes`` or ``device.capacity``: a map for each domain; empty for a domain that the device lacks."""

    kind: str


class Domain(NamedTuple):
    """The attributes or capacities of one domain."""

    kind: str
    domain: str


class Maybe(NamedTuple):
    """An optional value: a tuple of none or one."""

    values: tuple[Any, ...] = ()


Look = Callable[[Path], Value | None]
"""Returns the fact of a device at a path, or None."""
Scope = Mapping[str, Any]
Eval = Callable[[Look, Scope], Any]
_DEVICE = object()


class Selector:
    """A compiled expression. Raises UnreadSelectorError if it uses an unsupported part of CEL."""

    def __init__(self, text: str) -> None:
        try:
            if len(text) > _LONGEST:
                raise SyntaxError("it is too long")
            self._eval = _compiled(parse(text), frozenset())
        except (SyntaxError, ValueError) as error:
            raise UnreadSelectorError(str(error)) from None

    def __call__(self, look: Look) -> bool:
        """Whether a device matches. Raises SelectorError if CEL fails on it."""
        answer = self._eval(look, {})
        if not isinstance(answer, bool):
            raise SelectorError("it is no boolean")
        return answer


@dataclass(slots=True)
class _Branch:
    """A node of the tree of looks: the path to look at, and the next node or the verdict for each value."""

    path: Path
    next: dict[Value | None, _Branch | bool | str] = field(default_factory=dict)


class Verdicts:
    """The verdicts of several selectors, all of which a device has to match, in order.

    All looks at a device are remembered as a tree. For a device whose values at these paths are known, the verdict
    takes only a few lookups. The tree is dropped when it has grown large, as it does for selectors of single devices.
    """

    _MOST = 1 << 14

    def __init__(self, selectors: Sequence[Selector]) -> None:
        self._selectors = tuple(selectors)
        self._root: _Branch | bool | str | None = None
        self._size = 0

    def of(self, facts: Facts) -> bool | str:
        """Whether the device matches; the error's text if CEL fails on it."""
        at = self._root
        while type(at) is _Branch:
            at = at.next.get(facts.get(at.path))
        return self._evaluate(facts) if at is None else at  # type: ignore[return-value]

    def _evaluate(self, facts: Facts) -> bool | str:
        looks: dict[Path, Value | None] = {}

        def look(path: Path) -> Value | None:
            value = looks[path] = facts.get(path)
            return value

        verdict: bool | str = True
        try:
            verdict = all(selector(look) for selector in self._selectors)
        except SelectorError as error:
            verdict = str(error)
        self._remember(looks, verdict)
        return verdict

    def _remember(self, looks: Mapping[Path, Value | None], verdict: bool | str) -> None:
        if self._size >= self._MOST:
            self._root, self._size = None, 0
        self._size += 1
        steps = list(looks.items())
        if not steps:
            self._root = verdict
            return
        if not isinstance(self._root, _Branch):
            self._root = _Branch(steps[0][0])
        at = self._root
        for (_, value), (path, _) in pairwise(steps):
            then = at.next.get(value)
            if not isinstance(then, _Branch):
                then = at.next[value] = _Branch(path)
            at = then
        at.next[steps[-1][1]] = verdict


def _compiled(tree: Expr | None, bound: frozenset[str]) -> Eval:  # noqa: C901 - a case for each kind of expression
    match tree:
        case Expr("literal", None):
            raise UnreadSelectorError("null")
        case Expr("literal", word):
            return lambda _, __: word
        case Expr("name", "device"):
            return lambda _, __: _DEVICE
        case Expr("name", str(name)) if name in bound:
            return lambda _, scope: scope[name]
        case Expr(("field" | "field?") as kind, str(name), (of,)):
            return _selected(_compiled(of, bound), lambda _, __: name, optional=kind == "field?", dotted=True)
        case Expr(("index" | "index?") as kind, _, (of, key)):
            return _selected(_compiled(of, bound), _compiled(key, bound), optional=kind == "index?", dotted=False)
        case Expr("list", _, parts):
            items = [_compiled(operand, bound) for operand in parts]
            return lambda look, scope: [item(look, scope) for item in items]
        case Expr("if", _, (condition, then, other)):
            return _conditional(*(_compiled(operand, bound) for operand in (condition, then, other)))
        case Expr("&&" | "||" as sign, _, (left, right)):
            return _logical(_compiled(left, bound), _compiled(right, bound), decisive=sign == "||")
        case Expr("!" | "-" as sign, _, (of,)):
            return _unary(sign, _compiled(of, bound))
        case Expr(sign, _, (left, right)) if sign in _OPERATORS:
            return _binary(_OPERATORS[sign], _compiled(left, bound), _compiled(right, bound))
        case Expr("call", str(name), parts):
            return _called(name, parts, bound)
        case Expr(kind, word):
            raise UnreadSelectorError(f"{word or kind}")
    raise UnreadSelectorError("an empty expression")


def _selected(of: Eval, key: Eval, *, optional: bool, dotted: bool) -> Eval:
    def evaluate(look: Look, scope: Scope) -> Any:
        value, name = of(look, scope), key(look, scope)
        chained = isinstance(value, Maybe)
        if chained:
            if not value.values:
                return value
            value = value.values[0]
        member = _member(value, name, look, dotted=dotted)
        if optional or chained:
            return Maybe() if member is None else Maybe((member,))
        if member is None:
            raise SelectorError(f"no such key: {name}")
        return member

    return evaluate


def _member(value: Any, name: Any, look: Look, *, dotted: bool) -> Any:
    """Return the value of a map under that key, or of the device under that field; None if there is none."""
    if value is _DEVICE and dotted:
        if name == "driver":
            return look(("driver",))
        if name in (_ATTRIBUTES, _CAPACITY):
            return Maps(name)
        raise UnreadSelectorError(f"device.{name}")
    if isinstance(value, Maps) and isinstance(name, str):
        return Domain(value.kind, name)
    if isinstance(value, Domain) and isinstance(name, str):
        fact = look((value.kind, value.domain, name))
        return fact.value if isinstance(fact, Flag) else fact
    if isinstance(value, list) and type(name) is int and not dotted:
        if not 0 <= name < len(value):
            raise SelectorError(f"index out of bounds: {name}")
        return value[name]
    raise SelectorError("no such overload")


def _conditional(condition: Eval, then: Eval, other: Eval) -> Eval:
    def evaluate(look: Look, scope: Scope) -> Any:
        answer = condition(look, scope)
        if not isinstance(answer, bool):
            raise SelectorError("no such overload")
        return then(look, scope) if answer else other(look, scope)

    return evaluate


def _logical(left: Eval, right: Eval, *, decisive: bool) -> Eval:
    return lambda look, scope: _decided((partial(side, look, scope) for side in (left, right)), decisive=decisive)


def _decided(answers: Iterable[Callable[[], Any]], *, decisive: bool) -> bool:
    """Return ``decisive`` if one of the answers is that, even if another one is an error."""
    error: SelectorError | None = None
    for answer in answers:
        try:
            value = answer()
        except SelectorError as failed:
            error = error or failed
            continue
        if not isinstance(value, bool):
            error = error or SelectorError("no such overload")
        elif value is decisive:
            return decisive
    if error is not None:
        raise error
    return not decisive


def _unary(sign: str, of: Eval) -> Eval:
    def evaluate(look: Look, scope: Scope) -> Any:
        value = of(look, scope)
        if sign == "!" and isinstance(value, bool):
            return not value
        if sign == "-" and type(value) in (int, float):
            return _bounded(-value)
        raise SelectorError("no such overload")

    return evaluate


def _binary(operator: Callable[[Any, Any, Look], Any], left: Eval, right: Eval) -> Eval:
    return lambda look, scope: operator(left(look, scope), right(look, scope), look)


def _equal(left: Any, right: Any) -> bool:
    numbers = (int, float)
    if type(left) in numbers and type(right) in numbers:
        return bool(left == right)
    for value, other in ((left, right), (right, left)):
        if isinstance(value, (Maps, Domain, Maybe)) or value is _DEVICE:
            raise UnreadSelectorError("a comparison of maps or optional values")
        if isinstance(value, (Quantity, Version)) and type(value) is not type(other):
            raise SelectorError("no such overload")
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _ordered(left: Any, right: Any) -> int:
    """Compare two values: -1, 0 or 1."""
    numbers = (int, float)
    comparable = type(left) is type(right) and isinstance(left, (str, bool))
    if not (comparable or (type(left) in numbers and type(right) in numbers)):
        raise SelectorError("no such overload")
    return int(left > right) - int(left < right)


def _within(left: Any, right: Any, look: Look) -> bool:
    if isinstance(right, list):
        return any(_equal(left, item) for item in right)
    if isinstance(right, Maps) and isinstance(left, str):
        return look((right.kind, left)) is not None
    if isinstance(right, Domain) and isinstance(left, str):
        return look((right.kind, right.domain, left)) is not None
    raise SelectorError("no such overload")


def _bounded(number: Any) -> Any:
    if type(number) is int and not -_INT <= number < _INT:
        raise SelectorError("integer overflow")
    return number


def _added(left: Any, right: Any, _: Look) -> Any:
    if type(left) is type(right) and type(left) in (int, float, str):
        return _bounded(left + right)
    raise SelectorError("no such overload")


def _calculated(how: Callable[[int, int], int]) -> Callable[[Any, Any, Look], int]:
    def evaluate(left: Any, right: Any, _: Look) -> int:
        if type(left) is not int or type(right) is not int:
            raise SelectorError("no such overload")
        try:
            return int(_bounded(how(left, right)))
        except ZeroDivisionError:
            raise SelectorError("division by zero") from None

    return evaluate


def _divided(left: int, right: int) -> int:
    """Divide and round towards zero, as Go does."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


_OPERATORS: Mapping[str, Callable[[Any, Any, Look], Any]] = {
    "==": lambda left, right, _: _equal(left, right),
    "!=": lambda left, right, _: not _equal(left, right),
    "<": lambda left, right, _: _ordered(left, right) < 0,
    "<=": lambda left, right, _: _ordered(left, right) <= 0,
    ">": lambda left, right, _: _ordered(left, right) > 0,
    ">=": lambda left, right, _: _ordered(left, right) >= 0,
    "in": _within,
    "+": _added,
    "-": _calculated(lambda left, right: left - right),
    "*": _calculated(lambda left, right: left * right),
    "/": _calculated(_divided),
    "%": _calculated(lambda left, right: left - right * _divided(left, right)),
}


def _called(name: str, parts: Sequence[Expr | None], bound: frozenset[str]) -> Eval:
    match name, parts:
        case "has", (None, Expr("field", str(key), (of,))):
            return _has(_compiled(of, bound), key)
        case "bind", (Expr("name", "cel"), Expr("name", str(variable)), value, body):
            return _bind(variable, _compiled(value, bound), _compiled(body, bound | {variable}))
        case (("exists" | "all"), (of, Expr("name", str(variable)), body)):
            return _quantified(name, _compiled(of, bound), variable, _compiled(body, bound | {variable}))
        case "matches", (of, Expr("literal", str(pattern))):
            return _method(_matching(pattern), [_compiled(of, bound)])
        case _, (None, *arguments) if (name, len(arguments)) in _FUNCTIONS:
            return _method(_FUNCTIONS[name, len(arguments)], [_compiled(argument, bound) for argument in arguments])
        case _, (of, *arguments) if of is not None and (name, len(arguments)) in _METHODS:
            return _method(_METHODS[name, len(arguments)], [_compiled(expr, bound) for expr in (of, *arguments)])
    raise UnreadSelectorError(f"{name}()")


def _has(of: Eval, key: str) -> Eval:
    def evaluate(look: Look, scope: Scope) -> bool:
        value = of(look, scope)
        if isinstance(value, Maybe):
            raise UnreadSelectorError("has() of an optional value")
        return _member(value, key, look, dotted=True) is not None

    return evaluate


def _bind(variable: str, value: Eval, body: Eval) -> Eval:
    return lambda look, scope: body(look, {**scope, variable: value(look, scope)})


def _quantified(name: str, of: Eval, variable: str, body: Eval) -> Eval:
    decisive = name == "exists"

    def evaluate(look: Look, scope: Scope) -> bool:
        items = of(look, scope)
        if not isinstance(items, list):
            raise UnreadSelectorError(f"{name}() of a map")
        answers = (partial(body, look, {**scope, variable: item}) for item in items)
        return _decided(answers, decisive=decisive)

    return evaluate


def _method(call: Callable[..., Any], arguments: Sequence[Eval]) -> Eval:
    def evaluate(look: Look, scope: Scope) -> Any:
        return call(*(argument(look, scope) for argument in arguments))

    return evaluate


def _matching(pattern: str) -> Callable[[Any], bool]:
    try:
        matches = matcher(pattern)
    except UnreadPatternError as error:
        raise UnreadSelectorError(f"matches() with {error}") from None
    return lambda text: matches(_of(str, text))


def _of(kind: type[Any] | tuple[type[Any], ...], value: Any) -> Any:
    if type(value) is kind or (isinstance(kind, tuple) and type(value) in kind):
        return value
    raise SelectorError("no such overload")


def _quantity(text: Any) -> Quantity:
    try:
        return Quantity(exact(_of(str, text)))
    except ValueError as error:
        raise SelectorError(str(error)) from None


def _version(text: Any) -> Version:
    if (known := version(_of(str, text))) is None:
        raise SelectorError(f"{text[:40]!r} is no semantic version")
    return known


_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?", re.ASCII)


def version(text: str) -> Version | None:
    """Parse a semantic version and drop its build; None if the text is none."""
    match = _VERSION.fullmatch(text) if len(text) <= 256 else None
    if match is None:
        return None
    parts = match[4].split(".") if match[4] else []
    if not all(parts):
        return None
    pre = tuple((0, int(identifier), "") if identifier.isdecimal() else (1, 0, identifier) for identifier in parts)
    return Version(int(match[1]), int(match[2]), int(match[3]), pre)


def _rank(value: Any) -> tuple[Any, ...]:
    """The sort key of a version or a quantity. A pre-release comes before its release."""
    if isinstance(value, Version):
        return value.major, value.minor, value.patch, not value.pre, value.pre
    return (value.amount,)


def _compared(left: Any, right: Any) -> int:
    if type(_of((Quantity, Version), left)) is not type(right):
        raise SelectorError("no such overload")
    here, there = _rank(left), _rank(right)
    return int(here > there) - int(here < there)


def _integer(value: Any) -> int:
    amount: Fraction = _of(Quantity, value).amount
    if amount.denominator != 1:
        raise SelectorError("the quantity is no integer")
    return int(_bounded(amount.numerator))


def _size(value: Any) -> int:
    if isinstance(value, (Maps, Domain)):
        raise UnreadSelectorError("size() of a map")
    return len(_of((str, list), value))


def _or_value(value: Any, other: Any) -> Any:
    return value.values[0] if _of(Maybe, value).values else other


_LOWER = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_UPPER = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}
_FUNCTIONS: Mapping[tuple[str, int], Callable[..., Any]] = {
    ("quantity", 1): _quantity,
    ("semver", 1): _version,
    ("size", 1): _size,
}
_METHODS: Mapping[tuple[str, int], Callable[..., Any]] = {
    ("startsWith", 1): lambda text, prefix: _of(str, text).startswith(_of(str, prefix)),
    ("endsWith", 1): lambda text, suffix: _of(str, text).endswith(_of(str, suffix)),
    ("contains", 1): lambda text, inside: _of(str, inside) in _of(str, text),
    ("lowerAscii", 0): lambda text: _of(str, text).translate(_LOWER),
    ("upperAscii", 0): lambda text: _of(str, text).translate(_UPPER),
    ("size", 0): _size,
    ("isGreaterThan", 1): lambda left, right: _compared(left, right) > 0,
    ("isLessThan", 1): lambda left, right: _compared(left, right) < 0,
    ("compareTo", 1): _compared,
    ("asInteger", 0): _integer,
    ("major", 0): lambda value: _of(Version, value).major,
    ("minor", 0): lambda value: _of(Version, value).minor,
    ("patch", 0): lambda value: _of(Version, value).patch,
    ("orValue", 1): _or_value,
    ("hasValue", 0): lambda value: bool(_of(Maybe, value).values),
}


_WHERE = re.compile(r"device\.(?:attributes|capacity)\[(['\"])[^'\"]*\1\]\.?")
_COMPARED = re.compile(r"\.compareTo\(\w+\((['\"])([^'\"]*)\1\)\)\s*([=!<>]=|[<>])\s*0")
_GREATER = re.compile(r"\.isGreaterThan\(\w+\((['\"])([^'\"]*)\1\)\)")
_LESS = re.compile(r"\.isLessThan\(\w+\((['\"])([^'\"]*)\1\)\)")


def in_short(selector: str) -> str:
    """Shorten a selector for people: ``"memory >= 40Gi"``."""
    text = _COMPARED.sub(r" \3 \2", _WHERE.sub("", selector))
    return " ".join(_LESS.sub(r" < \2", _GREATER.sub(r" > \2", text)).split())
