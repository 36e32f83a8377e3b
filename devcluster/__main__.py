"""`python -m devcluster`: a cluster to play with from another terminal, until Ctrl-C."""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from devcluster import binaries
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.muster import RunningMuster, install_gate, install_job_admission, install_pod_trials, start_muster
from devcluster.profiles import PROFILES
from devcluster.progress import Terminal
from extender.platforms.nodes import PLATFORMS

_LOOK_EVERY_S = 1.0
CLIQUE = "nvidia.com/gpu.clique"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    nodes: Annotated[int, typer.Option(min=0, help="How many simulated nodes to add.")] = 4,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs (nvidia.com/gpu) of each node; with --platform: its own.")] = 8,
    clique: Annotated[
        int,
        typer.Option(min=0, help="Nodes to an NVLink clique; 0: they have no such label. With --platform: its own."),
    ] = 4,
    platform: Annotated[
        str, typer.Option(help=f"Nodes as a platform has them, with its taints: {', '.join(PLATFORMS)}.")
    ] = "",
    scheduler: Annotated[bool, typer.Option(help="Also run a stock kube-scheduler.")] = True,
    muster: Annotated[bool, typer.Option("--muster", help="Also run Muster, installed as it ships.")] = False,
    kubernetes: Annotated[
        str | None, typer.Option(help=f"The minor version of Kubernetes to run: {', '.join(binaries.minors())}.")
    ] = None,
    profile: Annotated[
        str, typer.Option(help=f"How the API server is run, as in devcluster/profiles.py: {', '.join(PROFILES)}.")
    ] = "plain",
    build_only: Annotated[bool, typer.Option("--build-only", help="Build the programs and stop.")] = False,
) -> None:
    """Run a real Kubernetes control plane on loopback, with nodes that kwok simulates, until Ctrl-C.

    The first start builds the programs from source, which takes minutes; later starts take seconds.
    Pods run at once, and succeed after the duration in their annotation devcluster.muster.dev/run-for ("30s").
    """
    if platform and platform not in PLATFORMS:
        raise typer.BadParameter(
            f"there is no platform {platform}; there are {', '.join(PLATFORMS)}", param_hint="--platform"
        )
    progress = Terminal()
    if profile not in PROFILES:
        raise typer.BadParameter(f"one of {', '.join(PROFILES)}", param_hint="--profile")
    if kubernetes is not None:
        os.environ[binaries.ASKED_BY] = kubernetes
    try:
        if build_only:
            binaries.locate(progress)
            return
        _run(progress, profile, nodes, gpus, clique, platform, scheduler=scheduler, muster=muster)
    except ClusterError as error:
        progress.done()
        typer.secho(f"devcluster: {error}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:  # before the cluster was up
        progress.done()
        raise typer.Exit(130) from None


def _run(
    progress: Terminal,
    profile: str,
    nodes: int,
    gpus: int,
    clique: int,
    platform: str,
    *,
    scheduler: bool,
    muster: bool,
) -> None:
    for ending in (signal.SIGINT, signal.SIGTERM):  # both are a Ctrl-C, also while starting and in the background
        signal.signal(ending, signal.default_int_handler)
    with Cluster(progress, profile=profile) as cluster:
        if scheduler:
            progress("starting kube-scheduler")
            cluster.start_scheduler()
        if nodes:
            progress(f"adding {nodes} nodes")
            if platform:
                cluster.add_nodes(nodes, platform=platform)
            else:
                cluster.add_nodes(
                    nodes, gpus=gpus, labels=lambda i: {CLIQUE: f"clique-{i // clique}"} if clique else {}
                )
        programs = [cluster.binary("kubectl").parent, Path(sys.executable).parent]
        running = None
        exports = [f"export KUBECONFIG={cluster.kubeconfig}"]
        if muster:
            progress("starting Muster")
            running = start_muster(cluster)
            exports.append(f"export MUSTER_URL={running.url}")
            install_gate(cluster)
            install_job_admission(cluster)
            install_pod_trials(cluster)
        progress.done()
        for line in (*exports, f"export PATH={':'.join(map(str, programs))}:$PATH"):
            typer.echo(line)
        typer.echo(f"# {nodes} nodes, logs in {cluster.directory / 'logs'}; Ctrl-C stops everything", err=True)
        stopped = threading.Event()
        if running is not None:
            threading.Thread(target=_tell_of_ends, args=(running, stopped), daemon=True).start()
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            typer.echo("stopping", err=True)
        finally:
            stopped.set()


def _tell_of_ends(muster: RunningMuster, stopped: threading.Event) -> None:
    """Say it when the extender or its kube-scheduler has ended: nothing else shows it on this terminal."""
    told: set[str] = set()
    while not stopped.wait(_LOOK_EVERY_S):
        for name, process in (("Muster's extender", muster.extender), ("Muster's kube-scheduler", muster.scheduler)):
            if not process.running and name not in told:
                told.add(name)
                typer.secho(f"{name} has ended: its log is {process.log}", err=True, fg=typer.colors.RED)


if __name__ == "__main__":
    app(prog_name="python -m devcluster")
