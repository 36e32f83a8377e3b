"""`muster bench gangs`: real gangs on the user's own cluster, at a constant rate, and how soon they are bound."""

from __future__ import annotations

import asyncio
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from extender.cli.bench import files
from extender.cli.bench.clean import leftovers, remove
from extender.cli.bench.compare import compare
from extender.cli.bench.files import Files, Results, Writer
from extender.cli.bench.instants import METRICS, Clock, Measured, ServerClock, timestamp
from extender.cli.bench.measures import ThresholdError, Verdict, read_thresholds
from extender.cli.bench.plan import Course, Kind, Shape
from extender.cli.bench.room import Room, beyond, room_for
from extender.cli.bench.run import REMOVAL_S, Outcome, RunError, carry_out
from extender.cli.bench.run import Progress as Told
from extender.cli.inspection.options import (
    CaFile,
    CertFile,
    Context,
    KeyFile,
    Kubeconfig,
    MusterNamespace,
    Url,
)
from extender.cli.inspection.reach import Muster, RefusedError, UnreachableError, reach, way_of
from extender.cli.output import OutputError
from extender.cli.terminal import console, plain, stop_on
from extender.kube.api.connection import ApiError
from extender.kube.client import CredentialsError, Kube
from policies.words import many

SCHEMA = "muster.dev/bench-gangs/v1"
JOB = "muster-bench-gangs"
_EVERY_S = 5.0


def gangs_command(
    kind: Annotated[Kind, typer.Option(help="Gangs of pods, or suspended Jobs that Muster starts.")] = Kind.PODS,
    gangs: Annotated[int, typer.Option(min=1, help="How many gangs.")] = 10,
    size: Annotated[int, typer.Option(min=1, help="Pods of a gang.")] = 4,
    rate: Annotated[float, typer.Option(min=0.1, help="Pods a second; gangs are due at even intervals.")] = 5.0,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of a pod.")] = 1,
    gpu_resource: Annotated[str, typer.Option(help="What the nodes call a GPU.")] = "nvidia.com/gpu",
    cpu: Annotated[str, typer.Option(help="CPU of a pod.")] = "10m",
    selector: Annotated[str, typer.Option("--selector", "-l", help="Labels of the nodes, as in pool=a,zone=b.")] = "",
    tolerate: Annotated[
        list[str] | None, typer.Option(help="Key of a taint that the pods tolerate, besides that of the GPUs.")
    ] = None,
    lifetime: Annotated[
        float | None, typer.Option(min=0, help="Delete a gang so many seconds after it was bound. Default: at the end.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds after which a gang counts as not bound.")] = 60.0,
    scheduler_name: Annotated[str, typer.Option(help="The schedulerName of the pods.")] = "muster",
    priority_class: Annotated[str, typer.Option(help="The PriorityClass of the pods.")] = "",
    image: Annotated[str, typer.Option(help="What the pods run.")] = "registry.k8s.io/pause:3.10",
    fail_if: Annotated[list[str] | None, files.FailIf] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Where to write everything as JSON; - for stdout.")
    ] = None,
    kube_burner: Annotated[Path | None, files.KubeBurner] = None,
    junit: Annotated[Path | None, files.Junit] = None,
    compare_: Annotated[tuple[Path, Path] | None, files.Compare] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Only remove what earlier runs have left behind.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Go beyond safe limits without a question.")] = False,
    url: Url = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    muster_namespace: MusterNamespace = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
) -> None:
    """Load-test your own cluster: real gangs, at a constant rate, and how soon they are bound.

    In a namespace of its own, which is removed at the end, on Ctrl-C, and by --clean after a crash.
    Latency counts from the instant at which a gang was due. Exit code 0: measured. 1: a threshold is broken, or a pod
    was not bound. 2: it could not be measured.
    """
    if compare_ is not None:
        compare(*compare_)
    if clean:
        _clean(kubeconfig, context, yes=yes)
    with stop_on(ThresholdError, OutputError):
        thresholds = read_thresholds(fail_if or (), METRICS)
        writer = Writer(Files(output, kube_burner, junit), JOB)
    gpu = {gpu_resource: str(gpus)} if gpus else {}
    tolerated = (*([gpu_resource] if gpus else []), *(tolerate or ()))
    shape = Shape(scheduler_name, image, {"cpu": cpu} | gpu, _labels(selector), tolerated, priority_class)
    course = Course(kind, gangs, size, rate, shape, lifetime)
    way = way_of(url, kubeconfig, context, muster_namespace, ca_file, cert_file, key_file)
    with stop_on(RunError, CredentialsError, UnreachableError, RefusedError), reach(way) as muster:
        _check(muster)
        running = _run(kubeconfig, context, muster, course, timeout, yes=yes, until_ready=kube_burner is not None)
        try:
            room, outcome = asyncio.run(running)
        except asyncio.CancelledError:  # by SIGTERM; Ctrl-C is a KeyboardInterrupt here
            raise typer.Exit(143) from None
        where = muster.where
    clock = ServerClock.of(outcome.table.pods.values())
    measured = Measured(outcome.table, clock)
    samples = measured.samples() | {"bind": measured.samples()["bound"]}
    errors = outcome.errors.total()
    verdicts = [threshold.judge(samples, errors, course.pods) for threshold in thresholds]
    document = _document(course, room, outcome, measured, clock, verdicts, where, timeout)
    results = Results(
        "muster bench gangs", course.run, document, verdicts,
        list(measured.documents()), measured.conditions(), timestamp(Clock().now()),
    )  # fmt: skip
    _show(course, outcome, measured, clock, verdicts, stderr=writer.has_standard_output)
    with stop_on(OutputError):
        writer.write(results)
    raise typer.Exit(files.exit_code(verdicts, errors))


