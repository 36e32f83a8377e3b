"""A Prometheus that answers queries about GPUs from series that tests write down."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from extender.observe.prometheus import Prometheus

WINDOW_S = 1800
UTIL, ACTIVE = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
URL = "http://prometheus:9090"


def series(pod: str, value: object, /, *, count: object = 8, exported: bool = True, **labels: str) -> dict[str, Any]:
    """Return a series of a pod in the namespace default, as the two queries of a metric find it."""
    prefix = "exported_" if exported else ""
    named = {f"{prefix}namespace": "default", f"{prefix}pod": pod} if pod else {}
    return {"metric": {**named, **labels}, "avg": value, "count": count}


@dataclass
class Answering:
    """The Prometheus. ``series``: by metric. ``asked``: the queries. ``answer``: in place of all of this."""

    series: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    asked: list[httpx.Request] = field(default_factory=list)
    answer: Callable[[httpx.Request], httpx.Response] | None = None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        if self.answer is not None:
            return self.answer(request)
        text = request.url.params["query"]
        label = text.partition(" ")[0]
        known = next((rows for metric, rows in self.series.items() if metric in text), [])
        result = [{"metric": row["metric"], "value": [1.5, f"{row[label]}"]} for row in known]
        return httpx.Response(200, json={"status": "success", "data": {"resultType": "vector", "result": result}})


async def asked(answering: Answering, rounds: int = 1, **facts: Any) -> Prometheus:
    """Ask Prometheus ``rounds`` times."""
    transport = httpx.MockTransport(answering)
    prometheus = Prometheus(URL, below_percent=10.0, window_s=WINDOW_S, **facts)
    async with httpx.AsyncClient(transport=transport, base_url=URL) as client:
        for _ in range(rounds):
            await prometheus.ask(client)
    return prometheus


def refusal(error: str, status: int = 400) -> httpx.Response:
    """Return the answer to a query that Prometheus does not take."""
    return httpx.Response(status, content=json.dumps({"status": "error", "errorType": "x", "error": error}))
