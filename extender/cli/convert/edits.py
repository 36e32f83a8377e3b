"""Edits the text of a YAML document so that it says something else: comments, order and style of the rest stay.

PyYAML forgets comments, but says where each key and value stands. What has changed is therefore edited in the text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import yaml

_STEP = "  "
_ALIAS = re.compile(r"\s*:\s*\*[^\s,\]}]+")


class NotEditedError(ValueError):
    """The change is none that can be made in the text."""


@dataclass(frozen=True, order=True, slots=True)
class Edit:
    """Put ``text`` in the place of what stands from ``start`` to ``end``."""

    start: int
    end: int
    text: str


class Edits:
    """Collects what has to be edited in ``text``; a part that aliases share is edited once.

    ``quoted``: keys and texts are written in double quotes, as in JSON.
    """

    def __init__(self, text: str, *, quoted: bool) -> None:
        self._text = text
        self._quoted = quoted
        self._edits: dict[Edit, None] = {}

    def applied(self) -> str:
        """Return the text with all edits made. Raises NotEditedError for two edits of one place."""
        parts: list[str] = []
        at, removed = 0, False
        for edit in sorted(self._edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < at and (edit.text or not removed):
                raise NotEditedError("two edits meet")
            if edit.start < at:  # several of the last lines are removed, with the line break before them
                parts = ["".join(parts).rstrip("\r\n")]
            else:
                parts += [self._text[at : edit.start], edit.text]
            at, removed = max(at, edit.end), not edit.text
        return "".join([*parts, self._text[at:]])

    def change(self, node: yaml.Node, old: Any, new: Any, *, flow: bool = False) -> None:
        """Have ``node``, which says ``old``, say ``new``. ``flow``: it stands in braces or brackets. Raises
        NotEditedError."""
        if old == new:
            return
        within = flow or bool(getattr(node, "flow_style", False))
        if not old and not isinstance(node, yaml.ScalarNode):
            self._put(node.start_mark.index, node.end_mark.index, json.dumps(new))
        elif isinstance(node, yaml.MappingNode) and isinstance(old, dict) and isinstance(new, dict):
            self._change_mapping(node, old, new, flow=within)
        elif isinstance(node, yaml.SequenceNode) and isinstance(new, list) and len(old) == len(new):
            for item, before, after in zip(node.value, old, new, strict=True):
                self.change(item, before, after, flow=within)
        elif isinstance(node, yaml.ScalarNode) and isinstance(new, str):
            self._put(node.start_mark.index, node.end_mark.index, self._scalar(new, node.style))
        elif isinstance(node, yaml.ScalarNode) and isinstance(new, dict) and list(new.values()) == [old]:
            opened, closed = ("{", "}") if flow else ("", "")
            self._put(node.start_mark.index, node.start_mark.index, f"{opened}{self._scalar(*new)}: ")
            self._put(node.end_mark.index, node.end_mark.index, closed)
        else:
            raise NotEditedError("the value has another shape")

    def _change_mapping(self, node: yaml.MappingNode, old: Any, new: Any, *, flow: bool) -> None:
        entries = {key.value: (key, value) for key, value in node.value}
        if entries.keys() != old.keys():
            raise NotEditedError("some keys are merged from elsewhere, or are no texts")
        removed, added = [name for name in old if name not in new], [name for name in new if name not in old]
        for name in old:
            if name in new:
                self.change(entries[name][1], old[name], new[name], flow=flow)
        left = [name for name in removed if not self._move(entries[name], name, old[name], new, added, flow=flow)]
        for name in added:  # what has no equivalent takes the place of what goes
            if not left:
                raise NotEditedError(f"{name} has no place")
            key, value = entries[left.pop(0)]
            self._replace(key, value, name, new[name], flow=flow)
        for name in left:
            self._remove(node, entries[name][0], flow=flow)

    def _move(
        self, entry: tuple[yaml.Node, yaml.Node], name: str, old: Any, new: Any, added: list[str], *, flow: bool
    ) -> bool:
        """Rename an entry that has another name now, or put it below one of the names ``added``. Returns whether it
        was one of these."""
        key, value = entry
        for other in added:
            if new[other] == old:
                self._put(key.start_mark.index, key.end_mark.index, self._scalar(other, getattr(key, "style", None)))
            elif isinstance(new[other], dict) and list(new[other]) == [name]:
                self._nest(key, value, other, flow=flow)
                self.change(value, old, new[other][name], flow=flow)
            else:
                continue
            added.remove(other)
            return True
        return False

    def _nest(self, key: yaml.Node, value: yaml.Node, outer: str, *, flow: bool) -> None:
        """Put the entry below a new key."""
        start, end = key.start_mark.index, self._end(key, value)
        if flow:
            self._put(start, start, f"{self._scalar(outer)}: {{")
            self._put(end, end, "}")
            return
        self._put(start, start, f"{outer}:{self._line_break()}{' ' * key.start_mark.column}{_STEP}")
        at = self._text.find("\n", start, end) + 1
        while at:
            if self._text[at] not in "\r\n":
                self._put(at, at, _STEP)
            at = self._text.find("\n", at, end) + 1

    def _replace(self, key: yaml.Node, value: yaml.Node, name: str, new: Any, *, flow: bool) -> None:
        """Put another entry in the place of this one. A comment inside of it is lost."""
        if flow or not isinstance(new, dict):
            text = f"{self._scalar(name)}: {json.dumps(new)}"
        else:
            lines = yaml.safe_dump({name: new}, sort_keys=False, width=10_000).splitlines()
            text = f"{self._line_break()}{' ' * key.start_mark.column}".join(lines)
        self._put(key.start_mark.index, self._end(key, value), text)

    def _remove(self, node: yaml.MappingNode, key: yaml.Node, *, flow: bool) -> None:
        keys = [key for key, _ in node.value]
        at = keys.index(key)
        start, end = key.start_mark.index, self._end(*node.value[at])
        line = self._text.rfind("\n", 0, start) + 1
        if len(keys) == 1:
            self._put(start, end, "{}" if not flow else "")
        elif not flow and not self._text[line:start].strip():
            after = self._text.find("\n", end)
            if after < 0:  # the last line goes with the line break before it
                self._put(len(self._text[:line].rstrip("\r\n")), len(self._text), "")
            else:
                self._put(line, after + 1, "")
        elif at + 1 < len(keys):
            self._put(start, keys[at + 1].start_mark.index, "")
        else:
            self._put(self._text.rfind(",", 0, start), end, "")

    def _end(self, key: yaml.Node, value: yaml.Node) -> int:
        """Return where an entry ends: PyYAML's mark of a block is beyond the comments after it, and that of an alias
        where its anchor is."""
        if value.start_mark.index < key.end_mark.index:
            matched = _ALIAS.match(self._text, key.end_mark.index)
            return matched.end() if matched is not None else key.end_mark.index
        while isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
            last = value.value[-1]
            if isinstance(last, tuple):
                return self._end(*last)
            value = last
        start, end = value.start_mark.index, value.end_mark.index
        return start + len(self._text[start:end].rstrip()) if getattr(value, "style", None) in ("|", ">") else end

    def _scalar(self, text: str, style: str | None = None) -> str:
        """``text`` is a name of a field or of a choice, which needs no escapes."""
        quote = '"' if self._quoted else style if style in ('"', "'") else ""
        return f"{quote}{text}{quote}"

    def _line_break(self) -> str:
        return "\r\n" if "\r\n" in self._text else "\n"

    def _put(self, start: int, end: int, text: str) -> None:
        if text or start < end:
            self._edits[Edit(start, end, text)] = None
