"""The connection between extender and dashboard: lost messages, and the restart of either side."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import WebSocketDisconnect

from dashboard.access import Person
from dashboard.app import app
from dashboard.cluster import Cluster, UnansweredError
from dashboard.feed import Feed
from extender.api.feed import Answer, Question, Update
from extender.api.models import Explanation, GangView
from extender.core.engine import Engine
from extender.core.events import NodeSeen, Synced
from extender.link import Link
from extender.observe.utilisation import Load, Loads, Measured, Utilisation
from policies.model import Node
from tests.running import GPUS, Extender, eventually, running

pytestmark = pytest.mark.anyio
TOKEN = "extender-token"  # noqa: S105


class People:
    """Knows the extender, and one operator."""

    async def person(self, token: str, namespaces: Iterable[str]) -> Person:
        return Person(token, sees_all=True)

    async def is_extender(self, token: str) -> bool:
        return token == TOKEN


class Dashboard:
    """A running dashboard. ``url`` stays the same when it is started again."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    @asynccontextmanager
    async def started(self) -> AsyncIterator[Cluster]:
        """A new process of it, which knows nothing yet."""
        cluster = Cluster()
        self.feed = Feed(cluster)
        config = uvicorn.Config(
            app(cluster, People(), self.feed), ws="websockets-sansio", lifespan="off", log_level="error",
            timeout_graceful_shutdown=0,
        )  # fmt: skip
        server = uvicorn.Server(config)
        server.capture_signals = _no_signals  # type: ignore[method-assign]
        serving = asyncio.create_task(server.serve(sockets=[self.listener.dup()]))
        await eventually(lambda: server.started)
        try:
            yield cluster
        finally:
            server.should_exit = True
            await serving


@contextmanager
def _no_signals() -> Iterator[None]:
    yield


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    board = Dashboard()
    yield board
    board.listener.close()


@asynccontextmanager
async def linked(extender: Extender, url: str, path: Path, token: str = TOKEN) -> AsyncIterator[Link]:
    """Keep that dashboard up to date while the block lasts."""
    (path / "token").write_text(token)
    link = Link(extender.runner, url, path / "token", utilisation=lambda: MEASURED)
    extender.runner.on_reached = (link.reached,)
    running_link = asyncio.create_task(link.run())
    try:
        yield link
    finally:
        running_link.cancel()
        await asyncio.gather(running_link, return_exceptions=True)


MEASURED = Utilisation(on=True, window_s=600, loads=Loads((Measured((), ("n1",), "", Load(8, 5.0)),)))
NODES = tuple(Node(name, GPUS) for name in ("n0", "n1"))


async def until(cluster: Cluster, *gangs: str) -> None:
    """Wait until the dashboard knows these gangs, and no other."""
    async with asyncio.timeout(20):
        while {name for _, name in cluster.gangs} != {*gangs} or not cluster.ready:
            await cluster.changes(cluster.version)


async def test_what_happens_in_the_extender_is_seen_in_the_dashboard(dashboard: Dashboard, tmp_path: Path) -> None:
    async with running(*NODES) as extender, dashboard.started() as cluster:
        async with linked(extender, dashboard.url, tmp_path):
            await until(cluster)
            assert [*cluster.nodes] == ["n0", "n1"]
            assert [*cluster.node_loads] == ["n1"]
            assert cluster.stale_since is None
            extender.member("a", size=3)
            await until(cluster, "gang")
            explanation = await cluster.explain("ns", "gang")
            assert isinstance(explanation, Explanation)
            assert explanation.gang.state == "MembersMissing"
            assert await cluster.explain("ns", "nothing") is None
        await eventually(lambda: cluster.stale_since is not None)
        with pytest.raises(UnansweredError):
            await cluster.explain("ns", "gang")
        assert cluster.gangs, "what was known stays, and is old"


async def test_a_dashboard_that_starts_again_gets_everything(dashboard: Dashboard, tmp_path: Path) -> None:
    async with running(*NODES) as extender, linked(extender, dashboard.url, tmp_path):
        extender.member("a", size=3)
        async with dashboard.started() as cluster:
            await until(cluster, "gang")
        async with dashboard.started() as cluster:
            await until(cluster, "gang")


async def test_an_extender_that_starts_again_takes_the_place_of_the_one_before(
    dashboard: Dashboard, tmp_path: Path
) -> None:
    async with dashboard.started() as cluster:
        async with running(*NODES) as extender, linked(extender, dashboard.url, tmp_path):
            extender.member("a", size=3)
            await until(cluster, "gang")
        async with running(NODES[0]) as extender, linked(extender, dashboard.url, tmp_path):
            await until(cluster)
            assert [*cluster.nodes] == ["n0"]


