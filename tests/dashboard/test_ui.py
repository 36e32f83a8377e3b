"""`muster ui` lets in only requests with its key, and passes them on with the user's token."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from extender.cli.ui import Window

pytestmark = pytest.mark.anyio
PREFIX = "/api/v1/namespaces/kube-system/services/muster-dashboard:http/proxy"


class Behind:
    """A dashboard. ``asked``: the path and the headers of each request."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Mapping[str, str]]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.raw_path, request.headers))
        match request.path:
            case "/refused":
                status = {"kind": "Status", "message": "services is forbidden"}
                return web.json_response(status, status=403)
            case "/missing":
                return web.Response(status=404, text="<h1>not here</h1>", content_type="text/html")
            case "/hop":
                return web.Response(status=303, headers={"Location": f"{PREFIX}/there"})
        return web.Response(text="<p>hello</p>", content_type="text/html", headers={"Set-Cookie": "theirs=1"})


@asynccontextmanager
async def shown(behind: Behind) -> AsyncIterator[tuple[str, str]]:
    """The address that the command prints, and the key in it."""
    served = web.Application()
    served.router.add_get("/{path:.*}", behind.answer)
    async with TestServer(served) as dashboard, aiohttp.ClientSession() as session:

        async def token() -> str:
            return "Bearer mine"

        base = str(dashboard.make_url("")).rstrip("/")
        window = Window(
            lambda path, headers: session.get(base + path, headers=headers, allow_redirects=False),
            token,
            header="X-Muster-Authorization",
            prefix=PREFIX,
        )
        async with TestServer(window.application()) as here:
            assert here.port is not None
            address = window.address(here.port)
            yield address.partition("/?")[0], address


@asynccontextmanager
async def inside(behind: Behind) -> AsyncIterator[tuple[str, aiohttp.ClientSession]]:
    """A browser that has opened the printed address."""
    async with (
        shown(behind) as (base, address),
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser,
    ):
        async with browser.get(address) as answer:
            assert (answer.status, str(answer.url)) == (200, f"{base}/")
        yield base, browser


async def test_what_is_asked_is_passed_on_with_the_token_of_the_user() -> None:
    behind = Behind()
    async with inside(behind) as (base, browser):
        async with browser.get(f"{base}/queues?of=team-a", headers={"HX-Request": "true"}) as answer:
            assert await answer.text() == "<p>hello</p>"
            assert "Set-Cookie" not in answer.headers
        path, headers = behind.asked[-1]
        assert path == "/queues?of=team-a"
        assert headers["X-Muster-Authorization"] == "Bearer mine"
        assert headers["HX-Request"] == "true"
        assert "Cookie" not in headers


async def test_links_that_the_proxy_has_rewritten_lead_to_the_same_pages() -> None:
    behind = Behind()
    async with inside(behind) as (base, browser):
        async with browser.get(f"{base}{PREFIX}/queues") as answer:
            assert answer.status == 200
        assert behind.asked[-1][0] == "/queues"
        async with browser.get(f"{base}/hop") as answer:
            assert (answer.status, behind.asked[-1][0]) == (200, "/there")


async def test_only_whoever_has_the_key_is_let_in() -> None:
    behind = Behind()
    async with shown(behind) as (base, address), aiohttp.ClientSession() as other:
        for path in ("/", "/?key=guess", "/queues"):
            async with other.get(base + path) as answer:
                assert answer.status == 403
        async with other.get(address, headers={"Host": "evil.example:80"}) as answer:
            assert answer.status == 403
        async with other.get(address, headers={"Sec-Fetch-Site": "cross-site"}) as answer:
            assert answer.status == 403
        async with other.post(address) as answer:
            assert answer.status == 405
    assert behind.asked == []


@pytest.mark.parametrize("path", ["/%2e%2e/secrets", "/a/..%2f..%2fsecrets", "/%2e/x", "/a/%2E%2E"])
async def test_no_path_leads_out_of_the_service(path: str) -> None:
    from yarl import URL

    behind = Behind()
    async with inside(behind) as (base, browser):
        before = len(behind.asked)
        async with browser.get(URL(base + path, encoded=True)) as answer:
            assert answer.status == 400
        assert len(behind.asked) == before


async def test_a_refusal_says_what_to_do_and_a_page_stays_a_page() -> None:
    async with inside(Behind()) as (base, browser):
        async with browser.get(f"{base}/refused") as answer:
            assert answer.status == 403
            assert "muster-dashboard-user" in await answer.text()
        async with browser.get(f"{base}/missing") as answer:
            assert (answer.status, await answer.text()) == (404, "<h1>not here</h1>")
