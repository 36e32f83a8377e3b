"""`muster explain`, `gangs`, `domains`, `queues` and `defrag`: ask the running Muster and show its answer."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar

import typer
import yaml
from pydantic_core import to_jsonable_python
from rich.console import Console

from extender.api.models import ComputeDomainView, DefragView, DomainStock, Explanation, GangView, QueueView
from extender.cli.inspection import completion, tables
from extender.cli.inspection.kubeconfig import home
from extender.cli.inspection.names import NameProblemError, chosen, known_of, readings
from extender.cli.inspection.objects import explained_by_objects
from extender.cli.inspection.options import ListAs, ListOutput, Output, Watch, reaching
from extender.cli.inspection.queue_tree import QueueNameError, chosen_queues, name_of, show_queues
from extender.cli.inspection.reach import MisdirectedError, Muster, RefusedError, UnreachableError, Way, kubectl, reach
from extender.cli.terminal import console, plain, stop, stop_on

EVERY_S = 2.0
"""How often --watch asks again."""
pause = time.sleep
AnswerT = TypeVar("AnswerT")

Workload = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A gang, NAMESPACE/GANG, a job, KIND/NAME (job/train, pod/train-0), or NAMESPACE/KIND/NAME.",
        autocompletion=completion.gangs,
    ),
]
Home = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of the gang; default: that of the kubeconfig's context.",
        autocompletion=completion.namespaces,
    ),
]


@reaching
def explain(way: Way, gang: Workload, namespace: Home = None, output: ListAs = ListOutput.TABLE) -> None:
    """Show why a gang waits or where it runs, and what to do.

    Shows its state, the room in every domain and its history.
    If Muster cannot be reached, the Events and pods of the gang are shown instead.
    """
    with stop_on(NameProblemError):
        explanation = _explanation(way, gang, namespace)
    name = f"{explanation.gang.namespace}/{explanation.gang.name}"
    show(explanation, output, lambda out: tables.show_explanation(explanation, out), [name])


@reaching
def defrag(
    way: Way,
    gang: Workload,
    namespace: Home = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Needed: the moves are shown, and none is made.")] = False,
    output: ListAs = ListOutput.TABLE,
) -> None:
    """Show which workloads would have to move for a waiting gang.

    Only workloads with the annotation muster.dev/restartable: "true" are considered. Nothing is moved.
    Exit code 0: they are listed. 1: no moves would help; the reason is shown. 2: the gang cannot be asked about.
    """
    if not dry_run:
        stop("muster defrag shows moves and makes none: add --dry-run")
    default = home(way.kubeconfig, way.context)
    with stop_on(NameProblemError):
        view: DefragView = _answer_or_stop(
            way, lambda muster: _of_gang(gang, namespace, default, muster, muster.defrag)
        )
    show(view, output, lambda out: tables.show_defrag(view, out), [move.workload for move in view.moves])
    if view.why_not:
        raise typer.Exit(1)


@reaching
def gangs(
    way: Way,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Only gangs of this namespace.", autocompletion=completion.namespaces),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="Gangs of all namespaces; this is the default.")
    ] = False,
    state: Annotated[
        str | None, typer.Option(help="Only gangs in this state, as in NoRoom.", autocompletion=completion.states)
    ] = None,
    waiting: Annotated[bool, typer.Option("--waiting", help="Only gangs of which some members wait.")] = False,
    idle: Annotated[bool, typer.Option("--idle", help="Only gangs that leave their GPUs idle.")] = False,
    watch: Watch = False,
    output: ListAs = ListOutput.TABLE,
) -> None:
    """List all gangs with their members and the reason of each.

    Without --namespace, gangs of all namespaces are listed.
    """
    if all_namespaces and namespace is not None:
        stop("--all-namespaces and --namespace contradict each other: leave one of them out")
    wanted = None if state is None else _state(state)

    def ask_gangs(muster: Muster) -> list[GangView]:
        return [
            gang
            for gang in muster.gangs()
            if (namespace is None or gang.namespace == namespace)
            and wanted in (None, gang.state)
            and not (waiting and gang.state in ("Running", "Ended") and not gang.waiting)
            and (not idle or tables.is_idle(gang))
        ]

    def shown(views: Sequence[GangView]) -> None:
        names = (f"{gang.namespace}/{gang.name}" for gang in views)
        show(views, output, lambda out: tables.show_gangs(views, out), names)

    _follow(way, ask_gangs, shown, output, watch=watch)


@reaching
def domains(
    way: Way,
    level: Annotated[
        str | None,
        typer.Option(help="Only this level, by its short name or label key.", autocompletion=completion.levels),
    ] = None,
    output: ListAs = ListOutput.TABLE,
) -> None:
    """List all topology domains with their nodes, devices and gangs."""

    def ask_stocks(muster: Muster) -> tuple[list[DomainStock], list[ComputeDomainView]]:
        every, of_nvidia = muster.domains(), muster.compute_domains()
        if level is None:
            return every, of_nvidia
        keys = {level.key: level.name for level in muster.topology().levels}
        known = dict.fromkeys(domain_stock.level for domain_stock in every)
        wanted = keys.get(level, level)
        if wanted not in known:
            called = ", ".join(f"{name} ({key})" for key, name in keys.items() if name in known)
            raise RefusedError(f'unknown level "{level}"; available: {called or "none"}', 404)
        return [domain_stock for domain_stock in every if domain_stock.level == wanted], of_nvidia

    domain_stocks, of_nvidia = _answer_or_stop(way, ask_stocks)
    names = (domain_stock.name for domain_stock in domain_stocks if domain_stock.name)
    show(domain_stocks, output, lambda out: tables.show_domains(domain_stocks, of_nvidia, out), names)


@reaching
def queues(
    way: Way,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="QUEUE",
            help="Only this ClusterQueue or cohort and what is in it, or this LocalQueue and its ClusterQueue.",
            autocompletion=completion.queues,
        ),
    ] = None,
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", "-n", help="Namespace of the LocalQueue.", autocompletion=completion.namespaces),
    ] = None,
    watch: Watch = False,
    output: ListAs = ListOutput.TABLE,
) -> None:
    """Show the queues, their quota and who waits in them.

    Cohorts are shown as a tree, with what each queue has of its own, uses, borrows and lends.
    Example: muster queues team-a --output json
    """

    def ask_queues(muster: Muster) -> list[QueueView]:
        return chosen_queues(muster.queues(), name, namespace, home(way.kubeconfig, way.context))

    def shown(views: Sequence[QueueView]) -> None:
        show(views, output, lambda out: show_queues(views, out), map(name_of, views))

    with stop_on(QueueNameError):
        _follow(way, ask_queues, shown, output, watch=watch)


def show(answer: Any, output: Output | ListOutput, draw: Callable[[Console], None], names: Iterable[str] = ()) -> None:
    """Write an answer, with ``draw`` as tables, or only its ``names``, one to a line."""
    match output.value:
        case "json":
            typer.echo(json.dumps(to_jsonable_python(answer), indent=2))
        case "yaml":
            typer.echo(yaml.safe_dump(to_jsonable_python(answer), sort_keys=False, allow_unicode=True), nl=False)
        case "name":
            for name in names:
                typer.echo(plain(name).plain)
        case _:
            draw(console(wide=output.value == "wide"))


def _state(text: str) -> str:
    """The state in Muster's own spelling. Stops the command if there is no such state."""
    from extender.observe.explain.remedies import CODES

    known = {code.lower(): code for code in CODES}
    if text.lower() not in known:
        nearest = known[get_close_matches(text.lower(), known, 1, 0.0)[0]]
        stop(f'unknown state "{text}"; did you mean {nearest}? docs/waiting.md explains all {len(known)}')
    return known[text.lower()]


