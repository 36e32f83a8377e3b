"""Progress of a long simulation, on the error output: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from extender.simulation.replay.contest import Tell

_EVERY_S = 5.0
_STRIDE = 64


@contextmanager
def progress(jobs: int, schedulers: int) -> Iterator[Tell]:
    """``jobs`` are played by each of the schedulers, one after the other."""
    console = Console(stderr=True)
    columns: Any = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=jobs * schedulers)
        begun: list[str] = []
        said = time.monotonic()

        def line(text: str) -> None:
            nonlocal said
            said = time.monotonic()
            if not console.is_terminal:
                console.print(text, highlight=False, markup=False, soft_wrap=True)

        def tell(name: str, over: int) -> None:
            if over == 0:
                begun.append(name)
                bar.update(task, description=escape(name))
                line(f"{name} ({len(begun)} of {schedulers})")
            elif over % _STRIDE == 0:
                bar.update(task, completed=jobs * (len(begun) - 1) + over)
                if time.monotonic() - said >= _EVERY_S:
                    line(f"{name} ({len(begun)} of {schedulers}): {over:,} of {jobs:,} jobs are over")

        yield tell