def _labels(selector: str) -> dict[str, str]:
    labels = {}
    for pair in filter(None, selector.split(",")):
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise typer.BadParameter(
                f"{pair!r} is no label: write KEY=VALUE, several with commas", param_hint="--selector"
            )
        labels[key.strip()] = value.strip()
    return labels


def _check(muster: Muster) -> None:
    """Check that this Muster decides. Raises RunError."""
    if (problem := muster.ready()) is not None:
        raise RunError(f"{muster.where} is not ready: {problem}")
    if doubt := muster.doubt():
        raise RunError(doubt)


async def _run(
    kubeconfig: Path | None, context: str | None, muster: Muster, course: Course, timeout_s: float, *, yes: bool,
    until_ready: bool,
) -> tuple[Room, Outcome]:  # fmt: skip
    kube = await Kube.connect(kubeconfig, context)
    try:
        with _progress(course.pods) as progress:
            progress.note("reading nodes and pods")
            room = await room_for(kube, course)
        if room.places < course.size:
            raise RunError(
                f"no gang of {course.size} fits: {many(room.places, 'free place')} on {many(room.nodes, 'node')} that "
                "its pods may use. See --selector, --tolerate, --gpus and --size"
            )
        _ask(list(beyond(course, room)), yes=yes)
        with _progress(course.pods) as progress:
            return room, await carry_out(kube, muster, course, timeout_s, progress, until_ready=until_ready)
    except ApiError as error:
        raise RunError(f"the API server: {error.brief}") from None
    except ExceptionGroup as group:
        raise RunError(f"the run broke off: {group.exceptions[0]}") from None
    finally:
        await kube.close()


def _ask(questions: list[str], *, yes: bool) -> None:
    """Ask on a terminal. Raises RunError without one."""
    for question in questions:
        typer.secho(question, err=True, fg="yellow")
    if not questions or yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise RunError("this is beyond safe limits: pass --yes to do it all the same")
    typer.confirm("Go on?", abort=True, err=True)


def _clean(kubeconfig: Path | None, context: str | None, *, yes: bool) -> NoReturn:
    """Remove what earlier runs have left, and end the command."""

    async def work() -> bool:
        kube = await Kube.connect(kubeconfig, context)
        complete = True
        try:
            remains = await leftovers(kube)
            if not remains:
                typer.echo("nothing to remove: no namespace of an earlier run is there")
            for leftover in remains:
                if leftover.alive and not yes:
                    typer.secho(
                        f"left {leftover.namespace} alone: {leftover.alive}; --yes removes it", err=True, fg="yellow"
                    )
                    complete = False
                    continue
                with _progress(1) as progress:
                    removed = await remove(kube, leftover, REMOVAL_S, progress.note)
                complete = complete and not removed.why_kept
                typer.echo(str(removed))
        except ApiError as error:
            raise RunError(f"the API server: {error.brief}") from None
        except TimeoutError:
            raise RunError(f"nothing more has gone for {REMOVAL_S:g} s: say --clean again") from None
        finally:
            await kube.close()
        return complete

    with stop_on(RunError, CredentialsError):
        complete = asyncio.run(work())
    raise typer.Exit(0 if complete else 1)


