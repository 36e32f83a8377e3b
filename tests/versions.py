"""`make versions`: the rows of the table in docs/install.md that are about older versions of Kubernetes.

The suite itself runs on the newest (`make test`). Programs are built on first use, ten minutes for each version.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated
from xml.etree import ElementTree

import typer

from devcluster import binaries
from devcluster.errors import ClusterError
from devcluster.progress import Terminal

ROOT = Path(__file__).parent.parent
INTEGRATION = "tests/integration"
TRIED = {
    "1.36": (INTEGRATION,),
    "1.35": tuple(
        f"{INTEGRATION}/test_{name}.py"
        for name in ("scenarios", "jobs", "older_jobs", "queues", "preemption", "kube_preemption")
    ),
    "1.34": (f"{INTEGRATION}/test_scenarios.py",),
}
"""Minor version -> the tests that run on it: all, those of gangs, queues and preemption, or those of gangs."""

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    only: Annotated[list[str] | None, typer.Option(help=f"Of {', '.join(TRIED)}; all of them by default.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="How many test files run at once.")] = 3,
) -> None:
    """Run the integration tests on older versions of Kubernetes, and print what passed on each."""
    if unknown := [name for name in only or () if name not in TRIED]:
        typer.secho(f"versions: {unknown[0]} is not tried; choose of {', '.join(TRIED)}", err=True, fg="red")
        raise typer.Exit(2)
    rows = []
    for minor in only or TRIED:
        os.environ[binaries.ASKED_BY] = minor
        progress = Terminal()
        try:
            binaries.locate(progress)
        except ClusterError as error:
            progress.done()
            typer.secho(f"versions: {error}", err=True, fg="red")
            raise typer.Exit(1) from None
        progress.done()
        rows.append(_try(minor, workers))
    typer.echo("\n| Kubernetes | passed | failed | skipped | minutes | command |\n|---|---|---|---|---|---|")
    for row in rows:
        typer.echo(f"| {' | '.join(map(str, row))} |")
    raise typer.Exit(any(row[2] for row in rows))


def _try(minor: str, workers: int) -> tuple[str, int, int, int, int, str]:
    """Run its tests. Returns version, passed, failed, skipped, minutes and command."""
    version = binaries.kubernetes_version()
    typer.echo(f"== Kubernetes {version}")
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadfile", f"--junitxml={report}"]
        done = subprocess.run([*command, *TRIED[minor]], cwd=ROOT, env={**os.environ, "GOGC": "400"}, check=False)
        if not report.exists():
            raise typer.Exit(done.returncode)
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))  # noqa: S314 - pytest has written it
    count = {name: int(suite.get(name, "0")) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    minutes = round((time.monotonic() - began) / 60)
    return version, passed, failed, count["skipped"], minutes, f'`make versions ARGS="--only {minor}"`'


if __name__ == "__main__":
    app(prog_name="make versions")
