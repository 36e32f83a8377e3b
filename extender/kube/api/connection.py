"""The connection to the API server: credentials and a pool of a login, bytes in and out, one kind of error."""

from __future__ import annotations

import math
import os
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from extender.kube.api.exchange import LARGEST_ANSWER, Exchanges
from extender.kube.api.silence import why_silent
from extender.kube.reading.objects import UNDECODABLE
from extender.runtime.requests import Ended

ReadT = TypeVar("ReadT")
REQUEST_TIMEOUT_S = 10.0
LONGEST_RETRY_AFTER_S = 10.0
"""What an answer may ask for; whatever it says, nobody waits longer. The API server itself says 1 s as a rule."""
LONGEST_LINE = 32 << 20
"""Bytes of a line of a watch that are kept: three times the largest object that etcd takes, written as JSON."""
_LONGEST_ERROR = 64 << 10
_NO_ANSWER = (aiohttp.ClientError, TimeoutError, OSError)
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""For writes whose answer nobody reads: the API server need not encode the whole object."""


class ApiError(Ended, Exception):
    """The API server said no. ``retry_after_s`` is what it asked for, if it did, up to LONGEST_RETRY_AFTER_S."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s


class UnreachableError(ApiError):
    """No answer: whether the request was carried out is not known."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class TooLargeError(UnreachableError):
    """The answer is larger than what is kept of one."""


class StandbyError(ApiError):
    """This replica does not lead, so nothing was sent."""

    def __init__(self) -> None:
        super().__init__(403, "Standby", "another replica leads: this one writes nothing")


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    code: int | None = None


class Login(Protocol):
    """The address of the API server, and the identity that asks it."""

    host: str
    """The URL that paths are appended to."""
    server_name: str | None
    """The name that the API server's certificate has to have, if not the host."""
    direct: bool
    """Whether the API server listens at ``host`` itself: Connection may then write to the socket on its own."""
    tls: ssl.SSLContext | None

    @property
    def authority(self) -> Path | None:
        """The file with the certificate of who vouches for the API server, None if none is named.

        Raises ValueError where it is not known.
        """

    async def authorization(self) -> str | None:
        """The header that says who asks, before every request."""

    def session(self) -> aiohttp.ClientSession:
        """A new pool of connections, by which the whole of ``host`` is reached: the proxy is set."""

    async def close(self) -> None:
        """Stop what keeps the credentials fresh."""


