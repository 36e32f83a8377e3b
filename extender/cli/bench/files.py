"""The results of a load test: a table, JSON, kube-burner's two documents, and a junit file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import typer

from extender.cli.bench.measures import SHARES, Sample, Verdict
from extender.cli.output import STANDARD_OUTPUT, Output, OutputError, check_apart
from extender.cli.terminal import Grid, console, grid, plain

PODS, QUANTILES = "podLatencyMeasurement", "podLatencyQuantilesMeasurement"
"""The names that kube-burner gives its documents."""


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a run's results; None: not written."""

    output: Path | None = None
    kube_burner: Path | None = None
    junit: Path | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """The results of a run.

    ``tool``: as in "muster bench gangs".
    ``document``: the JSON.
    ``pods``, ``quantiles``: kube-burner's documents, without the fields that are equal in all of them.
    """

    tool: str
    run: str
    document: Mapping[str, Any]
    verdicts: Sequence[Verdict]
    pods: Sequence[Mapping[str, Any]]
    quantiles: Mapping[str, Sample]
    at: str


class Writer:
    """Checks before a run that its files can be written, and writes them after it."""

    def __init__(self, files: Files, job: str) -> None:
        """Check the files. ``job``: the job's name for kube-burner, a part of file names. Raises OutputError."""
        check_apart({"--output": files.output, "--junit": files.junit}, {})
        self._job = job
        self._json = None if files.output is None else Output(files.output)
        self._junit = None if files.junit is None else Output(files.junit)
        self._documents: list[Output] = []
        if files.kube_burner is not None:
            if files.kube_burner == STANDARD_OUTPUT:
                raise OutputError("--kube-burner writes two files: name a directory")
            try:
                files.kube_burner.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise OutputError(f"{files.kube_burner}: {error.strerror}") from None
            self._documents = [Output(files.kube_burner / f"{name}-{job}.json") for name in (PODS, QUANTILES)]

    @property
    def has_standard_output(self) -> bool:
        """Whether one of the files is the standard output, which no table may be mixed with."""
        return any(output is not None and output.path == STANDARD_OUTPUT for output in (self._json, self._junit))

    def write(self, results: Results) -> None:
        """Write the files. Raises OutputError."""
        if self._json is not None:
            self._json.write(_json(results.document))
        if self._junit is not None:
            self._junit.write(junit(results.tool, results.verdicts))
        for output, documents in zip(self._documents, kube_burner(results, self._job), strict=False):
            output.write(_json(documents))


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=1, allow_nan=False).encode() + b"\n"


def kube_burner(results: Results, job: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A document for each pod, and one for each condition; latencies in ms."""
    same = {"uuid": results.run, "jobName": job}
    pods = [{**pod, "metricName": PODS, **same} for pod in results.pods]
    quantiles = [
        {
            "quantileName": name,
            **{f"P{share}": _whole(sample.quantile(share)) for share in (99, 95, 50)},
            "max": _whole(sample.quantile(100)),
            "avg": round(sample.mean, 2),
            "timestamp": results.at,
            "metricName": QUANTILES,
            **same,
        }
        for name, sample in results.quantiles.items()
        if sample.latencies_ms and not sample.missing
    ]
    return pods, quantiles


def _whole(ms: float) -> int:
    return round(ms)


def junit(tool: str, verdicts: Iterable[Verdict]) -> bytes:
    """Build a test case for each threshold: broken is a failure, not measured is an error."""
    cases = list(verdicts)
    counts = {
        "failures": sum(case.broken is True for case in cases),
        "errors": sum(case.broken is None for case in cases),
    }
    numbers = {"tests": str(len(cases))} | {name: str(count) for name, count in counts.items()}
    suite = ElementTree.Element("testsuite", {"name": tool, **numbers})
    for verdict in cases:
        case = ElementTree.SubElement(suite, "testcase", classname=tool.replace(" ", "."), name=verdict.threshold.text)
        if verdict.broken is not False:
            kind = "failure" if verdict.broken else "error"
            ElementTree.SubElement(case, kind, message=f"{verdict.threshold.text}: {verdict.shown}")
    text: bytes = ElementTree.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def table(samples: Mapping[str, Sample]) -> Grid:
    """Build a table with a line for each metric, in ms."""
    heads = ("ms", "#count", "#missing", *(f"#p{share}" for share in SHARES), "#max")
    return grid(heads, [_line(name, sample) for name, sample in samples.items()])


def _line(name: str, sample: Sample) -> tuple[str, ...]:
    quantiles = [sample.quantile(share) for share in (*SHARES, 100)]
    return name, str(sample.count), str(sample.missing), *map(shown, quantiles)


def shown(ms: float) -> str:
    """Format a latency for a table: "never" for an event that never came."""
    return "-" if math.isnan(ms) else "never" if math.isinf(ms) else f"{ms:.4g}" if ms < 1000 else f"{ms:.0f}"


def show_verdicts(verdicts: Iterable[Verdict], *, stderr: bool) -> None:
    """Print a line for each threshold, with a tick or a cross."""
    terminal = console(stderr=stderr)
    for verdict in verdicts:
        terminal.print(plain(str(verdict), {True: "red", False: "green", None: "yellow"}[verdict.broken]))


def exit_code(verdicts: Sequence[Verdict], errors: int) -> int:
    """The exit code: 2 if a threshold was not measured, else 1 if one is broken or there were errors, else 0."""
    if any(verdict.broken is None for verdict in verdicts):
        return 2
    return 1 if errors or any(verdict.broken for verdict in verdicts) else 0


FailIf = typer.Option(
    "--fail-if",
    metavar="THRESHOLD",
    help="End with exit code 1 if this holds, as in 'p99(bind) > 2s', 'errors > 0'. May be said several times.",
)
KubeBurner = typer.Option(
    "--kube-burner", metavar="DIRECTORY", help="Where to write podLatencyMeasurement and its quantiles as kube-burner."
)
Junit = typer.Option("--junit", metavar="FILE", help="Where to write a junit file with a test case for each threshold.")
Compare = typer.Option(
    "--compare",
    metavar="BEFORE AFTER",
    help="Measure nothing: compare the JSON files of two runs, and end with 1 if worse.",
)
