"""Make text that any user may have written safe for reasons, events and logs.

Values of annotations are decoded here, too, and checked against the names that the API accepts.
"""

from __future__ import annotations

import json
import re
from typing import TypeVar

import msgspec

from extender.kube.reading.objects import UNDECODABLE

_PLAIN = re.compile(r"[ -~]{0,253}")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def plain(text: str) -> str:
    """The text itself if it is printable ASCII and no longer than a name can be, else ``quoted``, which is never a
    name."""
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
"""The most bytes that are read: as much as all annotations of an object may have."""
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII)
_IDENTIFIER = re.compile(r"[-A-Za-z0-9_./]{0,317}", re.ASCII)


def json_text(content: object) -> str:
    """The content as JSON without spaces, in the same order each time."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def json_of(text: str | None, kind: type[DecodedT]) -> DecodedT | None:
    """Decode the text as that type. None if it is empty or missing, too long, or no such JSON.

    msgspec refuses what ``json.loads`` accepts: lone surrogates, NaN, other types, endless nesting.
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
    """Whether it only has characters of names, UIDs and podsets of jobs. The only podset of a Job has an empty name."""
    return _IDENTIFIER.fullmatch(text) is not None
