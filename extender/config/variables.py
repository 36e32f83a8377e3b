"""Environment variables that somebody meant for a setting, and that nothing reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from pydantic import BaseModel

PREFIX = "MUSTER_"
_LIKENESS = 0.8
"""Less than this, and it may be somebody else's: MUSTER_URL, or what Kubernetes says of a Service called muster."""


def unread(environment: Mapping[str, str], model: type[BaseModel]) -> Iterator[str]:
    """A sentence for each."""
    fields = model.model_fields
    inside = {
        f"{name}_{inner}": name
        for name, field in fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        for inner in field.annotation.model_fields
    }
    for variable, value in sorted(environment.items()):
        name = variable.removeprefix(PREFIX).lower()
        if not variable.startswith(PREFIX) or name in fields or "://" in value:
            continue
        if (whole := inside.get(name.replace("__", "_"))) is not None:
            yield f"{variable}: there is no such variable; {PREFIX}{whole.upper()} has all of {whole}, in JSON"
        elif meant := get_close_matches(name, fields, 1, _LIKENESS):
            yield f"{variable}: there is no such variable; did you mean {PREFIX}{meant[0].upper()}?"
