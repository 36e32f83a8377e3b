"""`muster bench`: a command for each benchmark, and one that runs them all into the results that are committed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

from benchmarks import throughput
from benchmarks.about import about
from benchmarks.benchmark import Benchmark, carry_out
from benchmarks.record import RecordError
from benchmarks.stage import MODES, Mode
from devcluster import ClusterError
from extender.loadtest import latency_command

main = typer.Typer(name="muster bench", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

Nodes = Annotated[int, typer.Option(min=1, help="Nodes of 8 GPUs, 16 to a clique.")]
Size = Annotated[int, typer.Option(min=1, help="Pods per gang.")]
Repeat = Annotated[int, typer.Option(min=1, help="Rounds; the tables show medians.")]
Modes = Annotated[list[Mode] | None, typer.Option("--mode", help="What to measure, all by default. " + MODES)]
Patience = Annotated[float, typer.Option(min=1, help="Seconds after which a run is given up.")]
Output = Annotated[Path | None, typer.Option(help="Where to keep the results as JSON; a picture is put beside it.")]


@main.callback()
def bench() -> None:
    """Measure Muster on a real control plane (etcd, kube-apiserver, kube-scheduler; kwok plays the nodes).

    Exit code 0: measured, and nothing was seen that must not be. 1: something was. 2: it could not be measured.
    """


@main.command("throughput")
def throughput_command(
    nodes: Nodes = 1000,
    gangs: Annotated[int, typer.Option(min=1, help="Gangs of pods with one GPU each.")] = 375,
    size: Size = 8,
    mode: Modes = None,
    repeat: Repeat = 1,
    patience: Patience = 300,
    output: Output = None,
) -> None:
    """How many gang pods a second get bound, and what a pod costs every process."""
    run(throughput.benchmark(f"throughput-{nodes}", nodes, gangs, size, mode or list(Mode), repeat, patience), output)


main.command("latency")(latency_command)


def run(benchmark: Benchmark[Any], output: Path | None) -> NoReturn:
    """One benchmark from the command line."""
    terminal = _terminal()
    if output is not None and not output.parent.is_dir():  # said now and not in an hour
        raise typer.BadParameter(f"there is no directory {output.parent}", param_hint="--output")
    for ending in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell starts background jobs with it ignored
        signal.signal(ending, signal.default_int_handler)
    try:
        facts = about()
        terminal.print(str(facts), highlight=False)
        outcome = carry_out(benchmark, facts, output, terminal)
    except (ClusterError, RecordError, OSError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    for message in (*outcome.failures, *outcome.problems):
        typer.secho(message, err=True, fg="red")
    raise typer.Exit(2 if outcome.failures else 1 if outcome.problems else 0)


def _terminal() -> Console:
    """The standard output; a file has no width that a table would have to fit into."""
    return Console() if sys.stdout.isatty() else Console(width=160)


def _stop(message: str) -> NoReturn:
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)
