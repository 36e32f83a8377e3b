"""The lines of a watch, whatever pieces they arrive in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from kubernetes.aio.client import Configuration

from extender.kube.api.connection import Connection
from extender.kube.api.login import OfficialLogin
from tests.kube.fake_api import fake_api, watch

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
        found = [line async for line in api.lines("/watched", aiohttp.ClientTimeout(), {})]
        await api.close()
        return found

    assert asyncio.run(read()) == [b'{"a": 1}', b"", b'{"b": "\xc3\xa9"}', b"half of"]


def test_watches_of_all_kinds_stay_open_however_few_connections_writes_have() -> None:
    async def read() -> list[bytes]:
        async with fake_api() as (api, _):
            connection = Connection(OfficialLogin(Configuration(host=api.url)), connections=1)
            followed = [connection.lines(f"/kind-{at}", aiohttp.ClientTimeout(), {"watch": "1"}) for at in range(40)]
            for at in range(40):
                api.on("WATCH", f"/kind-{at}", watch({"kind": at}, stays_open=True))
            async with asyncio.timeout(20):
                lines = [await anext(one) for one in followed]
            for one in followed:
                await one.aclose()
            await connection.close()
            return lines

    assert len(asyncio.run(read())) == 40