def _of_gang(
    typed: str, namespace: str | None, default: str, muster: Muster, ask: Callable[[str, str], AnswerT]
) -> AnswerT:
    """Ask about the gang of that name, else about the workload with that name.

    Raises RefusedError, NameProblemError or UnreachableError.
    """
    way = readings(typed, namespace, default)[0]
    try:
        if not way.kind:
            return ask(way.namespace, way.name)
    except RefusedError as error:
        if error.status != 404:
            raise
    meant = chosen(typed, namespace, default, known_of(muster.gangs()))
    return ask(meant.namespace, meant.name)


def _explanation(way: Way, typed: str, namespace: str | None) -> Explanation:
    """Return the answer of Muster, else that of the cluster's objects. Raises NameProblemError."""
    default = home(way.kubeconfig, way.context)
    try:
        return _answer(way, lambda muster: _of_gang(typed, namespace, default, muster, muster.explanation))
    except (RefusedError, MisdirectedError) as error:
        stop(str(error))
    except UnreachableError as error:
        argv = kubectl(way)
        explanation = None if argv is None else explained_by_objects(argv, typed, namespace, default)
        if explanation is None:
            stop(str(error))
        typer.secho(f"{error}\nWhat follows is read from the pods and their Events.\n", err=True, fg="yellow")
        return explanation


def _follow(
    way: Way,
    question: Callable[[Muster], AnswerT],
    shown: Callable[[AnswerT], None],
    output: ListOutput,
    *,
    watch: bool,
) -> None:
    """Ask once, or with ``watch`` again and again: on a terminal the newest answer is shown, else each that differs."""
    if not watch:
        return shown(_answer_or_stop(way, question))
    if output in (ListOutput.JSON, ListOutput.YAML):
        stop("--watch shows tables or names: leave --output json or yaml out")
    before, silent = None, False
    with stop_on(RefusedError, MisdirectedError):
        while True:
            try:
                with reach(way) as muster:
                    while True:
                        answer, silent = question(muster), False
                        if (now := _lasting(to_jsonable_python(answer))) != before or console().is_terminal:
                            console().clear()
                            shown(answer)
                        before = now
                        pause(EVERY_S)
            except UnreachableError as error:
                if before is None:
                    stop(str(error))
                if not silent:
                    typer.secho(f"{error}; asking again", err=True, fg="yellow")
                silent = True
                pause(EVERY_S)


_PASSES = (
    *("for_s", "status_for_s", "story", "statuses", "waiting_on_nodes"),
    *("as_of", "earliest", "latest", "expected_start"),
)
"""Fields that change every second, or whenever expected starts are worked out."""


def _lasting(answer: Any) -> Any:
    """Return the answer without what changes with every second."""
    if isinstance(answer, list):
        return [_lasting(element) for element in answer]
    if isinstance(answer, dict):
        return {key: _lasting(value) for key, value in answer.items() if key not in _PASSES}
    return answer


def _answer_or_stop(way: Way, question: Callable[[Muster], AnswerT]) -> AnswerT:
    with stop_on(UnreachableError, RefusedError):
        return _answer(way, question)


def _answer(way: Way, question: Callable[[Muster], AnswerT]) -> AnswerT:
    """Ask Muster. Doubts about the answer go to the error output, so that JSON stays JSON."""
    with reach(way) as muster:
        answer = question(muster)
        if doubt := muster.doubt():
            typer.secho(f"{doubt}\n", err=True, fg="yellow")
        return answer
