"""`muster explain`, `muster gangs` and `muster domains`: ask the running Muster and show its answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any
from urllib.parse import quote

import typer
import yaml
from rich.console import Console

from extender.cli.inspection import tables
from extender.cli.inspection.objects import told_by_objects
from extender.cli.inspection.options import As, Output, reaching
from extender.cli.inspection.queue_tree import show_queues, within
from extender.cli.inspection.reach import Muster, RefusedError, UnreachableError, Way, kubectl, reach
from extender.cli.terminal import console, stop, stop_on


@reaching
def explain(
    way: Way,
    gang: Annotated[
        str,
        typer.Argument(metavar="NAMESPACE/GANG", help="Or the gang's name alone: in the namespace of -n, or default."),
    ],
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace of the gang.")] = None,
    output: As = Output.TABLE,
) -> None:
    """Show why a gang waits or where it runs, and what to do.

    Shows its state, the room in every domain and its history.
    If Muster cannot be reached, the Events and pods of the gang are shown instead.
    """
    told = _told(way, *_named(gang, namespace))
    show(told, output, lambda out: tables.show_explanation(told, out))


@reaching
def gangs(
    way: Way,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Only gangs of this namespace.")] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Gangs of all namespaces; this is the default.")
    ] = False,
    state: Annotated[str | None, typer.Option(help="Only gangs in this state, as in NoRoom.")] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only gangs of which some members wait.")] = False,
    output: As = Output.TABLE,
) -> None:
    """List all gangs with their members and the reason of each.

    Without --namespace, gangs of all namespaces are listed.
    """
    if all_namespaces and namespace is not None:
        stop("--all-namespaces and --namespace contradict each other: leave one of them out")
    if state is not None:
        state = _state(state)
    found = [
        one
        for one in _asked(way, lambda muster: muster.get("/gangs", list, "namespace"))
        if (namespace is None or one["namespace"] == namespace)
        and state in (None, one["state"])
        and not (waiting and one["state"] in ("Running", "Ended") and not one["waiting"])
    ]
    show(found, output, lambda out: tables.show_gangs(found, out))


@reaching
def domains(
    way: Way,
    level: Annotated[str | None, typer.Option(help="Only this level, by its short name.")] = None,
    output: As = Output.TABLE,
) -> None:
    """List all topology domains with their nodes, GPUs and gangs."""
    every = _asked(way, lambda muster: muster.get("/domains", list, "level"))
    known = list(dict.fromkeys(one["level"] for one in every))
    if level is not None and level not in known:
        stop(f'unknown level "{level}"; available: {", ".join(known) or "none"}')
    found = [one for one in every if level in (None, one["level"])]
    show(found, output, lambda out: tables.show_domains(found, out))


@reaching
def queues(
    way: Way,
    name: Annotated[
        str | None, typer.Argument(metavar="QUEUE", help="Only this ClusterQueue or cohort, and what is in it.")
    ] = None,
    output: As = Output.TABLE,
) -> None:
    """Show the queues, their quota and who waits in them.

    Cohorts are shown as a tree, with what each queue has of its own, uses, borrows and lends.
    Example: muster queues team-a --output json
    """
    every = _asked(way, lambda muster: muster.get("/queues", list, "kind"))
    found = within(every, name)
    if name is not None and not found:
        stop(f"there is no ClusterQueue or cohort {name}")
    show(found, output, lambda out: show_queues(found, out))


def show(told: Any, output: Output, draw: Callable[[Console], None]) -> None:
    """Write an answer, with ``draw`` as tables."""
    match output:
        case Output.JSON:
            typer.echo(json.dumps(told, indent=2))
        case Output.YAML:
            typer.echo(yaml.safe_dump(told, sort_keys=False, allow_unicode=True), nl=False)
        case Output.TABLE:
            draw(console())


def _state(said: str) -> str:
    """As Muster writes it."""
    from extender.observe.explain.remedies import CODES

    known = {one.lower(): one for one in CODES}
    if said.lower() not in known:
        close = get_close_matches(said.lower(), known, 1)
        meant = f"did you mean {known[close[0]]}?" if close else f"there are {', '.join(sorted(known.values()))}"
        stop(f'unknown state "{said}"; {meant}')
    return known[said.lower()]


def _named(gang: str, namespace: str | None) -> tuple[str, str]:
    where, slash, name = gang.partition("/")
    if not slash:
        where, name = namespace or "default", gang
    elif namespace is not None and namespace != where:
        stop(f"{gang} is in namespace {where}, and --namespace says {namespace}: leave one of them out")
    if not where or not name:
        stop(f"{gang!r} is not the name of a gang: write NAMESPACE/GANG, or GANG with --namespace")
    return where, name


def _explained(muster: Muster, namespace: str, name: str) -> Any:
    try:
        return muster.get(f"/explain/{quote(namespace, safe='')}/{quote(name, safe='')}", dict, "gang")
    except RefusedError as error:
        if error.status != 404:
            raise
        others = [one["name"] for one in muster.get("/gangs", list, "namespace") if one["namespace"] == namespace]
        listed = f"; gangs there: {', '.join(others[:10])}" if others else f"; namespace {namespace} has none"
        raise RefusedError(f"{error}{listed}", error.status) from None


def _told(way: Way, namespace: str, name: str) -> Any:
    """What Muster says, else what the cluster's objects say."""
    try:
        return _answer(way, lambda muster: _explained(muster, namespace, name))
    except RefusedError as error:
        stop(str(error))
    except UnreachableError as error:
        argv = kubectl(way) if way.url is None else None
        told = None if argv is None else told_by_objects(argv, namespace, name)
        if told is None:
            stop(str(error))
        typer.secho(f"{error}\nWhat follows is read from the pods and their Events.\n", err=True, fg="yellow")
        return told


def _asked(way: Way, question: Callable[[Muster], Any]) -> Any:
    with stop_on(UnreachableError, RefusedError):
        return _answer(way, question)


def _answer(way: Way, question: Callable[[Muster], Any]) -> Any:
    """What there is to doubt is said on the error output: what is asked for as JSON stays JSON."""
    with reach(way) as muster:
        told = question(muster)
        if doubt := muster.doubt():
            typer.secho(f"{doubt}\n", err=True, fg="yellow")
        return told
