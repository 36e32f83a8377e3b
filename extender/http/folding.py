"""Documents whose keys are in another case than ours: Go's decoder takes them, so Muster does."""

from __future__ import annotations

from functools import cache
from typing import Any

from msgspec import inspect


def folded(value: Any, kind: inspect.Type) -> Any:
    """The value with the keys of its structs spelled as we read them and unknown ones left out; maps keep theirs."""
    match kind:
        case inspect.UnionType(types):
            return folded(value, next(one for one in types if not isinstance(one, inspect.NoneType)))
        case inspect.StructType() if isinstance(value, dict):
            known = _fields(kind.cls)
            found = ((known.get(key.lower()), content) for key, content in value.items())
            return {one.encode_name: folded(content, one.type) for one, content in found if one is not None}
        case inspect.DictType() if isinstance(value, dict):
            return {key: folded(content, kind.value_type) for key, content in value.items()}
        case inspect.ListType() if isinstance(value, list):
            return [folded(content, kind.item_type) for content in value]
        case _:
            return value


@cache
def _fields(struct: type) -> dict[str, inspect.Field]:
    """By their keys in lower case, worked out once: a document has thousands of these structs."""
    kind = inspect.type_info(struct)
    assert isinstance(kind, inspect.StructType)  # noqa: S101 - it was one a moment ago
    return {one.encode_name.lower(): one for one in kind.fields}
