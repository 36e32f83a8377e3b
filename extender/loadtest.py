"""Load for a running extender: calls at a chosen rate, timed as the client sees them. `muster bench latency --url`.

The client is open loop: calls are due at even instants, whatever became of the ones before. A call that has to wait
because all connections are busy counts from the instant at which it was due, so a slow extender cannot hide its delay.
aiohttp, not httpx: a call through httpx costs the client more processor time than most calls cost the extender.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import aiohttp
import typer
from rich.console import Console
from rich.table import Table

main = typer.Typer(name="muster bench", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

CONSEQUENCE = (
    "The pods of these calls do not exist: filter and prioritize answer as for any pod of no gang, and bind waits for "
    "the pod to show up and then refuses, which harms nothing. Bind is timed with real pods without --url."
)


class Verb(StrEnum):
    FILTER = "filter"
    PRIORITIZE = "prioritize"
    BIND = "bind"


@dataclass(frozen=True, slots=True)
class Call:
    """One request: the path below the extender's URL, and its JSON."""

    path: str
    body: bytes


@dataclass(slots=True)
class Load:
    """What became of the calls. ``latencies_ms``: of every call that was answered, in order of answers.

    ``refused``: answers with an error in them. ``failed``: no answer that kube-scheduler could use, by reason.
    """

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    refused: int = 0
    failed: dict[str, int] = field(default_factory=dict)

    def percentile(self, share: float) -> float:
        """Nearest rank, in ms. Raises IndexError when nothing was answered."""
        ordered = sorted(self.latencies_ms)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


Observer = Callable[[int, float], None]
"""Is told the number of each answered call, and its latency in ms."""


async def fire(
    url: str,
    calls: Sequence[Call],
    rate: float,
    concurrency: int,
    timeout_s: float = 60.0,
    observe: Observer = lambda _number, _latency_ms: None,
) -> Load:
    """Send every call, ``rate`` a second and at most ``concurrency`` at once, and wait for all answers."""
    load = Load()
    connector = aiohttp.TCPConnector(limit=concurrency)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        began = time.perf_counter()
        todo = enumerate(calls)

        async def work() -> None:
            for number, call in todo:
                due = began + number / rate
                if (early := due - time.perf_counter()) > 0:
                    await asyncio.sleep(early)
                    due = time.perf_counter()  # the timer's own delay is not the extender's
                if (answered := await _send(session, url, call, load)) is not None:
                    latency_ms = (answered - due) * 1000
                    load.latencies_ms.append(latency_ms)
                    observe(number, latency_ms)

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
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        why = str(error) or type(error).__name__
        load.failed[why] = load.failed.get(why, 0) + 1
        return None
    if isinstance(result, dict) and result.get("Error"):
        load.refused += 1
    return answered


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
    return Call(verb.value, json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(nodes)}).encode())


def bind_call(uid: str, name: str, node: str, namespace: str = "default") -> Call:
    return Call("bind", json.dumps({"PodName": name, "PodNamespace": namespace, "PodUID": uid, "Node": node}).encode())


def figures(load: Load) -> dict[str, float]:
    """What is told of a load: counts, the rate that was reached, and latencies in ms if there are any."""
    answered = len(load.latencies_ms)
    told: dict[str, float] = {"answered": answered, "refused": load.refused, "failed": sum(load.failed.values())}
    if answered:
        told |= {"per_s": round(answered / load.seconds, 1)} if load.seconds else {}
        told |= {f"p{share}_ms": round(load.percentile(share / 100), 2) for share in (50, 95, 99)}
        told["max_ms"] = round(max(load.latencies_ms), 2)
    return told


@main.callback()
def bench() -> None:
    """Measure a running extender. All other benchmarks of Muster need a source checkout."""


@main.command("latency")
def latency_command(
    url: Annotated[str | None, typer.Option(help="A running extender, as in http://127.0.0.1:10290.")] = None,
    verb: Annotated[list[Verb] | None, typer.Option(help="What to call, one after the other; all by default.")] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="Calls a second.")] = 200.0,
    concurrency: Annotated[int, typer.Option(min=1, help="Calls under way at once, at most.")] = 512,
    count: Annotated[int, typer.Option("--calls", min=1, help="Calls of each kind.")] = 1000,
    nodes: Annotated[
        int, typer.Option(min=1, help="Candidates in a call; without --url, nodes of the cluster.")
    ] = 5000,
    output: Annotated[Path | None, typer.Option(help="Where to write the figures as JSON.")] = None,
) -> None:
    """How long filter, prioritize and bind take, as the caller sees it: p50, p95 and p99 at a chosen rate.

    With --url against any running extender, with pods that do not exist. Without it on a control plane of its own,
    where real gangs are bound; that needs a source checkout. Exit code 1 when a call got no usable answer, 2 when the
    first one got none.
    """
    verbs = verb or list(Verb)
    if url is None:
        try:
            from benchmarks import cli, latency
        except ImportError:
            raise typer.BadParameter(
                "without a source checkout an extender has to be named", param_hint="--url"
            ) from None
        cli.run(latency.benchmark(verbs, rate, concurrency, count, nodes), output)
    results = {}
    for one in verbs:
        with Console(stderr=True).status(f"{one.value}: {count} calls, {rate:g} a second"):
            results[one.value] = asyncio.run(_try_out(url.rstrip("/"), one, rate, concurrency, count, nodes))
    _show(results)
    if output:
        told = {"url": url, "rate": rate, "concurrency": concurrency, "candidates": nodes}
        output.write_text(
            json.dumps({**told, "verbs": {name: figures(load) for name, load in results.items()}}, indent=1)
        )
    raise typer.Exit(1 if any(load.failed for load in results.values()) else 0)


async def _try_out(url: str, verb: Verb, rate: float, concurrency: int, count: int, candidates: int) -> Load:
    """The first call is not timed: it warms the code, and shows whether there is any use in more."""
    first = await fire(url, calls(verb, 1, candidates), rate, 1)
    for why in first.failed:
        typer.secho(f"no usable answer from {url}/{verb.value}: {why}", err=True, fg="red")
        raise typer.Exit(2)
    return await fire(url, calls(verb, count, candidates), rate, concurrency)


def _show(results: dict[str, Load]) -> None:
    table = Table("verb", "answered", "refused", "failed", "calls/s", "p50 ms", "p95 ms", "p99 ms", "max ms")
    for name, load in results.items():
        table.add_row(name, *(f"{figure:g}" for figure in figures(load).values()))
    terminal = Console(width=None if sys.stdout.isatty() else 120)
    terminal.print(table)
    terminal.print(CONSEQUENCE)
    for name, load in results.items():
        for why, times in load.failed.items():
            terminal.print(f"{name}: {times} calls failed: {why}", style="red", markup=False)
