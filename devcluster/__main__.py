"""`python -m devcluster`: a cluster to play with from another terminal, until Ctrl-C."""

import signal
import threading
from typing import Annotated

import typer

from devcluster import binaries
from devcluster.cluster import Cluster
from devcluster.errors import ClusterError
from devcluster.progress import Terminal

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    nodes: Annotated[int, typer.Option(min=0, help="How many simulated nodes to add.")] = 4,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs (nvidia.com/gpu) of each node.")] = 8,
    scheduler: Annotated[bool, typer.Option(help="Also run a stock kube-scheduler.")] = True,
    build_only: Annotated[bool, typer.Option("--build-only", help="Build the programs and stop.")] = False,
) -> None:
    """Run a real Kubernetes control plane on loopback, with nodes that kwok simulates, until Ctrl-C.

    The first start builds the programs from source, which takes minutes; later starts take seconds.
    Pods run at once, and succeed after the duration in their annotation devcluster.muster.dev/run-for ("30s").
    """
    progress = Terminal()
    try:
        if build_only:
            binaries.locate(progress)
            return
        _run(progress, nodes, gpus, scheduler=scheduler)
    except ClusterError as error:
        progress.done()
        typer.secho(f"devcluster: {error}", err=True, fg=typer.colors.RED)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:  # before the cluster was up
        progress.done()
        raise typer.Exit(130) from None


def _run(progress: Terminal, nodes: int, gpus: int, *, scheduler: bool) -> None:
    for ending in (signal.SIGINT, signal.SIGTERM):  # both are a Ctrl-C, also while starting and in the background
        signal.signal(ending, signal.default_int_handler)
    with Cluster(progress) as cluster:
        if scheduler:
            progress("starting kube-scheduler")
            cluster.start_scheduler()
        if nodes:
            progress(f"adding {nodes} nodes")
            cluster.add_nodes(nodes, gpus=gpus)
        progress.done()
        typer.echo(f"export KUBECONFIG={cluster.kubeconfig}")
        typer.echo(f"export PATH={cluster.binary('kubectl').parent}:$PATH")
        typer.echo(f"# {nodes} nodes, logs in {cluster.directory / 'logs'}; Ctrl-C stops everything", err=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            typer.echo("stopping", err=True)


if __name__ == "__main__":
    app(prog_name="python -m devcluster")
