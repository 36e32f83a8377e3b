"""The connection to the dashboard: the extender opens it, sends changes, and explains gangs on request.

The extender listens on no other port for it, and no browser shares its event loop. Views are made for at most a
twentieth of the time, in slices; between them kube-scheduler's calls are answered. Changes after a quiet time are sent
at once.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
from pydantic import ValidationError

from extender.api.feed import FEED_PATH, Answer, Question
from extender.core.effects import Reached
from extender.observe.changes import QUEUES_S, Changes
from extender.observe.explain.slices import RestlessError, explained
from extender.observe.utilisation import UNASKED, Utilisation
from extender.runtime.runner import Runner
from extender.runtime.slices import SLICE_S
from policies.model import GroupKey

log = logging.getLogger("muster")

_SHARE = 0.05
"""The largest share of a core for the dashboard, apart from the first update of a connection.

The time is that of the thread: by the wall's clock, updates would be late wherever other processes are busy.
"""
_BURST_S = 5.0
"""The time of which the share may be spent at once: one costly update does not delay the next one."""
_EVERY_S = 0.5
"""The least time between two updates. A start is many changes, and its views are made once for all of them."""
_GATHER_S = 0.1
"""The time for further changes that come with the first one after a quiet time."""
_ALIVE_S = 10.0
"""Without an answer to a ping for this long the other end counts as gone."""
_RETRY_S, _LONGEST_RETRY_S = 1.0, 30.0
_LARGEST_QUESTION = 4096


class Link:
    """Keeps the dashboard at ``url`` up to date while this replica acts.

    ``token``: a file with this extender's bearer token; read at each connection.
    ``authority``: the CA of an https URL.
    ``utilisation``: the last measurement.
    """

    def __init__(
        self,
        runner: Runner,
        url: str,
        token: Path | None = None,
        authority: Path | None = None,
        wall: Callable[[], float] = time.time,
        utilisation: Callable[[], Utilisation] = lambda: UNASKED,
    ) -> None:
        self._runner, self._utilisation = runner, utilisation
        self._url = url.rstrip("/") + FEED_PATH
        self._token, self._authority, self._wall = token, authority, wall
        self._changes: Changes | None = None
        self._changed = asyncio.Event()
        self._last_warning = ""

    def reached(self, effect: Reached) -> None:
        """Record a milestone for the dashboard's history while one is connected."""
        if self._changes is not None:
            self._changes.reached(effect, self._wall())

    async def run(self) -> None:
        """Connect again and again until cancelled. A failure of the dashboard never affects Muster."""
        pause_s = _RETRY_S
        while True:
            await self._runner.acting.wait()
            began = time.monotonic()
            try:
                await self._connect()
            except (aiohttp.ClientError, OSError, TimeoutError, ssl.SSLError) as error:
                self._warn_once(f"{type(error).__name__}: {error}")
            except Exception:
                log.exception("the dashboard's feed failed in an unforeseen way; it is tried again")
            lasted = time.monotonic() - began > _LONGEST_RETRY_S
            pause_s = _RETRY_S if lasted else min(2 * pause_s, _LONGEST_RETRY_S)
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - so that retries are spread

    def _warn_once(self, why: str) -> None:
        """Log why there is no connection, once for each reason in a row."""
        if why != self._last_warning:
            self._last_warning = why
            log.warning("no connection to the dashboard at %s, which is tried again: %s", self._url, why)

    async def _connect(self) -> None:
        """Serve one connection until it ends or this core no longer acts."""
        headers = {}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token.read_text().strip()}"
        context = ssl.create_default_context(cafile=self._authority) if self._url.startswith("https:") else None
        async with (
            aiohttp.ClientSession(trust_env=False, headers=headers) as session,
            session.ws_connect(
                self._url, heartbeat=_ALIVE_S, max_msg_size=_LARGEST_QUESTION, ssl=context or False
            ) as socket,
        ):
            log.info("connected to the dashboard at %s", self._url)
            self._last_warning = ""
            self._changes = changes = Changes(
                self._runner.core, self._runner.clock(), self._wall(), self._utilisation, self._changed.set
            )
            tasks = [asyncio.create_task(self._send(socket, changes)), asyncio.create_task(self._answer(socket))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._changes = None
                changes.stop()
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, changes: Changes) -> None:
        await self._update(socket, changes)
        paid_until = time.monotonic()
        while self._runner.core is changes.core and self._runner.acting.is_set() and not socket.closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(QUEUES_S):
                    await self._changed.wait()
            await asyncio.sleep(_GATHER_S)
            began = time.monotonic()
            spent_s = await self._update(socket, changes)
            ended = time.monotonic()
            paid_until = max(paid_until, ended - _BURST_S) + spent_s / _SHARE
            await asyncio.sleep(max(began + _EVERY_S - _GATHER_S, paid_until) - ended)

    async def _update(self, socket: aiohttp.ClientWebSocketResponse, changes: Changes) -> float:
        """Send all changes until now. Returns the processor time that this took."""
        self._changed.clear()
        spent_s, began = 0.0, time.thread_time()
        for update in changes.updates(self._runner.clock()):
            if update:
                spent_s += time.thread_time() - began
                await socket.send_str(update.decode())
                began = time.thread_time()
            elif (slice_s := time.thread_time() - began) > SLICE_S:
                spent_s += slice_s
                # A call takes several turns of the loop, and no other slice is to come between them.
                await asyncio.sleep(slice_s)
                began = time.thread_time()
        return spent_s + time.thread_time() - began

    async def _answer(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        """Explain gangs, one at a time, with pauses that keep this to its share of the time."""
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            try:
                question = Question.model_validate_json(message.data)
            except ValidationError:
                log.warning("the dashboard has asked something that cannot be read")
                continue
            answer, spent_s = await self._explain(question)
            await socket.send_str(answer.model_dump_json())
            await asyncio.sleep(spent_s * (1 / _SHARE - 1))

    async def _explain(self, question: Question) -> tuple[Answer, float]:
        """Return the answer, and the processor time that it took."""
        key, number = GroupKey(question.namespace, question.name), question.number
        try:
            explanation, spent_s = await explained(self._runner, key)
        except RestlessError as error:
            return Answer(answers=number, failed=str(error)), 0.0
        except Exception:
            log.exception("gang %s could not be explained to the dashboard", key)
            return Answer(answers=number, failed="Muster failed to explain it: its log says why"), 0.0
        return Answer(answers=number, explanation=explanation), spent_s
