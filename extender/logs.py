"""The log: one record, one line, whatever the names and messages in it are made of."""

from __future__ import annotations

import logging
import sys

LONGEST_LINE = 4096
"""Characters of a record that are written."""


class OneLine(logging.Formatter):
    """Text. Nobody who names a pod can begin a line of the log, or steer the terminal of whoever reads it.

    What a terminal would not print as it stands is written as an escape sequence. Only the lines of a traceback follow
    their record, each indented, which no record is.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        whole = super().format(record)
        traces = [text for text in (record.exc_text, record.stack_info) if text]
        # The formatter has put them behind the message.
        said = whole[: len(whole) - sum(len(trace) + 1 for trace in traces)]
        lines = [line for trace in traces for line in trace.splitlines()]
        return "\n".join([printable(said), *("    " + printable(line) for line in lines)])


def printable(text: str) -> str:
    """The text in one line and without control characters, at most ``LONGEST_LINE`` characters and a mark."""
    if len(text) > LONGEST_LINE:
        text = text[:LONGEST_LINE] + "..."
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def set_up(level: str) -> None:
    """Write what is at least that important to stderr. ``level``: debug, info, warning or error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=level.upper(), handlers=[handler])
