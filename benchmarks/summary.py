"""The result of the benchmarks in one table: pods a second and cliques, with Muster and without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.benchmark import Table, middle
from benchmarks.job_stage import Arm
from benchmarks.kinds import runs_of
from benchmarks.record import Content
from benchmarks.stage import Mode

_ARMS = (Arm.MUSTER, Arm.ADAPTIVE, Arm.ALL, Arm.NATIVE)
_MODES = (Mode.NOMINATE, Mode.ADAPTIVE, Mode.ALL, Mode.NATIVE)
_SHAPES = ("8x1", "8x8", "64x8")
_JOBS = (*((f"jobs-{nodes}", shape) for nodes in (1000, 5000) for shape in _SHAPES), ("jobs-500", "512x1"))
_GANGS = ("throughput-1000", "throughput-5000")


def summary(contents: Mapping[str, Content]) -> Table:
    """Return the table; a dash where something was not measured."""
    rows = []
    for name, shape in _JOBS:
        jobs = [[run for run in _runs(contents, name) if (run.arm, run.shape) == (arm, shape)] for arm in _ARMS]
        rows += _rows(f"Jobs of {shape} on {int(name.removeprefix('jobs-')):,} nodes", jobs)
    for name in _GANGS:
        gangs = [[run for run in _runs(contents, name) if run.mode is mode] for mode in _MODES]
        rows += _rows(f"gangs of 8 pods on {int(name.removeprefix('throughput-')):,} nodes", gangs)
    columns = ("", "Muster", "kube-scheduler alone", "the same, scoring all nodes", "native gangs")
    return Table("Result", columns, rows)


def _runs(contents: Mapping[str, Content], name: str) -> Sequence[Any]:
    return runs_of(contents[name]) if name in contents else ()


def _rows(what: str, alike: Sequence[Sequence[Any]]) -> list[tuple[str, ...]]:
    """Return the rows of one load. ``alike``: the runs of each column."""

    def row(figure: str, of: Callable[[Any], float], digits: int) -> tuple[str, ...]:
        return f"{what}: {figure}", *(f"{middle(list(map(of, runs))):.{digits}f}" if runs else "-" for runs in alike)

    return [
        row("pods a second", lambda run: run.pods_per_s, 0),
        row("cliques for each", lambda run: run.cliques_per_gang, 1),
    ]
