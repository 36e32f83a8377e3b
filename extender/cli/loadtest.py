"""`muster bench latency --url`: choose the calls to a running extender, and when to stop."""

from __future__ import annotations

import asyncio
import math
import secrets
import ssl
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from extender.cli.bench import files
from extender.cli.bench.compare import compare
from extender.cli.bench.files import Files, Results, Writer
from extender.cli.bench.gangs import gangs_command
from extender.cli.bench.instants import timestamp
from extender.cli.bench.measures import Sample, ThresholdError, Verdict, read_thresholds
from extender.cli.inspection.options import CaFile, CertFile, KeyFile
from extender.cli.inspection.reach import UnreachableError, Way, verification
from extender.cli.load import Load, Verb, calls, figures, fire
from extender.cli.output import OutputError, check_apart
from extender.cli.terminal import console, grid, stop, stop_on
from policies.words import many

main = typer.Typer(
    name="muster bench",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

GANGS = "How soon real gangs are bound on your own cluster."
LATENCY = "How long filter, prioritize and bind take."

SCHEMA = "muster.dev/bench-latency/v1"
JOB = "muster-bench-latency"
WARNING = (
    "These calls load {url}: kube-scheduler's own calls wait behind them. Nothing is bound, because the pods do not "
    "exist. The test stops when an answer to filter or prioritize takes longer than {limit_ms:g} ms (--limit-ms)."
)
CONSEQUENCE = (
    "The pods of these calls do not exist: filter and prioritize answer as for any pod of no gang. Bind waits for the "
    "pod to appear and then refuses; without --url it is timed with real pods."
)
_SAFE, _OWN = (10.0, 4, 100, 1000), (200.0, 512, 1000, 5000)
"""Defaults for any extender, and for a control plane of its own: calls a second, at once and of each kind; nodes."""


@main.callback()
def bench() -> None:
    """Load-test your own cluster, or a running extender. All other benchmarks of Muster need a source checkout."""


main.command("gangs", short_help=GANGS)(gangs_command)


@main.command("latency", short_help=LATENCY)
def latency_command(
    url: Annotated[str | None, typer.Option(help="A running extender, as in http://127.0.0.1:10290.")] = None,
    verb: Annotated[
        list[Verb] | None, typer.Option(help="What to call, one after the other. Default: filter and prioritize; all.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.1, help=f"Calls a second. Default: {_SAFE[0]:g}; {_OWN[0]:g}.")
    ] = None,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, help=f"Calls under way at once, at most. Default: {_SAFE[1]}; {_OWN[1]}."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("--calls", min=1, help=f"Calls of each kind. Default: {_SAFE[2]}; {_OWN[2]}.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option(min=1, help=f"Candidates in a call, or nodes. Default: {_SAFE[3]}; {_OWN[3]}.")
    ] = None,
    limit_ms: Annotated[
        float, typer.Option(min=1, help="With --url: stop when filter or prioritize takes longer than this.")
    ] = 500.0,
    fail_if: Annotated[list[str] | None, files.FailIf] = None,
    output: Annotated[Path | None, typer.Option(help="Where to write the figures as JSON.")] = None,
    kube_burner: Annotated[Path | None, files.KubeBurner] = None,
    junit: Annotated[Path | None, files.Junit] = None,
    compare_: Annotated[tuple[Path, Path] | None, files.Compare] = None,
    ca_file: CaFile = None,
    cert_file: CertFile = None,
    key_file: KeyFile = None,
) -> None:
    """How long filter, prioritize and bind take, as the caller sees it, at a chosen rate.

    Latency counts from the instant at which a call was due. With --url against any running extender, with pods that do
    not exist. Without it on a control plane of its own, where real gangs are bound; that needs a source checkout. Of
    two defaults the first is with --url. Exit code 0: measured. 1: a call got no usable answer, filter or prioritize
    was refused, the limit ended the test, or a threshold is broken. 2: it could not be measured.
    """
    if compare_ is not None:
        compare(*compare_)
    rates = _OWN if url is None else _SAFE
    settings = (rate or rates[0], concurrency or rates[1], count or rates[2], nodes or rates[3])
    if url is None:
        _measure_own(verb or list(Verb), settings, fail_if or (), Files(output, kube_burner, junit))
    verbs = verb or [Verb.FILTER, Verb.PRIORITIZE]
    with stop_on(OutputError, UnreachableError, ThresholdError):
        thresholds = read_thresholds(fail_if or (), [verb.value for verb in verbs])
        writer = Writer(Files(output, kube_burner, junit), JOB)
        verify = verification(Way(url, ca_file=ca_file, cert_file=cert_file, key_file=key_file), url)
    results = load_test(url.rstrip("/"), verbs, *settings, limit_ms, verify)
    samples = {verb.value: Sample(()) for verb in verbs} | _samples(results)
    errors: Counter[str] = Counter()
    for name, load in results.items():
        for why, times in (*load.failed.items(), *_unforeseen(name, load).items()):
            errors[f"{name}: {why}"] += times
    calls_in_all = sum(sample.count for sample in samples.values())
    verdicts = [threshold.judge(samples, errors.total(), calls_in_all) for threshold in thresholds]
    _show(results, stderr=writer.has_standard_output)
    files.show_verdicts(verdicts, stderr=writer.has_standard_output)
    run = secrets.token_hex(4)
    _write(writer, run, _document(run, url, settings, results, samples, errors, verdicts), verdicts, results, samples)
    bad = errors.total() or any(load.stopped_ms is not None for load in results.values())
    raise typer.Exit(files.exit_code(verdicts, bad))


def _measure_own(
    verbs: Sequence[Verb], settings: tuple[float, int, int, int], fail_if: Sequence[str], wanted: Files
) -> NoReturn:
    """Measure on a control plane of its own; ends the command."""
    try:
        from benchmarks import latency, running
    except ImportError:
        raise typer.BadParameter("without a source checkout an extender has to be named", param_hint="--url") from None
    with stop_on(OutputError, ThresholdError):
        thresholds = read_thresholds(fail_if, latency.metrics(verbs))
        writer = Writer(replace(wanted, output=None), JOB)  # the benchmark writes its own
        check_apart({"--output": wanted.output, "--junit": wanted.junit}, {})
    results: dict[str, Load] = {}
    code = running.measure(latency.benchmark(verbs, *settings, results), wanted.output)
    if not results:
        raise typer.Exit(code)
    samples, sent = _samples(results), sum(len(load.calls) for load in results.values())
    errors = sum(load.refused + sum(load.failed.values()) for load in results.values())
    verdicts = [threshold.judge(samples, errors, sent) for threshold in thresholds]
    files.show_verdicts(verdicts, stderr=writer.has_standard_output)
    _write(writer, secrets.token_hex(4), {}, verdicts, results, samples)
    raise typer.Exit(max(code, files.exit_code(verdicts, errors)))


def _samples(results: dict[str, Load]) -> dict[str, Sample]:
    return {name: Sample.of(load.latencies_ms, sum(load.failed.values())) for name, load in results.items()}


def _write(
    writer: Writer, run: str, document: dict[str, Any], verdicts: list[Verdict], results: dict[str, Load],
    samples: dict[str, Sample],
) -> None:  # fmt: skip
    ended = timestamp(max(load.began for load in results.values()))
    with stop_on(OutputError):
        writer.write(Results("muster bench latency", run, document, verdicts, list(_pods(results)), samples, ended))


def _document(
    run: str, url: str, settings: tuple[float, int, int, int], results: dict[str, Load], samples: dict[str, Sample],
    errors: Counter[str], verdicts: list[Verdict],
) -> dict[str, Any]:  # fmt: skip
    rate, concurrency, count, candidates = settings
    return {
        "schema": SCHEMA,
        "run": run,
        "url": url,
        "rate": rate,
        "concurrency": concurrency,
        "candidates": candidates,
        "settings": {"rate": rate, "concurrency": concurrency, "calls": count, "candidates": candidates},
        "verbs": {name: figures(load) for name, load in results.items()},
        "latency_ms": {name: sample.figures() for name, sample in samples.items()},
        "client_late_ms": {name: round(load.client_late_ms, 2) for name, load in results.items()},
        "errors": dict(errors),
        "thresholds": [verdict.document() for verdict in verdicts],
    }


def _pods(results: dict[str, Load]) -> Iterator[dict[str, object]]:
    """A document for each call, in the words that kube-burner has for a pod."""
    for name, load in results.items():
        for number, latency_ms in sorted(load.answers.items() if load.calls else ()):
            yield {
                "timestamp": timestamp(load.began + number / load.rate),
                "schedulingLatency": round(latency_ms, 2),
                "verb": name,
                "namespace": "default",
                "podName": load.calls[number].pod,
            }


def _unforeseen(name: str, load: Load) -> dict[str, int]:
    """Refusals by reason, without those of binds: their pods do not exist."""
    return {} if name == Verb.BIND else load.refusals


def load_test(
    url: str,
    verbs: Sequence[Verb],
    rate: float,
    concurrency: int,
    count: int,
    candidates: int,
    limit_ms: float,
    verify: ssl.SSLContext | bool,
) -> dict[str, Load]:
    """Run one verb after another until a limit is passed."""
    terminal = console(stderr=True)
    terminal.print(WARNING.format(url=url, limit_ms=limit_ms), style="yellow")
    results: dict[str, Load] = {}
    for verb in verbs:
        # A bind of a pod that does not exist is held for as long as the extender waits for the pod.
        most_ms = math.inf if verb is Verb.BIND else limit_ms
        with terminal.status(f"{verb.value}: {count} calls, {rate:g} a second"):
            # The first call is not timed: it warms the code, and shows whether there is any use in more.
            load = asyncio.run(fire(url, calls(verb, 1, candidates), rate, 1, limit_ms=most_ms, verify=verify))
            for why in (*load.failed, *_unforeseen(verb.value, load)):
                stop(f"no usable answer from {url}/{verb.value}: {why}")
            if load.stopped_ms is None:
                all_of_them = calls(verb, count, candidates)
                load = asyncio.run(fire(url, all_of_them, rate, concurrency, limit_ms=most_ms, verify=verify))
        results[verb.value] = load
        if load.stopped_ms is not None:
            break
    return results


def _show(results: dict[str, Load], *, stderr: bool) -> None:
    terminal = console(stderr=stderr)
    heads = (
        "verb",
        "#answered",
        "#refused",
        "#failed",
        "#calls/s",
        "#p50 ms",
        "#p90 ms",
        "#p95 ms",
        "#p99 ms",
        "#max ms",
    )
    terminal.print(grid(heads, [(name, *map("{:g}".format, figures(load).values())) for name, load in results.items()]))
    terminal.print(CONSEQUENCE)
    for name, load in results.items():
        for why, times in load.failed.items():
            terminal.print(f"{name}: {many(times, 'call')} failed: {why}", style="red")
        for why, times in _unforeseen(name, load).items():
            terminal.print(f"{name}: {many(times, 'call')} refused: {why}", style="red")
        if load.stopped_ms is not None:
            terminal.print(
                f"{name}: stopped after {many(len(load.latencies_ms), 'answer')}: one took {load.stopped_ms:.0f} ms. "
                "Try a lower --rate, or fewer --nodes.", style="red",
            )  # fmt: skip
