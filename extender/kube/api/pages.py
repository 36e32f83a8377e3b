"""Lists page by page, each requested while the one before is read, and the lines of watches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, NamedTuple

import msgspec

from extender.kube.api.connection import TooLargeError

SIZE = 500
"""Objects of a page."""


class Page(NamedTuple):
    """Part of a list: objects as raw JSON, and the version of the whole list."""

    items: list[msgspec.Raw]
    resource_version: str


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(default=None, name="continue")


class Listed(msgspec.Struct):
    """The API server's answer."""

    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class Change(msgspec.Struct, frozen=True):
    """A line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


async def pages(ask: Callable[[dict[str, str]], Coroutine[Any, Any, Listed]]) -> AsyncGenerator[Page, None]:
    """Yield all pages; ``ask`` requests one by its query parameters.

    If a page is too large, the list goes on with pages of half as many objects.
    """
    query = {"limit": str(SIZE)}
    task = asyncio.create_task(ask(query))
    try:
        while True:
            try:
                page = await task
            except TooLargeError:
                if query["limit"] == "1":
                    raise
                query = {**query, "limit": str(int(query["limit"]) // 2)}
                task = asyncio.create_task(ask(query))
                continue
            if more := page.metadata.continue_:
                query = {**query, "continue": more}
                task = asyncio.create_task(ask(query))
            yield Page(page.items or [], page.metadata.resource_version or "")
            if not more:
                return
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def is_older(version: str, known: str | None) -> bool:
    """Whether the version is older than the known one. Versions are growing numbers; any other text counts as newer."""
    return known is not None and version.isdigit() and known.isdigit() and int(version) < int(known)
