"""`muster simulate`: read the input, run the schedulers on it with a progress bar, and show and write the results."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from extender.cli.case import QueueInput, amended, case_of, from_trace, queues_from, settings_of, text_of
from extender.cli.output import STANDARD_OUTPUT, Output, OutputError, check_apart
from extender.cli.terminal import console, grid, stop_on
from extender.config.settings import Settings, SettingsError
from extender.core.events import QueueSeen
from extender.core.ledger.queues import key_of
from extender.platforms.nodes import PLATFORMS
from extender.simulation.chance import Chance
from extender.simulation.contest import Advance, run
from extender.simulation.replay.arrivals import LONGEST_S, with_estimates, with_urgent
from extender.simulation.replay.queueing import remarks
from extender.simulation.replay.scenario import read_scenario
from extender.simulation.replay.shape import InputError
from extender.simulation.replay.trace import Layout
from extender.simulation.report.page import page, snapshot_page
from extender.simulation.report.tables import (
    Table,
    as_json,
    fairness_tables,
    foresight_tables,
    never_started,
    preempted_tables,
    tables,
)
from extender.simulation.report.verdict import CHANGED, longer_waits, verdict
from extender.simulation.whatif import change, other_queues
from extender.simulation.whatif import tables as snapshot_tables
from policies.model.queues import Evicts, Preemption
from policies.words import counted, listed, many

_EVERY_S = 5.0
_STRIDE = 64


@contextmanager
def progress(jobs: int, schedulers: int) -> Iterator[Advance]:
    """Show a progress bar. Each of the ``schedulers`` plays ``jobs``, one after the other."""
    console = Console(stderr=True)
    columns: Any = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=jobs * schedulers)
        begun: list[str] = []
        printed_at = time.monotonic()

        def line(text: str) -> None:
            nonlocal printed_at
            printed_at = time.monotonic()
            if not console.is_terminal:
                console.print(text, highlight=False, markup=False, soft_wrap=True)

        def advance(name: str, over: int) -> None:
            if over == 0:
                begun.append(name)
                bar.update(task, description=escape(name))
                line(f"{name} ({len(begun)} of {schedulers})")
            elif over % _STRIDE == 0:
                bar.update(task, completed=jobs * (len(begun) - 1) + over)
                if time.monotonic() - printed_at >= _EVERY_S:
                    line(f"{name} ({len(begun)} of {schedulers}): {over:,} of {jobs:,} jobs are over")

        yield advance


main = typer.Typer(name="muster simulate", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_ELASTICFLOW = Layout()
_BY_DEFAULT = ("kube-scheduler", "fifo", "muster", "ideal")
_WITH_QUEUES = ("fifo", "fifo-quota", "muster-no-queues", "muster")
_LOAD_AT_MOST, _PRICE_AT_MOST = 1000.0, 1e6
_CLUSTER = (
    'Like "64 nodes x 8 GPUs in cliques of 16", or "gb200=36" for nodes of a platform; several pools with commas '
    f"between. Platforms: {', '.join(PLATFORMS)}."
)
_INPUTS = ("trace", "scenario", "snapshot")
_OF_SNAPSHOTS = ("snapshot", "what_if", "config", "policy", "scheduler_name", "json_", "html")
_OF_SNAPSHOTS_ALONE = ("what_if", "scheduler_name")
_OF_TRACES = (
    "jobs", "trace_cluster", "gpus_per_pod", "queue_column", "borrowing_limit", "urgent",
    "within_cluster_queue", "reclaim_within_cohort",
    "submit_column", "duration_column", "gpus_column", "cluster_column", "priority_column",
)  # fmt: skip


class _Within(StrEnum):
    NEVER = Evicts.NEVER.value
    LOWER = Evicts.LOWER.value
    LOWER_OR_NEWER = Evicts.LOWER_OR_NEWER.value


_UNKNOWN, _WRONG_AT_MOST = "unknown", 1000


class _Reclaim(StrEnum):
    NEVER = Evicts.NEVER.value
    LOWER = Evicts.LOWER.value
    ANY = Evicts.ANY.value


@main.command()
def simulate(
    context: typer.Context,
    trace: Annotated[Path | None, typer.Option(help="Jobs: a CSV file with a heading.")] = None,
    scenario: Annotated[Path | None, typer.Option(help="Jobs, and a cluster: a YAML file (docs/simulate.md).")] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option(help="A file from `muster snapshot`: which gangs and jobs would start, which wait, and why."),
    ] = None,
    cluster: Annotated[str, typer.Option(help=_CLUSTER)] = "",
    scheduler: Annotated[
        list[str] | None,
        typer.Option(
            help="kube-scheduler, kube-scheduler-packed, fifo, fifo-quota, muster, ideal, and with queues "
            f"muster-no-queues; repeat it. Default: {', '.join(_BY_DEFAULT)}; with queues {', '.join(_WITH_QUEUES)}."
        ),
    ] = None,
    load_: Annotated[
        float | None,
        typer.Option(
            "--load", min=0.01, max=_LOAD_AT_MOST, help="Stretch the arrivals to this offered load; 0.8 is 80 %."
        ),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Only so many jobs, the first of the trace.")] = None,
    trace_cluster: Annotated[str | None, typer.Option(help="Only the jobs of this cluster of the trace.")] = None,
    submit_column: Annotated[str, typer.Option(help="Submission, in seconds.")] = _ELASTICFLOW.submit,
    duration_column: Annotated[str, typer.Option(help="Duration, in seconds.")] = _ELASTICFLOW.duration,
    gpus_column: Annotated[str, typer.Option(help="GPUs of the whole job.")] = _ELASTICFLOW.gpus,
    cluster_column: Annotated[str, typer.Option(help="What --trace-cluster chooses by.")] = _ELASTICFLOW.cluster,
    priority_column: Annotated[str, typer.Option(help="Priority, if there is one.")] = _ELASTICFLOW.priority,
    queue_column: Annotated[
        str,
        typer.Option(help="The column with the queue of each job: a LocalQueue of --queues, else a virtual cluster."),
    ] = "",
    borrowing_limit: Annotated[
        int | None, typer.Option(min=0, help="GPUs that each virtual cluster may borrow; default: no limit.")
    ] = None,
    within_cluster_queue: Annotated[
        _Within, typer.Option(help="With preemption: whom jobs of a virtual cluster may evict in their own.")
    ] = _Within.LOWER,
    reclaim_within_cohort: Annotated[
        _Reclaim, typer.Option(help="With preemption: whom they may evict of those that use what is lent.")
    ] = _Reclaim.ANY,
    urgent: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="This part of the jobs, by the seed, has a higher priority than the others."),
    ] = None,
    durations: Annotated[
        str,
        typer.Option(
            help="What is known of how long jobs run: unknown, exact, or a factor, as 3: wrong by that at most."
        ),
    ] = _UNKNOWN,
    queues: Annotated[
        list[Path] | None, typer.Option(help="Queue objects of Kueue or Volcano, as YAML; repeat it.")
    ] = None,
    what_if: Annotated[
        list[Path] | None,
        typer.Option(help="Queue objects, as YAML, instead of those of the snapshot that have their names; repeat it."),
    ] = None,
    gpus_per_pod: Annotated[int, typer.Option(min=1, help="A larger job becomes several pods of so many GPUs.")] = 8,
    start: Annotated[
        float | None,
        typer.Option(
            min=0, max=LONGEST_S, help="Start-up time of a complete gang, in seconds; default: 30, or the scenario's."
        ),
    ] = None,
    give_up: Annotated[
        float | None,
        typer.Option(
            min=1,
            max=LONGEST_S,
            help="Seconds for which members wait for the others before all fail; default: 1800, or the scenario's.",
        ),
    ] = None,
    until: Annotated[
        float | None,
        typer.Option(min=1, max=LONGEST_S, help="Seconds after which the observation ends; default: when all is over."),
    ] = None,
    checkpoint_every: Annotated[
        float | None,
        typer.Option(min=1, max=LONGEST_S, help="Seconds of work after which a job saves it; default: never."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Muster's settings file (YAML).")] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Compare with another setting, as in topology_policy=NAME; several are applied together."),
    ] = None,
    scheduler_name: Annotated[
        list[str] | None,
        typer.Option(help="schedulerName of the pods that Muster takes, instead of the names in the settings."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of random choices: kube-scheduler's ties, and how long members wait.")
    ] = 0,
    price: Annotated[float, typer.Option(min=0, max=_PRICE_AT_MOST, help="USD per GPU-hour.")] = 3.67,
    json_: Annotated[
        Path | None, typer.Option("--json", help="Write the figures to this file; - is standard output.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write a page for a browser to this file.")] = None,
) -> None:
    """Replay jobs, or a snapshot of a cluster, in a simulation.

    The code that decides is the one of production, under a virtual clock.
    Exit code 0: simulated. 2: the input cannot be used.
    """
    terminal = console(stderr=json_ == STANDARD_OUTPUT)
    with stop_on(InputError, OutputError, SettingsError):
        _check_options(context)
        check_apart(
            {"--json": json_, "--html": html},
            {"--trace": trace, "--scenario": scenario, "--snapshot": snapshot}
            | {f"--queues {path}": path for path in queues or ()}
            | {f"--what-if {path}": path for path in what_if or ()},
        )
        figures, page_file = (Output(path) if path is not None else None for path in (json_, html))
        settings = settings_of(config, policy or [], scheduler_name)
        if snapshot is not None:
            changes = queues_from(what_if) if what_if else QueueInput()
            return _show_snapshot(snapshot, settings, what_if or [], changes, figures, page_file, terminal)
        quota = queues_from(queues) if queues else QueueInput()
        if trace is not None:
            quota.virtual, quota.borrowing = bool(queue_column) and not queues, borrowing_limit
            quota.rules = Preemption(Evicts(within_cluster_queue), Evicts(reclaim_within_cohort))
            layout = Layout(submit_column, duration_column, gpus_column, cluster_column, priority_column, queue_column)
            given = from_trace(trace, layout, trace_cluster, jobs, gpus_per_pod)
            if urgent is not None:
                arrivals = with_urgent(given.arrivals, urgent, Chance(seed).stream("urgent"))
                given = replace(given, arrivals=arrivals)
        else:
            scenario = scenario or Path()
            given = read_scenario(text_of(scenario), scenario.stem, quota.classes)
        if (factor := _factor(durations)) is not None:
            start_s = start if start is not None else given.terms.start_s
            arrivals = with_estimates(given.arrivals, start_s, factor, Chance(seed).stream("durations"))
            given = replace(given, arrivals=arrivals)
        terms = {"start_s": start, "give_up_s": give_up, "until_s": until, "checkpoint_s": checkpoint_every}
        given = amended(given, cluster, terms)
        about, case = case_of(given, quota, load_, seed, settings, terminal.print)
        changed = [name for name in settings if name != "muster"]
        by_default = _WITH_QUEUES if case.queueing.seen else _BY_DEFAULT
        names = list(dict.fromkeys([*(scheduler or by_default), *changed]))
        with progress(len(case.arrivals), len(names)) as over:
            outcomes = run(case, names, over)
        terminal.print(f"{about.jobs}; {about.cluster}")
        shown = [*tables([outcome.figures for outcome in outcomes], price), *never_started(outcomes)]
        shown += [*foresight_tables(outcomes), *preempted_tables(outcomes), *fairness_tables(outcomes)]
        show_tables(shown, terminal)
        for sentence in (verdict(outcomes, price), *longer_waits(outcomes)):
            terminal.print(f"\n{sentence}")
        _write(figures, as_json(about, outcomes, price))
        if page_file is not None:
            page_file.write(page(about, outcomes, price).encode())


def _factor(durations: str) -> float | None:
    """Parse the largest error factor of known durations; None if none are known. Raises InputError."""
    if durations == _UNKNOWN:
        return None
    try:
        factor = 1.0 if durations == "exact" else float(durations)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= _WRONG_AT_MOST:
        raise InputError(f"--durations is {durations}: write unknown, exact, or a factor from 1 to {_WRONG_AT_MOST}")
    return factor


def show_tables(tables: Sequence[Table], terminal: Console) -> None:
    """Write each table below its title."""
    for table in tables:
        terminal.print(f"\n{table.title}" + ("" if table.rows else ": none"))
        if table.rows:
            mark = "" if table.words else "#"
            heads = (table.columns[0], *(mark + name for name in table.columns[1:]))
            terminal.print(grid(heads, table.rows, below=heads[-1] if table.words else ""))


def _write(figures: Output | None, values: dict[str, Any]) -> None:
    if figures is not None:
        figures.write((json.dumps(values, indent=1, allow_nan=False) + "\n").encode())


def _show_snapshot(
    path: Path,
    settings: dict[str, Settings],
    what_if: Sequence[Path],
    changes: QueueInput,
    figures: Output | None,
    page_file: Output | None,
    terminal: Console,
) -> None:
    # The Kubernetes client takes over a second to import, which a replay need not pay.
    from extender.cli.snapshot import amended as with_queues
    from extender.cli.snapshot import of_others, read, verdicts
    from extender.kube.snapshots.snapshot import SnapshotError

    with stop_on(SnapshotError):
        facts = read(path, settings.values())
        changed = read(path, settings.values(), changes.classes) if changes.classes else facts
    decided = verdicts(facts, settings)
    left_out = [*(f"left out: {line}" for line in facts.unreadable), *of_others(facts, settings.values())]
    for line in left_out:
        terminal.print(line, style="yellow")
    first, shown = decided[0], snapshot_tables(decided)
    answers = [f"With {other.name.removeprefix(CHANGED)} {change(first, other)}." for other in decided[1:]]
    jobs = sum(job.suspended and not job.finished for job in facts.jobs)
    suspended = f" ({many(jobs, 'suspended job')} among them)" if jobs else ""
    summary = (
        f"{many(len(facts.nodes), 'node')}. {counted(first.running, 'gang', 'runs', 'run')}, "
        f"{counted(len(first.answers), 'gang', 'waits', 'wait')}{suspended}. "
        f"{counted(first.singles, 'single pod', 'waits', 'wait')}, which is left to kube-scheduler."
    )
    if changes.seen or changes.classes:
        other, notes = with_queues(facts, changes.seen, changes.classes)
        remarks_by_key = remarks(queue for queue in other.queues if isinstance(queue, QueueSeen))
        left_out += (
            lines := [line for queue_seen in changes.seen for line in remarks_by_key[key_of(queue_seen.object)]]
        )
        for line in lines:
            terminal.print(line, style="yellow")
        other = replace(other, jobs=changed.jobs)
        (then,) = verdicts(other, {"what if": settings["muster"]})
        answers.append(f"With {listed(map(str, what_if))} {change(first, then)}.")
        if decided[0].answers != then.answers or decided[0].suspended != then.suspended:
            shown += other_queues(first, then)
        decided.append(then)
        summary += f" What if: {'; '.join(notes)}."
    summary = " ".join([*answers, summary])
    terminal.print(summary)
    show_tables(shown, terminal)
    _write(figures, {"verdicts": [asdict(decision) for decision in decided]})
    if page_file is not None:
        page_file.write(snapshot_page(f"What Muster would do with {path.name}", [summary, *left_out], shown).encode())


def _check_options(context: typer.Context) -> None:
    """Check for exactly one input, and for no option that it would ignore. Raises InputError."""
    given = {
        param.name: param.opts[0]
        for param in context.command.params
        if param.name
        and (source := context.get_parameter_source(param.name)) is not None
        and source.name == "COMMANDLINE"
    }
    inputs = [name for name in _INPUTS if name in given]
    if len(inputs) != 1:
        raise InputError("give one of --trace, --scenario and --snapshot")
    for name, option in given.items():
        if "snapshot" in given and name not in _OF_SNAPSHOTS:
            raise InputError(f"{option} goes with --trace or --scenario, and not with --snapshot")
        if "snapshot" not in given and name in _OF_SNAPSHOTS_ALONE:
            raise InputError(f"{option} goes with --snapshot")
        if "trace" not in given and name in _OF_TRACES:
            raise InputError(f"{option} goes with --trace")
    for name in ("borrowing_limit", "within_cluster_queue", "reclaim_within_cohort"):
        if name in given and ("queues" in given or "queue_column" not in given):
            raise InputError(f"{given[name]} goes with --queue-column, and not with --queues, whose objects say it")
    if "urgent" in given and "priority_column" in given:
        raise InputError("--urgent goes with jobs that have no --priority-column")
    if "queues" in given and "trace" in given and "queue_column" not in given:
        raise InputError("with --queues the jobs of a trace need --queue-column, which says the LocalQueue of each")
