"""Lists and watches of the API server: lists page by page, and the lines of a watch in pieces of any size."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import msgspec
import pytest
from kubernetes.aio.client import Configuration

from extender.kube.api.connection import Connection, TooLargeError
from extender.kube.api.login import OfficialLogin
from extender.kube.api.pages import SIZE, Listed, pages
from tests.kube.fake_api import fake_api, watch


class Server:
    """A server with ``count`` objects that sends at most ``largest`` of them at once."""

    def __init__(self, count: int, largest: int = SIZE) -> None:
        self.asked: list[dict[str, str]] = []
        self.gone = 0
        self._count = count
        self._largest = largest
        self.slow = asyncio.Event()
        self.slow.set()

    async def ask(self, query: dict[str, str]) -> Listed:
        self.asked.append(query)
        try:
            await self.slow.wait()
        except asyncio.CancelledError:
            self.gone += 1
            raise
        size, begin = int(query["limit"]), int(query.get("continue", "0"))
        if size > self._largest:
            raise TooLargeError("the answer is too large")
        end = min(begin + size, self._count)
        items = list(range(begin, end))
        meta = {"resourceVersion": "7", **({"continue": str(end)} if end < self._count else {})}
        return msgspec.json.decode(msgspec.json.encode({"metadata": meta, "items": items}), type=Listed)


def read(server: Server) -> list[int]:
    async def everything() -> list[int]:
        numbers = []
        async with aclosing(pages(server.ask)) as iterator:
            async for page in iterator:
                assert page.resource_version == "7"
                numbers += [int(bytes(item)) for item in page.items]
        return numbers

    return asyncio.run(everything())


def test_a_list_is_read_to_its_end() -> None:
    for count in (0, 1, SIZE, SIZE + 1, 3 * SIZE):
        assert read(Server(count)) == list(range(count))


def test_pages_that_are_too_large_are_halved() -> None:
    server = Server(1200, largest=100)
    assert read(server) == list(range(1200))
    assert [int(query["limit"]) for query in server.asked[:4]] == [SIZE, SIZE // 2, SIZE // 4, SIZE // 8]


def test_the_next_page_is_asked_for_while_one_is_read_and_not_after_the_last() -> None:
    async def work() -> None:
        server = Server(SIZE + 1)
        async with aclosing(pages(server.ask)) as iterator:
            await anext(iterator)
            await asyncio.sleep(0)
            assert len(server.asked) == 2
            await anext(iterator)
            await asyncio.sleep(0)
            assert len(server.asked) == 2

    asyncio.run(work())


def test_who_stops_reading_waits_for_no_page() -> None:
    async def work() -> None:
        server = Server(SIZE + 1)
        async with aclosing(pages(server.ask)) as iterator:
            await anext(iterator)
            server.slow.clear()
            await asyncio.sleep(0)
        assert server.gone == 1

    asyncio.run(work())


TEXT = b'{"a": 1}\n\n{"b": "\xc3\xa9"}\nhalf of'


@pytest.mark.parametrize("size", range(1, len(TEXT) + 1))
def test_lines_are_whole_wherever_they_are_cut(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = [TEXT[at : at + size] for at in range(0, len(TEXT), size)]

    @asynccontextmanager
    async def answer(*_: Any) -> AsyncIterator[Any]:
        async def readany() -> bytes:
            return pieces.pop(0) if pieces else b""

        yield SimpleNamespace(content=SimpleNamespace(readany=readany))

    async def read() -> list[bytes]:
        api = Connection(OfficialLogin(Configuration(host="http://127.0.0.1:1")))
        monkeypatch.setattr(api, "answer", answer)
        lines = [line async for line in api.lines("/watched", aiohttp.ClientTimeout(), {})]
        await api.close()
        return lines

    assert asyncio.run(read()) == [b'{"a": 1}', b"", b'{"b": "\xc3\xa9"}', b"half of"]


def test_watches_of_all_kinds_stay_open_however_few_connections_writes_have() -> None:
    async def read() -> list[bytes]:
        async with fake_api() as (api, _):
            connection = Connection(OfficialLogin(Configuration(host=api.url)), connections=1)
            followed = [connection.lines(f"/kind-{at}", aiohttp.ClientTimeout(), {"watch": "1"}) for at in range(40)]
            for at in range(40):
                api.on("WATCH", f"/kind-{at}", watch({"kind": at}, stays_open=True))
            async with asyncio.timeout(20):
                lines = [await anext(stream) for stream in followed]
            for stream in followed:
                await stream.aclose()
            await connection.close()
            return lines

    assert len(asyncio.run(read())) == 40
