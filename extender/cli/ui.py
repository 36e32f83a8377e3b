"""`muster ui`: shows the dashboard in a browser on this machine, with the rights of the kubeconfig's user.

The command listens on loopback and forwards requests with the user's token. The printed address ends with a key that
other users of this machine, and pages of other sites, do not have. Its opening sets a cookie, which is worthless once
the command has ended.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from http import HTTPStatus
from typing import Annotated
from urllib.parse import unquote

import aiohttp
import msgspec
import typer
from aiohttp import web

from extender.cli.inspection.options import CaFile, Context, Kubeconfig, MusterNamespace
from extender.cli.inspection.reach import UnreachableError, Way, verification
from extender.cli.terminal import stop_on
from extender.kube.api.connection import ApiError, Connection
from extender.kube.api.forbidden import refusal
from extender.kube.api.silence import why_silent
from extender.kube.api.tokens import Account, request_token

_COOKIE = "muster-ui"
_KEY = "key"
_SERVICE = "muster-dashboard:http"
_ACCOUNT_S = 3600
_CONNECT_S = 10.0
_PASSED_ON = ("accept", "accept-language", "last-event-id", "hx-request", "hx-target", "hx-current-url")
_PASSED_BACK = (
    "content-type", "cache-control", "content-security-policy", "etag", "location", "referrer-policy",
    "x-content-type-options", "x-frame-options",
)  # fmt: skip
_THROUGH_PROXY = "X-Muster-Authorization"
Token = Callable[[], Awaitable[str]]
"""Returns the Authorization header of the user."""
Ask = Callable[[str, Mapping[str, str]], AbstractAsyncContextManager[aiohttp.ClientResponse]]
"""Requests a path, with its query, from the dashboard, with headers."""


def ui(
    url: Annotated[
        str | None, typer.Option(help="URL of the dashboard; default: its Service, by the API server's proxy.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port on this machine; default: any that is free.")] = 0,
    account: Annotated[
        str | None,
        typer.Option(metavar="NAMESPACE/NAME", help="Look with the rights of this ServiceAccount; you may need to."),
    ] = None,
    open_browser: Annotated[bool, typer.Option("--open/--no-open", help="Open a browser.")] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    muster_namespace: MusterNamespace = None,
    ca_file: CaFile = None,
) -> None:
    """Show the dashboard in a browser, with your own rights.

    Serves on 127.0.0.1 until Ctrl-C. A kubeconfig with a client certificate has no token: name an --account then.
    """
    way = Way(url, kubeconfig, context, muster_namespace or "kube-system", ca_file=ca_file)
    with stop_on(UnreachableError, ApiError, ValueError, OSError):
        named = None if account is None else Account.parse(account)
        asyncio.run(_run(way, port, named, open_browser=open_browser))


async def _run(way: Way, port: int, account: Account | None, *, open_browser: bool) -> None:
    connection = await Connection.open(way.kubeconfig, way.context)
    try:
        async with _asking(way, connection) as ask:
            token = await _token(connection, account)
            window = Window(ask, token, header=_header(way), prefix=_service(way))
            runner = web.AppRunner(window.application(), access_log=None, shutdown_timeout=1.0)
            await runner.setup()
            try:
                site = web.TCPSite(runner, "127.0.0.1", port)
                await site.start()
                address = window.address(runner.addresses[0][1])
                typer.echo(f"The dashboard is at {address}\nCtrl-C ends it.")
                if open_browser:
                    webbrowser.open(address)
                await _stop_signal()
            finally:
                await runner.cleanup()
    finally:
        await connection.close()


async def _stop_signal() -> None:
    event = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, event.set)
    await event.wait()


def _service(way: Way) -> str:
    """Return the path of the dashboard's Service behind the API server's proxy."""
    return f"/api/v1/namespaces/{way.namespace}/services/{_SERVICE}/proxy"


def _header(way: Way) -> str:
    return _THROUGH_PROXY if way.url is None else "Authorization"


async def _token(connection: Connection, account: Account | None) -> Token:
    """Return a function that returns the token at any time. Raises ValueError if the login has none."""
    if account is not None:
        return _Renewed(connection, account).get
    if await connection.authorization() is None:
        raise ValueError(
            "the kubeconfig logs in without a token, so the dashboard cannot tell who you are: name a ServiceAccount "
            "with --account NAMESPACE/NAME"
        )

    async def own() -> str:
        return await connection.authorization() or ""

    return own


class _Renewed:
    """Tokens of a ServiceAccount: a new one after half the lifetime of the last."""

    def __init__(self, connection: Connection, account: Account) -> None:
        self._connection, self._account = connection, account
        self._token, self._until = "", 0.0
        self._asking = asyncio.Lock()

    async def get(self) -> str:
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if now >= self._until:
                self._token, lasts_s = await request_token(self._connection, self._account, _ACCOUNT_S)
                self._until = now + lasts_s / 2
            return f"Bearer {self._token}"


@asynccontextmanager
async def _asking(way: Way, connection: Connection) -> AsyncIterator[Ask]:
    """Yield a way to request the dashboard: at its URL, else by the API server's proxy to its Service."""
    limits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
    if way.url is None:
        service = _service(way)
        yield lambda path, headers: connection.answer("GET", service + path, limits, more=headers, any_status=True)
        return
    verify = verification(way, way.url)
    base = way.url.rstrip("/")
    async with aiohttp.ClientSession(trust_env=False, auto_decompress=True) as session:
        yield lambda path, headers: session.get(
            base + path, headers=headers, timeout=limits, ssl=verify, allow_redirects=False
        )


