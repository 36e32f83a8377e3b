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
from typing import Annotated, Any, NoReturn

import aiohttp
import typer
from rich.console import Console
from rich.table import Table

from extender.cli.output import Output, OutputError
from policies.words import many

main = typer.Typer(
    name="muster bench",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

WARNING = (
    "These calls load {url}: kube-scheduler's own calls wait behind them. Nothing is bound, because the pods do not "
    "exist. The test stops when an answer to filter or prioritize takes longer than {limit_ms:g} ms (--limit-ms)."
)
CONSEQUENCE = (
    "The pods of these calls do not exist: filter and prioritize answer as for any pod of no gang. Bind waits for the "
    "pod to appear and then refuses; without --url it is timed with real pods."
)
_SAFE_VERBS, _SAFE_RATE, _SAFE_CONCURRENCY, _SAFE_CALLS, _SAFE_NODES = ("filter", "prioritize"), 10.0, 4, 100, 1000
_OWN_RATE, _OWN_CONCURRENCY, _OWN_CALLS, _OWN_NODES = 200.0, 512, 1000, 5000


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
    ``stopped_ms``: the latency that was above the limit and ended the load, None if none was.
    """

    seconds: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    refused: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    stopped_ms: float | None = None

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
    limit_ms: float = math.inf,
) -> Load:
    """Send every call, ``rate`` a second and at most ``concurrency`` at once, and wait for all answers.

    After an answer that took longer than ``limit_ms``, or none in that time, no further call is sent.
    """
    load = Load()
    connector = aiohttp.TCPConnector(limit=concurrency)
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, trust_env=False) as session:
        began = time.perf_counter()
        todo = enumerate(calls)

        async def work() -> None:
            for number, call in todo:
                if load.stopped_ms is not None:
                    return
                due = began + number / rate
                if (early := due - time.perf_counter()) > 0:
                    await asyncio.sleep(early)
                    due = time.perf_counter()  # the timer's own delay is not the extender's
                answered = await _send(session, url, call, load)
                latency_ms = ((answered or time.perf_counter()) - due) * 1000
                if latency_ms > limit_ms and load.stopped_ms is None:
                    load.stopped_ms = latency_ms
                if answered is not None:
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
    """Load-test a running extender. All other benchmarks of Muster need a source checkout."""


@main.command("latency")
def latency_command(
    url: Annotated[str | None, typer.Option(help="A running extender, as in http://127.0.0.1:10290.")] = None,
    verb: Annotated[
        list[Verb] | None, typer.Option(help="What to call, one after the other. Default: filter and prioritize; all.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help=f"Calls a second. Default: {_SAFE_RATE:g}; {_OWN_RATE:g}.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Calls under way at once, at most. Default: {_SAFE_CONCURRENCY}; {_OWN_CONCURRENCY}."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--calls", min=1, help=f"Calls of each kind. Default: {_SAFE_CALLS}; {_OWN_CALLS}.")
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(min=1, help=f"Candidates in a call, or nodes. Default: {_SAFE_NODES}; {_OWN_NODES}."),
    ] = None,
    limit_ms: Annotated[
        float, typer.Option(min=1, help="With --url: stop when filter or prioritize takes longer than this.")
    ] = 500.0,
    output: Annotated[Path | None, typer.Option(help="Where to write the figures as JSON.")] = None,
) -> None:
    """How long filter, prioritize and bind take, as the caller sees it: p50, p95 and p99 at a chosen rate.

    With --url against any running extender, with pods that do not exist. Without it on a control plane of its own,
    where real gangs are bound; that needs a source checkout. Of two defaults the first is with --url. Exit code 0:
    measured. 1: a call got no usable answer, or the limit ended the test. 2: nothing could be measured.
    """
    if url is None:
        settings = (rate or _OWN_RATE, concurrency or _OWN_CONCURRENCY, count or _OWN_CALLS, nodes or _OWN_NODES)
        try:
            from benchmarks import cli, latency
        except ImportError:
            raise typer.BadParameter(
                "without a source checkout an extender has to be named", param_hint="--url"
            ) from None
        cli.run(latency.benchmark(verb or list(Verb), *settings), output)
    test = LoadTest(
        url.rstrip("/"), rate or _SAFE_RATE, concurrency or _SAFE_CONCURRENCY, count or _SAFE_CALLS,
        nodes or _SAFE_NODES, limit_ms,
    )  # fmt: skip
    try:
        file = Output(output) if output is not None else None
    except OutputError as error:
        _stop(str(error))
    results = test.run(verb or [Verb(name) for name in _SAFE_VERBS])
    _show(results)
    if file is not None:
        told = {"url": url, "rate": test.rate, "concurrency": test.concurrency, "candidates": test.candidates}
        told |= {"verbs": {name: figures(load) for name, load in results.items()}}
        file.write(json.dumps(told, indent=1).encode())
    raise typer.Exit(1 if any(load.failed or load.stopped_ms is not None for load in results.values()) else 0)


@dataclass(frozen=True, slots=True)
class LoadTest:
    """What is sent to a running extender, and when to stop."""

    url: str
    rate: float
    concurrency: int
    count: int
    candidates: int
    limit_ms: float

    def run(self, verbs: Sequence[Verb]) -> dict[str, Load]:
        """Verb by verb, until a limit is passed."""
        if not self.url.startswith(("http://", "https://")):
            _stop(f"{self.url} is not a URL of Muster: write one like http://127.0.0.1:10290")
        terminal = Console(stderr=True)
        terminal.print(WARNING.format(url=self.url, limit_ms=self.limit_ms), style="yellow", markup=False)
        results: dict[str, Load] = {}
        for verb in verbs:
            with terminal.status(f"{verb.value}: {self.count} calls, {self.rate:g} a second"):
                results[verb.value] = load = asyncio.run(self._try_out(verb))
            if load.stopped_ms is not None:
                break
        return results

    async def _try_out(self, verb: Verb) -> Load:
        """The first call is not timed: it warms the code, and shows whether there is any use in more."""
        # A bind of a pod that does not exist is held for as long as the extender waits for the pod.
        limit_ms = math.inf if verb is Verb.BIND else self.limit_ms
        first = await fire(self.url, calls(verb, 1, self.candidates), self.rate, 1, limit_ms=limit_ms)
        for why in first.failed:
            _stop(f"no usable answer from {self.url}/{verb.value}: {why}")
        if first.stopped_ms is not None:
            return first
        return await fire(
            self.url, calls(verb, self.count, self.candidates), self.rate, self.concurrency, limit_ms=limit_ms
        )


def _show(results: dict[str, Load]) -> None:
    table = Table("verb", "answered", "refused", "failed", "calls/s", "p50 ms", "p95 ms", "p99 ms", "max ms")
    for name, load in results.items():
        table.add_row(name, *(f"{figure:g}" for figure in figures(load).values()))
    terminal = Console(width=None if sys.stdout.isatty() else 120)
    terminal.print(table)
    terminal.print(CONSEQUENCE)
    for name, load in results.items():
        for why, times in load.failed.items():
            terminal.print(f"{name}: {many(times, 'call')} failed: {why}", style="red", markup=False)
        if load.stopped_ms is not None:
            terminal.print(
                f"{name}: stopped after {many(len(load.latencies_ms), 'answer')}: one took {load.stopped_ms:.0f} ms. "
                "Try a lower --rate, or fewer --nodes.", style="red", markup=False,
            )  # fmt: skip


def _stop(message: str) -> NoReturn:
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)
