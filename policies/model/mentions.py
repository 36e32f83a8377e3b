"""Workloads that a text names. Readers who may not see names of other namespaces read a count instead.

A text is made once for all readers, with its names marked. It is rendered where it leaves Muster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_BEGIN, _END, _NEXT, _PART = "\ue000", "\ue001", "\ue002", "\ue003"
"""Private-use characters, which no name in Kubernetes has."""
_NO_MARKS = dict.fromkeys(map(ord, (_BEGIN, _END, _NEXT, _PART)))
_MARK = re.compile(f"[{_BEGIN}-{_PART}]")
_WORD = f"[^{_BEGIN}-{_PART}]*"
_ONE = f"{_WORD}(?:{_PART}{_WORD}){{3}}"
_MENTIONS = re.compile(f"{_BEGIN}({_ONE}(?:{_NEXT}{_ONE})*){_END}")
"""Matches the output of ``mentioned``. Marks elsewhere come from quoted foreign text."""


class Mention(NamedTuple):
    """A workload, or a single pod.

    ``own``: its name for readers of its own namespace, if not ``text``.
    ``other``: its text for readers of other namespaces; empty if they only read a count.
    """

    namespace: str
    text: str
    own: str = ""
    other: str = ""

    @property
    def name(self) -> str:
        """The name without the remarks behind it."""
        return self.text.partition(" (")[0]


def mentioned(mentions: Sequence[Mention], most: int = 5) -> str:
    """The mentions as a part of a text, in the form of ``listed``. Marks in their names are removed."""
    named = (_PART.join(field.translate(_NO_MARKS) for field in mention) for mention in mentions[:most])
    more = f" and {len(mentions) - most} more" if len(mentions) > most else ""
    return f"{_BEGIN}{_NEXT.join(named)}{_END}{more}" if mentions else ""


def full(text: str, namespace: str = "") -> str:
    """The text with all names, for an operator. ``namespace``: that of the workload that the text is about."""
    return _rendered(text, lambda there: ", ".join(_name(mention, namespace) for mention in there))


def discreet(text: str, namespace: str, sees: Callable[[str], bool] = lambda _: False) -> str:
    """The text for readers of that namespace: workloads of other namespaces are counted.

    ``sees``: whether the reader may read the names of another namespace, too.
    """

    def names_of(there: Sequence[Mention]) -> str:
        known = [mention for mention in there if mention.namespace == namespace or sees(mention.namespace)]
        own = [_name(mention, namespace) for mention in known]
        theirs = [mention.other for mention in there if mention not in known]
        own += dict.fromkeys(filter(None, theirs))
        if others := theirs.count(""):
            own.append("a workload of another namespace" if others == 1 else f"{others} workloads of other namespaces")
        return ", ".join(own)

    return _rendered(text, names_of)


def mentions_of(text: str) -> Iterator[Mention]:
    """Yield the workloads that the text names."""
    for match in _MENTIONS.finditer(text):
        yield from _mentions(match[1])


def _rendered(text: str, replacement: Callable[[Sequence[Mention]], str]) -> str:
    if _MARK.search(text) is None:
        return text
    return _MENTIONS.sub(lambda match: replacement([*_mentions(match[1])]), text).translate(_NO_MARKS)


def _mentions(inside: str) -> Iterator[Mention]:
    return (Mention(*fields.split(_PART)) for fields in inside.split(_NEXT))


def _name(mention: Mention, namespace: str) -> str:
    return mention.own if mention.own and mention.namespace == namespace else mention.text
