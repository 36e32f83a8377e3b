"""Read YAML files that people write. Every error is one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from policies.words import twice

NOT_YAML = (yaml.YAMLError, ValueError, RecursionError)
"""The errors of PyYAML. ValueError: bytes that are no text, or a date like 2026-99-99. RecursionError: deep nesting."""
MOST_REPEATED = 10_000
"""Most values that the aliases of a document may repeat. Thirty lines of nested aliases can repeat billions."""


class RefusedYamlError(ValueError):
    """Refused YAML: a mapping has a key twice, or aliases repeat more values than ``MOST_REPEATED``."""


class Loader(yaml.SafeLoader):
    """A safe loader that raises RefusedYamlError for two equal keys, as kubectl does, and for too many aliases.

    Aliases are counted before the document is built.
    """

    def compose_document(self) -> yaml.Node | None:
        document = super().compose_document()
        if document is not None:
            _check_aliases(document)
        return document

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        if (name := twice(key.value for key, _ in node.value if isinstance(key.value, str))) is not None:
            raise RefusedYamlError(f"{name} is there twice, line {node.start_mark.line + 1}")
        return super().construct_mapping(node, deep)


class UnreadableYamlError(ValueError):
    """The file is missing, or is no YAML; the message names the file and the fault."""


def parse_yaml(text: str | bytes, loader: type[Loader] = Loader) -> Any:
    """The only document in the text; None if there is none. Raises one of ``NOT_YAML``."""
    return yaml.load(text, loader)  # noqa: S506 - it is a safe one


def parse_documents(text: str | bytes) -> Iterator[Any]:
    """Each document in the text. Raises one of ``NOT_YAML``."""
    return yaml.load_all(text, Loader)


def read_yaml(path: Path) -> Any:
    """The content of the file; None if it is empty. Raises UnreadableYamlError."""
    try:
        return parse_yaml(path.read_text())
    except OSError as error:
        raise UnreadableYamlError(f"{path}: {error.strerror}") from None
    except RefusedYamlError as error:
        raise UnreadableYamlError(f"{path}: {error}") from None
    except NOT_YAML as error:
        raise UnreadableYamlError(f"{path} is not YAML: {error}") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in the file; empty if the file is. Raises UnreadableYamlError."""
    values = read_yaml(path)
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise UnreadableYamlError(f"{path}: expected a mapping of setting names to values")
    return values


def _check_aliases(document: yaml.Node) -> None:
    """Check the aliases; raises RefusedYamlError. Each node is counted once, however often aliases repeat it."""
    sizes: dict[int, int] = {}
    total = _size(document, sizes)
    if total - len(sizes) > MOST_REPEATED:
        raise RefusedYamlError(f"its aliases repeat more than {MOST_REPEATED:,} values")


def _size(node: yaml.Node, sizes: dict[int, int]) -> int:
    """How many values the node would have without aliases. ``sizes``: results for nodes counted before, by identity."""
    if (known := sizes.get(id(node))) is not None:
        if not known:
            raise RefusedYamlError(f"the value of line {node.start_mark.line + 1} contains itself")
        return known
    sizes[id(node)] = 0
    below: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        below = [node_below for pair in node.value for node_below in pair]
    elif isinstance(node, yaml.SequenceNode):
        below = node.value
    sizes[id(node)] = size = 1 + sum(_size(node, sizes) for node in below)
    return size
