"""Text that anybody may have written, made safe for reasons, events and logs.

Values of annotations are decoded here too, and checked against the names that the API takes.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

from extender.kube.reading.objects import UNDECODABLE

_PLAIN = re.compile(r"[ -~]{0,253}")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def plain(text: str) -> str:
    """The text itself if it is printable ASCII no longer than a name can be, else ``quoted``, which no name is."""
    return text if _PLAIN.fullmatch(text) else quoted(text)


def is_name(text: str) -> bool:
    """Whether it can be the name of an object: a lower-case DNS subdomain."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def quoted(text: str) -> str:
    """Printable ASCII in quotes, with escapes, at most 66 characters."""
    shown = ascii(text[:100])
    return shown if len(shown) <= 66 and len(text) <= 100 else shown[:62] + "..." + shown[0]


DecodedT = TypeVar("DecodedT")
MOST_BYTES = 256 << 10
"""The longest text that is read: as much as all annotations of an object may have."""
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_IDENTIFIER = re.compile(r"[-A-Za-z0-9_./]{0,317}", re.ASCII)


def json_of(text: str | None, kind: type[DecodedT]) -> DecodedT | None:
    """Decode the text as that type. None where it is empty or missing, too long, or no such JSON.

    msgspec refuses what ``json.loads`` takes: lone surrogates, NaN, another type, nesting without an end.
    """
    if not text or len(text) > MOST_BYTES:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except UNDECODABLE:
        return None


def is_resource(text: str) -> bool:
    """Whether it can be the name of a resource: a qualified name."""
    prefix, slash, name = text.rpartition("/")
    return _QUALIFIED.fullmatch(name) is not None and (not slash or is_name(prefix))


def is_identifier(text: str) -> bool:
    """Whether names, UIDs and podsets of jobs are made of such characters. The only podset of a Job has no name."""
    return _IDENTIFIER.fullmatch(text) is not None
