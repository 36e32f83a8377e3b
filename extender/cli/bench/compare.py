"""Two runs of a load test side by side, with a verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import typer

from extender.cli.bench.files import shown
from extender.cli.bench.measures import SHARES
from extender.cli.terminal import console, grid, plain, stop_on

_MATTERS = 0.05
"""A quantile that differs by a smaller share counts as equal, however certain the difference is."""


class CompareError(Exception):
    """The files cannot be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Row:
    """A quantile of one metric in both runs, in ms; ``verdict``: slower, faster, or within noise."""

    metric: str
    quantile: str
    before: float
    after: float
    verdict: str

    @property
    def change(self) -> str:
        """The difference, in ms and in percent."""
        if not (math.isfinite(self.before) and math.isfinite(self.after)):
            return "-"
        percent = f" ({(self.after - self.before) / self.before:+.1%})" if self.before else ""
        return f"{self.after - self.before:+.4g}{percent}"


def compare(before: Path, after: Path) -> NoReturn:
    """Print the differences and end the command.

    Exit code 0: nothing is worse. 1: something is. 2: the files cannot be compared.
    """
    with stop_on(CompareError):
        first, second = _read(before), _read(after)
        if first["schema"] != second["schema"]:
            raise CompareError(f"{before} is of {first['schema']}, and {after} of {second['schema']}")
        try:
            rows = list(differences(first, second))
            errors = [sum(run_figures["errors"].values()) for run_figures in (first, second)]
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            raise CompareError(f"{before} or {after} is not as --output writes it: measure again") from None
        if not rows:
            raise CompareError(f"{before} and {after} have no latency in common")
    out = console()
    for name in differing_settings(first, second):
        values = [run_figures["settings"].get(name) for run_figures in (first, second)]
        out.print(plain(f"the runs differ in {name}: {values[0]} and {values[1]}", "yellow"))
    colours = {"slower": "red", "faster": "green"}
    heads = ("ms", "", "#before", "#after", "#change", "verdict")
    lines = [
        (row.metric, row.quantile, shown(row.before), shown(row.after), row.change,
         plain(row.verdict, colours.get(row.verdict, "")))
        for row in rows
    ]  # fmt: skip
    out.print(grid(heads, lines))
    out.print(plain(f"errors: {errors[0]} before, {errors[1]} after"))
    worse = [f"{row.quantile}({row.metric})" for row in rows if row.verdict == "slower"]
    worse += ["errors"] if errors[1] > errors[0] else []
    better = [f"{row.quantile}({row.metric})" for row in rows if row.verdict == "faster"]
    if worse:
        out.print(plain(f"worse: {', '.join(worse)}", "red"))
    elif better:
        out.print(plain(f"better: {', '.join(better)}; nothing is worse", "green"))
    else:
        out.print("no difference beyond noise")
    raise typer.Exit(1 if worse else 0)


def differences(before: dict[str, Any], after: dict[str, Any]) -> Iterator[Row]:
    """Compare each quantile that both runs have measured.

    It has changed if the intervals that hold it do not overlap, and it differs by 5 % or more.
    """
    for metric, figures in before["latency_ms"].items():
        other = after["latency_ms"].get(metric)
        if other is None or not figures["count"] or not other["count"]:
            continue
        for name in (f"p{share}" for share in SHARES):
            values = [_known(run_figures[name]) for run_figures in (figures, other)]
            bounds = [[_known(bound) for bound in run_figures["between"][name]] for run_figures in (figures, other)]
            yield Row(metric, name, values[0], values[1], _verdict(values, bounds))


def _known(value: float | None) -> float:
    """The value, with infinity for the null that JSON has for events that never came."""
    return math.inf if value is None else value


def _verdict(values: list[float], bounds: list[list[float]]) -> str:
    (first, second), (old, new) = values, bounds
    matters = abs(second - first) > _MATTERS * first if math.isfinite(first) and math.isfinite(second) else True
    if matters and old[1] < new[0]:
        return "slower"
    if matters and new[1] < old[0]:
        return "faster"
    return "within noise"


def differing_settings(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """The names of settings that differ between both runs."""
    names = dict.fromkeys((*before["settings"], *after["settings"]))
    return [name for name in names if before["settings"].get(name) != after["settings"].get(name)]


def _read(path: Path) -> dict[str, Any]:
    """Read a file of results. Raises CompareError."""
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise CompareError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise CompareError(f"{path} is no JSON: name a file that --output has written") from None
    if isinstance(document, dict) and "benchmark" in document:  # as of bench latency on a control plane of its own
        steps = document.get("runs")
        runs = [run for run in steps.values() if isinstance(run, dict)] if isinstance(steps, dict) else []
        document |= {"schema": f"the benchmark {document['benchmark']}"} | (runs[0] if len(runs) == 1 else {})
    keys = ("schema", "settings", "latency_ms", "errors")
    kinds = (str, dict, dict, dict)
    if not isinstance(document, dict) or not all(map(isinstance, map(document.get, keys), kinds)):
        raise CompareError(f"{path} is not the result of a load test: name a file that --output has written")
    return document
