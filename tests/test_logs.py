"""A record is one line of the log, whatever a pod's author has put into it."""

from __future__ import annotations

import io
import json
import logging

import pytest

from extender.observe.logs import LONGEST_LINE, Json, OneLine

FORGED = "x\n2026-01-01 00:00:00,000 INFO gang team/train: Running"
COLOURS = "\x1b[31mred\x1b]0;title\x07"


@pytest.fixture
def written() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log(written: io.StringIO) -> logging.Logger:
    logger = logging.Logger("test")
    handler = logging.StreamHandler(written)
    handler.setFormatter(OneLine())
    logger.addHandler(handler)
    return logger


@pytest.mark.parametrize(
    "text", [FORGED, COLOURS, "a\rb", "a\u2028b", "a\u202eb", "nul\0", "\x9b2J", "\x85", "\ud800", "tab\t"]
)
def test_a_name_can_neither_begin_a_line_nor_steer_a_terminal(
    log: logging.Logger, written: io.StringIO, text: str
) -> None:
    log.warning("gang %s waits", text)
    line = written.getvalue().removesuffix("\n")
    assert line.isprintable()
    assert line.endswith(" waits")


def test_what_is_printable_stays_as_it_is(log: logging.Logger, written: io.StringIO) -> None:
    log.info("Größe 3, 群 'a\\b'")
    assert written.getvalue().endswith("INFO Größe 3, 群 'a\\b'\n")


def test_no_line_of_a_traceback_looks_like_a_record(log: logging.Logger, written: io.StringIO) -> None:
    try:
        raise ValueError(FORGED + COLOURS)
    except ValueError:
        log.exception("failed on %s", FORGED)
    record, *trace = written.getvalue().splitlines()
    assert " ERROR failed on x\\n" in record
    assert trace[-1].endswith("\\x07")
    assert all(line.startswith("    ") and line.isprintable() for line in trace)


def test_a_line_has_an_end(log: logging.Logger, written: io.StringIO) -> None:
    log.info("%s", "y" * 1_000_000)
    assert len(written.getvalue()) < LONGEST_LINE + 10


def test_json_is_one_object_to_a_line_with_the_fields_of_the_record(log: logging.Logger, written: io.StringIO) -> None:
    log.handlers[0].setFormatter(Json())
    log.info("gang %s", FORGED, extra={"fields": {"gang": FORGED, "turn": "planned", "size": 8}})
    try:
        raise ValueError(COLOURS)
    except ValueError:
        log.exception("failed")
    first, second = (json.loads(line) for line in written.getvalue().splitlines())
    assert (first["level"], first["turn"], first["size"], first["gang"]) == ("info", "planned", 8, FORGED)
    assert first["time"].endswith("+00:00")
    assert "ValueError" in second["exception"]
    assert "\x1b" not in written.getvalue()
