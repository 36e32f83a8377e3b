"""`muster simulate`: reads what is given, lets the schedulers play it, and shows, keeps and draws what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table as RichTable

from extender.config import Settings, SettingsError, load
from extender.core.scheduler import Scheduler
from extender.core.state import Limits
from extender.simulate.arrivals import Arrival, at_load, offered_load, window_s
from extender.simulate.contest import Case, Tell, misfits, run
from extender.simulate.course import Terms
from extender.simulate.page import page
from extender.simulate.report import Input, Table, as_json, tables
from extender.simulate.scenario import read_scenario
from extender.simulate.shape import InputError, Pool, gpus_of, nodes_of, pools_from, words
from extender.simulate.trace import Layout, read_trace
from extender.simulate.whatif import tables as snapshot_tables

main = typer.Typer(name="muster simulate", add_completion=False, pretty_exceptions_enable=False)

_ELASTICFLOW = Layout()
_NEVER_S = 1e12
_BY_DEFAULT = ("kube-scheduler", "fifo", "muster", "ideal")


@dataclass(frozen=True)
class Jobs:
    """What is to be simulated, wherever it came from."""

    title: str
    arrivals: list[Arrival]
    pools: list[Pool]
    terms: Terms


@main.command()
def simulate(
    trace: Annotated[Path | None, typer.Option(help="Jobs: a CSV file with a heading.")] = None,
    scenario: Annotated[Path | None, typer.Option(help="Jobs, and a cluster: a YAML file (docs/simulate.md).")] = None,
    snapshot: Annotated[
        Path | None, typer.Option(help="A cluster as it is, from `muster snapshot`: what would start, what waits, why.")
    ] = None,
    cluster: Annotated[
        str, typer.Option(help='Like "64 nodes x 8 GPUs in cliques of 16"; several pools with commas between.')
    ] = "",
    scheduler: Annotated[
        list[str] | None,
        typer.Option(help="kube-scheduler, kube-scheduler-packed, fifo, muster, ideal; repeat it to compare."),
    ] = None,
    load_: Annotated[
        float | None, typer.Option("--load", min=0.01, help="Stretch the arrivals to this offered load; 0.8 is 80 %.")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Only the first so many jobs of the trace.")] = None,
    trace_cluster: Annotated[str | None, typer.Option(help="Only the jobs of this cluster of the trace.")] = None,
    submit_column: Annotated[str, typer.Option(help="Submission, in seconds.")] = _ELASTICFLOW.submit,
    duration_column: Annotated[str, typer.Option(help="Duration, in seconds.")] = _ELASTICFLOW.duration,
    gpus_column: Annotated[str, typer.Option(help="GPUs of the whole job.")] = _ELASTICFLOW.gpus,
    cluster_column: Annotated[str, typer.Option(help="What --trace-cluster chooses by.")] = _ELASTICFLOW.cluster,
    priority_column: Annotated[str, typer.Option(help="Priority, if there is one.")] = _ELASTICFLOW.priority,
    gpus_per_pod: Annotated[int, typer.Option(min=1, help="A larger job becomes several pods of so many GPUs.")] = 8,
    start: Annotated[float | None, typer.Option(min=0, help="Seconds from a whole gang to its work.")] = None,
    give_up: Annotated[
        float | None, typer.Option(min=1, help="Seconds that members wait for the others before all fail.")
    ] = None,
    until: Annotated[float | None, typer.Option(min=1, help="Seconds after which the observation ends.")] = None,
    config: Annotated[Path | None, typer.Option(help="Muster's settings file (YAML).")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Compare with another setting, like topology_policy=NAME; several are changed together."),
    ] = None,
    scheduler_name: Annotated[
        list[str] | None, typer.Option(help="Whose pods in the snapshot are Muster's, instead of the settings' names.")
    ] = None,
    seed: Annotated[
        int, typer.Option(help="For what is left to chance: kube-scheduler's ties, and how patient members are.")
    ] = 0,
    price: Annotated[float, typer.Option(min=0, help="USD per GPU-hour.")] = 3.67,
    json_: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page with pictures there.")] = None,
) -> None:
    """Replay jobs, or a cluster as it is, through the code that decides in production, under a virtual clock.

    Exit code 0: simulated. 2: the input cannot be used.
    """
    terminal = Console() if sys.stdout.isatty() else Console(width=160)
    try:
        _check(trace, scenario, snapshot, (json_, html))
        settings, changed = _settings(config, policy or [], scheduler_name)
        if snapshot is not None:
            return _show_snapshot(snapshot, {"muster": settings} | changed, json_, terminal)
        layout = Layout(submit_column, duration_column, gpus_column, cluster_column, priority_column)
        read = partial(read_trace, layout=layout, cluster=trace_cluster, jobs=jobs, gpus_per_pod=gpus_per_pod)
        given = _from_trace(trace, read, trace_cluster) if trace is not None else _from_scenario(scenario)
        given = _amended(given, cluster, start, give_up, until)
        about, case = _case(given, load_, seed, {"muster": settings} | changed, terminal)
        names = scheduler or [*_BY_DEFAULT, *changed]
        with _progress(len(case.arrivals), len(names)) as tell:
            outcomes = run(case, names, tell)
    except (InputError, SettingsError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    terminal.print(f"{about.jobs}; {about.cluster}", highlight=False, markup=False)
    for table in tables([one.figures for one in outcomes], price):
        terminal.print(on_terminal(table))
    _write(json_, lambda: json.dumps(as_json(about, outcomes, price), indent=1) + "\n")
    _write(html, lambda: page(about, outcomes, price))


def core(settings: Settings) -> Scheduler:
    """Muster with these settings. Nobody reads reasons in the middle of a replay: they are not kept up to date."""
    limits: Limits = replace(settings.limits, refresh_s=_NEVER_S, report_s=_NEVER_S)
    # The pods of a replay say that they are Muster's, whatever its profiles are called.
    return Scheduler(("muster",), limits, settings.policies, settings.steering, settings.levels)


def on_terminal(table: Table) -> RichTable:
    # Names from outside may have brackets, which are no markup.
    shown = RichTable(*map(escape, table.columns), title=escape(table.title), title_justify="left")
    for number, column in enumerate(shown.columns):
        column.justify = "right" if number and not table.words else "left"
    for row in table.rows:
        shown.add_row(*map(escape, row))
    return shown


def _show_snapshot(path: Path, settings: dict[str, Settings], json_: Path | None, terminal: Console) -> None:
    # The Kubernetes client takes over a second to import, which a replay need not pay.
    from extender import whatif
    from extender.kube.snapshot import SnapshotError

    try:
        facts = whatif.read(path)
    except SnapshotError as error:
        raise InputError(str(error)) from None
    found = whatif.verdicts(facts, settings)
    for line in facts.unreadable:
        terminal.print(f"left out: {line}", highlight=False, style="yellow", markup=False)
    first = found[0]
    terminal.print(
        f"{len(facts.nodes)} nodes; {first.running} gangs lack nothing, {len(first.answers)} lack nodes; "
        f"{first.singles} pods in no gang wait for kube-scheduler, and are left to it.",
        highlight=False,
    )
    for table in snapshot_tables(found):
        if table.rows:
            terminal.print(on_terminal(table))
        else:
            terminal.print(f"{table.title}: none", highlight=False, markup=False)
    _write(json_, lambda: whatif.as_json(found))


def _check(trace: Path | None, scenario: Path | None, snapshot: Path | None, outputs: Sequence[Path | None]) -> None:
    """What can be said at once, and not in two minutes."""
    if sum(one is not None for one in (trace, scenario, snapshot)) != 1:
        raise InputError("give one of --trace, --scenario and --snapshot")
    if snapshot is not None and outputs[1] is not None:
        raise InputError("a snapshot has no page: --html needs --trace or --scenario")
    for path in outputs:
        if path is not None and not path.parent.is_dir():
            raise InputError(f"there is no directory {path.parent}")


def _settings(
    config: Path | None, changes: Sequence[str], scheduler_names: Sequence[str] | None
) -> tuple[Settings, dict[str, Settings]]:
    """The settings, and by a name that tells the difference those with the changes. Raises SettingsError."""
    names = tuple(scheduler_names) if scheduler_names else None
    settings = load(config, scheduler_names=names)
    if not changes:
        return settings, {}
    values = {}
    for change in changes:
        name, equals, value = change.partition("=")
        if not equals:
            raise InputError(f"--policy {change}: say it like topology_policy=NAME")
        values[name.strip()] = yaml.safe_load(value)
    return settings, {f"muster, {', '.join(changes)}": load(config, scheduler_names=names, **values)}


def _from_trace(path: Path, read: Callable[..., list[Arrival]], cluster: str | None) -> Jobs:
    arrivals = read(_text(path).splitlines())
    title = f"{len(arrivals):,} jobs of {path.name}" + (f", {cluster}" if cluster else "")
    return Jobs(title, arrivals, [], Terms())


def _from_scenario(path: Path | None) -> Jobs:
    if path is None:
        raise InputError("give one of --trace, --scenario and --snapshot")
    found = read_scenario(_text(path))
    return Jobs(f"Scenario {path.stem}", found.arrivals, found.pools, found.terms)


def _amended(given: Jobs, cluster: str, start: float | None, give_up: float | None, until: float | None) -> Jobs:
    """With what the command line says about the cluster and the terms."""
    pools = pools_from(cluster) if cluster else given.pools
    if not pools:
        raise InputError('say which cluster: --cluster "64 nodes x 8 GPUs in cliques of 16"')
    terms = given.terms
    terms = replace(
        terms,
        start_s=terms.start_s if start is None else start,
        give_up_s=terms.give_up_s if give_up is None else give_up,
        until_s=terms.until_s if until is None else until,
    )
    return replace(given, pools=pools, terms=terms)


def _case(
    given: Jobs, load_: float | None, seed: int, cores: dict[str, Settings], terminal: Console
) -> tuple[Input, Case]:
    nodes, arrivals = nodes_of(given.pools), given.arrivals
    if left_out := misfits(arrivals, nodes):
        first = f"{left_out[0].name} of {left_out[0].needed} pods with {left_out[0].gpus} GPUs"
        if len(left_out) == len(arrivals):
            raise InputError(f"no job fits into the empty cluster: neither {first}")
        told = f"{len(left_out)} jobs are left out: the empty cluster cannot start them, such as {first}"
        terminal.print(told, highlight=False, markup=False)
        names = {one.name: None for one in left_out}
        arrivals = [one for one in arrivals if one.name not in names]
    gpus = gpus_of(nodes)
    arrivals = arrivals if load_ is None else at_load(arrivals, gpus, load_)
    terms = given.terms
    about = Input(
        jobs=given.title,
        cluster=words(given.pools),
        load=offered_load(arrivals, gpus),
        window_s=window_s(arrivals),
        start_s=terms.start_s,
        give_up_s=terms.give_up_s,
        seed=seed,
    )
    makers = {name: partial(core, settings) for name, settings in cores.items()}
    return about, Case(arrivals, nodes, terms, seed, makers)


@contextmanager
def _progress(jobs: int, schedulers: int) -> Iterator[Tell]:
    """On the error output: a bar where somebody can see it move, else a line for each scheduler."""
    console = Console(stderr=True)
    columns: Any = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=jobs * schedulers)
        begun: list[str] = []

        def tell(name: str, over: int) -> None:
            if over == 0:
                begun.append(name)
                bar.update(task, description=escape(name))
                if not console.is_terminal:
                    console.print(f"{name} ({len(begun)} of {schedulers})", highlight=False, markup=False)
            elif over % 64 == 0:
                bar.update(task, completed=jobs * (len(begun) - 1) + over)

        yield tell


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not text") from None


def _write(path: Path | None, content: Callable[[], str]) -> None:
    if path is not None:
        try:
            path.write_text(content())
        except OSError as error:
            _stop(f"{path}: {error.strerror}")


def _stop(message: str) -> NoReturn:
    typer.secho(message, err=True, fg="red")
    raise typer.Exit(2)
