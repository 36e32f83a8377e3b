"""The connection to the API server: credentials, a pool of connections, bytes in and out, one kind of error."""

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
from extender.kube.api.forbidden import Denied, denied
from extender.kube.api.silence import why_silent
from extender.kube.reading.objects import UNDECODABLE
from extender.runtime.requests import Ended

ReadT = TypeVar("ReadT")
NOTHING_MORE: Mapping[str, str] = {}
REQUEST_TIMEOUT_S = 10.0
LONGEST_RETRY_AFTER_S = 10.0
"""Most seconds to wait because an answer asks for it. The API server itself asks for 1 s as a rule."""
LONGEST_LINE = 32 << 20
"""Most bytes of a line of a watch: three times the largest object that etcd accepts, written as JSON."""
_LONGEST_ERROR = 64 << 10
_NO_ANSWER = (aiohttp.ClientError, TimeoutError, OSError)
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
"""The Accept header of writes whose answer is not read: the API server need not encode the whole object."""


class ApiError(Ended, Exception):
    """The API server refused a request. ``retry_after_s``: the pause it asked for, up to LONGEST_RETRY_AFTER_S."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(f"{status} {reason}: {message}" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after_s = retry_after_s

    @property
    def denied(self) -> Denied | None:
        """The right that the account lacks; None if the refusal has another cause."""
        return denied(self.message) if self.status == 403 else None

    @property
    def brief(self) -> str:
        """The text for a person at a terminal: of a lacking right only the account and the right."""
        return str(self.denied or self)


class UnreachableError(ApiError):
    """No answer came, so the outcome of the request is unknown."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Unreachable", message)


class TooLargeError(UnreachableError):
    """The answer is too large to be read."""


class StandbyError(ApiError):
    """This replica does not lead, so nothing was sent."""

    def __init__(self) -> None:
        super().__init__(403, "Standby", "another replica leads: this one writes nothing")


class _Status(msgspec.Struct):
    reason: str | None = None
    message: str | None = None
    code: int | None = None


class Login(Protocol):
    """The address of the API server, and the identity of the client."""

    host: str
    """The URL to which paths are appended."""
    server_name: str | None
    """The name that the API server's certificate must have, if not the host."""
    direct: bool
    """Whether the API server itself listens at ``host``. Connection may then write to its socket without aiohttp."""
    tls: ssl.SSLContext | None

    @property
    def authority(self) -> Path | None:
        """The file with the certificate authority of the API server; None if none is named.

        Raises ValueError if it is not known.
        """

    async def authorization(self) -> str | None:
        """The Authorization header, made before every request."""

    def session(self) -> aiohttp.ClientSession:
        """A new pool of connections to ``host``, with the proxy set."""

    async def close(self) -> None:
        """Stop what renews the credentials."""


