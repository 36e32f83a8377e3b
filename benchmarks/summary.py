"""The result of the benchmarks in one table: pods a second and cliques, with Muster and without."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Return the table: pods a second and cliques of a gang in each cell, a dash where neither was measured."""
    rows = []
    for name, shape in _JOBS:
        jobs = [[run for run in _runs(contents, name) if (run.arm, run.shape) == (arm, shape)] for arm in _ARMS]
        rows.append(_row(f"jobs of {shape}, {int(name.removeprefix('jobs-')):,} nodes", jobs))
    for name in _GANGS:
        gangs = [[run for run in _runs(contents, name) if run.mode is mode] for mode in _MODES]
        rows.append(_row(f"gangs of 8 pods, {int(name.removeprefix('throughput-')):,} nodes", gangs))
    columns = ("", "Muster", "kube-scheduler alone", "the same, scoring all nodes", "native gangs")
    return Table("Result", columns, rows)


def _runs(contents: Mapping[str, Content], name: str) -> Sequence[Any]:
    return runs_of(contents[name]) if name in contents else ()


def _row(what: str, alike: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Return the row of one load. ``alike``: the runs of each column."""
    return what, *(
        f"{middle([run.pods_per_s for run in runs]):.0f}, {middle([run.cliques_per_gang for run in runs]):.1f}"
        if runs
        else "-"
        for runs in alike
    )
