"""The log: one record, one line, whatever characters names and messages contain."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

LONGEST_LINE = 4096
"""Most characters of a record."""


class OneLine(logging.Formatter):
    """Text lines. The name of a pod can neither begin a line nor control the reader's terminal.

    Unprintable characters are written as escape sequences. Only the lines of a traceback follow their record; each is
    indented, which no record is.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        whole = super().format(record)
        traces = [text for text in (record.exc_text, record.stack_info) if text]
        # The formatter has put them behind the message.
        message = whole[: len(whole) - sum(len(trace) + 1 for trace in traces)]
        lines = [line for trace in traces for line in trace.splitlines()]
        return "\n".join([printable(message), *("    " + printable(line) for line in lines)])


class Json(logging.Formatter):
    """A JSON object for each record: ``time`` (RFC 3339), ``level``, ``message``, and the fields of a milestone.

    A traceback is in ``exception`` with escaped line breaks, so nothing goes on a second line.
    """

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": printable(record.getMessage()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)[:LONGEST_LINE]
        return json.dumps(fields, default=str)


def printable(text: str) -> str:
    """The text on one line without control characters, at most ``LONGEST_LINE`` characters and a mark."""
    if len(text) > LONGEST_LINE:
        text = text[:LONGEST_LINE] + "..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def set_up(level: str, form: str = "text") -> None:
    """Write records of at least that level to stderr.

    ``level``: debug, info, warning or error.
    ``form``: text or json.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Json() if form == "json" else OneLine())
    logging.basicConfig(level=level.upper(), handlers=[handler])
