"""More gangs than fit, their members created in turn, the worst order: which start, and the cost of waiting."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table
from benchmarks.meter import used
from benchmarks.sightings import Sightings, by_gang, longest_partial_s
from benchmarks.stage import GPUS_PER_NODE, Mode, Stage, gang
from devcluster.progress import Progress

PATIENCE_S = 60.0


class Run(Struct, frozen=True):
    """The figures of one mode.

    ``create_s``: from the first creation to the last.
    ``seconds``: from the first creation until as many gangs as fit are whole; None if that never happened.
    ``whole`` and ``partial``: gangs at the end.
    ``cpu_s``: by process, in the ``wait_s`` after that.
    """

    mode: Mode
    gangs: int
    fit: int
    create_s: float
    seconds: float | None
    longest_partial_s: float
    whole: int
    partial: int
    wait_s: float
    cpu_s: dict[str, float]


def measure(nodes: int, count: int, size: int, wait_s: float, mode: Mode, progress: Progress) -> Run:
    """Measure one mode on a fresh control plane: gangs of whole-node pods, ``wait_s`` of waiting after the start."""
    fit = nodes // size
    waiting = [gang(f"gang-{number}", size, mode, gpus=GPUS_PER_NODE) for number in range(count)]
    with Stage(mode, nodes, progress) as stage, Sightings(stage.api) as sightings:
        stage.start_scheduler()
        progress("creating the gangs in turn")
        began = time.perf_counter()
        stage.create_in_order(itertools.chain.from_iterable(zip(*waiting, strict=True)))
        created = time.perf_counter()
        try:
            sightings.wait(fit * size, PATIENCE_S)
        except TimeoutError:
            progress("not everything that fits was bound")
        progress(f"waiting {wait_s:g} s")
        before = stage.cpu_ms()
        time.sleep(wait_s)
        spent = used(stage.cpu_ms(), before)
        bound = sightings.bound()
        instants = [sorted(member.at for member in members) for members in by_gang(bound).values()]
        whole_at = [gang_instants[-1] for gang_instants in instants if len(gang_instants) == size]
        return Run(
            mode=mode,
            gangs=count,
            fit=fit,
            create_s=round(created - began, 3),
            seconds=round(max(whole_at) - began, 3) if len(whole_at) == fit else None,
            longest_partial_s=round(longest_partial_s(bound, size, until=time.perf_counter()), 3),
            whole=len(whole_at),
            partial=len(instants) - len(whole_at),
            wait_s=wait_s,
            cpu_s={name: round(milliseconds / 1000, 3) for name, milliseconds in spent.items()},
        )


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = [
        (
            run.mode.value,
            f"{run.whole} of {run.fit}",
            str(run.partial),
            f"{run.create_s:.2f} s",
            "never" if run.seconds is None else f"{run.seconds:.2f} s",
            f"{run.longest_partial_s:.2f} s",
            *(f"{run.cpu_s.get(name, 0):.2f} s" for name in ("kube-scheduler", "extender", "kube-apiserver")),
        )
        for run in runs
    ]
    columns = (
        *("mode", "whole at the end", "partial", "creation", "whole after", "longest partial"),
        *("CPU kube-scheduler", "CPU extender", "CPU kube-apiserver"),
    )
    return [
        Table(f"{runs[0].gangs} gangs, room for {runs[0].fit}; CPU in {runs[0].wait_s:g} s of waiting", columns, rows)
    ]


def problems(runs: Sequence[Run]) -> list[str]:
    return [
        f"{run.mode}: {run.whole} gangs are whole and {run.partial} partial, where {run.fit} fit"
        for run in runs
        if not run.mode.alone and (run.whole, run.partial) != (run.fit, 0)
    ]


KIND = Kind(Run, tables, problems)


def benchmark(nodes: int, count: int, size: int, wait_s: float, modes: Sequence[Mode]) -> Benchmark[Run]:
    settings = {"nodes": nodes, "gangs": count, "size": size, "wait_s": wait_s, "modes": modes}
    steps = {mode.value: partial(measure, nodes, count, size, wait_s, mode) for mode in modes}
    return Benchmark("contention", KIND, settings, steps)
