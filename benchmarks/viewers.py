"""Viewers of the dashboard: pages in a real Chromium, and plain clients that do what such a page does.

A plain client reads the stream of events, and asks for its page again at a change, as often as the page allows.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

import aiohttp
from msgspec import Struct
from playwright.async_api import BrowserContext, Page, async_playwright

from devcluster.chromium import FLAGS, chromium

_MARK = re.compile(r"(?:beat|tick)-\d+")
"""A name on a page by which the viewer sees that something has changed."""
_VERSION, _EVERY = re.compile(r"events\?seen=(\d+)"), re.compile(r"throttle:(\d+)(m?)s")
_AGAIN = {"HX-Request": "true", "HX-Request-Type": "full"}
"""Sent by a page that asks for itself again."""
_OBSERVE = """
window.marks = {};
const note = () => {
  for (const [mark] of (document.body?.textContent ?? "").matchAll(/(?:beat|tick)-\\d+/g))
    window.marks[mark] ??= Date.now() / 1000;
};
new MutationObserver(note).observe(document, { childList: true, characterData: true, subtree: true });
"""
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
_PATIENCE_S = 60.0


class Seen(Struct):
    """The sightings of one viewer. ``marks``: when its page first showed each mark, in seconds since 1970."""

    page: str
    marks: dict[str, float]


class First(Struct):
    """The first content of a page.

    ``answered_s``: until a plain client has all of it.
    ``painted_s``: until Chromium has painted a part of it.
    """

    page: str
    kib: float
    answered_s: float
    painted_s: float


async def look(
    url: str, token: str, pages: Sequence[str], browsers: int, until: Callable[[], Awaitable[None]]
) -> list[Seen]:
    """Keep a viewer at each of the pages: Chromium at the first ``browsers``, plain clients at the others.

    ``until`` is called when all pages are open. Its end is the end of the view.
    """
    plain = [_Plain(url, page) for page in pages[browsers:]]
    async with _chromium(token) as context, _session(token) as session, asyncio.TaskGroup() as group:
        tabs = [await _open(context, f"{url}/{page}") for page in pages[:browsers]]
        await asyncio.gather(*(viewer.open(session) for viewer in plain))
        following = [group.create_task(viewer.follow(session)) for viewer in plain]
        await until()
        marks = [await tab.evaluate("window.marks") for tab in tabs]
        for task in following:
            task.cancel()
    seen = [Seen(page, its) for page, its in zip(pages, marks, strict=False)]
    return seen + [Seen(viewer.page, viewer.marks) for viewer in plain]


async def first_contents(url: str, token: str, pages: Sequence[str]) -> list[First]:
    """Open each page once by either kind of viewer, each time after a change of the cluster."""
    firsts = []
    async with _chromium(token) as context, _session(token) as session:
        for page in pages:
            began = time.perf_counter()
            async with session.get(f"{url}/{page}") as answer:
                content = await answer.read()
            answered_s = time.perf_counter() - began
            tab = await _open(context, f"{url}/{page}")
            await tab.wait_for_function(_PAINTED)
            painted_s = await tab.evaluate(_PAINTED) / 1000
            await tab.close()
            firsts.append(First(page, round(len(content) / 1024, 1), round(answered_s, 3), round(painted_s, 3)))
    return firsts


class _Plain:
    """A plain client at a page."""

    def __init__(self, url: str, page: str) -> None:
        self.page, self.marks = page, dict[str, float]()
        self._url = url
        self._every_s = 0.0
        self._version = ""
        self._changed = asyncio.Event()

    async def open(self, session: aiohttp.ClientSession) -> None:
        content = await self._read(session, {})
        if (version := _VERSION.search(content)) is not None:
            self._version = version[1]
        if (every := _EVERY.search(content)) is not None:
            self._every_s = int(every[1]) / (1000 if every[2] else 1)

    async def follow(self, session: aiohttp.ClientSession) -> None:
        await asyncio.gather(self._listen(session), self._read_again(session))

    async def _listen(self, session: aiohttp.ClientSession) -> None:
        async with session.get(f"{self._url}/events?seen={self._version}") as events:
            async for line in events.content:
                if line.startswith(b"event: change"):
                    self._changed.set()

    async def _read_again(self, session: aiohttp.ClientSession) -> None:
        while await self._changed.wait():
            self._changed.clear()
            pause = asyncio.create_task(asyncio.sleep(self._every_s))
            await self._read(session, _AGAIN)
            await pause

    async def _read(self, session: aiohttp.ClientSession, headers: dict[str, str]) -> str:
        async with session.get(f"{self._url}/{self.page}", headers=headers) as answer:
            content = await answer.text()
            answer.raise_for_status()
        now = time.time()
        for mark in _MARK.findall(content):
            self.marks.setdefault(mark, now)
        return content


async def _open(context: BrowserContext, url: str) -> Page:
    tab = await context.new_page()
    await tab.goto(url)
    await tab.wait_for_selector("html[data-live=yes]")
    return tab


@asynccontextmanager
async def _chromium(token: str) -> AsyncIterator[BrowserContext]:
    async with async_playwright() as playwright:
        program = await playwright.chromium.launch(executable_path=str(chromium()), args=list(FLAGS))
        context = await program.new_context(extra_http_headers={"Authorization": f"Bearer {token}"})
        context.set_default_timeout(_PATIENCE_S * 1000)
        await context.add_init_script(_OBSERVE)
        yield context
        await program.close()


def _session(token: str) -> aiohttp.ClientSession:
    """Connections that are as many as they are needed, for streams stay open."""
    headers, connector = {"Authorization": f"Bearer {token}"}, aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(
        headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(total=None), trust_env=False
    )