class Connection:
    """One API server, as one identity. Every method raises ApiError, UnreachableError when there was no answer."""

    def __init__(self, login: Login, *, connections: int = 64) -> None:
        self._login = login
        self._host = login.host.rstrip("/")
        self._session: aiohttp.ClientSession | None = None
        self._exchanges = self._directly(connections) if login.direct else None
        self._away_at = -math.inf

    @classmethod
    async def open(
        cls, kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None, *, connections: int = 64
    ) -> Connection:
        """Log in by a kubeconfig, else as the pod that this runs in. Raises ValueError or OSError.

        The official client reads it, and is half of a whole installation: kubectl does where it is not installed.
        """
        try:
            from extender.kube.api.login import log_in
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "kubernetes":  # one of before 36 has no kubernetes.aio
                raise
            from extender.kube.api.kubectl import log_in  # type: ignore[assignment]
        return cls(await log_in(kubeconfig, context), connections=connections)

    @property
    def authority(self) -> Path | None:
        """The file that the login names. Raises ValueError."""
        return self._login.authority

    def was_away(self, lately_s: float) -> bool:
        """Whether a request has met an outage in the last so many seconds."""
        return time.monotonic() - self._away_at < lately_s

    async def close(self) -> None:
        if self._exchanges is not None:
            self._exchanges.close()
        if self._session is not None:
            await self._session.close()
        await self._login.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout_s: float = REQUEST_TIMEOUT_S,
        silence_s: float | None = None,
        check: Callable[[], None] = lambda: None,
        impersonate: str = "",
    ) -> bytes:
        """One request, answered in full within ``timeout_s`` seconds, and never silent for ``silence_s``.

        ``impersonate``: the user as whom it is asked for. What such a request meets, an admission webhook that is down
        for example, is no outage of the API server.
        ``check`` is called right before it is sent, and stops it by raising; where a proxy is used, before connecting.
        """
        headers = await self._headers(accept, content_type)
        noted: Callable[[ApiError], ApiError] = self._noted
        if impersonate:
            headers["Impersonate-User"], noted = impersonate, lambda error: error
        said = b"" if body is None else _encoded(method, path, body)
        try:
            if self._exchanges is not None and silence_s is None:
                status, content, retry_after = await self._exchanges.ask(
                    method, path, headers, said, query=_written(query), timeout_s=timeout_s, check=check
                )
                if status >= 300:
                    raise noted(error_from(status, content[:_LONGEST_ERROR], retry_after))
                return self._from_api_server(method, path, content)
            check()
            limits = aiohttp.ClientTimeout(total=timeout_s, sock_read=silence_s)
            async with await self._ask(method, path, limits, query, headers, said) as answer:
                content = await _read(answer, LARGEST_ANSWER)
        except _NO_ANSWER as error:
            raise noted(_unreachable(method, path, error)) from None
        if len(content) > LARGEST_ANSWER:
            raise TooLargeError(f"{method} {path}: the answer has more than {LARGEST_ANSWER} bytes")
        return self._from_api_server(method, path, content)

    def _from_api_server(self, method: str, path: str, content: bytes) -> bytes:
        """The API server answers a request with an object. Whatever else comes with status 200 is a page of a proxy in
        between: whether the request was carried out is not known."""
        if content and not content.lstrip().startswith(b"{"):
            raise self._noted(UnreachableError(f"{method} {path}: something else answers for the API server"))
        return content

    async def lines(self, path: str, limits: aiohttp.ClientTimeout, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """The lines of an answer as they arrive, without their ends."""
        async with self.answer("GET", path, limits, query) as answer:
            begun = bytearray()
            while chunk := await answer.content.readany():
                *ends, rest = chunk.split(b"\n")
                for end in ends:
                    yield bytes(begun + end) if begun else end
                    begun.clear()
                begun += rest
                if len(begun) > LONGEST_LINE:
                    raise TooLargeError(f"GET {path}: a line has more than {LONGEST_LINE} bytes")
            if begun:
                yield bytes(begun)

    @asynccontextmanager
    async def answer(
        self, method: str, path: str, limits: aiohttp.ClientTimeout, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer while it still arrives, for watches."""
        try:
            headers = await self._headers("application/json", "application/json")
            async with await self._ask(method, path, limits, query, headers) as answer:
                yield answer
        except _NO_ANSWER as error:
            raise self._noted(_unreachable(method, path, error)) from None

    async def _headers(self, accept: str, content_type: str) -> dict[str, str]:
        headers = {"User-Agent": "muster", "Accept": accept, "Content-Type": content_type}
        if authorization := await self._login.authorization():
            headers["Authorization"] = authorization
        return headers

    async def _ask(
        self,
        method: str,
        path: str,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None,
        headers: dict[str, str],
        body: bytes = b"",
    ) -> aiohttp.ClientResponse:
        if self._session is None:
            self._session = self._login.session()
        answer = await self._session.request(
            method,
            self._host + path + _written(query),
            headers=headers,
            data=body or None,
            timeout=limits,
            server_hostname=self._login.server_name,
        )
        if answer.status >= 400:
            async with answer:
                said = await _read(answer, _LONGEST_ERROR)
            raise self._noted(error_from(answer.status, said, answer.headers.get("Retry-After")))
        return answer

    def _directly(self, connections: int) -> Exchanges:
        context = self._login.tls if self._host.startswith("https:") else None
        return Exchanges(self._host, context, self._login.server_name, most=connections)

    def _noted(self, error: ApiError) -> ApiError:
        if error.outage:
            self._away_at = time.monotonic()
        return error


def _unreachable(method: str, path: str, error: BaseException) -> ApiError:
    where = f" ({error.host}:{error.port})" if isinstance(error, aiohttp.ClientConnectorError) else ""
    return UnreachableError(f"{method} {path}: {why_silent(error)}{where}")


async def _read(answer: aiohttp.ClientResponse, most: int) -> bytes:
    """The content, or, if it has more than ``most`` bytes, more than so many of them."""
    content = bytearray()
    while chunk := await answer.content.readany():
        content += chunk
        if len(content) > most:
            break
    return bytes(content)


def error_from(status: int, body: bytes | msgspec.Raw, retry_after: str | None = None) -> ApiError:
    """From a ``v1.Status``, or from whatever a proxy in between said. Status 0: take the one in the body."""
    try:
        said = msgspec.json.decode(body, type=_Status)
    except UNDECODABLE:
        said = _Status(message=bytes(body)[:200].decode("utf-8", "replace"))
    seconds = None
    if retry_after is not None and retry_after.isdecimal():
        seconds = min(float(retry_after), LONGEST_RETRY_AFTER_S)
    return ApiError(status or said.code or 500, said.reason or "", said.message or "", seconds)


def _written(query: Mapping[str, str] | None) -> str:
    return f"?{urlencode(query)}" if query else ""


def _encoded(method: str, path: str, body: Mapping[str, Any]) -> bytes:
    """Raises ApiError, as the API server does for an object that it does not take: nothing was sent."""
    try:
        return msgspec.json.encode(body)
    except (*UNDECODABLE, TypeError, ValueError, OverflowError) as error:
        raise ApiError(422, "Unencodable", f"{method} {path}: the body cannot be written as JSON: {error}") from None


def read_as(answer: bytes, kind: type[ReadT]) -> ReadT:
    """What is in an answer. Raises UnreachableError."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNDECODABLE as error:
        # A line cut short, or something in between that answers for the API server.
        raise UnreachableError(f"the answer of the API server cannot be read: {error}") from None


def decoded(answer: bytes) -> dict[str, Any]:
    """The object of an answer; an empty one if there is none in it."""
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except UNDECODABLE:
        return {}
