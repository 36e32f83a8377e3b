"""Many POST requests at once: thousands of nodes and pods are created in seconds, not minutes.

A synchronous client in threads spends about ten times the processor time per request, on a machine that the control
plane needs for itself. So this opens an event loop in a thread of its own, and callers stay synchronous.
"""

import asyncio
import json
import ssl
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import aiohttp

from devcluster.watch import ApiError

CONNECTIONS = 32
TOO_MANY_REQUESTS = 429


def post_all(server: str, tls: ssl.SSLContext, creations: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Create every (collection path, object). The first refusal ends it and is raised."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="devcluster-burst") as outside:
        # asyncio.run needs a thread without a loop, and the caller's may have one.
        outside.submit(lambda: asyncio.run(_post_all(server, tls, iter(creations)))).result()


async def _post_all(server: str, tls: ssl.SSLContext, creations: Iterator[tuple[str, dict[str, Any]]]) -> None:
    connector = aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS)
    async with aiohttp.ClientSession(server, connector=connector, trust_env=False) as session:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(CONNECTIONS):
                    group.create_task(_post_each(session, creations))
        except* ApiError as refused:
            raise refused.exceptions[0] from None


async def _post_each(session: aiohttp.ClientSession, creations: Iterator[tuple[str, dict[str, Any]]]) -> None:
    """Take from the iterator that all share until it is empty."""
    for path, obj in creations:
        body = json.dumps(obj, separators=(",", ":")).encode()
        while (wait_s := await _post(session, path, body)) is not None:  # noqa: ASYNC110 - the server names the pause
            await asyncio.sleep(wait_s)


async def _post(session: aiohttp.ClientSession, path: str, body: bytes) -> float | None:
    """None when created, else how long the server asks to wait."""
    async with session.post(path, data=body, headers={"Content-Type": "application/json"}) as answer:
        if answer.status == TOO_MANY_REQUESTS:
            return float(answer.headers.get("Retry-After", "1"))
        if answer.status >= 400:
            raise ApiError.from_body(answer.status, await answer.text())
        await answer.read()
    return None
