"""The benchmarks that play a trace, as commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchmarks import fragmentation, replay
from benchmarks.running import Output, run
from extender.cli.terminal import stop
from extender.simulation.replay.shape import InputError


def replay_command(
    trace: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="CSV in the ElasticFlow layout.")],
    trace_cluster: Annotated[str, typer.Option(help="Which of its clusters.")] = "cluster04",
    cluster: Annotated[str, typer.Option(help="On which cluster.")] = "64 nodes x 8 GPUs in cliques of 16",
    load: Annotated[list[float] | None, typer.Option(min=0.01, help="Offered loads; 0.8 and 1.1 by default.")] = None,
    seed: Annotated[int, typer.Option(help="For what is left to chance.")] = 0,
    output: Output = None,
) -> None:
    """A trace under every scheduler that `muster simulate` knows. Needs no control plane; takes minutes."""
    try:
        replayed = replay.benchmark(f"replay-{trace_cluster}", trace, trace_cluster, cluster, load or [0.8, 1.1], seed)
    except (InputError, OSError, UnicodeDecodeError) as error:
        stop(str(error))
    run(replayed, output)


def fragmentation_command(
    trace: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="CSV in the ElasticFlow layout.")],
    trace_cluster: Annotated[str, typer.Option(help="Which of its clusters.")] = "cluster04",
    cluster: Annotated[str, typer.Option(help="On which cluster.")] = "144 nodes x 4 GPUs in cliques of 18",
    drained: Annotated[int, typer.Option(min=0, help="Nodes of each clique that take no pods.")] = 2,
    load: Annotated[float, typer.Option(min=0.01, help="Offered load.")] = 0.8,
    jobs: Annotated[int | None, typer.Option(min=2, help="The first so many jobs; all by default.")] = None,
    seed: Annotated[int, typer.Option(help="For what is left to chance.")] = 0,
    output: Output = None,
) -> None:
    """In how many more cliques than needed a trace's gangs are, by scheduler and policy. Needs no control plane."""
    name = f"fragmentation-{trace_cluster}"
    try:
        replayed = fragmentation.benchmark(name, trace, trace_cluster, cluster, drained, load, jobs, seed)
    except (InputError, OSError, UnicodeDecodeError) as error:
        stop(str(error))
    run(replayed, output)