class _Status(msgspec.Struct):
    """An error of the API server, or of the dashboard (``detail``)."""

    kind: str = ""
    message: str = ""
    detail: str = ""


class Window:
    """The application on this machine.

    ``header``: the header in which the dashboard looks for the token.
    ``prefix``: the API server's proxy puts it before the paths in pages and redirects.
    """

    def __init__(self, ask: Ask, token: Token, *, header: str, prefix: str) -> None:
        self._ask, self._token, self._header, self._prefix = ask, token, header, prefix
        self._key = secrets.token_urlsafe(24)
        self._hosts: frozenset[str] = frozenset()

    def address(self, port: int) -> str:
        """Return the address to open, for this port."""
        self._hosts = frozenset((f"127.0.0.1:{port}", f"localhost:{port}"))
        return f"http://127.0.0.1:{port}/?{_KEY}={self._key}"

    def application(self) -> web.Application:
        """Return the application, which answers only GET."""
        served = web.Application()
        served.router.add_get("/{path:.*}", self._answer)
        return served

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        # A page of another site can make its own name lead here (DNS rebinding), or let the browser request this
        # address.
        foreign = request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
        if request.host not in self._hosts or foreign:
            return web.Response(status=403, text="not for other sites\n")
        if any(segment in (".", "..") for segment in unquote(request.raw_path.partition("?")[0]).split("/")):
            # Such a path would leave the dashboard's Service and reach other things that the user may read.
            return web.Response(status=400, text="no such path\n")
        if (key := request.query.get(_KEY)) is not None and secrets.compare_digest(key.encode(), self._key.encode()):
            inside = web.Response(status=303, headers={"Location": request.path})
            inside.set_cookie(_COOKIE, self._key, httponly=True, samesite="Strict")
            return inside
        if not secrets.compare_digest(request.cookies.get(_COOKIE, "").encode(), self._key.encode()):
            return web.Response(status=403, text="open the address that `muster ui` has printed\n")
        return await self._pass_on(request)

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        try:
            headers[self._header] = await self._token()
            async with self._ask(request.raw_path.removeprefix(self._prefix), headers) as answer:
                if answer.status >= HTTPStatus.BAD_REQUEST and (why := await _refusal(answer)):
                    return web.Response(status=answer.status, text=f"{why}\n")
                passed_back = {name: answer.headers[name] for name in _PASSED_BACK if name in answer.headers}
                back = web.StreamResponse(status=answer.status, headers=passed_back)
                await back.prepare(request)
                while chunk := await answer.content.readany():
                    await back.write(chunk)
                await back.write_eof()
                return back
        except ConnectionResetError:  # the browser has gone
            raise
        except ApiError as error:
            return web.Response(status=error.status or HTTPStatus.BAD_GATEWAY, text=f"{error.message}\n")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return web.Response(status=502, text=f"the dashboard does not answer: {why_silent(error)}\n")


async def _refusal(answer: aiohttp.ClientResponse) -> str:
    """Return why the API server does not reach the dashboard; empty if the dashboard itself has answered."""
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return ""
    try:
        status = msgspec.json.decode(await answer.read(), type=_Status)
    except msgspec.MsgspecError:
        return ""
    if status.kind != "Status":
        return status.detail
    if answer.status == HTTPStatus.FORBIDDEN:
        return f"{refusal(status.message)}: ask an administrator for the role muster-dashboard-user, or use --url"
    return status.message
