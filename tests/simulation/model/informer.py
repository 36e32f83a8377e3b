"""A client's picture of one resource: list, then watch with a lag, and list again or catch up after a break."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from extender.simulation.clock import Timer
from tests.simulation.model.apiserver import ApiServer
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.network import Network

Seen = Callable[[Change, Change | None], None]
Gone = Callable[[Change], None]

RETRY_S = (0.0, 0.5, 1.0, 2.0, 3.0)
"""Pauses of a client whose watch fails again and again; the last one repeats."""


class Informer:
    """``seen(new, before)`` for an object added or changed, ``gone(last)`` for one that is no more."""

    def __init__(self, api: ApiServer, network: Network, kind: Kind, seen: Seen, gone: Gone) -> None:
        self.known: dict[str, Change] = {}
        self._api = api
        self._network = network
        self.kind = kind
        self._seen = seen
        self._gone = gone
        self._news: deque[tuple[float, Change]] = deque()
        self._timer: Timer | None = None
        self._deaf_until = 0.0
        self._relist = False
        self._expired = self._refused = 0
        self._cuts = 0
        api.listeners[kind].append(self._push)

    def list(self) -> None:
        """Read everything now, and report the difference: vanished objects first, because names may be reused."""
        self._news.clear()
        changes = self._api.changes[self.kind]
        for uid in [uid for uid in self.known if uid not in changes]:
            self._gone(self.known.pop(uid))
        for change in list(changes.values()):
            self._see(change)

    def stop(self) -> None:
        self._api.listeners[self.kind].remove(self._push)
        self._news.clear()
        if self._timer is not None:
            self._timer.cancel()

    def interrupt(self, seconds: float, *, relist: bool) -> None:
        """Break the watch for a while. Afterwards it continues where it was, or everything is listed again."""
        self._deaf_until = max(self._deaf_until, self._network.clock.now + seconds)
        self._relist = self._relist or relist
        self._arm(self._deaf_until)

    def cut(self, times: int = 1) -> None:
        """End the connection in the middle of the next line: the watch is opened again after the last whole one."""
        self._cuts = times

    def expire(self, times: int) -> None:
        """Let the API server forget versions: the next ``times`` watches are refused with 410, each after a list."""
        self._expired, self._refused = times, 0
        self._arm(max(self._deaf_until, self._network.clock.now))

    def torn(self) -> None:
        """Drop half a line, as the client does: the whole line comes again."""
        self.interrupt(RETRY_S[1], relist=False)

    def skip(self) -> None:
        """Continue after the next change without a look at it."""
        self._news.popleft()

    def _push(self, change: Change) -> None:
        due = self._network.clock.now + self._network.lag()
        if self._news:
            due = max(due, self._news[-1][0])
        self._news.append((due, change))
        if self._network.repeats():
            self._news.append((due, change))
        if self._timer is None:
            self._arm(due)

    def _arm(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._network.clock.at(at, self._deliver)

    def _deliver(self) -> None:
        self._timer = None
        now = self._network.clock.now
        if now < self._deaf_until:
            return self._arm(self._deaf_until)
        if self._expired:
            return self._list_in_vain()
        if self._relist:
            self._relist = False
            return self.list()
        while self._news and self._news[0][0] <= now:
            if self._cuts:
                self._cuts -= 1
                return self.torn()
            _, change = self._news.popleft()
            if not change.gone:
                self._see(change)
            elif (last := self.known.pop(change.uid, None)) is not None:
                self._gone(last)
        if self._news:
            self._arm(self._news[0][0])
        return None

    def _list_in_vain(self) -> None:
        pause_s = RETRY_S[min(self._refused, len(RETRY_S) - 1)]
        self._expired, self._refused = self._expired - 1, self._refused + 1
        self._deaf_until = self._network.clock.now + pause_s
        self.list()
        self._arm(self._deaf_until)

    def _see(self, change: Change) -> None:
        before = self.known.get(change.uid)
        if before is None or before.version < change.version:
            self.known[change.uid] = change
            self._seen(change, before)
