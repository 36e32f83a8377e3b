"""Reports that have yet to be written: of each gang only the newest counts."""

from __future__ import annotations

from extender.core.effects import Report
from policies.model import GroupKey

Place = tuple[GroupKey, bool]
"""Whose report a writer is to write, and whether it is one with a warning."""


class Reports:
    """The newest report of each gang that is still to be written, and who waits for a turn to write it.

    Of each gang one report is written at a time: an older one would be the last to arrive now and then.
    """

    def __init__(self) -> None:
        self._newest: dict[GroupKey, Report] = {}
        self._waiting: dict[Place, None] = {}
        """For each gang at most one with a warning, one without."""
        self._writing: set[GroupKey] = set()

    def offer(self, report: Report) -> Place | None:
        """It is the newest now. Returns the place of a new writer, if one is needed."""
        self._newest[report.key] = report
        return self._place(report)

    def take(self, key: GroupKey, *, warning: bool) -> Report | None:
        """The writer's turn has come. None when the newest is for another one, has been written, or has to wait for the
        one that is being written."""
        del self._waiting[key, warning]
        report = self._newest.get(key)
        if report is None or report.warning is not warning or key in self._writing:
            return None
        self._writing.add(key)
        return self._newest.pop(key)

    def written(self, key: GroupKey) -> Place | None:
        """What was taken is written, or could not be. Returns the place of the next writer, if one is needed."""
        self._writing.discard(key)
        report = self._newest.get(key)
        return None if report is None else self._place(report)

    def _place(self, report: Report) -> Place | None:
        place = report.key, report.warning
        if place in self._waiting or report.key in self._writing:
            return None
        self._waiting[place] = None
        return place
