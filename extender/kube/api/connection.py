"""The connection to the API server: the official client's credentials and pool, bytes in and out, one kind of error."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from kubernetes.aio.client import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import refresh_token

from extender.kube.api.exchange import LARGEST_ANSWER, Exchanges
from extender.kube.api.login import log_in
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


class Connection:
    """One API server, as one identity. Every method raises ApiError, UnreachableError when there was no answer."""

    def __init__(self, configuration: Configuration, *, connections: int = 64) -> None:
        configuration.connection_pool_maxsize = connections
        # aiohttp would look for proxies and .netrc, in a thread, before every request: 0.7 ms of CPU for each write.
        configuration.client_session_kwargs = {"trust_env": False}
        configuration.proxy = configuration.proxy or _proxy(configuration.host)
        self._configuration = configuration
        self._rest = RESTClientObject(configuration)
        self._host: str = configuration.host.rstrip("/")
        self._exchanges = None if configuration.proxy else self._directly(connections)
        self._refreshing: asyncio.Task[None] | None = None
        self._away_at = -math.inf

    @classmethod
    async def open(
        cls, kubeconfig: str | os.PathLike[str] | None = None, context: str | None = None, *, connections: int = 64
    ) -> Connection:
        """As whom and where ``log_in`` says. Raises ValueError or OSError."""
        login = await log_in(kubeconfig, context)
        connection = cls(login.configuration, connections=connections)
        if login.loader is not None:
            # Tokens of cloud logins expire.
            refreshing = refresh_token(login.loader, login.configuration)  # type: ignore[no-untyped-call]
            connection._refreshing = asyncio.create_task(refreshing)
        return connection

    @property
    def authority(self) -> Path | None:
        """The file with the certificate of who vouches for the API server, if that is said."""
        path = self._configuration.ssl_ca_cert
        return Path(path) if path else None

    def was_away(self, lately_s: float) -> bool:
        """Whether a request has met an outage in the last so many seconds."""
        return time.monotonic() - self._away_at < lately_s

    async def close(self) -> None:
        if self._refreshing is not None:
            self._refreshing.cancel()
        if self._exchanges is not None:
            self._exchanges.close()
        await self._rest.close()

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
        if token := await self._configuration.get_api_key_with_prefix("BearerToken", alias="authorization"):
            headers["Authorization"] = token
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
        """On the official client's session, without its ``request``, which is made for more and costs 50 us."""
        rest, configuration = self._rest, self._configuration
        if rest.pool_manager is None:
            rest.pool_manager = rest._create_pool_manager()
        answer: aiohttp.ClientResponse = await rest.pool_manager.request(
            method,
            self._host + path + _written(query),
            headers=headers,
            data=body or None,
            timeout=limits,
            proxy=rest.proxy,
            proxy_headers=rest.proxy_headers,
            server_hostname=configuration.tls_server_name or None,
        )
        if answer.status >= 400:
            async with answer:
                said = await _read(answer, _LONGEST_ERROR)
            raise self._noted(error_from(answer.status, said, answer.headers.get("Retry-After")))
        return answer

    def _directly(self, connections: int) -> Exchanges:
        context = self._rest.ssl_context if self._host.startswith("https:") else None
        return Exchanges(self._host, context, self._configuration.tls_server_name, most=connections)

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


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address, looked up once."""
    address = urlsplit(url)
    if address.hostname is None or proxy_bypass(address.netloc):
        return None
    return getproxies().get(address.scheme)


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
