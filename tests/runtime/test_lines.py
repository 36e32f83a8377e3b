"""The lines of the log for turning points and reports: one each, with facts that a machine can read."""

from __future__ import annotations

import json
import logging

import pytest

from extender.core.effects import Report, Turned
from extender.core.gang.turns import Cause, Turn
from extender.observe.logs import Json
from extender.runtime.lines import log_report, log_turn
from policies.model import GroupKey

KEY = GroupKey("team", "train")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (
            Turned(KEY, Turn.PLANNED, 8, 0.25),
            "gang team/train was planned: 8 members, 0.2 s after the first of them was seen",
        ),
        (
            Turned(KEY, Turn.STARTED, 8, 2.0),
            "gang team/train was started: 8 members, 2.0 s after the first of them was seen",
        ),
        (
            Turned(KEY, Turn.RELEASED, 8, 1.0),
            "gang team/train was released: 8 members, 1.0 s after the first of its binds came",
        ),
        (
            Turned(KEY, Turn.FORGOTTEN, 8, 9.0, Cause.NODE_REFUSED, "node n1 is full"),
            "gang team/train was forgotten (node-refused): node n1 is full",
        ),
        (Turned(KEY, Turn.BROKEN, 8, 9.0), "gang team/train was released in part: its release broke off"),
    ],
)
def test_a_turning_point_is_one_line(lines: pytest.LogCaptureFixture, turn: Turned, text: str) -> None:
    log_turn(logging.getLogger("test"), turn)
    (record,) = lines.records
    assert record.getMessage() == text
    told = json.loads(Json().format(record))
    assert (told["gang"], told["turn"], told["size"], told.get("cause")) == ("team/train", turn.turn, 8, turn.cause)


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        (Turn.PREEMPTING, "team/pod one preempts: evicts team/train"),
        (Turn.UNRESERVED, "team/pod one has no room kept any more: evicts team/train"),
    ],
)
def test_no_line_calls_a_pod_of_no_gang_a_gang(lines: pytest.LogCaptureFixture, turn: Turn, text: str) -> None:
    one = Turned(GroupKey("team", "pod one"), turn, 1, 0.0, detail="evicts team/train", alone=True)
    log_turn(logging.getLogger("test"), one)
    (record,) = lines.records
    assert record.getMessage() == text
    told = json.loads(Json().format(record))
    assert ("gang" in told, told["pod"]) == (False, "team/pod one")


@pytest.mark.parametrize("warning", [True, False])
def test_a_report_is_a_warning_when_somebody_has_to_act(lines: pytest.LogCaptureFixture, warning: bool) -> None:
    log_report(logging.getLogger("test"), Report(KEY, None, None, "NoRoom", "3 of 8 fit", warning, 8, 0))
    (record,) = lines.records
    assert (record.levelname == "WARNING") is warning
    assert record.getMessage() == "gang team/train: NoRoom: 3 of 8 fit"
    assert json.loads(Json().format(record))["members"] == 8
