"""The lines of the log for milestones and reports: one each, with facts that a machine can read."""

from __future__ import annotations

import json
import logging

import pytest

from extender.core.effects import Milestone, Reached, Report, RevokedFor
from extender.observe.logs import Json
from extender.runtime.runner import log_milestone, log_report
from policies.model import GroupKey

KEY = GroupKey("team", "train")


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


@pytest.mark.parametrize(
    ("reached", "text"),
    [
        (
            Reached(KEY, Milestone.PLANNED, 8, 0.25),
            "gang team/train was planned: 8 members, 0.2 s after the first of them was seen",
        ),
        (
            Reached(KEY, Milestone.STARTED, 8, 2.0),
            "gang team/train was started: 8 members, 2.0 s after the first of them was seen",
        ),
        (
            Reached(KEY, Milestone.RELEASED, 8, 1.0),
            "gang team/train was released: 8 members, 1.0 s after its first bind request",
        ),
        (
            Reached(KEY, Milestone.FORGOTTEN, 8, 9.0, RevokedFor.NODE_REFUSED, "node n1 is full"),
            "gang team/train was forgotten (node-refused): node n1 is full",
        ),
        (
            Reached(KEY, Milestone.RESERVED, 8, 9.0, detail="room on 2 nodes is reserved for it"),
            "gang team/train waits, and room on 2 nodes is reserved for it",
        ),
        (Reached(KEY, Milestone.BROKEN, 8, 9.0), "gang team/train was released in part: its release broke off"),
    ],
)
def test_a_milestone_is_one_line(lines: pytest.LogCaptureFixture, reached: Reached, text: str) -> None:
    log_milestone(logging.getLogger("test"), reached)
    (record,) = lines.records
    assert record.getMessage() == text
    line = json.loads(Json().format(record))
    assert (line["gang"], line["milestone"], line["size"], line.get("cause")) == (
        "team/train",
        reached.milestone,
        8,
        reached.cause,
    )


@pytest.mark.parametrize(
    ("milestone", "text"),
    [
        (Milestone.PREEMPTING, "team/pod one preempts: evicts team/train"),
        (Milestone.UNRESERVED, "team/pod one has no room kept any more: evicts team/train"),
    ],
)
def test_no_line_calls_a_pod_of_no_gang_a_gang(
    lines: pytest.LogCaptureFixture, milestone: Milestone, text: str
) -> None:
    reached = Reached(GroupKey("team", "pod one"), milestone, 1, 0.0, detail="evicts team/train", alone=True)
    log_milestone(logging.getLogger("test"), reached)
    (record,) = lines.records
    assert record.getMessage() == text
    line = json.loads(Json().format(record))
    assert ("gang" in line, line["pod"]) == (False, "team/pod one")


@pytest.mark.parametrize("warning", [True, False])
def test_a_report_is_a_warning_when_somebody_has_to_act(lines: pytest.LogCaptureFixture, warning: bool) -> None:
    log_report(logging.getLogger("test"), Report(KEY, None, None, "NoRoom", "3 of 8 fit", warning, 8, 0))
    (record,) = lines.records
    assert (record.levelname == "WARNING") is warning
    assert record.getMessage() == "gang team/train: NoRoom: 3 of 8 fit"
    assert json.loads(Json().format(record))["members"] == 8
