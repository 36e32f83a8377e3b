"""`make image`: build the image of the Dockerfile in a Debian root, and run it as a pod on a real control plane.

Needs root, and a machine that reaches Debian's mirror and PyPI. The first build takes three minutes.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from devcluster import Cluster
from devcluster.muster import NAMESPACE, install
from devcluster.progress import Terminal
from tests.image import pod as pods
from tests.image.building import built
from tests.image.dockerfile import UnknownInstructionError
from tests.image.roots import BuildError, CannotError, cache

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    fresh: Annotated[bool, typer.Option("--fresh", help="Fetch Debian's packages anew, instead of the cache.")] = False,
    build_only: Annotated[bool, typer.Option("--build-only", help="Build and measure, and run nothing.")] = False,
) -> None:
    """Build the image of the Dockerfile in a Debian root, without Docker, and run it on a real control plane."""
    progress, began = Terminal(), time.monotonic()
    if fresh:
        shutil.rmtree(cache(), ignore_errors=True)
    try:
        image = built(progress)
    except (BuildError, CannotError, UnknownInstructionError) as error:
        progress.done()
        typer.secho(f"the image cannot be built here: {error}", err=True, fg="red")
        raise typer.Exit(1) from None
    progress.done()
    typer.echo(f"built in {time.monotonic() - began:.0f} s; the file system has {image.megabytes()} MB")
    if not build_only:
        with Cluster(progress=progress) as cluster, TemporaryDirectory() as directory:
            progress("Installing the manifests")
            install(cluster)
            identity = pods.identity_of(cluster, NAMESPACE, "muster-extender", Path(directory))
            progress.done()
            pod = pods.Pod(image, cluster.server.removeprefix("https://"), identity, cluster.free_port())
            with pod.serving() as process:
                output = pod.until("readinessProbe", process)
                typer.echo(f"as {image.user} on a read-only file system it is ready: {output}")
                typer.echo(f"after SIGTERM it ends with exit code {pods.end(process)}")


if __name__ == "__main__":
    sys.exit(app())
