"""Writes the status of queue objects: by whoever leads, when it has changed, and at most once a second.

It is nobody's business but that of people and of their tools: no start of a workload waits for it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from extender.core.events import QueueSeen
from extender.core.instants import pause_s
from extender.kube.api.connection import ApiError, read_as
from extender.kube.client import Kube
from extender.kube.queues.rounds import go_round
from extender.kube.queues.status import status_of
from extender.kube.reports import instant
from policies.model import GroupKey
from policies.model.queues import ClusterQueue, LocalQueue, QueueReport, ResourceFlavor, TopologyObject

log = logging.getLogger("muster")
UNREPORTED = (ResourceFlavor, TopologyObject)
"""They have no status."""
EVERY_S = 1.0
_LONGEST_S = 60.0
"""A status that is refused again and again rests for at most so long."""
_PLACES = 100
"""Of so many in each ClusterQueue."""


class Core(Protocol):
    """Who says how the queues stand. ``queue_version`` is another one whenever that may have changed."""

    @property
    def queue_version(self) -> int: ...

    def queue_reports(self, now: float, /) -> Mapping[tuple[str, str, str], QueueReport]: ...


class QueueWriter:
    """``core``: who acts now; None while nobody does. ``known``: every object, and where it is at the API server."""

    def __init__(
        self,
        kube: Kube,
        core: Callable[[], Core | None],
        known: Callable[[], Iterable[tuple[QueueSeen, str]]],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube = kube
        self._core = core
        self._known = known
        self._clock = clock
        self.places: Mapping[GroupKey, int] = {}
        """Of the first that wait in each ClusterQueue, from 1, as last told."""
        self._told: tuple[Core, int] | None = None
        """Whose reports were written last, and which version of them."""
        self._failing: dict[str, tuple[int, float]] = {}
        """Paths of statuses that could not be written: how often in a row, and when each is tried again."""
        self._written: dict[str, dict[str, Any]] = {}
        """The status by path, as it was seen or written last."""

    async def run(self) -> None:
        """Until cancelled."""
        await go_round(self.write, "the status of queues could not be written", every_s=EVERY_S)

    async def write(self) -> None:
        """Every status that differs from what it should be. One that cannot be written is tried again the next time."""
        core = self._core()
        if core is None:
            self._told = None
            self._written.clear()
            return
        if self._told == (core, core.queue_version):
            return
        objects = [(seen, path) for seen, path in self._known() if not isinstance(seen.object, UNREPORTED)]
        if self._told is not None and self._told[0] is not core:
            self._written.clear()
        told = core, core.queue_version
        reports = core.queue_reports(self._clock()) if objects else {}
        self.places = _places(reports)
        self._written = {path: self._written[path] for _, path in objects if path in self._written}
        if await self._write_all(objects, reports):
            self._told = told

    async def _write_all(
        self, objects: Iterable[tuple[QueueSeen, str]], reports: Mapping[tuple[str, str, str], QueueReport]
    ) -> bool:
        """Whether all are written."""
        failing: dict[str, tuple[int, float]] = {}
        now = self._clock()
        for seen, path in objects:
            thing = seen.object
            namespace = thing.namespace if isinstance(thing, LocalQueue) else ""
            report = reports.get((type(thing).__name__, namespace, thing.name))
            if report is None:
                continue
            times, until = self._failing.get(path, (0, now))
            if now < until:
                failing[path] = times, until
                continue
            try:
                await self._write(seen, path, report)
            except Exception as error:
                # One that is gone the watch is about to forget.
                known = isinstance(error, ApiError)
                if not times and not (isinstance(error, ApiError) and error.status == 404):
                    text = "the status of %s could not be written: %s"
                    log.warning(text, path, error, exc_info=None if known else error)
                failing[path] = times + 1, now + pause_s(times + 1, EVERY_S, _LONGEST_S)
                self._written.pop(path, None)
        self._failing = failing
        return not failing

    async def _write(self, seen: QueueSeen, path: str, report: QueueReport) -> None:
        before = self._written.get(path)
        if before is None:
            before = self._written[path] = _status(await self._kube.call("GET", f"{path}/status"))
        conditions = [one for one in before.get("conditions") or () if isinstance(one, dict)]
        status = status_of(seen.object, report, conditions, instant("seconds"))
        if any(before.get(field) != value for field, value in status.items()):
            body, kind = {"status": status}, "application/merge-patch+json"
            await self._kube.call("PATCH", f"{path}/status", body=body, content_type=kind)
            self._written[path] = {**before, **status}


def _places(reports: Mapping[tuple[str, str, str], QueueReport]) -> dict[GroupKey, int]:
    lines = [one.pending for (kind, _, _), one in reports.items() if kind == ClusterQueue.__name__]
    return {key: at for line in lines for at, key in enumerate(line[:_PLACES], start=1)}


def _status(answer: bytes) -> dict[str, Any]:
    status = read_as(answer, dict[str, Any]).get("status")
    return status if isinstance(status, dict) else {}
