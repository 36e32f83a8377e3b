"""Render the texts of an answer: a walk over the models, for texts that say who may read which part of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

ModelT = TypeVar("ModelT", bound=BaseModel)


def with_texts(model: ModelT, render: Callable[[str], str]) -> ModelT:
    """Return a copy of the answer in which every text, also a name, is what ``render`` makes of it."""
    return model.model_copy(update={name: _with(value, render) for name, value in model})


def _with(value: Any, render: Callable[[str], str]) -> Any:
    match value:
        case str():
            return render(value)
        case BaseModel():
            return with_texts(value, render)
        case list():
            return [_with(element, render) for element in value]
        case tuple():
            return tuple(_with(element, render) for element in value)
        case dict():
            return {render(key): _with(element, render) for key, element in value.items()}
        case _:
            return value
