"""Ask a Prometheus once a minute how busy the GPUs are.

Nothing waits for the answer. A Prometheus that fails leaves utilisation unknown, and changes nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import msgspec

from extender.observe.utilisation import SOURCES, Loads, Source, Utilisation, Vector, loads, query
from extender.runtime.slices import Slices

log = logging.getLogger("muster")

EVERY_S = 60.0
_TIMEOUT_S = 10.0
"""Seconds for a connection, and between two parts of an answer."""
_LONGEST_S = 30.0
"""Seconds for all queries of one round."""
_MOST_BYTES = 32 << 20
"""Longest answer: that of some 100,000 pods."""


class _Data(msgspec.Struct, frozen=True):
    """``result``: each a Vector, which is read when its turn comes."""

    result: list[msgspec.Raw] = []


class _Answer(msgspec.Struct):
    """An answer of Prometheus: ``data``, or an ``error``."""

    status: str = ""
    error: str = ""
    data: _Data = _Data()


class UnansweredError(Exception):
    """Prometheus has not answered a query; the message says why."""


class Prometheus:
    """A Prometheus, and what it last said. ``transport``: in place of the network."""

    def __init__(
        self,
        url: str,
        token_file: Path | None = None,
        ca_file: Path | None = None,
        *,
        below_percent: float,
        window_s: int,
        clock: Callable[[], float] = time.monotonic,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url, self._token_file, self._ca_file, self._transport = url.rstrip("/"), token_file, ca_file, transport
        self._clock = clock
        self.utilisation = Utilisation(on=bool(url), below_percent=below_percent, window_s=window_s)

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            verify = ssl.create_default_context(cafile=self._ca_file) if self._url.startswith("https:") else False
        except OSError as error:
            return self._know(Loads(), f"prometheus_ca_file cannot be used: {error}")
        async with httpx.AsyncClient(
            base_url=self._url, timeout=_TIMEOUT_S, trust_env=False, verify=verify, transport=self._transport
        ) as client:
            while True:
                await self.ask(client)
                await asyncio.sleep(EVERY_S)

    async def ask(self, client: httpx.AsyncClient) -> None:
        """Ask once. A failure is known as the problem, and logged when it differs from the one before."""
        try:
            async with asyncio.timeout(_LONGEST_S):
                answered = await self._loads(client)
        except TimeoutError:
            self._know(Loads(), f"no answer from {self._url} within {_LONGEST_S:.0f} s")
        except UnansweredError as error:
            self._know(Loads(), str(error))
        except Exception as error:
            log.exception("Muster failed on what Prometheus answers")
            self._know(Loads(), f"Muster failed on the answer of {self._url}: {type(error).__name__}; see its log")
        else:
            self._know(answered, "" if answered.all else self._nothing())

    def _nothing(self) -> str:
        metrics = " or ".join(source.metric for source in SOURCES)
        return f"{self._url} has had no {metrics} of a GPU for the whole of {self.utilisation.window_s} s"

    def _know(self, answered: Loads, problem: str) -> None:
        if problem != self.utilisation.problem:
            log.warning("utilisation of GPUs: %s", problem or "known again")
        at = self.utilisation.at if problem and not answered.all else self._clock()
        self.utilisation = replace(self.utilisation, loads=answered, problem=problem, at=at)

    async def _loads(self, client: httpx.AsyncClient) -> Loads:
        headers = self._headers()
        window_s = self.utilisation.window_s

        async def ask(source: Source, aggregation: str) -> bytes:
            return await self._answer(client, headers, query(source, aggregation, window_s))

        bodies = [(source, await ask(source, "avg"), await ask(source, "count")) for source in SOURCES]
        # 40,000 GPUs are megabytes.
        read = ((source, self._read(means), self._read(counts)) for source, means, counts in bodies)
        return await Slices().run(loads(read))

    def _headers(self) -> dict[str, str]:
        if self._token_file is None:
            return {}
        try:
            token = self._token_file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise UnansweredError(f"prometheus_token_file cannot be read: {error}") from None
        return {"Authorization": f"Bearer {token}"}

    async def _answer(self, client: httpx.AsyncClient, headers: dict[str, str], text: str) -> bytes:
        body = bytearray()
        try:
            async with client.stream("GET", "/api/v1/query", params={"query": text}, headers=headers) as answer:
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > _MOST_BYTES:
                        raise UnansweredError(f"{self._url} answers with more than {_MOST_BYTES >> 20} MiB")
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise UnansweredError(f"no answer from {self._url}: {type(error).__name__}: {error}"[:300]) from None
        if answer.is_success:
            return bytes(body)
        raise UnansweredError(f"{self._url} refuses the query: {answer.status_code} {_reason(bytes(body))}")

    def _read(self, body: bytes) -> Iterator[Vector]:
        try:
            answer = msgspec.json.decode(body, type=_Answer)
            for vector in answer.data.result:
                yield msgspec.json.decode(vector, type=Vector)
        except (msgspec.MsgspecError, ValueError) as error:
            raise UnansweredError(f"{self._url} does not answer as Prometheus does: {error}"[:300]) from None
        if answer.status != "success":
            raise UnansweredError(f"{self._url} refuses the query: {answer.error}"[:300])


def _reason(body: bytes) -> str:
    """The text of an answer with an error."""
    try:
        return msgspec.json.decode(body, type=_Answer).error[:200]
    except (msgspec.MsgspecError, ValueError):
        return body[:200].decode(errors="replace")
