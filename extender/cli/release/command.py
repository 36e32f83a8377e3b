"""`muster release`: show what would go back to how its author wrote it, and with --yes write it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from extender.cli.inspection.commands import show
from extender.cli.inspection.options import As, Context, Kubeconfig, Output
from extender.cli.release.steps import Planner, Step
from extender.cli.release.work import ReleaseError, Survey, await_end, carry_out, survey
from extender.cli.terminal import grid, plain, stop, stop_on
from extender.config.settings import Settings, SettingsError, load
from extender.kube.client import CredentialsError, Kube
from extender.kube.kinds.own import own_kinds
from extender.kube.kinds.registry import Registry
from policies.words import many


def release(
    everything: Annotated[bool, typer.Option("--all", help="Everything that waits, in all namespaces.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do it. Without, nothing is written.")] = False,
    unsuspend: Annotated[
        bool, typer.Option("--unsuspend", help="Start the jobs that wait for Muster, all at once and without a plan.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also while Muster is running or its admission policies are in force.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="Muster's settings: scheduler_names, leader_election.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: As = Output.TABLE,
) -> None:
    """Give back what waits, before Muster is uninstalled.

    Plans come off suspended jobs, and Muster's gate and nominations off pods without a node. What runs is left alone.
    Without --yes nothing is written: what would be is shown.
    Exit code 0: done, 1: something could not be done, or not yet, 2: nothing was done.
    """
    if not everything:
        stop("say --all: Muster releases everything that waits, or nothing")
    with stop_on(ReleaseError, SettingsError, CredentialsError):
        settings = load(config)
        planner = Planner(settings.scheduler_names, Registry(own_kinds(settings.job_kinds)), unsuspend=unsuspend)
        facts, failed = asyncio.run(_run(Kube.connect(kubeconfig, context), settings, planner, write=yes, force=force))
    objects = [_row(step, failed.get(step)) for step in facts.steps]
    show({"objects": objects, "unreadable": facts.unreadable}, output, lambda out: show_steps(objects, facts, out))
    if not yes:
        if why := facts.obstacle():
            typer.secho(f"nothing was written, and --yes would be refused: {why}", err=True, fg="yellow")
        else:
            typer.echo("nothing was written; --yes does it", err=True)
    again = yes and any(step.again for step in facts.steps)
    raise typer.Exit(1 if failed or facts.unreadable or again else 0)


async def _run(
    connecting: Awaitable[Kube], settings: Settings, planner: Planner, *, write: bool, force: bool
) -> tuple[Survey, dict[Step, str]]:
    kube = await connecting
    try:
        facts = await survey(kube, planner, settings.leader_election)
        if not write:
            return facts, {}
        if not force and facts.leader is not None:
            typer.echo(f"waiting for the Lease of {facts.leader.holder} to run out", err=True)
            await await_end(kube, facts, settings.leader_election)
        if not force and (why := facts.obstacle()):
            raise ReleaseError(why)
        return facts, await _write(kube, [step for step in facts.steps if step.write is not None])
    finally:
        await kube.close()


async def _write(kube: Kube, steps: list[Step]) -> dict[Step, str]:
    """Carry out the steps, with a progress bar on a terminal."""
    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as bar:
        task = bar.add_task("releasing", total=len(steps))
        return await carry_out(kube, steps, lambda: bar.advance(task))


def _row(step: Step, problem: str | None) -> dict[str, Any]:
    row = {"namespace": step.namespace, "kind": step.kind, "name": step.name, "changes": step.write is not None}
    return row | {"says": list(step.says)} | ({"failed": problem} if problem is not None else {})


def show_steps(objects: list[dict[str, Any]], facts: Survey, out: Console) -> None:
    """Write what is done to each object, then how many there are."""
    rows = [
        (
            row["namespace"],
            row["kind"],
            row["name"],
            plain(f"failed: {row['failed']}", "red") if "failed" in row else "; ".join(row["says"]),
        )
        for row in objects
    ]
    if rows:
        out.print(grid(("NAMESPACE", "KIND", "NAME", "WHAT BECOMES OF IT"), rows, below="WHAT BECOMES OF IT"))
    for problem in facts.unreadable:
        out.print(plain(f"left alone, cannot be read: {problem}", "yellow"))
    changes = sum(1 for row in objects if row["changes"])
    out.print(
        f"{many(changes, 'object')} to be changed, {many(len(objects) - changes, 'object')} to be left as they are"
    )
