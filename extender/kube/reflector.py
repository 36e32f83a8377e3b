"""Keep the core informed about one resource: list, then watch, and again whenever that breaks."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import Generic, Protocol, TypeVar

import msgspec

from extender.kube.api.connection import ApiError
from extender.kube.api.pages import Change, is_older
from extender.kube.client import Kube
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import UNDECODABLE, AnyObject, Meta
from extender.kube.resources import EventT, Resource, ValueT
from extender.observe.sight import Sight
from extender.runtime.quarantine import Source

log = logging.getLogger("muster")
ToldT = TypeVar("ToldT", contravariant=True)
HeardT = TypeVar("HeardT")

_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 3.0
"""After an outage stale state must not last; a few watches that retry this often burden no API server."""
WATCH_S = (20, 25)
"""Bounds of the seconds after which the server ends each watch, spread so that not all end at once.

A dead watch is noticed soon after. A watch that continues from a version costs the server next to nothing.
"""
_AT_ONCE_S = 1.0
_AT_ONCE = 50
"""Objects of a list that are converted without a pause: 5 ms."""
_ABSENT_PAUSE_S = 30.0
"""Seconds between two looks whether an optional resource has come to exist."""


class Receiver(Protocol[ToldT]):
    """Takes the state of each object, and the version from which it was read."""

    def show(self, event: ToldT, source: Source) -> None:
        """Take an object that exists, or has changed."""

    def lose(self, event: ToldT, source: Source) -> None:
        """Take an object that is gone."""


@dataclass(frozen=True, slots=True)
class Callback(Generic[HeardT]):
    """A receiver that passes every event on."""

    call: Callable[[HeardT], None]

    def show(self, event: HeardT, _: Source) -> None:
        """Pass the event on."""
        self.call(event)

    def lose(self, event: HeardT, _: Source) -> None:
        """Pass the event on."""
        self.call(event)


class Reflector(Generic[ValueT, EventT]):
    """Follows one resource. ``run()`` never ends by itself. ``synced`` is set once the list has been dispatched.

    ``sight``: notified whenever the API server answers about the resource.
    """

    def __init__(
        self,
        kube: Kube,
        resource: Resource[ValueT, EventT],
        receiver: Receiver[EventT],
        *,
        sight: Sight,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.synced = asyncio.Event()
        self.denied = False
        """Whether Muster may not read the resource, and does without it."""
        self._listed = False
        self._kube = kube
        self._resource = resource
        self._receiver = receiver
        self._sight = sight
        self._kind = resource.name
        self._pause = pause
        self._known: dict[str, ValueT] = {}
        self._versions: dict[str, str] = {}
        """The resourceVersion of each known object."""
        self._version: str | None = None  # None: what is known may be wrong, list again
        self._moved = asyncio.Event()
        self._failures = 0

    async def run(self) -> None:
        self._sight.heard(self._kind)
        while True:
            try:
                if (version := self._version) is None:
                    version = await self._list()
                    self._move_to(version)
                await self._watch(version)
            except ApiError as error:
                await self._recover(error)

    @property
    def known(self) -> Iterable[ValueT]:
        """All objects as last seen."""
        return self._known.values()

    @property
    def known_by_uid(self) -> Mapping[str, ValueT]:
        """All objects as last seen, by UID, since names are used again."""
        return self._known

    async def catch_up(self) -> None:
        """Return once the state as of now, or a later one, is known.

        A watch can lag for as long as it lasts, and ends with a bookmark. Raises ApiError if the API server cannot be
        asked for the newest version.
        """
        newest = await self._kube.newest(self._resource.path)
        while self._version is None or is_older(self._version, newest):
            self._moved.clear()
            await self._moved.wait()

    def list_again(self) -> None:
        """Have ``run()`` list again, because the objects would now be read differently."""
        self._version = None

    def read_at(self, resource: Resource[ValueT, EventT]) -> None:
        """Read the objects in another API version from now on: ``run()`` lists again, and dispatches what differs."""
        self._resource = resource
        self._version = None

    def end(self) -> None:
        """Report all objects as gone. Call it after ``run()`` was cancelled: the resource no longer exists."""
        self._version = None
        self._replace({})
        self._note_listed(listed=False)
        self._sight.closed(self._kind)

    def repeat(self) -> None:
        """Dispatch every known object again, in the way of a new list."""
        for event, source in self.replay():
            self._receiver.show(event, source)

    def replay(self) -> Iterator[tuple[EventT, Source]]:
        """Every object known now, in the way of a new list."""
        known, listed = list(self._known.items()), self._resource.listed
        last = [] if listed is None else [(listed(self._listed), self._source(""))]
        return chain(((self._resource.seen(value), self._source(uid)) for uid, value in known), last)

    async def _list(self) -> str:
        """Read everything, then dispatch the difference. Vanished objects come first, since their names may be used
        again."""
        listed: dict[str, ValueT] = {}
        version = ""
        async with aclosing(self._kube.list_pages(self._resource.path, labels=self._resource.labels)) as pages:
            async for page in pages:
                self._sight.heard(self._kind)
                version = page.resource_version
                for number, item in enumerate(page.items):
                    if not number % _AT_ONCE:
                        await asyncio.sleep(0)  # lets other tasks run, among them the request of the next page
                    meta, value = self._read(item, self._resource.read_listed)
                    if value is not None:
                        listed[meta.uid or ""] = value
        self.denied = False
        self._replace(listed)
        self._note_listed(listed=True)
        self.synced.set()
        return version

    def _replace(self, listed: dict[str, ValueT]) -> None:
        for uid in [uid for uid in self._known if uid not in listed]:
            self._lose(uid)
        for uid, value in listed.items():
            self._see(uid, value)

    async def _watch(self, version: str) -> None:
        heard, began = False, self._sight.clock()
        lasts_s = random.randint(*WATCH_S)  # noqa: S311
        path, labels = self._resource.path, self._resource.labels
        async with aclosing(self._kube.watch(path, version, lasts_s=lasts_s, labels=labels)) as changes:
            async for change in changes:
                heard, self._failures = True, 0
                self._sight.heard(self._kind)
                self._apply(change)
        self._sight.heard(self._kind)
        if not heard and self._sight.clock() - began < _AT_ONCE_S:
            # A server that ends each watch at once must not cause a tight loop.
            await self._back_off(None)

    def _apply(self, change: Change) -> None:
        if change.type == "BOOKMARK":
            self._move_to(_meta(change.object).resource_version)
            return
        meta, value = self._read(change.object)
        uid = meta.uid or ""
        if change.type == "DELETED" or value is None:
            self._lose(uid)
        else:
            self._see(uid, value)
        self._move_to(meta.resource_version)

    def _move_to(self, version: str | None) -> None:
        self._version = version or self._version
        self._moved.set()

    def _see(self, uid: str, value: ValueT) -> None:
        """Record the object, and dispatch it if it differs. Most changes are heartbeats and statuses that make no
        difference."""
        last = self._known.get(uid)
        if last == value and self._resource.renewed:
            self._known[uid] = value
        if last != value:
            self._known[uid] = value
            if last is not None and self._resource.known_as(last) != self._resource.known_as(value):
                self._receiver.lose(self._resource.gone(last), self._source(uid))
            self._receiver.show(self._resource.seen(value), self._source(uid))

    def _lose(self, uid: str) -> None:
        self._note(uid, None)
        if uid in self._known:
            self._receiver.lose(self._resource.gone(self._known.pop(uid)), self._source(uid))
        self._versions.pop(uid, None)

    def _note_listed(self, *, listed: bool) -> None:
        """Dispatch whether every object is known, for resources with such an event."""
        if self._resource.listed is not None and self._listed != listed:
            self._listed = listed
            self._receiver.show(self._resource.listed(listed), self._source(""))

    def _source(self, uid: str) -> Source:
        return Source(self._kind, uid, self._versions.get(uid, ""))

    def _read(
        self, raw: msgspec.Raw, read: Callable[[msgspec.Raw], tuple[Meta, ValueT | None]] | None = None
    ) -> tuple[Meta, ValueT | None]:
        """Read an object. If that fails, its last known value stands, or its bare facts."""
        try:
            meta, value = (read or self._resource.read)(raw)
        except Exception as error:
            # A fault in one object must not stop the others.
            foreseen = isinstance(error, (*UNDECODABLE, UnreadableError))
            meta = _meta(raw)
            where = self._resource.path, meta.namespace or "", meta.name
            log.warning("%s: %s/%s is skipped: %s", *where, error, exc_info=None if foreseen else error)
            last = self._known.get(meta.uid or "")
            value = self._read_bare(raw) if last is None else last
        if value is not None:
            self._versions[meta.uid or ""] = meta.resource_version or ""
            self._note(meta.uid or "", meta.resource_version)
        return meta, value

    def _read_bare(self, raw: msgspec.Raw) -> ValueT | None:
        """The room and other bare facts of an object that cannot be read; None if it has none."""
        try:
            return self._resource.read_bare(raw)
        except Exception:
            return None

    def _note(self, uid: str, version: str | None) -> None:
        if self._resource.patched:
            self._kube.saw(uid, version)

    async def _recover(self, error: ApiError) -> None:
        if error.status == 410:
            log.info("%s: too far behind to go on watching, listing again", self._resource.path)
            self._version = None
            if self._failures:
                await self._back_off(error)
            self._failures += 1
        elif error.status == 404 and self._resource.optional:
            self._version = None
            self._sight.heard(self._kind)
            self._replace({})
            self._note_listed(listed=False)
            self.synced.set()
            await self._pause(_ABSENT_PAUSE_S * random.uniform(0.8, 1.2))  # noqa: S311
        elif error.status == 403 and self._resource.dispensable:
            log.warning("%s: %s; Muster does without it", self._resource.path, error)
            self._version = None
            self._sight.heard(self._kind)
            self.denied = True
            self._note_listed(listed=False)
            self.synced.set()
            # An API server that has just started refuses every client until it has read the roles.
            await self._back_off(error, _ABSENT_PAUSE_S)
        else:
            log.warning("%s: %s", self._resource.path, error)
            if error.status not in (0, 429):
                self._version = None
            await self._back_off(error)

    async def _back_off(self, error: ApiError | None, longest_s: float = _LONGEST_PAUSE_S) -> None:
        pause = min(longest_s, _FIRST_PAUSE_S * 2 ** min(self._failures, 10))
        self._failures += 1
        retry_after_s = (error.retry_after_s if error else None) or 0.0
        await self._pause(max(pause, retry_after_s) * random.uniform(0.75, 1.25))  # noqa: S311


def _meta(raw: msgspec.Raw) -> Meta:
    """The metadata that identify the object; empty if even those cannot be read."""
    try:
        return msgspec.json.decode(raw, type=AnyObject).metadata or Meta()
    except UNDECODABLE:
        return Meta()
