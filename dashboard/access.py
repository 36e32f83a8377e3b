"""The person behind a request, and what that person may see: the API server says both, and nothing else is shown.

A person sees the workloads of a namespace who may list pods there. Answers are kept for a minute, so a right that was
taken away ends at most a minute later. All pages that wait for the same answer share one question.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from extender.kube.api.connection import ApiError, Connection

log = logging.getLogger("muster.dashboard")
AnswerT = TypeVar("AnswerT")
KeyT = TypeVar("KeyT")

KEPT_S = 60.0
MOST_PEOPLE = 1_000
MOST_NAMESPACES = 5_000
"""The most namespaces of one person, in the order of their names. The others are not shown."""
AT_ONCE = 32
"""Questions to the API server under way at the same time."""
LONGEST_TOKEN = 16_384


class UnknownPersonError(Exception):
    """The token is none that the API server knows."""


class UndecidedError(Exception):
    """The API server cannot be asked; the message says why."""


@dataclass(frozen=True, slots=True)
class Person:
    """``namespaces``: those whose pods the person may list. ``sees_all``: the pods of every namespace."""

    name: str
    namespaces: frozenset[str] = frozenset()
    sees_all: bool = False

    def sees(self, namespace: str) -> bool:
        """Whether the workloads of the namespace may be shown."""
        return self.sees_all or namespace in self.namespaces


class Access(Protocol):
    """Looks people up."""

    async def person(self, token: str, namespaces: Iterable[str]) -> Person:
        """Return who the token is of, and which of the namespaces that person sees.

        Raises UnknownPersonError and UndecidedError.
        """

    async def is_extender(self, token: str) -> bool:
        """Whether the token is of the extender that may bring updates."""


class _User(msgspec.Struct):
    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class _Reviewed(msgspec.Struct):
    authenticated: bool = False
    user: _User = msgspec.field(default_factory=_User)
    audiences: list[str] = []
    allowed: bool = False
    denied: bool = False


class _Review(msgspec.Struct):
    status: _Reviewed = msgspec.field(default_factory=_Reviewed)


Ask = Callable[[str, Mapping[str, Any]], Awaitable[bytes]]
"""Creates an object at a path of the API server. Raises ApiError."""


@dataclass(slots=True)
class _Kept(Generic[AnswerT]):
    """An answer that is under way or known, and until when it counts."""

    until: float
    answer: asyncio.Future[AnswerT]


@dataclass(slots=True)
class _Known:
    """A person, and whether the person may list the pods of each namespace; "" stands for all of them."""

    user: _User
    may: dict[str, _Kept[bool]] = field(default_factory=dict)


class Reviews:
    """Access by TokenReviews and SubjectAccessReviews.

    ``audience``: what the extender's tokens are made for; a person's tokens are made for the API server.
    ``extender``: the user name of the extender.
    """

    def __init__(self, ask: Ask, *, audience: str, extender: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._ask, self._clock = ask, clock
        self._audience, self._extender = audience, extender
        self._known: OrderedDict[bytes, _Kept[_Known | None]] = OrderedDict()
        """The person by the hash of the token; None for an unknown token."""
        self._under_way = asyncio.Semaphore(AT_ONCE)

    async def person(self, token: str, namespaces: Iterable[str]) -> Person:
        known = await self._person(token)
        wanted = sorted({*namespaces})[:MOST_NAMESPACES]
        if await self._may(known, ""):
            return Person(known.user.username, sees_all=True)
        known.may = {name: known.may[name] for name in ("", *wanted) if name in known.may}
        may = await asyncio.gather(*(self._may(known, namespace) for namespace in wanted))
        return Person(
            known.user.username, frozenset(name for name, allowed in zip(wanted, may, strict=True) if allowed)
        )

    async def is_extender(self, token: str) -> bool:
        try:
            status = await self._review_token(token, audiences=[self._audience])
        except UndecidedError as error:
            log.warning("it cannot be said whether an extender may connect: %s", error)
            return False
        known = status.authenticated and self._audience in status.audiences
        if not known or status.user.username != self._extender:
            log.warning("a connection of %r was refused: it is not %s", status.user.username, self._extender)
            return False
        return True

    async def _person(self, token: str) -> _Known:
        """Return who the token is of. Raises UnknownPersonError and UndecidedError."""
        if not token or len(token) > LONGEST_TOKEN:
            raise UnknownPersonError
        digest = hashlib.sha256(token.encode()).digest()
        known = await self._once(self._known, digest, partial(self._identify, token))
        while len(self._known) > MOST_PEOPLE:
            self._known.popitem(last=False)
        if known is None:
            raise UnknownPersonError
        return known

    async def _identify(self, token: str) -> _Known | None:
        status = await self._review_token(token)
        return _Known(status.user) if status.authenticated and status.user.username else None

    async def _may(self, known: _Known, namespace: str) -> bool:
        """Whether the person may list the pods of the namespace; "": of all. Raises UndecidedError."""
        return await self._once(known.may, namespace, partial(self._allows, known.user, namespace))

    async def _allows(self, user: _User, namespace: str) -> bool:
        where = {"namespace": namespace} if namespace else {}
        spec = {
            "user": user.username,
            "uid": user.uid,
            "groups": user.groups,
            "extra": user.extra,
            "resourceAttributes": {"verb": "list", "resource": "pods", "version": "v1", **where},
        }
        status = await self._review("/apis/authorization.k8s.io/v1/subjectaccessreviews", "SubjectAccessReview", spec)
        return status.allowed and not status.denied

    async def _once(
        self,
        kept: MutableMapping[KeyT, _Kept[AnswerT]],
        key: KeyT,
        ask: Callable[[], Coroutine[Any, Any, AnswerT]],
    ) -> AnswerT:
        """Return the answer that is kept, or what ``ask`` returns for all who wait. A failure is not kept."""
        now = self._clock()
        if (known := kept.get(key)) is None or known.until <= now:
            kept.pop(key, None)
            known = kept[key] = _Kept(now + KEPT_S, asyncio.ensure_future(ask()))
        try:
            return await asyncio.shield(known.answer)
        except UndecidedError:
            if kept.get(key) is known:
                del kept[key]
            raise

    async def _review_token(self, token: str, **more: list[str]) -> _Reviewed:
        path = "/apis/authentication.k8s.io/v1/tokenreviews"
        return await self._review(path, "TokenReview", {"token": token, **more})

    async def _review(self, path: str, kind: str, spec: Mapping[str, Any]) -> _Reviewed:
        group = path.split("/")[2]
        try:
            async with self._under_way:
                answer = await self._ask(path, {"apiVersion": f"{group}/v1", "kind": kind, "spec": spec})
            return msgspec.json.decode(answer, type=_Review).status
        except ApiError as error:
            raise UndecidedError(error.message) from None
        except msgspec.MsgspecError:
            raise UndecidedError(f"the API server's {kind} cannot be read") from None


def by(connection: Connection) -> Ask:
    """Ask that API server."""

    async def ask(path: str, body: Mapping[str, Any]) -> bytes:
        return await connection.call("POST", path, body=body)

    return ask
