"""Carries benchmarks out from the command line: signals, the last messages, and exit codes."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from benchmarks.about import about
from benchmarks.benchmark import Benchmark, carry_out
from benchmarks.record import RecordError
from devcluster import ClusterError
from extender.cli import output as files
from extender.cli.terminal import console, stop_on

Output = Annotated[Path | None, typer.Option(help="Where to keep the results as JSON; a picture is put beside it.")]


def run(benchmark: Benchmark[Any], output: Path | None) -> NoReturn:
    """Carry one benchmark out from the command line, and end the command."""
    raise typer.Exit(measure(benchmark, output))


def measure(benchmark: Benchmark[Any], output: Path | None) -> int:
    """Carry one benchmark out from the command line; returns its exit code."""
    if output is not None:
        with stop_on(files.OutputError):  # said now and not in an hour
            files.Output(output)
    return carry_out_all([(benchmark, output)], go_on=False)


def carry_out_all(
    benchmarks: Sequence[tuple[Benchmark[Any], Path | None]],
    *,
    go_on: bool,
    finish: Callable[[], None] | None = None,
) -> int:
    """Carry them out in order; returns the exit code. ``finish`` is called at the end even if some have failed."""
    terminal = console()
    for ending in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell starts background jobs with it ignored
        signal.signal(ending, signal.default_int_handler)
    failures, problems = [], []
    with stop_on(ClusterError, RecordError, files.OutputError, OSError):
        facts = about()
        terminal.print(str(facts), highlight=False)
        for benchmark, path in benchmarks:
            outcome = carry_out(benchmark, facts, path, terminal, go_on=go_on)
            failures += outcome.failures
            problems += outcome.problems
        if finish is not None:
            finish()
    for message in (*failures, *problems):
        typer.secho(message, err=True, fg="red")
    return 2 if failures else 1 if problems else 0
