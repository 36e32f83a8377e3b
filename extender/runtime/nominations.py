"""Which nomination of a pod goes out when: one at a time, and only the newest counts."""

from __future__ import annotations

from collections.abc import Callable

from extender.core.answers import Nominated
from extender.core.effects import Nominate
from extender.core.events import Event
from extender.runtime.budget import Lane
from extender.runtime.job_writes import Start
from extender.runtime.observer import Observer
from extender.runtime.writes import Procedure, Writes


class Nominations:
    """A nomination that is set and one that is cleared never overtake each other."""

    def __init__(self, writes: Writes, observer: Observer, start: Start, feed: Callable[[Event], None]) -> None:
        self._writes = writes
        self._observer = observer
        self._start = start
        self._feed = feed
        self._newest: dict[str, Nominate | None] = {}
        """Pods that are being nominated, by UID -> the newest nomination asked for; None while it is being written."""

    def ask(self, effect: Nominate) -> None:
        """Have it written now, or as soon as the last write to that pod has ended."""
        running = effect.uid in self._newest
        self._newest[effect.uid] = effect
        if not running:
            self._next(effect.uid)

    def _next(self, uid: str) -> None:
        effect = self._newest[uid]
        if effect is None:
            del self._newest[uid]
            return

        def ended(written: tuple[str | None, str]) -> None:
            node, detail = written
            self._observer.wrote("nomination", "failed" if detail else "done")
            if node is not None and self._newest[uid] is None:
                self._feed(Nominated(uid, node, detail))
            self._next(uid)

        self._start(Lane.OTHER, effect.group or uid, self._write(uid), ended)

    def _write(self, uid: str) -> Procedure[tuple[str | None, str]]:
        """The newest, when its turn has come. Returns that node, and the error if there is one."""
        effect = self._newest[uid]
        assert effect is not None  # noqa: S101
        self._newest[uid] = None
        detail = yield from self._writes.nominate(effect)
        return effect.node, detail
