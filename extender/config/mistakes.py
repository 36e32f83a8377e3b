"""What is wrong with a setting, as a sentence for who wrote it."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from pydantic_core import ErrorDetails

_TOLD = {
    "extra_forbidden": "there is no such setting",
    "missing": "it is missing",
    "tuple_type": "it should be a list",
    "bool_parsing": "it should be true or false",
}
"""What pydantic says in words of its own."""


def mistake(error: ErrorDetails, settings: Iterable[str]) -> str:
    """Without a name if it is wrong with several settings together. ``settings``: the names that there are."""
    said = _TOLD.get(error["type"], error["msg"].removeprefix("Value error, "))
    where = ".".join(map(str, error["loc"]))
    top = len(error["loc"]) == 1
    if top and error["type"] == "extra_forbidden" and (meant := get_close_matches(where, settings, 1)):
        said += f"; did you mean {meant[0]}?"
    return f"{where}: {said}" if where else said
