"""`python -m devcluster.controllers NAME ...`: a cluster with these controllers to play with, until Ctrl-C.

With `--build-only` and no name it builds all of them.
"""

import signal
import threading
from typing import Annotated, NoReturn

import typer

from devcluster.cluster import Cluster
from devcluster.controllers import CATALOGUE, build_controller, start_controller
from devcluster.errors import ClusterError
from devcluster.progress import Terminal

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Of {', '.join(CATALOGUE)}.")] = None,
    nodes: Annotated[int, typer.Option(min=0, help="How many simulated nodes to add, of 8 GPUs each.")] = 4,
    build_only: Annotated[bool, typer.Option("--build-only", help="Build them, or all of them, and stop.")] = False,
) -> None:
    """Run a control plane on loopback with a stock kube-scheduler and these controllers, until Ctrl-C.

    The first start builds the programs from source, which takes minutes; later starts take seconds.
    """
    progress = Terminal()
    if not names and not build_only:
        _refuse("name a controller")
    if unknown := [name for name in names or () if name not in CATALOGUE]:
        _refuse(f"unknown controller {unknown[0]}")
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    try:
        if build_only:
            for name in names or CATALOGUE:
                build_controller(CATALOGUE[name], progress)
            progress.done()
            return
        with Cluster(progress) as cluster:
            cluster.start_scheduler()
            cluster.add_nodes(nodes)
            for name in names or ():
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


def _refuse(why: str) -> NoReturn:
    typer.secho(f"{why}; there are {', '.join(CATALOGUE)}", err=True, fg="red")
    raise typer.Exit(2)


if __name__ == "__main__":
    app(prog_name="python -m devcluster.controllers")
