"""Reports that have yet to be written: of each gang only the newest counts."""

from __future__ import annotations

from extender.core.effects import Report
from policies.model import GroupKey


class Reports:
    """The newest report of each gang that is still to be written, and who waits for a turn to write it."""

    def __init__(self) -> None:
        self._newest: dict[GroupKey, Report] = {}
        self._waiting: dict[tuple[GroupKey, bool], None] = {}
        """For each gang at most one with a warning, one without."""

    def offer(self, report: Report) -> tuple[GroupKey, bool] | None:
        """It is the newest now. Returns the place of a new writer, if one is needed."""
        self._newest[report.key] = report
        place = report.key, report.warning
        if place in self._waiting:
            return None
        self._waiting[place] = None
        return place

    def take(self, key: GroupKey, *, warning: bool) -> Report | None:
        """The writer's turn has come. None when the newest is for another one, or has been written."""
        del self._waiting[key, warning]
        report = self._newest.get(key)
        if report is None or report.warning is not warning:
            return None
        return self._newest.pop(key)