async def test_a_core_that_is_made_anew_is_followed_from_its_beginning(dashboard: Dashboard, tmp_path: Path) -> None:
    async with (
        running(*NODES) as extender,
        dashboard.started() as cluster,
        linked(extender, dashboard.url, tmp_path),
    ):
        extender.member("a", size=3)
        await until(cluster, "gang")
        extender.runner.start_over(Engine(), extender.written, "a new core")
        extender.runner.dispatch(NodeSeen(NODES[1]))
        extender.runner.dispatch(Synced())
        await until(cluster)
        assert [*cluster.nodes] == ["n1"]


async def test_nobody_else_may_bring_updates(dashboard: Dashboard, tmp_path: Path) -> None:
    async with running(*NODES) as extender, dashboard.started() as cluster:
        link = Link(extender.runner, dashboard.url)
        (tmp_path / "token").write_text("somebody else")
        for intruder in (link, Link(extender.runner, dashboard.url, tmp_path / "token")):
            with pytest.raises(Exception, match="403"):
                await intruder._connect()
        assert not cluster.ready


class Socket:
    """A connection that brings these texts, and then ends."""

    def __init__(self, *texts: str) -> None:
        self._texts = [*texts]
        self.closed = ""

    async def receive_text(self) -> str:
        if not self._texts:
            raise WebSocketDisconnect
        return self._texts.pop(0)

    async def close(self, _code: int, why: str) -> None:
        self.closed = why


def update(number: int, *names: str, whole: bool = False, more: bool = False, state: str = "NoRoom") -> str:
    gangs = [
        GangView(
            namespace="ns", name=name, state=state, message="", for_s=0, min_member=1, members=1, bound=0, held=0,
            waiting=1, pods=[], story=[],
        )
        for name in names
    ]  # fmt: skip
    return Update(number=number, as_of=1, views_as_of=1, whole=whole, more=more, gangs=gangs).model_dump_json()


@pytest.mark.parametrize(
    "texts",
    [
        (update(0, "a", whole=True), update(2, "b")),
        (update(1, "b"),),
        (update(0, "a", whole=True), update(0, "b", whole=True)),
        (update(0, "a", whole=True), "{"),
        (update(0, "a", whole=True), '{"number": 1}'),
    ],
)
async def test_after_a_lost_message_the_connection_begins_anew(texts: tuple[str, ...]) -> None:
    cluster = Cluster()
    connection = Socket(*texts)
    await Feed(cluster).serve(connection)  # type: ignore[arg-type]
    assert connection.closed == "begin anew"
    assert ("ns", "b") not in cluster.gangs
    assert cluster.stale_since is not None


async def test_a_picture_that_is_not_complete_is_not_shown() -> None:
    cluster = Cluster()
    feed = Feed(cluster)
    await feed.serve(Socket(update(0, "a", whole=True, more=True), update(1, "b")))  # type: ignore[arg-type]
    assert sorted(cluster.gangs) == [("ns", "a"), ("ns", "b")]
    await feed.serve(Socket(update(0, "c", whole=True, more=True)))  # type: ignore[arg-type]
    assert sorted(cluster.gangs) == [("ns", "a"), ("ns", "b")]


class Answering:
    """A connection whose extender explains what it is asked for, and counts that."""

    def __init__(self) -> None:
        self.texts = asyncio.Queue[str]()
        self.questions = 0

    async def receive_text(self) -> str:
        return await self.texts.get()

    async def send_text(self, text: str) -> None:
        self.questions += 1
        question = Question.model_validate_json(text)
        self.texts.put_nowait(Answer(answers=question.number).model_dump_json())


async def test_an_explanation_is_asked_for_again_when_its_gang_has_another_reason() -> None:
    cluster, connection = Cluster(), Answering()
    feed = Feed(cluster)
    serving = asyncio.create_task(feed.serve(connection))  # type: ignore[arg-type]
    connection.texts.put_nowait(update(0, "a", "b", whole=True))
    await cluster.changes(0)
    for name in ("a", "a", "b", "a"):
        await feed.explain("ns", name)
    assert connection.questions == 2
    connection.texts.put_nowait(update(1, "a", state="NoQuota"))
    await cluster.changes(1)
    for name in ("a", "b", "a"):
        await feed.explain("ns", name)
    assert connection.questions == 3
    serving.cancel()


async def test_browsers_are_told_of_changes(dashboard: Dashboard, tmp_path: Path) -> None:
    async with (
        running(*NODES) as extender,
        dashboard.started() as cluster,
        linked(extender, dashboard.url, tmp_path),
        httpx.AsyncClient(base_url=dashboard.url) as client,
    ):
        await until(cluster)
        assert (await client.get("/events")).status_code == 401
        async with client.stream("GET", "/events", headers={"Authorization": "Bearer me"}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            extender.member("a", size=3)
            async for line in answer.aiter_lines():
                if line == "event: change":
                    break
        assert ("ns", "gang") in cluster.gangs
