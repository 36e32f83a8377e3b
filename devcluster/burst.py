"""Many writes at once: thousands of nodes and pods are created in seconds, not minutes.

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
CONTENT_TYPES = {"POST": "application/json", "PATCH": "application/merge-patch+json"}


def send_all(server: str, tls: ssl.SSLContext, method: str, writes: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """POST or PATCH every (path, body). The first refusal ends it and is raised."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="devcluster-burst") as outside:
        # asyncio.run needs a thread without a loop, and the caller's may have one.
        outside.submit(lambda: asyncio.run(_send_all(server, tls, method, iter(writes)))).result()


async def _send_all(
    server: str, tls: ssl.SSLContext, method: str, writes: Iterator[tuple[str, dict[str, Any]]]
) -> None:
    connector = aiohttp.TCPConnector(ssl=tls, limit=CONNECTIONS)
    async with aiohttp.ClientSession(server, connector=connector, trust_env=False) as session:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(CONNECTIONS):
                    group.create_task(_send_each(session, method, writes))
        except* ApiError as refused:
            raise refused.exceptions[0] from None


async def _send_each(session: aiohttp.ClientSession, method: str, writes: Iterator[tuple[str, dict[str, Any]]]) -> None:
    """Take from the iterator that all share until it is empty."""
    for path, obj in writes:
        body = json.dumps(obj, separators=(",", ":")).encode()
        while (wait_s := await _send(session, method, path, body)) is not None:  # noqa: ASYNC110 - the server names the pause
            await asyncio.sleep(wait_s)


async def _send(session: aiohttp.ClientSession, method: str, path: str, body: bytes) -> float | None:
    """None when it is written, else how long the server asks to wait."""
    headers = {"Content-Type": CONTENT_TYPES[method]}
    async with session.request(method, path, data=body, headers=headers) as answer:
        if answer.status == TOO_MANY_REQUESTS:
            return float(answer.headers.get("Retry-After", "1"))
        if answer.status >= 400:
            raise ApiError.from_body(answer.status, await answer.text())
        await answer.read()
    return None
