"""Read jobs from a trace: CSV with a heading, whose columns the caller names. ElasticFlow's layout is built in."""

from __future__ import annotations

import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from extender.simulation.replay.arrivals import LONGEST_S, Arrival, from_zero
from extender.simulation.replay.shape import InputError
from policies.words import many

_SHOWN = 12
_NO_NAME, _LONGEST_NAME = re.compile(r"[^a-z0-9]+"), 63
_MOST_GPUS = 10_000_000


class ColumnsError(InputError):
    """The trace lacks columns. ``fields``: the fields of the layout that name them."""

    def __init__(self, message: str, fields: list[str]) -> None:
        super().__init__(message)
        self.fields = fields


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of the columns; the defaults are ElasticFlow's.

    ``cluster``: needed only to choose one of several clusters.
    ``priority``, ``queue``: empty if there is no such column. Instants and durations are in seconds.
    """

    submit: str = "submission_time"
    duration: str = "duration"
    gpus: str = "num_gpu"
    cluster: str = "cluster"
    priority: str = ""
    queue: str = ""


def read_trace(
    lines: Iterable[str],
    layout: Layout,
    *,
    cluster: str | None,
    jobs: int | None = None,
    gpus_per_pod: int = 8,
) -> tuple[list[Arrival], list[str]]:
    """The first ``jobs`` jobs of one cluster, in order of submission from 0, and sentences on rows that are no jobs.

    ``g`` GPUs become one gang of ``ceil(g / gpus_per_pod)`` pods of ``min(g, gpus_per_pod)`` GPUs. Jobs without GPUs or
    without a duration are left out. Raises InputError; ColumnsError if the trace lacks columns.
    """
    rows = list(_rows(lines, layout, cluster is not None))
    if cluster is not None:
        clusters = Counter(row[layout.cluster] for _, row in rows)
        if cluster not in clusters:
            known = ", ".join(sorted(clusters)[:_SHOWN])
            raise InputError(f"no job of cluster {cluster!r} is in the trace; it has {known}")
        rows = [(line, row) for line, row in rows if row[layout.cluster] == cluster]
    if layout.queue:
        _tell_apart(rows, layout.queue)
    arrivals = [_arrival(line, row, layout, gpus_per_pod) for line, row in rows]
    without = (
        (sum(not arrival.gpus for arrival in arrivals), "0 GPUs"),
        (sum(arrival.gpus > 0 >= arrival.run_s for arrival in arrivals), "0 s"),
    )
    left_out = [
        f"{many(count, 'job')} of {what} {'was' if count == 1 else 'were'} left out" for count, what in without if count
    ]
    there = [arrival for arrival in arrivals if arrival.gpus and arrival.run_s]
    if arrivals and not there:
        raise InputError(f"there is no job in the trace: every row has 0 {layout.gpus} or 0 {layout.duration}")
    return from_zero(from_zero(there)[:jobs]), left_out


def _rows(lines: Iterable[str], layout: Layout, by_cluster: bool) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(lines, restval="", skipinitialspace=True)
    needed = [layout.submit, layout.duration, layout.gpus]
    needed += [layout.cluster] if by_cluster else []
    needed += [name for name in (layout.priority, layout.queue) if name]
    needed = list(dict.fromkeys(needed))
    try:
        there = reader.fieldnames or ()
        if not there:
            raise InputError("the trace is empty: its first line has to name the columns")
        if lacking := [name for name in needed if name not in there]:
            text = f"the trace has no column {', '.join(lacking)}; its columns are {', '.join(there)}"
            raise ColumnsError(text, [field.name for field in fields(layout) if getattr(layout, field.name) in lacking])
        if twice := next((name for name in needed if there.count(name) > 1), None):
            raise InputError(f"the trace has several columns {twice}")
        for row in reader:
            if None in row:
                raise InputError(f"line {reader.line_num} of the trace has more cells than the heading has columns")
            yield reader.line_num, row
    except csv.Error as error:
        raise InputError(f"line {reader.line_num} of the trace is not CSV: {error}") from None


def _arrival(line: int, row: Mapping[str, str], layout: Layout, gpus_per_pod: int) -> Arrival:
    gpus = _count(line, row, layout.gpus)
    run_s = _number(line, row, layout.duration)
    submit_s = _number(line, row, layout.submit)
    priority = _count(line, row, layout.priority) if layout.priority else 0
    if not 0 <= gpus <= _MOST_GPUS or not 0 <= run_s <= LONGEST_S:
        raise InputError(f"line {line} of the trace: {gpus} GPUs for {run_s:g} s is not a job")
    if abs(submit_s) > LONGEST_S:
        raise InputError(f"line {line} of the trace: {layout.submit} is {row[layout.submit]}; it has to be in seconds")
    queue = _queue(line, row[layout.queue]) if layout.queue else ""
    pods = math.ceil(gpus / gpus_per_pod)
    return Arrival(f"job-{line}", submit_s, pods, min(gpus, gpus_per_pod), run_s, priority, queue=queue)


def _queue(line: int, text: str) -> str:
    """The cell as the name of an object: in lower case, with dashes for characters that no name has."""
    name = _NO_NAME.sub("-", text.lower()).strip("-")[:_LONGEST_NAME].rstrip("-")
    if not name:
        raise InputError(f"line {line} of the trace: {text!r} is no name of a queue")
    return name


def _tell_apart(rows: Iterable[tuple[int, Mapping[str, str]]], column: str) -> None:
    """Refuse queues of the trace that would get the same name. Raises InputError."""
    cells: dict[str, str] = {}
    for line, row in rows:
        cell = row[column].strip()
        name = _queue(line, cell)
        if (first := cells.setdefault(name, cell)) != cell:
            raise InputError(f"line {line} of the trace: the queues {first!r} and {cell!r} would both be called {name}")


def _count(line: int, row: Mapping[str, str], column: str) -> int:
    number = _number(line, row, column)
    if not number.is_integer():
        raise InputError(f"line {line} of the trace: {column} is {row[column]!r}, not a whole number")
    return int(number)


def _number(line: int, row: Mapping[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"line {line} of the trace: {column} is {row[column]!r}, not a number")
    return number
