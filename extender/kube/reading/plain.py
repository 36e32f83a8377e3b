"""Text that the API server does not check, made safe for reasons, events and logs."""

from __future__ import annotations

import re

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
