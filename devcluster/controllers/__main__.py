"""`python -m devcluster.controllers NAME ...`: a cluster with these controllers to play with, until Ctrl-C."""

import signal
import threading
from typing import Annotated

import typer

from devcluster.cluster import Cluster
from devcluster.controllers import CATALOGUE, start_controller
from devcluster.errors import ClusterError
from devcluster.progress import Terminal

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str], typer.Argument(help=f"Of {', '.join(CATALOGUE)}.")],
    nodes: Annotated[int, typer.Option(min=0, help="How many simulated nodes to add, of 8 GPUs each.")] = 4,
) -> None:
    """Run a control plane on loopback with a stock kube-scheduler and these controllers, until Ctrl-C.

    The first start builds the programs from source, which takes minutes; later starts take seconds.
    """
    progress = Terminal()
    if unknown := [name for name in names if name not in CATALOGUE]:
        typer.secho(f"unknown controller {unknown[0]}; there are {', '.join(CATALOGUE)}", err=True, fg="red")
        raise typer.Exit(2)
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        with Cluster(progress) as cluster:
            cluster.start_scheduler()
            cluster.add_nodes(nodes)
            for name in names:
                if all(process.name != name for process in cluster.processes):
                    start_controller(cluster, name, progress)
            progress.done()
            typer.echo(f"export KUBECONFIG={cluster.kubeconfig}")
            typer.echo(f"export PATH={cluster.binary('kubectl').parent}:$PATH")
            typer.echo(f"# logs in {cluster.directory / 'logs'}; Ctrl-C stops everything", err=True)
            threading.Event().wait()
    except ClusterError as error:
        progress.done()
        typer.secho(f"devcluster: {error}", err=True, fg="red")
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        progress.done()


if __name__ == "__main__":
    app(prog_name="python -m devcluster.controllers")
