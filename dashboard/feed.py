"""The end of the extender's connection: takes its updates, and asks it to explain gangs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import count

import msgspec
from fastapi import APIRouter, WebSocket, WebSocketDisconnect
from pydantic import ValidationError

from dashboard.cluster import Cluster, UnansweredError
from extender.api.feed import FEED_PATH, Answer, Question, Update
from extender.api.models import Explanation

log = logging.getLogger("muster.dashboard")

ANSWER_S = 20.0
MOST_QUESTIONS = 32
"""Questions that wait for an answer. More are refused at once: each costs the extender some 50 ms."""
REMEMBERED_S = 60.0
"""The time for which an explanation is shown again, while its gang has the same status and reason. Open pages ask for
it at every change of the cluster, and each costs the extender some 50 ms of processor time."""
Admits = Callable[[str], Awaitable[bool]]
"""Whether that token is the extender's."""


class LostUpdateError(Exception):
    """An update is missing: the connection is closed, and the next one begins with everything."""


class _Head(msgspec.Struct):
    """The part of a message that says which kind it is."""

    answers: int | None = None


class Feed:
    """The connection of the extender. A new one, of the replica that leads now, takes the place of the one before."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[Explanation | None]] = {}
        self._known: dict[tuple[str, ...], tuple[float, asyncio.Future[Explanation | None]]] = {}
        """Explanations with the instant of their request, by namespace, name, status and reason of the gang."""
        self._socket: WebSocket | None = None
        cluster.explain = self.explain

    async def serve(self, socket: WebSocket) -> None:
        """Take the updates of an accepted connection until it ends."""
        before, self._socket = self._socket, socket
        if before is not None:
            await _close(before, "another replica leads")
        log.info("an extender is connected")
        try:
            await self._take_all(socket)
        except WebSocketDisconnect:
            log.info("the extender has closed the connection")
        except (LostUpdateError, ValidationError, msgspec.DecodeError) as error:
            log.warning("the connection is begun anew: %s", error)
            await _close(socket, "begin anew")
        finally:
            if self._socket is socket:
                self._socket = None
                self._fail("the extender is not connected")
                await self._cluster.lose()

    async def explain(self, namespace: str, name: str) -> Explanation | None:
        """Return what the extender says of a gang; None: it knows none. Raises UnansweredError."""
        now = asyncio.get_running_loop().time()
        self._known = {key: known for key, known in self._known.items() if now - known[0] < REMEMBERED_S}
        gang = self._cluster.gangs.get((namespace, name))
        key = namespace, name, *(() if gang is None else (gang.status, gang.state))
        if (known := self._known.get(key)) is not None:
            future = known[1]
        else:
            future = await self._ask(namespace, name)
            self._known[key] = now, future
        try:
            return await asyncio.wait_for(asyncio.shield(future), ANSWER_S)
        except TimeoutError:
            raise UnansweredError("the extender has not answered in time; try again") from None

    async def _ask(self, namespace: str, name: str) -> asyncio.Future[Explanation | None]:
        if self._socket is None:
            raise UnansweredError("the extender is not connected")
        if len(self._waiting) >= MOST_QUESTIONS:
            raise UnansweredError("the extender is asked too much at once; try again in a moment")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda _: self._waiting.pop(number, None))
        try:
            await self._socket.send_text(Question(number=number, namespace=namespace, name=name).model_dump_json())
        except (RuntimeError, WebSocketDisconnect):
            answer.cancel()
            raise UnansweredError("the extender is not connected") from None
        return answer

    async def _take_all(self, socket: WebSocket) -> None:
        expected = 0
        begun: Update | None = None
        while True:
            text = await socket.receive_text()
            if msgspec.json.decode(text, type=_Head).answers is not None:
                self._hear(Answer.model_validate_json(text))
                continue
            update = Update.model_validate_json(text)
            if update.number != expected or (update.number == 0) != update.whole:
                raise LostUpdateError(f"update {update.number} came in place of {expected}")
            expected += 1
            begun = update if begun is None else joined(begun, update)
            if not update.more and self._socket is socket:
                await self._cluster.take(begun)
                begun = None

    def _hear(self, answer: Answer) -> None:
        future = self._waiting.get(answer.answers)
        if future is None or future.done():
            return
        if answer.failed:
            future.set_exception(UnansweredError(answer.failed))
            future.exception()  # the task that asked may have ended
        else:
            future.set_result(answer.explanation)

    def _fail(self, why: str) -> None:
        self._known.clear()
        for future in list(self._waiting.values()):
            if not future.done():
                future.set_exception(UnansweredError(why))
                future.exception()


def joined(first: Update, then: Update) -> Update:
    """Return two updates as one. What the later one says of a gang or a node counts."""
    gone, named = {*then.gone_gangs}, {(gang.namespace, gang.name) for gang in then.gangs}
    off, nodes = {*then.gone_nodes}, {node.name for node in then.nodes}
    return Update(
        number=then.number,
        as_of=then.as_of,
        views_as_of=then.views_as_of,
        whole=first.whole or then.whole,
        gangs=[gang for gang in first.gangs if (gang.namespace, gang.name) not in gone | named] + then.gangs,
        gone_gangs=[key for key in first.gone_gangs if key not in named] + then.gone_gangs,
        nodes=[node for node in first.nodes if node.name not in off | nodes] + then.nodes,
        gone_nodes=[name for name in first.gone_nodes if name not in nodes] + then.gone_nodes,
        gang_loads=first.gang_loads + then.gang_loads,
        node_loads=first.node_loads + then.node_loads,
        queues=first.queues if then.queues is None else then.queues,
        topology=first.topology if then.topology is None else then.topology,
        happenings=first.happenings + then.happenings,
    )


def router(feed: Feed, admits: Admits) -> APIRouter:
    """Return the route that the extender connects to. It refuses all other clients."""
    routes = APIRouter(include_in_schema=False)

    @routes.websocket(FEED_PATH)
    async def connect(socket: WebSocket) -> None:
        _, _, token = socket.headers.get("authorization", "").partition(" ")
        if "origin" in socket.headers or not token or not await admits(token):
            await socket.close(1008, "not the extender")
            return
        await socket.accept()
        await feed.serve(socket)

    return routes


async def _close(socket: WebSocket, why: str) -> None:
    try:
        await socket.close(1000, why)
    except RuntimeError:
        return  # it is closed
