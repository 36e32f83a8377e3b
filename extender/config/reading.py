"""YAML files that people write. Every error is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from policies.words import twice

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""What PyYAML raises. ValueError: bytes that are no text, or a date like 2026-99-99. RecursionError: deep nesting."""


class SameKeyError(ValueError):
    """A mapping has a key twice."""


class Loader(yaml.SafeLoader):
    """Where YAML would let the last of two equal keys win, raises SameKeyError, as kubectl does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if (name := twice(key.value for key, _ in node.value if isinstance(key.value, str))) is not None:
            raise SameKeyError(f"{name} is there twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


class UnreadableYamlError(ValueError):
    """The file is not there, or is no YAML; the message says which file, and why."""


def read_yaml(path: Path) -> Any:
    """What the file says, None if nothing. Raises UnreadableYamlError."""
    try:
        return yaml.load(path.read_text(), Loader)  # noqa: S506 - it is a safe one
    except OSError as error:
        raise UnreadableYamlError(f"{path}: {error.strerror}") from None
    except SameKeyError as error:
        raise UnreadableYamlError(f"{path}: {error}") from None
    except NOT_YAML as error:
        raise UnreadableYamlError(f"{path} is not YAML: {error}") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """What the file says of each name, nothing if it is empty. Raises UnreadableYamlError."""
    values = read_yaml(path)
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise UnreadableYamlError(f"{path}: expected a mapping of setting names to values")
    return values
