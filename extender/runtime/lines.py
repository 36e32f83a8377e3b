"""What is written to the log: one line for each stage of a gang's life, and for each reason that is reported."""

from __future__ import annotations

import logging

from extender.core.effects import Reached, Report
from extender.core.gang.milestones import Milestone


def log_milestone(log: logging.Logger, effect: Reached) -> None:
    """One line, with the milestone's facts as fields. The key of a pod of no gang says that it is one."""
    kind, lead = ("pod", "") if effect.alone else ("gang", "gang ")
    fields = {
        kind: str(effect.key),
        "milestone": str(effect.milestone),
        "size": effect.size,
        "after_s": round(effect.after_s, 3),
    }
    if effect.cause is not None:
        fields["cause"] = str(effect.cause)
    log.info("%s%s %s", lead, effect.key, _in_words(effect), extra={"fields": fields})


def log_report(log: logging.Logger, report: Report) -> None:
    """One line for a reason that is reported, a warning if somebody has to do something."""
    level = logging.WARNING if report.warning else logging.INFO
    fields = {"gang": str(report.key), "reason": report.code, "members": report.members, "bound": report.bound}
    log.log(level, "gang %s: %s: %s", report.key, report.code, report.message, extra={"fields": fields})


def _in_words(effect: Reached) -> str:
    """After the gang's name."""
    match effect.milestone:
        case Milestone.FORGOTTEN:
            return f"was forgotten ({effect.cause}): {effect.detail}"
        case Milestone.PREEMPTING | Milestone.WOULD_PREEMPT:
            return f"{effect.milestone}: {effect.detail}"
        case Milestone.UNRESERVED:
            return f"has no room kept any more: {effect.detail}"
        case Milestone.DELAYED:
            return f"was not planned: {effect.detail}"
        case Milestone.BROKEN:
            return "was released in part: its release broke off"
        case Milestone.RELEASED:
            return f"was released: {effect.size} members, {effect.after_s:.1f} s after the first of its binds came"
        case _:
            since = f"{effect.after_s:.1f} s after the first of them was seen"
            return f"was {effect.milestone}: {effect.size} members, {since}"
