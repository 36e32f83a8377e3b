"""`python -m devcluster.demo`: the same two jobs on the same control plane, without Muster and with it."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console

from devcluster import ApiError, Cluster, ClusterError, Process
from devcluster.demo import ledger, outcome, picture, stage
from devcluster.demo.outcome import Run
from devcluster.demo.scenario import JOBS, NAMESPACE, Case, Play, submit
from devcluster.demo.sightings import Clock, Sightings
from devcluster.muster import install_job_admission, start_muster
from devcluster.progress import Terminal

PATIENCE = 1.5  # windows that two jobs which run one after the other may take before the demo gives up

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def demo(
    factor: Annotated[
        float, typer.Option(min=1, max=120, help="How many times faster than real time: 60 makes an hour a minute.")
    ] = 60.0,
    price: Annotated[float, typer.Option(min=0, max=1e6, help="USD per GPU-hour.")] = 3.67,
    output: Annotated[Path, typer.Option(help="Where the timeline is written.")] = Path("demo-timeline.svg"),
) -> None:
    """Show two training jobs that each need all 32 GPUs of a cluster: with kube-scheduler alone, then with Muster.

    The control plane is real; nodes and containers are simulated. Takes about two and a half minutes.
    """
    if not output.parent.is_dir():  # said now and not in two minutes
        raise typer.BadParameter(f"there is no directory {output.parent}", param_hint="--output")
    console = Console()
    progress = Terminal()
    for ending in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a shell starts background jobs with it ignored
        signal.signal(ending, signal.default_int_handler)
    case = Case()
    try:
        with Cluster(progress) as cluster:
            progress("adding the nodes and starting kube-scheduler")
            cluster.add_nodes(case.nodes, gpus=case.gpus_per_node)
            cluster.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
            cluster.start_scheduler()
            progress.done()
            _introduce(console, case, factor)
            plain = _play(console, cluster, case, factor, "kube-scheduler alone", case.window_s, alone=True)
            progress("installing Muster's manifests, starting the extender and its kube-scheduler")
            muster = start_muster(cluster)
            install_job_admission(cluster)
            progress.done()
            gangs = _play(console, cluster, case, factor, "with Muster", PATIENCE * case.window_s, alone=False)
            _report_death(console, muster.extender, muster.scheduler)
    except (ClusterError, ApiError, TimeoutError, httpx.HTTPError, OSError) as error:
        progress.done()
        console.print(f"The demo could not be carried out: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        progress.done()
        raise typer.Exit(130) from None
    output.write_text(picture.draw((plain, gangs), case, factor))
    _conclude(console, case, (plain, gangs), price, output)


def _introduce(console: Console, case: Case, factor: float) -> None:
    work = case.work
    console.print(
        f"{case.nodes} nodes x {case.gpus_per_node} GPUs. Two jobs, each of {work.workers} pods with "
        f"{case.gpus_per_node} GPUs: {work.rendezvous_s:g} s until all have found each other, then "
        f"{work.work_s:,.0f} s of work. Both are applied at once, suspended, and nothing stands on their pods. Without "
        "Muster the demo starts both, and kube-scheduler gets their pods alternately. "
        f"Time runs {factor:g} times faster; all times and GPU-hours below are those of the cluster's clock."
    )


def _play(
    console: Console, cluster: Cluster, case: Case, factor: float, title: str, window_s: float, *, alone: bool
) -> Run:
    """Play one run. Every moment in the result was seen on a watch."""
    console.print(f"\n[bold]{title[0].upper()}{title[1:]}[/bold]")
    submit(cluster)
    clock = Clock(factor)
    with Sightings(cluster.api, NAMESPACE, clock) as sightings:
        with stage.live(console, clock, sightings, case.window_s) as look:
            play = Play(cluster, case, sightings, clock, look)
            if alone:
                play.take_turns()
            play.run(window_s)
        until_s, pods = min(clock.now_s(), window_s), tuple(sightings.times())
    play.clean_up()
    run = Run(title, pods, ledger.totals(pods, JOBS, case.work, case.gpus, until_s))
    for name in JOBS:
        console.print(f"  {outcome.summary(run, name, case)}", highlight=False)
    return run


def _report_death(console: Console, *processes: Process) -> None:
    """Print the log of a process that has ended: it explains the missing events, and vanishes with the cluster."""
    for process in processes:
        if not process.running:
            console.print(f"{process.name} ended ({process.returncode}):\n{process.tail()}", style="red", markup=False)


def _conclude(console: Console, case: Case, runs: tuple[Run, Run], price: float, output: Path) -> None:
    console.print()
    console.print(stage.table(runs, price))
    console.print(f"Timeline: {output}", highlight=False)
    complaints = outcome.complaints(*runs, case)
    for sentence in complaints:
        console.print(f"Not as expected: {sentence}", style="red", markup=False)
    if complaints:
        raise typer.Exit(1)


def main(args: Sequence[str] | None = None) -> None:
    app(args=sys.argv[1:] if args is None else list(args), prog_name="muster demo")


if __name__ == "__main__":
    main()
