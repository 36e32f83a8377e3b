"""Faults in settings, as sentences for their author."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

_MAPPING, _WHOLE, _NUMBER = "it should be a mapping of names to values", "a whole number", "a number"
_REWORDED = {
    "extra_forbidden": "there is no such setting",
    "missing": "it is missing",
    "tuple_type": "it should be a list",
    "model_type": _MAPPING,
    "dict_type": _MAPPING,
    "too_short": "it has too few entries: at least {min_length}",
    "too_long": "it has too many entries: at most {max_length}",
    "string_too_long": "it should have at most {max_length} characters",
}
"""Replacements for pydantic's messages, by type of error."""
_SHOULD_BE = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "enum": "{expected}",
    "string_type": "text, a number in quotation marks",
    "string_too_short": "text, and not empty",
    "string_pattern_mismatch": "a name of lower-case letters, digits, '-' and '.'",
    "path_type": "the path of a file",
    "int_parsing": _WHOLE,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "float_parsing": _NUMBER,
    "float_type": _NUMBER,
    "finite_number": "a finite number",
    "greater_than": "more than {gt:,g}",
    "greater_than_equal": "at least {ge:,g}",
    "less_than_equal": "at most {le:,g}",
}
"""Replacements that also quote the value."""
_GONE = {"node_loss": "a job under which a node is lost is always started over as a whole"}
"""Settings that no longer exist, and why nothing replaces them."""
_CHOICE = re.compile(r"\^\((\w+(?:\|\w+)*)\)\$")
"""Matches a pattern that allows some words. Every other pattern of a setting is that of a name."""
_LONGEST = 60
PREFIX = "MUSTER_"
_LIKENESS = 0.8
"""The least likeness to one of Muster's variables. Others may be foreign: MUSTER_URL, or those of a Service muster."""


def mistakes(error: ValidationError, model: type[BaseModel]) -> str:
    """A line for each fault. A list is not blamed besides its entries."""
    errors = error.errors()
    blamed = {error["loc"][:depth] for error in errors for depth in range(1, len(error["loc"]))}
    return "\n".join(_mistake(error, model) for error in errors if error["loc"] not in blamed)


def _mistake(error: ErrorDetails, model: type[BaseModel]) -> str:
    """The fault of one setting; without a name if several settings contradict each other."""
    where, problem = ".".join(map(str, error["loc"])), _problem(error)
    if error["type"] == "extra_forbidden":
        above, name = error["loc"][:-1], str(error["loc"][-1])
        if why := _GONE.get(where):
            problem = f"there is no such setting any more: {why}. Take the line out"
        elif meant := get_close_matches(name, _names(model, above), 1):
            problem += f"; did you mean {'.'.join(map(str, (*above, *meant)))}?"
    return f"{where}: {problem}" if where else problem


def _problem(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _REWORDED:
        return _REWORDED[kind].format(**context)
    if kind not in _SHOULD_BE:
        return error["msg"].removeprefix("Value error, ")
    wanted = _SHOULD_BE[kind].format(**context)
    if choice := _CHOICE.fullmatch(str(context.get("pattern", ""))):
        *others, last = (f"'{word}'" for word in choice[1].split("|"))
        wanted = f"{', '.join(others)} or {last}"
    elif str(error["loc"][-1]).endswith("_s") and wanted in (_NUMBER, _WHOLE):
        wanted += " of seconds, without a unit"
    return f"it should be {wanted}, and is {_excerpt(error['input'])}"


def _excerpt(value: Any) -> str:
    text = (
        {True: "true", False: "false"}[value] if isinstance(value, bool) else "null" if value is None else repr(value)
    )
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _names(model: type[BaseModel], above: tuple[int | str, ...]) -> Iterator[str]:
    """Yield the names of the settings at that place; none inside lists."""
    inner: Any = model
    for name in above:
        field = inner.model_fields.get(name)
        if field is None or not (isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)):
            return
        inner = field.annotation
    yield from inner.model_fields


def unread(environment: Mapping[str, str], model: type[BaseModel], prefix: str) -> Iterator[str]:
    """Yield a sentence for each variable with the prefix that nothing reads."""
    fields = model.model_fields
    inside = {
        f"{name}_{inner}": name
        for name, field in fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        for inner in field.annotation.model_fields
    }
    for variable, value in sorted(environment.items()):
        name = variable.removeprefix(prefix).lower()
        if not variable.startswith(prefix) or name in fields or "://" in value:
            continue
        if (whole := inside.get(name.replace("__", "_"))) is not None:
            yield f"{variable}: there is no such variable; {prefix}{whole.upper()} has all of {whole}, in JSON"
        elif why := _GONE.get(name):
            yield f"{variable}: there is no such variable any more: {why}. Take it out"
        elif meant := get_close_matches(name, fields, 1, _LIKENESS):
            yield f"{variable}: there is no such variable; did you mean {prefix}{meant[0].upper()}?"
