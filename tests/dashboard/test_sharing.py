"""The content of a page, which an open page asks for at a change: rendered once for all who see the same."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from dashboard.app import app
from dashboard.cluster import Cluster
from dashboard.pages import sharing
from tests.dashboard.connected import People, shown, update
from tests.dashboard.world import World, busy

PEOPLE = {"admin": "*", "root": "*", "ann": "team-a", "bob": "team-b", "eve": "team-a"}
PAGES = ("", "overview", "map?gang=team-a/pretrain-8b", "queues", "day", "workloads/team-a/pretrain-8b")


@pytest.fixture(autouse=True)
def _kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents are kept for as long as a test takes on a busy machine."""
    monkeypatch.setattr(sharing, "KEPT_S", 3600.0)


@pytest.fixture(scope="module")
def world() -> World:
    return busy()


class Browsers:
    """Pages of several people that are open on one dashboard."""

    def __init__(self, cluster: Cluster, client: httpx.AsyncClient) -> None:
        self.cluster, self._client = cluster, client

    async def content(self, page: str, person: str, **headers: str) -> str:
        request_headers = {"Authorization": f"Bearer {person}", "HX-Request": "true", **headers}
        answer = await self._client.get(f"/{page}", headers=request_headers)
        assert answer.status_code == 200, answer.text
        return answer.text


@asynccontextmanager
async def browsers(world: World) -> AsyncIterator[Browsers]:
    cluster = await shown(world)
    transport = httpx.ASGITransport(app(cluster, People(**PEOPLE)))
    async with httpx.AsyncClient(transport=transport, base_url="http://dashboard") as client:
        yield Browsers(cluster, client)


def rendered_at(content: str) -> str:
    [at] = re.findall(r'data-now="([^"]+)"', content)
    return str(at)


def test_a_content_is_rendered_once_for_all_who_see_the_same(world: World) -> None:
    async def asked() -> None:
        async with browsers(world) as open_pages:
            for page in PAGES:
                at_once = await asyncio.gather(
                    *(open_pages.content(page, who) for who in ("admin", "root", "ann", "eve"))
                )
                assert at_once[0] == at_once[1], page
                assert at_once[2] == at_once[3], page
                assert rendered_at(at_once[0]) != rendered_at(at_once[2]), page
                later = await open_pages.content(page, "admin")
                assert later == at_once[0], page

    asyncio.run(asked())


def test_a_content_names_nobody_and_shows_a_person_no_more_than_a_visit_does(world: World) -> None:
    async def asked() -> None:
        async with browsers(world) as open_pages:
            for page in ("", "overview", "map", "queues", "day"):
                await open_pages.content(page, "admin")
                content = await open_pages.content(page, "bob")
                assert "pretrain-8b" not in content, page
                assert not re.search(r"\b(admin|bob|Signed in)\b", content), page

    asyncio.run(asked())


def test_a_change_is_in_the_next_content(world: World) -> None:
    async def asked() -> None:
        async with browsers(world) as open_pages:
            before = await open_pages.content("", "admin")
            changed = update(world)
            [gang] = [candidate for candidate in changed.gangs if candidate.name == "distill"]
            gang.message = "0 of 7 members exist"
            await open_pages.cluster.take(changed)
            assert "0 of 7 members exist" in await open_pages.content("", "root")
            assert "0 of 7 members exist" not in before

    asyncio.run(asked())


@pytest.mark.parametrize("headers", [{"HX-History-Restore-Request": "true"}])
def test_a_page_that_comes_back_from_the_history_is_whole(world: World, headers: dict[str, str]) -> None:
    async def asked() -> None:
        async with browsers(world) as open_pages:
            assert "Signed in as" in await open_pages.content("", "admin", **headers)
            assert "<html" not in await open_pages.content("", "admin")

    asyncio.run(asked())
