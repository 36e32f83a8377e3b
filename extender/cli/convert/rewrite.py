"""Rewrites the text of a file: each object of Kueue's v1beta1 in it becomes one of v1beta2, and the rest stays."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from extender.cli.convert.edits import Edits, NotEditedError
from extender.config.reading import NOT_YAML, Loader, RefusedYamlError, parse_yaml
from extender.kube.queues.conversion import NEW, OLD, InconvertibleError, converted, is_convertible
from extender.kube.queues.resources import QUEUE_GROUP
from extender.kube.reading.plain import plain


class ConversionError(ValueError):
    """The file cannot be rewritten; each of ``reasons`` is a sentence with the document and the field."""

    def __init__(self, *reasons: str) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class Rewritten:
    """``text``: of the whole file. ``count``: how many objects were converted. ``notes``: what its author should
    look at, each a sentence."""

    text: str
    count: int
    notes: tuple[str, ...]


class _Loader(Loader):
    """Reads times as the texts that they are in Kubernetes."""


_Loader.yaml_implicit_resolvers = {
    first: [resolver for resolver in resolvers if resolver[0] != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in Loader.yaml_implicit_resolvers.items()
}


def rewrite(text: str) -> Rewritten:
    """Raises ConversionError, with all that is wrong in the file."""
    try:
        nodes = list(yaml.compose_all(text, _Loader))
    except NOT_YAML as error:
        raise ConversionError(_yaml_fault(error, text)) from None
    changes: list[tuple[int, int, str]] = []
    notes: list[str] = []
    reasons: list[str] = []
    count = 0
    for number, node in enumerate(nodes, 1):
        if node is None or not _names_old(node):
            continue
        place = f"document {number}"
        try:
            document = _Document(text, node, place)
        except NOT_YAML as error:
            reasons.append(f"{place}: {_yaml_fault(error, text)}")
            continue
        reasons += document.reasons
        if document.count and not document.reasons:
            changes.append(document.rewritten())
        notes += document.notes
        count += document.count
    if reasons:
        raise ConversionError(*reasons)
    for start, end, new in reversed(changes):
        text = text[:start] + new + text[end:]
    return Rewritten(text, count, (*notes, *_left(text)))


class _Document:
    """The conversion of one document."""

    def __init__(self, text: str, node: yaml.Node, place: str) -> None:
        self._text, self._node, self._place = text, node, place
        self._old = _value(node)
        self._new = deepcopy(self._old)
        self.reasons: list[str] = []
        self.notes: list[str] = []
        self.count = 0
        for where, obj, put in _objects(self._new, place):
            kind = str(obj.get("kind"))
            if not is_convertible(kind):
                self.notes.append(f"{where}: no kind {plain(kind)} of {OLD} is known: it stays as it is")
                continue
            try:
                put(converted(kind, obj))
            except InconvertibleError as error:
                name = obj.get("metadata", {}).get("name") if isinstance(obj.get("metadata"), dict) else None
                self.reasons.append(f"{where}, {kind} {plain(str(name))}: {error}")
                continue
            self.count += 1

    def rewritten(self) -> tuple[int, int, str]:
        """Return from where to where the text is replaced, and by what. What was edited is read again. Where it does
        not say exactly what was converted, the document is written from that."""
        start, end = self._node.start_mark.index, _end(self._text, self._node)
        first = self._node.value[0][0] if isinstance(self._node, yaml.MappingNode) else self._node
        try:
            edits = Edits(self._text[:end], quoted=getattr(first, "style", None) == '"')
            edits.change(self._node, self._old, self._new)
            new = edits.applied()[start:]
            if parse_yaml(" " * self._node.start_mark.column + new, _Loader) == self._new:
                return start, end, new
        except (NotEditedError, *NOT_YAML):
            pass
        self.notes.append(f"{self._place} is written without its comments: its text cannot be edited in place")
        broken = "" if self._text[:start].endswith("\n") or not start else "\n"
        return start, end, broken + yaml.safe_dump(self._new, sort_keys=False, width=10_000).rstrip("\n")


def _yaml_fault(error: Exception, text: str) -> str:
    """Return in one line what is wrong with the YAML, and what to do with a template of Helm."""
    complaint = " ".join(str(error).split()).replace('in "<unicode string>", ', "in ")
    if isinstance(error, RefusedYamlError):
        return complaint
    advice = "; it is a template: convert what `helm template` prints, or edit it by hand" if "{{" in text else ""
    return f"this is not YAML: {complaint}{advice}"


def _value(node: yaml.Node) -> Any:
    """Return what a document says."""
    loader = _Loader("")
    try:
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _end(text: str, node: yaml.Node) -> int:
    """Return where the document ends, with the comments after its last line."""
    return len(text[: node.end_mark.index].rstrip())


def _names_old(node: yaml.Node) -> bool:
    """Whether the version stands somewhere in the document: others are not even read."""
    seen, below = set[int](), [node]
    while below:
        yaml_node = below.pop()
        if id(yaml_node) in seen:
            continue
        seen.add(id(yaml_node))
        if isinstance(yaml_node, yaml.ScalarNode) and yaml_node.value == OLD:
            return True
        if isinstance(yaml_node, yaml.MappingNode):
            below += [value for _, value in yaml_node.value]
        elif isinstance(yaml_node, yaml.SequenceNode):
            below += yaml_node.value
    return False


_Put = Callable[[dict[str, Any]], None]


def _objects(document: Any, place: str) -> Iterator[tuple[str, dict[str, Any], _Put]]:
    """Yield each object of the version with its place, and what puts another one there: the document, or the items of
    a list, as kubectl prints several."""
    if not isinstance(document, dict):
        return
    kind, items = str(document.get("kind")), document.get("items")
    if not kind.endswith("List") or not isinstance(items, list):
        if document.get("apiVersion") == OLD:
            yield place, document, _replacing(document)
        return
    typed = document.get("apiVersion") == OLD
    if typed:
        document["apiVersion"] = NEW
    for at, item in enumerate(items):
        if not isinstance(item, dict) or item.get("apiVersion", OLD if typed else None) != OLD:
            continue
        of_kind = item if "kind" in item or not typed else {"kind": kind.removesuffix("List"), **item}
        yield f"{place}, item {at + 1}", of_kind, _replacing(item)


def _replacing(old: dict[str, Any]) -> _Put:
    def put(new: dict[str, Any]) -> None:
        added = {name: value for name, value in new.items() if name in old or name != "kind"}
        old.clear()
        old.update(added)

    return put


_NAMED = re.compile(rf"(?<![\w.-]){re.escape(QUEUE_GROUP)}/(v1beta1|v1alpha1)\b")


def _left(text: str) -> Iterator[str]:
    """Yield where an older version still stands, as in a patch that is a text."""
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        for match in _NAMED.finditer(line):
            lines.setdefault(match[0], []).append(number)
    for version, numbers in lines.items():
        named = ", ".join(map(str, numbers[:10])) + (" ..." if len(numbers) > 10 else "")
        yield f"{version} still stands in line {named} of what was written: look at it"
