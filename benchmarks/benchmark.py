"""A benchmark and how it is carried out: step by step, with progress, a results file, tables, and the failures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Generic, TypeVar

import httpx
from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.about import About
from benchmarks.record import Record
from benchmarks.stage import Mode
from devcluster import ApiError, ClusterError
from devcluster.progress import Progress as Tell
from extender.cli.terminal import grid

RunT = TypeVar("RunT", bound=Struct)
Failed = (ClusterError, ApiError, TimeoutError, httpx.HTTPError, OSError)
"""The errors that may break a run without a mistake in the benchmark."""


@dataclass(frozen=True)
class Table:
    """Figures for people: the terminal and the document show the same ones."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Kind(Generic[RunT]):
    """The parts that all benchmarks of one kind share, whatever their settings.

    ``problems``: figures that must not occur, in words.
    ``picture``: an SVG of the runs.
    """

    run: type[RunT]
    tables: Callable[[Sequence[RunT]], list[Table]]
    problems: Callable[[Sequence[RunT]], list[str]] = lambda _runs: []
    picture: Callable[[Sequence[RunT]], str] | None = None


@dataclass(frozen=True)
class Benchmark(Generic[RunT]):
    """A kind with its settings. ``steps``: the name of each run -> the function that measures it."""

    name: str
    kind: Kind[RunT]
    settings: Mapping[str, Any]
    steps: Mapping[str, Callable[[Tell], RunT]]


@dataclass
class Outcome:
    """The outcome of a benchmark. ``failures``: steps that gave no figures; ``problems``: figures that must not be."""

    failures: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return not self.failures and not self.problems


def carry_out(
    benchmark: Benchmark[RunT], about: About, path: Path | None, terminal: Console, *, go_on: bool = False
) -> Outcome:
    """Run the steps, or (``go_on``) those missing in the file, and show the tables. A step that fails is left out."""
    record = Record.start(benchmark.name, benchmark.settings, about, benchmark.kind.run, path, go_on=go_on)
    outcome = Outcome()
    todo = {name: measure for name, measure in benchmark.steps.items() if not record.has(name)}
    with _progress(benchmark.name, len(todo)) as show:
        for name, measure in todo.items():
            try:
                run = measure(show(name))
            except Failed as error:
                outcome.failures.append(f"{benchmark.name}, {name}: {error}")
                continue
            record.add(name, run)
    if runs := record.runs:
        outcome.problems = [f"{benchmark.name}: {problem}" for problem in benchmark.kind.problems(runs)]
        for table in benchmark.kind.tables(runs):
            terminal.print(f"\n{table.title}")
            terminal.print(grid((table.columns[0], *(f"#{name}" for name in table.columns[1:])), table.rows))
        if benchmark.kind.picture is not None and path is not None and path.is_file():
            path.with_suffix(".svg").write_text(benchmark.kind.picture(runs))
    return outcome


def rounds(modes: Sequence[Mode], repeat: int) -> Iterator[tuple[str, Mode, int]]:
    """(step, mode, round): each mode in turn, then all again, so that noise meets all alike.

    The slow path is long and compared with nothing: it is measured in the first round only.
    """
    for number in range(1, repeat + 1):
        for mode in modes if number == 1 else [mode for mode in modes if mode is not Mode.UNGATED]:
            yield f"{mode}, round {number}", mode, number


def middle(values: Sequence[float]) -> float:
    """The median, 0 of nothing."""
    return median(values) if values else 0.0


@contextmanager
def _progress(title: str, total: int) -> Iterator[Callable[[str], Tell]]:
    """Shows the steps on the error output; where that is no terminal, a line for each."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.fields[title]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console, transient=True) as bar:
        task = bar.add_task("", total=total, title=title)
        begun = 0

        def show(step: str) -> Tell:
            nonlocal begun
            bar.update(task, completed=begun, description=step)
            begun += 1
            if not console.is_terminal:
                console.print(f"{title}: {step} ({begun} of {total})", highlight=False)
            return lambda message: bar.update(task, description=f"{step}: {message}")

        yield show
