"""Calls to a running extender at a chosen rate, timed as the client sees them.

The client is open loop: calls are due at even intervals, whether or not earlier ones were answered. A call that has to
wait because all connections are busy counts from the instant at which it was due, so a slow extender cannot hide its
delay. Nor can a client that stands still: only the resolution of its timer is taken off.
aiohttp, not httpx: a call through httpx costs the client more processor time than most calls cost the extender.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import aiohttp

from extender.kube.api.silence import why_silent

TIMER_MS = 2.0
"""Timers may end this much later than requested; a longer delay of the client counts."""


class Verb(StrEnum):
    FILTER = "filter"
    PRIORITIZE = "prioritize"
    BIND = "bind"


@dataclass(frozen=True, slots=True)
class Call:
    """A request: the path below the extender's URL, its JSON, and the pod that it is for."""

    path: str
    body: bytes
    pod: str


@dataclass(slots=True)
class Load:
    """The results of ``calls``, ``rate`` a second.

    ``began``: when the first call was due, in seconds since 1970.
    ``client_late_ms``: the latest that this client itself was with a call.
    ``answers``: the latency in ms of each answered call, by its number, in order of answers.
    ``refusals``: answers with an error in them, by reason, and answers to prioritize that mark no node.
    ``failed``: no answer that kube-scheduler could use, by reason.
    ``stopped_ms``: the latency that was above the limit and ended the load; None if none was.
    """

    calls: Sequence[Call] = ()
    rate: float = 0.0
    seconds: float = 0.0
    began: float = 0.0
    client_late_ms: float = 0.0
    answers: dict[int, float] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    stopped_ms: float | None = None

    @property
    def latencies_ms(self) -> list[float]:
        return list(self.answers.values())

    @property
    def refused(self) -> int:
        return sum(self.refusals.values())

    def percentile(self, share: float) -> float:
        """Nearest rank, in ms. Raises IndexError when nothing was answered."""
        ordered = sorted(self.latencies_ms)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


async def fire(
    url: str,
    calls: Sequence[Call],
    rate: float,
    concurrency: int,
    timeout_s: float = 60.0,
    limit_ms: float = math.inf,
    verify: ssl.SSLContext | bool = True,
) -> Load:
    """Send every call, ``rate`` a second and at most ``concurrency`` at once, and wait for all answers.

    After an answer that took longer than ``limit_ms``, or none in that time, no further call is sent. ``verify``: how
    an https extender is known, and what is shown to it.
    """
    load = Load(calls, rate)
    connector = aiohttp.TCPConnector(limit=concurrency, ssl=verify)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        began, load.began = time.perf_counter(), time.time()
        todo = enumerate(calls)

        async def work() -> None:
            for number, call in todo:
                if load.stopped_ms is not None:
                    return
                due = began + number / rate
                if (early := due - time.perf_counter()) > 0:
                    await asyncio.sleep(early)
                    late_ms = (time.perf_counter() - due) * 1000
                    load.client_late_ms = max(load.client_late_ms, late_ms)
                    due += min(late_ms, TIMER_MS) / 1000  # the timer's own delay is not the extender's
                answered = await _send(session, url, call, load)
                latency_ms = ((answered or time.perf_counter()) - due) * 1000
                if latency_ms > limit_ms and load.stopped_ms is None:
                    load.stopped_ms = latency_ms
                if answered is not None:
                    load.answers[number] = latency_ms

        await asyncio.gather(*(work() for _ in range(min(concurrency, len(calls)))))
        load.seconds = time.perf_counter() - began
    return load


async def _send(session: aiohttp.ClientSession, url: str, call: Call, load: Load) -> float | None:
    """The instant of the answer, if it is one that kube-scheduler can use: status 200 and JSON."""
    headers = {"Content-Type": "application/json"}
    try:
        async with session.post(f"{url}/{call.path}", data=call.body, headers=headers) as answer:
            content = await answer.read()
            answered = time.perf_counter()
            if answer.status != 200:
                raise ValueError(f"status {answer.status}")
            result = json.loads(content)
    except (aiohttp.ClientError, TimeoutError, ValueError, RecursionError) as error:
        why = why_silent(error)
        load.failed[why] = load.failed.get(why, 0) + 1
        return None
    if why := _refusal(result):
        load.refusals[why] = load.refusals.get(why, 0) + 1
    return answered


def _refusal(result: Any) -> str:
    """Explain why the extender did not do what was requested; empty if it did. Prioritize cannot give a reason."""
    if isinstance(result, dict):
        return str(result.get("Error") or "")
    return "" if result else "no node was marked"


def calls(verb: Verb, count: int, candidates: int) -> list[Call]:
    """Requests as kube-scheduler sends them, for pods and nodes that do not exist."""
    nodes = [f"node-{number}" for number in range(candidates)]
    return [_call(verb, f"load-{number}", nodes) for number in range(count)]


def _call(verb: Verb, name: str, nodes: list[str]) -> Call:
    if verb is Verb.BIND:
        return bind_call(f"uid-{name}", name, nodes[0] if nodes else "node-0")
    containers = [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}]
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return node_call(verb, {"metadata": meta, "spec": {"schedulerName": "muster", "containers": containers}}, nodes)


def node_call(verb: Verb, pod: dict[str, Any], nodes: Sequence[str]) -> Call:
    """A filter or prioritize request for the pod with these candidates, as with ``nodeCacheCapable``."""
    body = {"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}
    return Call(verb.value, json.dumps(body).encode(), pod["metadata"]["name"])


def bind_call(uid: str, name: str, node: str) -> Call:
    body = {"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node}
    return Call("bind", json.dumps(body).encode(), name)


def figures(load: Load) -> dict[str, float]:
    """The results of a load as figures: counts, the reached rate, and latencies in ms if there are any."""
    answered = len(load.latencies_ms)
    written_figures: dict[str, float] = {
        "answered": answered,
        "refused": load.refused,
        "failed": sum(load.failed.values()),
    }
    if answered:
        written_figures |= {"per_s": round(answered / load.seconds, 1)} if load.seconds else {}
        written_figures |= {f"p{share}_ms": round(load.percentile(share / 100), 2) for share in (50, 90, 95, 99)}
        written_figures["max_ms"] = round(max(load.latencies_ms), 2)
    return written_figures
