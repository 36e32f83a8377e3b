"""`muster hold`, `resume`, `requeue` and `evict`: one workload each, by the caller's own rights in the cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from extender.cli.act.acts import Act, carry_out, evict, hold, outcome, requeue, resume, summary
from extender.cli.act.target import ActError, Target, check_queue, find
from extender.cli.inspection import completion
from extender.cli.inspection.commands import Home, Workload, show
from extender.cli.inspection.kubeconfig import home
from extender.cli.inspection.options import As, Context, Kubeconfig, Output, sharing
from extender.cli.terminal import plain, stop, stop_on
from extender.config.settings import SettingsError, load
from extender.kube.client import CredentialsError, Kube
from extender.kube.kinds.own import own_kinds
from extender.kube.kinds.registry import Registry

DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done; the API server checks it.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal whether to stop what runs.")]
Config = Annotated[Path | None, typer.Option(help="Muster's settings: job_kinds.")]
Plan = Callable[["Found"], Awaitable[Act]]


@dataclass(frozen=True)
class Found:
    """The workload, and the means to read what else an act needs."""

    target: Target
    kube: Kube
    registry: Registry


@dataclass(frozen=True)
class _Way:
    """The options of all acts: where the workload is, whether to write, and how to report."""

    namespace: str | None
    dry_run: bool
    config: Path | None
    kubeconfig: Path | None
    context: str | None
    output: Output


def _way(
    namespace: Home = None,
    dry_run: DryRun = False,
    config: Config = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: As = Output.TABLE,
) -> _Way:
    return _Way(namespace, dry_run, config, kubeconfig, context, output)


_acting = sharing(_way)


@_acting
def hold_command(way: _Way, workload: Workload) -> None:
    """Keep a job from being started.

    A job that waits stays suspended until `muster resume`. One that runs goes on, and does not start again.
    Exit code 0: done. 2: nothing was done.
    """

    async def plan(given: Found) -> Act:
        return hold(given.target)

    _act(plan, workload, way, yes=True)


@_acting
def resume_command(way: _Way, workload: Workload) -> None:
    """Let a job go that is held.

    It waits for its turn. Exit code 0: done. 2: nothing was done.
    """

    async def plan(given: Found) -> Act:
        return resume(given.target)

    _act(plan, workload, way, yes=True)


@_acting
def requeue_command(
    way: _Way,
    workload: Workload,
    queue: Annotated[
        str | None,
        typer.Option(help="Wait in this LocalQueue from now on.", autocompletion=completion.local_queues),
    ] = None,
    yes: Yes = False,
) -> None:
    """Put a job back in the line.

    A job that runs is stopped first. A hold ends, and so do the pauses after attempts that have failed. Its place in
    the line is by priority and age, as before. Exit code 0: done. 2: nothing was done.
    """

    async def plan(given: Found) -> Act:
        act = requeue(given.target, queue, await given.kube.clock() or datetime.now(UTC))
        if queue is not None:
            await check_queue(given.kube, given.target.known.namespace, queue)
        return act

    _act(plan, workload, way, yes=yes)


@_acting
def evict_command(
    way: _Way,
    workload: Workload,
    held: Annotated[
        bool, typer.Option("--hold", help="Hold it, too: it does not start again before `muster resume`.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Stop a workload and take its room back.

    A job is suspended as a whole, and waits for its turn again. The pods of any other gang are evicted, all or none:
    where a PodDisruptionBudget protects one of them, nothing is done.
    Exit code 0: done. 1: some pods could not be evicted. 2: nothing was done.
    """

    async def plan(given: Found) -> Act:
        return await evict(given.target, given.kube, given.registry, held=held)

    _act(plan, workload, way, yes=yes)


def _act(plan: Plan, typed: str, way: _Way, *, yes: bool) -> None:
    with stop_on(ActError, SettingsError, CredentialsError):
        registry = Registry(own_kinds(load(way.config).job_kinds))
        target, act, failed = asyncio.run(_run(plan, typed, way, registry, yes=yes))
    show(
        outcome(act, target, failed, dry_run=way.dry_run),
        way.output,
        lambda out: _lines(act, target, failed, out, dry_run=way.dry_run),
    )
    if way.dry_run:
        typer.echo("nothing was written: this was a dry run", err=True)
    raise typer.Exit(1 if failed else 0)


async def _run(
    plan: Plan, typed: str, way: _Way, registry: Registry, *, yes: bool
) -> tuple[Target, Act, dict[str, str]]:
    place = home(way.kubeconfig, way.context)
    kube = await Kube.connect(way.kubeconfig, way.context)
    try:
        target = await find(kube, typed, way.namespace, place, registry)
        act = await plan(Found(target, kube, registry))
        if act.stops and not (way.dry_run or yes) and sys.stdin.isatty() and sys.stdout.isatty():
            _ask(act)
        return target, act, await carry_out(act, kube, dry_run=way.dry_run)
    finally:
        await kube.close()


def _ask(act: Act) -> None:
    for write in act.writes:
        typer.echo(plain(f"{write.what} {write.says}").plain, err=True)
    for note in act.notes:
        typer.secho(plain(note).plain, err=True, fg="yellow")
    if not typer.confirm("Go on?", err=True):
        stop("nothing was done")


def _lines(act: Act, target: Target, failed: dict[str, str], out: Console, *, dry_run: bool) -> None:
    """Print a line for each object, then what follows."""
    where, tried = target.known.namespace, " (dry run)" if dry_run else ""
    for write in act.writes:
        why = failed.get(write.what)
        out.print(
            plain(f"{where}: {write.what} {write.says}{tried}")
            if why is None
            else plain(f"{where}: failed: {why}", "red")
        )
    for note in act.notes:
        out.print(plain(note, "yellow"))
    if failed:
        out.print(plain(summary(act, failed), "yellow"))
    elif act.then:
        out.print(plain(act.then))
