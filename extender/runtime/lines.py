"""What is written to the log: one line for each stage of a gang's life, and for each reason that is reported."""

from __future__ import annotations

import logging

from extender.core.effects import Report, Turned
from extender.core.gang.turns import Turn


def log_turn(log: logging.Logger, turn: Turned) -> None:
    """One line, with the turning point's facts as fields. The key of a pod of no gang says that it is one."""
    kind, lead = ("pod", "") if turn.alone else ("gang", "gang ")
    fields = {kind: str(turn.key), "turn": str(turn.turn), "size": turn.size, "after_s": round(turn.after_s, 3)}
    if turn.cause is not None:
        fields["cause"] = str(turn.cause)
    log.info("%s%s %s", lead, turn.key, _in_words(turn), extra={"fields": fields})


def log_report(log: logging.Logger, report: Report) -> None:
    """One line for a reason that is reported, a warning if somebody has to do something."""
    level = logging.WARNING if report.warning else logging.INFO
    fields = {"gang": str(report.key), "reason": report.code, "members": report.members, "bound": report.bound}
    log.log(level, "gang %s: %s: %s", report.key, report.code, report.message, extra={"fields": fields})


def _in_words(turn: Turned) -> str:
    """After the gang's name."""
    match turn.turn:
        case Turn.FORGOTTEN:
            return f"was forgotten ({turn.cause}): {turn.detail}"
        case Turn.PREEMPTING | Turn.WOULD_PREEMPT:
            return f"{turn.turn}: {turn.detail}"
        case Turn.UNRESERVED:
            return f"has no room kept any more: {turn.detail}"
        case Turn.DELAYED:
            return f"was not planned: {turn.detail}"
        case Turn.BROKEN:
            return "was released in part: its release broke off"
        case Turn.RELEASED:
            return f"was released: {turn.size} members, {turn.after_s:.1f} s after the first of its binds came"
        case _:
            return f"was {turn.turn}: {turn.size} members, {turn.after_s:.1f} s after the first of them was seen"
