"""`muster bench latency --url`: what to send to a running extender, and when to stop."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from extender.cli.load import Load, Verb, calls, figures, fire
from extender.cli.output import Output, OutputError
from extender.cli.stop import stop
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
        stop(str(error))
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
            stop(f"{self.url} is not a URL of Muster: write one like http://127.0.0.1:10290")
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
            stop(f"no usable answer from {self.url}/{verb.value}: {why}")
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
