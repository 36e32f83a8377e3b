"""`python -m devcluster`: a cluster to play with from another terminal, until Ctrl-C."""

import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from devcluster import binaries
from devcluster.cluster import Cluster
from devcluster.controllers import CATALOGUE, start_controller
from devcluster.dashboard import RunningDashboard, make_viewer
from devcluster.errors import ClusterError
from devcluster.helm import build_helm
from devcluster.installed import InstalledMuster
from devcluster.muster import read_settings, start_muster_with
from devcluster.process import Process
from devcluster.profiles import PROFILES
from devcluster.progress import Terminal
from extender.cli.terminal import stop_on
from extender.config.settings import Settings, SettingsError
from extender.platforms.nodes import PLATFORMS

CLIQUE = "nvidia.com/gpu.clique"
_LOOK_EVERY_S, _LAST_LINES = 1.0, 5

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
    config: Annotated[
        Path | None,
        typer.Option(
            help="With --muster: a settings file (YAML), read over the shipped one. The components that its settings "
            "need are installed, too."
        ),
    ] = None,
    helm: Annotated[
        bool,
        typer.Option(
            "--helm", help="Also build helm, and run Muster once you install it by helm or by kubectl apply -k."
        ),
    ] = False,
    controllers: Annotated[
        str, typer.Option(help=f"Also run controllers of jobs, with commas between: {', '.join(CATALOGUE)}.")
    ] = "",
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
    names = [name.strip() for name in controllers.split(",") if name.strip()]
    _check(platform, profile, names, config, muster=muster, helm=helm)
    progress = Terminal()
    if kubernetes is not None:
        os.environ[binaries.ASKED_BY] = kubernetes
    with stop_on(SettingsError):
        chosen = read_settings(config)
    try:
        built = build_helm(progress) if helm else None
        if build_only:
            binaries.locate(progress)
            return
        settings = chosen if muster else None
        _run(progress, profile, nodes, gpus, clique, platform, names, settings, built, scheduler=scheduler)
    except ClusterError as error:
        progress.done()
        typer.secho(f"devcluster: {error}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:  # before the cluster was up
        progress.done()
        raise typer.Exit(130) from None


def _check(
    platform: str, profile: str, controllers: Sequence[str], config: Path | None, *, muster: bool, helm: bool
) -> None:
    """Raise BadParameter for options that mean nothing, before anything starts."""
    if platform and platform not in PLATFORMS:
        raise typer.BadParameter(
            f"there is no platform {platform}; there are {', '.join(PLATFORMS)}", param_hint="--platform"
        )
    if profile not in PROFILES:
        raise typer.BadParameter(f"one of {', '.join(PROFILES)}", param_hint="--profile")
    if unknown := [name for name in controllers if name not in CATALOGUE]:
        raise typer.BadParameter(
            f"there is no controller {unknown[0]}; there are {', '.join(CATALOGUE)}", param_hint="--controllers"
        )
    if config is not None and not muster:
        raise typer.BadParameter("goes with --muster, whose settings it has", param_hint="--config")
    if helm and muster:
        raise typer.BadParameter("you install Muster yourself, and --muster installs it", param_hint="--helm")


def _run(
    progress: Terminal,
    profile: str,
    nodes: int,
    gpus: int,
    clique: int,
    platform: str,
    controllers: Sequence[str],
    settings: Settings | None,
    helm: Path | None,
    *,
    scheduler: bool,
) -> None:
    """``settings``: Muster's; None: it does not run. ``helm``: the program with which the user installs Muster."""
    for ending in (signal.SIGINT, signal.SIGTERM):  # both are a Ctrl-C, also while starting and in the background
        signal.signal(ending, signal.default_int_handler)
    with Cluster(progress, profile=profile) as cluster:
        if scheduler:
            progress("starting kube-scheduler")
            cluster.start_scheduler()
        if nodes:
            progress(f"adding {nodes} nodes")
            _add_nodes(cluster, nodes, gpus, clique, platform)
        # Before Muster, which looks for new kinds every 30 s.
        for name in controllers:
            if all(process.name != name for process in cluster.processes):
                start_controller(cluster, name, progress)
        programs = [cluster.binary("kubectl").parent, Path(sys.executable).parent]
        exports = [f"export KUBECONFIG={cluster.kubeconfig}"]
        installed = None
        if settings is not None:
            progress("starting Muster")
            exports += _start_muster(cluster, settings)
        if helm is not None:
            installed = InstalledMuster(cluster)
            exports.append(f"export MUSTER_URL={installed.url}")
            programs.append(helm.parent)
        progress.done()
        for line in (*exports, f"export PATH={':'.join(map(str, programs))}:$PATH"):
            typer.echo(line)
        typer.echo(f"# {nodes} nodes, logs in {cluster.directory / 'logs'}; Ctrl-C stops everything", err=True)
        try:
            _report(cluster.processes, installed)
        except KeyboardInterrupt:
            typer.echo("stopping", err=True)


def _start_muster(cluster: Cluster, settings: Settings) -> Iterator[str]:
    """Start Muster and its dashboard. Yields lines for a shell."""
    running = start_muster_with(cluster, settings, ["dashboard"])
    yield f"export MUSTER_URL={running.url}"
    dashboard = RunningDashboard(cluster)
    running.restart_extender(dashboard.settings)
    yield f"# the dashboard, at {dashboard.url}: muster ui --url {dashboard.url} --account {make_viewer(cluster)}"


def _add_nodes(cluster: Cluster, nodes: int, gpus: int, clique: int, platform: str) -> None:
    if platform:
        cluster.add_nodes(nodes, platform=platform)
    else:
        cluster.add_nodes(nodes, gpus=gpus, labels=lambda i: {CLIQUE: f"clique-{i // clique}"} if clique else {})


def _report(running: list[Process], installed: InstalledMuster | None) -> NoReturn:
    """Say of each process that ends by itself how it ended, with the last lines of its log, until Ctrl-C.

    Meanwhile run the pods of a Muster that is installed.
    """
    while True:
        for text in ended(running):
            typer.secho(text, err=True, fg=typer.colors.RED)
        for text in installed.play(running) if installed is not None else ():
            typer.echo(f"# {text}", err=True)
        threading.Event().wait(_LOOK_EVERY_S)


def ended(running: list[Process]) -> list[str]:
    """Remove the ended processes from the list, and return a text on each."""
    gone = [process for process in running if not process.running]
    running[:] = [process for process in running if process.running]
    return [
        f"{process.name} has ended (exit code {process.returncode}); the last lines of {process.log}:\n"
        f"{process.tail(_LAST_LINES)}"
        for process in gone
    ]


if __name__ == "__main__":
    app(prog_name="python -m devcluster")