class Connection:
    """A connection to an API server as one identity. Methods raise ApiError; UnreachableError without an answer."""

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
        """Log in by a kubeconfig, else as the pod of this process. Raises ValueError or OSError.

        The official client reads the kubeconfig. It is half of a full installation, so kubectl does where it is
        missing.
        """
        try:
            from extender.kube.api.login import log_in
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "kubernetes":  # versions before 36 have no kubernetes.aio
                raise
            from extender.kube.api.kubectl import log_in  # type: ignore[assignment]
        return cls(await log_in(kubeconfig, context), connections=connections)

    @property
    def authority(self) -> Path | None:
        """The file with the certificate authority that the login names. Raises ValueError."""
        return self._login.authority

    def was_away(self, lately_s: float) -> bool:
        """Whether a request met an outage within the last ``lately_s`` seconds."""
        return time.monotonic() - self._away_at < lately_s

    async def authorization(self) -> str | None:
        """The header that says who asks; None where a certificate does."""
        return await self._login.authorization()

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
        """Make one request, answered in full within ``timeout_s`` seconds, and never silent for ``silence_s``.

        ``impersonate``: the user in whose name to ask. Failures of such a request, such as an admission webhook that is
        down, are no outage of the API server.
        ``check``: called right before the request is sent, and stops it by raising; behind a proxy, before connecting.
        """
        headers = await self._headers(accept, content_type)
        noted: Callable[[ApiError], ApiError] = self._noted
        if impersonate:
            headers["Impersonate-User"], noted = impersonate, lambda error: error
        request = b"" if body is None else _encoded(method, path, body)
        try:
            if self._exchanges is not None and silence_s is None:
                status, content, retry_after = await self._exchanges.ask(
                    method, path, headers, request, query=_written(query), timeout_s=timeout_s, check=check
                )
                if status >= 300:
                    raise noted(error_from(status, content[:_LONGEST_ERROR], retry_after))
                return self._from_api_server(method, path, content)
            check()
            limits = aiohttp.ClientTimeout(total=timeout_s, sock_read=silence_s)
            async with await self._ask(method, path, limits, query, headers, request) as answer:
                content = await _read(answer, LARGEST_ANSWER)
        except _NO_ANSWER as error:
            raise noted(_unreachable(method, path, error)) from None
        if len(content) > LARGEST_ANSWER:
            raise TooLargeError(f"{method} {path}: the answer has more than {LARGEST_ANSWER} bytes")
        return self._from_api_server(method, path, content)

    def _from_api_server(self, method: str, path: str, content: bytes) -> bytes:
        """The content, if it is an object. Anything else with status 200 is a page of a proxy, and raises
        UnreachableError."""
        if content and not content.lstrip().startswith(b"{"):
            raise self._noted(UnreachableError(f"{method} {path}: something else answers for the API server"))
        return content

    async def lines(self, path: str, limits: aiohttp.ClientTimeout, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Yield the lines of an answer as they arrive, without their ends."""
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
        self,
        method: str,
        path: str,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        more: Mapping[str, str] = NOTHING_MORE,
        *,
        any_status: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer while it still arrives, for watches. ``more``: headers besides those of every request.

        ``any_status``: an answer with an error is yielded, too, and raises nothing.
        """
        try:
            headers = await self._headers("application/json", "application/json") | dict(more)
            async with await self._ask(method, path, limits, query, headers, any_status=any_status) as answer:
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
        *,
        any_status: bool = False,
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
        if answer.status >= 400 and not any_status:
            async with answer:
                content = await _read(answer, _LONGEST_ERROR)
            raise self._noted(error_from(answer.status, content, answer.headers.get("Retry-After")))
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
    """The content; if it has more than ``most`` bytes, somewhat more than that many of them."""
    content = bytearray()
    while chunk := await answer.content.readany():
        content += chunk
        if len(content) > most:
            break
    return bytes(content)


def error_from(status: int, body: bytes | msgspec.Raw, retry_after: str | None = None) -> ApiError:
    """The error in a ``v1.Status``, or in the answer of a proxy. Status 0: take the one in the body."""
    try:
        refusal = msgspec.json.decode(body, type=_Status)
    except UNDECODABLE:
        refusal = _Status(message=bytes(body)[:200].decode("utf-8", "replace"))
    seconds = None
    if retry_after is not None and retry_after.isdecimal():
        seconds = min(float(retry_after), LONGEST_RETRY_AFTER_S)
    return ApiError(status or refusal.code or 500, refusal.reason or "", refusal.message or "", seconds)


def _written(query: Mapping[str, str] | None) -> str:
    return f"?{urlencode(query)}" if query else ""


def _encoded(method: str, path: str, body: Mapping[str, Any]) -> bytes:
    """The body as JSON. Raises ApiError with status 422 if it cannot be written; nothing was sent."""
    try:
        return msgspec.json.encode(body)
    except (*UNDECODABLE, TypeError, ValueError, OverflowError) as error:
        raise ApiError(422, "Unencodable", f"{method} {path}: the body cannot be written as JSON: {error}") from None


def read_as(answer: bytes, kind: type[ReadT]) -> ReadT:
    """Decode an answer. Raises UnreachableError."""
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNDECODABLE as error:
        # The line was cut short, or a proxy answered.
        raise UnreachableError(f"the answer of the API server cannot be read: {error}") from None


def decoded(answer: bytes) -> dict[str, Any]:
    """The object in an answer; empty if there is none."""
    try:
        return msgspec.json.decode(answer, type=dict[str, Any])
    except UNDECODABLE:
        return {}
