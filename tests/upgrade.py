"""`make upgrade`: the test of upgrades in every order of its steps, from any commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from devcluster.errors import ClusterError
from devcluster.progress import Terminal
from devcluster.releases import release_of
from tests.integration.test_upgrade import ALL, EARLIER, FROM

ROOT = Path(__file__).parent.parent
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    commit: Annotated[str, typer.Option("--from", help="The commit that is upgraded from.")] = EARLIER,
) -> None:
    """Upgrade from an earlier commit to this checkout and back, on a real control plane, in each order of the steps."""
    progress = Terminal()
    try:
        release_of(commit, progress)
    except ClusterError as error:
        progress.done()
        typer.secho(f"upgrade: {error}", err=True, fg="red")
        raise typer.Exit(1) from None
    progress.done()
    env = {**os.environ, FROM: commit, ALL: "1", "GOGC": "400"}
    argv = [sys.executable, "-m", "pytest", "-v", "--durations=0", "tests/integration/test_upgrade.py"]
    raise typer.Exit(subprocess.run(argv, cwd=ROOT, env=env, check=False).returncode)


if __name__ == "__main__":
    app(prog_name="make upgrade")
