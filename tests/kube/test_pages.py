"""Lists page by page."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import msgspec

from extender.kube.api.connection import TooLargeError
from extender.kube.api.pages import SIZE, Listed, pages


class Server:
    """Has so many objects, and sends at most ``largest`` of them at once."""

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
        found = []
        async with aclosing(pages(server.ask)) as some:
            async for page in some:
                assert page.resource_version == "7"
                found += [int(bytes(item)) for item in page.items]
        return found

    return asyncio.run(everything())


def test_a_list_is_read_to_its_end() -> None:
    for count in (0, 1, SIZE, SIZE + 1, 3 * SIZE):
        assert read(Server(count)) == list(range(count))


def test_pages_that_are_too_large_are_halved() -> None:
    server = Server(1200, largest=100)
    assert read(server) == list(range(1200))
    assert [int(one["limit"]) for one in server.asked[:4]] == [SIZE, SIZE // 2, SIZE // 4, SIZE // 8]


def test_the_next_page_is_asked_for_while_one_is_read_and_not_after_the_last() -> None:
    async def work() -> None:
        server = Server(SIZE + 1)
        async with aclosing(pages(server.ask)) as some:
            await anext(some)
            await asyncio.sleep(0)
            assert len(server.asked) == 2
            await anext(some)
            await asyncio.sleep(0)
            assert len(server.asked) == 2

    asyncio.run(work())


def test_who_stops_reading_waits_for_no_page() -> None:
    async def work() -> None:
        server = Server(SIZE + 1)
        async with aclosing(pages(server.ask)) as some:
            await anext(some)
            server.slow.clear()
            await asyncio.sleep(0)
        assert server.gone == 1

    asyncio.run(work())
