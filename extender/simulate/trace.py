"""Jobs from a trace: CSV with a heading, its columns named by the caller. The ElasticFlow layout is built in."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from extender.simulate.arrivals import Arrival, from_zero
from extender.simulate.shape import InputError

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Layout:
    """The names of the columns; the defaults are ElasticFlow's. ``cluster`` is needed only to choose one of several.

    An empty name of ``priority`` means that there is none. Instants and durations are in seconds.
    """

    submit: str = "submission_time"
    duration: str = "duration"
    gpus: str = "num_gpu"
    cluster: str = "cluster"
    priority: str = ""


def read_trace(
    lines: Iterable[str],
    layout: Layout,
    *,
    cluster: str | None = None,
    jobs: int | None = None,
    gpus_per_pod: int = 8,
) -> list[Arrival]:
    """The first ``jobs`` jobs of one cluster of the trace, in order of submission, the first at 0. Raises InputError.

    ``g`` GPUs become one gang of ``ceil(g / gpus_per_pod)`` pods of ``min(g, gpus_per_pod)`` GPUs. Jobs without GPUs or
    without a duration are left out.
    """
    rows = list(_rows(lines, layout, cluster is not None))
    if cluster is not None:
        clusters = Counter(row[layout.cluster] for _, row in rows)
        if cluster not in clusters:
            known = ", ".join(sorted(clusters)[:_SHOWN])
            raise InputError(f"no job of cluster {cluster!r} is in the trace; it has {known}")
        rows = [(line, row) for line, row in rows if row[layout.cluster] == cluster]
    found = [one for line, row in rows if (one := _arrival(line, row, layout, gpus_per_pod)) is not None]
    return from_zero(from_zero(found)[:jobs])


def _rows(lines: Iterable[str], layout: Layout, by_cluster: bool) -> Iterator[tuple[int, Mapping[str, str]]]:
    reader = csv.DictReader(lines, restval="")
    needed = [layout.submit, layout.duration, layout.gpus]
    needed += [layout.cluster] if by_cluster else []
    needed += [layout.priority] if layout.priority else []
    try:
        there = reader.fieldnames or ()
        if lacking := [name for name in needed if name not in there]:
            raise InputError(f"the trace has no column {', '.join(lacking)}; its columns are {', '.join(there)}")
        for row in reader:
            yield reader.line_num, row
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"the trace is not CSV: {error}") from None


def _arrival(line: int, row: Mapping[str, str], layout: Layout, gpus_per_pod: int) -> Arrival | None:
    gpus = int(_number(line, row, layout.gpus))
    run_s = _number(line, row, layout.duration)
    submit_s = _number(line, row, layout.submit)
    priority = int(_number(line, row, layout.priority)) if layout.priority else 0
    if gpus < 0 or run_s < 0:
        raise InputError(f"line {line} of the trace: {gpus} GPUs for {run_s:g} s is not a job")
    if not gpus or not run_s:
        return None
    return Arrival(f"job-{line}", submit_s, math.ceil(gpus / gpus_per_pod), min(gpus, gpus_per_pod), run_s, priority)


def _number(line: int, row: Mapping[str, str], column: str) -> float:
    try:
        number = float(row[column])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"line {line} of the trace: {column} is {row[column]!r}, not a number")
    return number