@contextmanager
def _progress(pods: int) -> Iterator[Told]:
    """Show a bar on a terminal, else a line every few seconds, on the error output."""
    terminal = Console(stderr=True)
    columns: Any = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counts]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=terminal, transient=True, disable=not terminal.is_terminal) as bar:
        task = bar.add_task("", total=pods, counts="")
        printed_at, doing = time.monotonic(), ""

        def line(text: str) -> None:
            nonlocal printed_at
            printed_at = time.monotonic()
            if not terminal.is_terminal:
                terminal.print(text, highlight=False, markup=False, soft_wrap=True)

        def note(text: str) -> None:
            nonlocal doing
            doing = text
            bar.update(task, description=escape(text))
            line(text)

        def say(text: str) -> None:
            terminal.print(text, highlight=False, markup=False, soft_wrap=True)

        def count(created: int, bound: int) -> None:
            counts = f"{created} created, {bound} bound of {pods} pods"
            bar.update(task, completed=bound, counts=counts)
            if time.monotonic() - printed_at >= _EVERY_S:
                line(f"{doing}: {counts}")

        yield Told(note, say, count)


def _show(
    course: Course, outcome: Outcome, measured: Measured, clock: ServerClock | None, verdicts: list[Verdict], *,
    stderr: bool,
) -> None:  # fmt: skip
    out = console(stderr=stderr)
    what = "Jobs" if course.kind is Kind.JOB else "gangs"
    out.print(plain(f"{course.gangs} {what} of {course.size}, {course.rate:g} pods a second; ms since each was due"))
    out.print(files.table(measured.samples()))
    for why in notes(outcome, measured, clock):
        out.print(plain(why, "yellow"))
    for why, times in outcome.errors.items():
        out.print(plain(f"{many(times, 'pod')} {why}", "red"))
    files.show_verdicts(verdicts, stderr=stderr)


def notes(outcome: Outcome, measured: Measured, clock: ServerClock | None) -> list[str]:
    """Notes without which the figures would mislead."""
    remarks = []
    bound = [pod for pod in outcome.table.pods.values() if pod.bound is not None]
    if by_watch := sum(1 for pod in bound if clock is None or pod.scheduled is None):
        remarks.append(f"bound is when the watch has shown it, of {by_watch} pods: no Event of kube-scheduler tells")
    samples = measured.samples()
    if not samples["planned"].count:
        remarks.append("planned is not to be seen: no gate came off and no node was nominated (docs/load-test.md)")
    if clock is None:
        remarks.append("at_bind is not known: no Binding has muster.dev/released-at, or a clock was set meanwhile")
    elif clock.correction:
        remarks.append(f"corrected: Muster's clock is ahead of this one by {clock.correction * 1000:.0f} ms at least")
    return remarks


def _document(
    course: Course, room: Room, outcome: Outcome, measured: Measured, clock: ServerClock | None,
    verdicts: list[Verdict], where: str, timeout_s: float,
) -> dict[str, Any]:  # fmt: skip
    table = outcome.table
    bound = sum(1 for pod in table.pods.values() if pod.bound is not None)
    return {
        "schema": SCHEMA,
        "run": course.run,
        "began": timestamp(outcome.began),
        "seconds": round(outcome.seconds, 3),
        "client": {"muster": version("muster-scheduler"), "machine": platform.machine(), "system": platform.platform()},
        "muster": where,
        "cluster": {"nodes": room.of_cluster, "usable_nodes": room.nodes, "places": room.places},
        "settings": course.described() | {"timeout_s": timeout_s},
        "latency_ms": {name: sample.figures() for name, sample in measured.samples().items()},
        "pods": len(table.pods),
        "bound": bound,
        "bound_per_s": round(bound / outcome.seconds, 2) if outcome.seconds else None,
        "errors": dict(outcome.errors),
        "thresholds": [verdict.document() for verdict in verdicts],
        "server_clock_ahead_ms": None if clock is None else [round(clock.least * 1000, 1), round(clock.most * 1000, 1)],
        "notes": notes(outcome, measured, clock),
        "each_gang": [
            {"gang": name, "due": timestamp(table.gangs[name].due), **_in_ms(measured.gangs[name])}
            for name in table.gangs
        ],
        "each_pod": [
            {"pod": name, "gang": pod.gang, "node": pod.node, "due": timestamp(pod.due), **_in_ms(measured.pods[name])}
            for name, pod in table.pods.items()
        ],
    }


def _in_ms(latencies: Any) -> dict[str, float | None]:
    stages = {name: getattr(latencies, name) for name in ("created", "planned", "at_bind", "bound")}
    return {f"{name}_ms": None if value is None else round(value, 3) for name, value in stages.items()}
