"""The cost of many gangs that cannot start: on a quiet cluster, and while unrelated pods come and go.

All nodes but four are taken, and every gang wants eight whole nodes: there is always room for some of its members.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table
from benchmarks.meter import used
from benchmarks.sightings import PODS, Reasons, Sightings, by_gang
from benchmarks.stage import GPUS_PER_NODE, Mode, Stage, gang, pod
from devcluster.progress import Progress

SIZE = 8
FREE_NODES = 4
LIFE_S = 1.0
"""How long an unrelated pod lives."""
CALM_S, PATIENCE_S = 5.0, 240.0


class Spell(Struct, frozen=True):
    """A stretch of time. ``cpu_share``: of one core, by process. ``cycles``: scheduling cycles that found no node."""

    seconds: float
    cpu_share: dict[str, float]
    cycles: int


class Run(Struct, frozen=True):
    """The figures of one mode.

    ``churn_alone``: unrelated pods come and go and no gang waits.
    ``quiet``: the gangs wait and nothing changes.
    ``churn``: both.
    ``created_s``: how long it took to create the gangs.
    ``explained_s``: from then until each gang had an Event with its reason.
    ``settle_s``: from the first creation until all was calm.
    ``arrival_cycles``: the fruitless cycles until then.
    """

    mode: Mode
    gangs: int
    pods: int
    rate: float
    created_s: float
    explained_s: float
    settle_s: float
    arrival_cycles: int
    churn_alone: Spell
    quiet: Spell
    churn: Spell
    bound: int
    flushed: int


def measure(nodes: int, count: int, window_s: float, rate: float, alike: bool, mode: Mode, progress: Progress) -> Run:
    """Measure one mode on a fresh control plane. ``rate``: unrelated pods a second."""
    with Stage(mode, nodes, progress) as stage:
        stage.create(_filler(name, mode) for name in stage.node_names[FREE_NODES:])
        stage.start_scheduler()
        progress("unrelated pods alone")
        churn_alone = _spell(stage, window_s, rate)
        before, began = _fruitless(stage), time.perf_counter()
        with Sightings(stage.api) as sightings, Reasons(stage.api) as reasons:
            progress("creating the gangs")
            stage.create(member for number in range(count) for member in _gang(number, mode, alike=alike))
            progress("waiting until each is told why it waits")
            created = time.perf_counter()
            reasons.wait(count, PATIENCE_S)
            explained = time.perf_counter()
            progress("waiting until all is calm")
            _settle(stage)
            settled = time.perf_counter()
            arrival = _fruitless(stage) - before
            progress("waiting")
            quiet = _spell(stage, window_s)
            progress("waiting beside unrelated pods")
            churn = _spell(stage, window_s, rate)
            bound = len(by_gang(sightings.bound()))
        return Run(
            mode=mode,
            gangs=count,
            pods=count * SIZE,
            rate=rate,
            created_s=round(created - began, 1),
            explained_s=round(explained - created, 1),
            settle_s=round(settled - began, 1),
            arrival_cycles=arrival,
            churn_alone=churn_alone,
            quiet=quiet,
            churn=churn,
            bound=bound,
            flushed=int(stage.scheduler_page().total("scheduler_pod_scheduled_after_flush_total")),
        )


def _filler(node: str, mode: Mode) -> dict[str, Any]:
    return pod(f"filler-{node}", mode, gpus=GPUS_PER_NODE, nodeName=node)


def _gang(number: int, mode: Mode, *, alike: bool) -> list[dict[str, Any]]:
    """Unless they are to be alike, no two gangs ask for the same, so that no answer serves for two."""
    return gang(f"gang-{number}", SIZE, mode, gpus=GPUS_PER_NODE, cpu="1" if alike else f"{1000 + number}m")


def _spell(stage: Stage, window_s: float, rate: float = 0.0) -> Spell:
    before, cycles, began = stage.cpu_ms(), _fruitless(stage), time.perf_counter()
    if rate:
        _come_and_go(stage, window_s, rate)
    else:
        time.sleep(window_s)
    seconds = time.perf_counter() - began
    spent = used(stage.cpu_ms(), before)
    shares = {name: round(milliseconds / 1000 / seconds, 4) for name, milliseconds in spent.items()}
    return Spell(round(seconds, 1), shares, _fruitless(stage) - cycles)


def _come_and_go(stage: Stage, window_s: float, rate: float) -> None:
    """Small pods are created at an even rate and deleted a while later, and all are gone at the end."""
    began = time.perf_counter()
    living: list[str] = []
    for number in range(round(window_s * rate)):
        time.sleep(max(0.0, began + number / rate - time.perf_counter()))
        name = f"passing-{number}"
        stage.api.create(PODS, pod(name, stage.mode))
        living.append(name)
        if len(living) > LIFE_S * rate:
            stage.api.delete(f"{PODS}/{living.pop(0)}", {"gracePeriodSeconds": 0})
    for name in living:
        stage.api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})


def _fruitless(stage: Stage) -> int:
    """How many scheduling cycles have ended without a node so far."""
    page = stage.scheduler_page()
    return int(
        page.total("scheduler_schedule_attempts_total")
        - page.total("scheduler_schedule_attempts_total", result="scheduled")
    )


def _settle(stage: Stage) -> None:
    """Wait until neither a cycle nor a write of the extender has happened for a while."""
    deadline = time.monotonic() + PATIENCE_S
    last: tuple[object, ...] = ()
    while (state := (_fruitless(stage), stage.writes())) != last:
        if time.monotonic() > deadline:
            return  # a hot loop never settles: the figures will tell
        last = state
        time.sleep(CALM_S)


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = []
    for run in runs:
        for what, spell in (
            ("unrelated pods, no gang", run.churn_alone), ("gangs wait", run.quiet), ("both", run.churn)
        ):  # fmt: skip
            scheduler, extender = (spell.cpu_share.get(name, 0.0) for name in ("kube-scheduler", "extender"))
            row = (f"{scheduler:.1%}", f"{extender:.1%}", f"{scheduler + extender:.1%}", str(spell.cycles))
            rows.append((run.mode.value, what, *row))
    columns = ("mode", "while", "kube-scheduler", "extender", "together", "fruitless cycles")
    first = runs[0]
    title = f"{first.gangs:,} gangs of {SIZE} that do not fit; unrelated pods: {first.rate:g} a second; share of a core"
    settled = Table(
        "Their arrival",
        (
            "mode",
            "all created after",
            "each has its reason after another",
            "calm after",
            "fruitless cycles per pod",
            "gangs that started",
            "woken by flush",
        ),
        [
            (
                run.mode.value,
                f"{run.created_s:.0f} s",
                f"{run.explained_s:.1f} s",
                f"{run.settle_s:.0f} s",
                f"{run.arrival_cycles / run.pods:.2f}",
                str(run.bound),
                str(run.flushed),
            )
            for run in runs
        ],
    )
    return [Table(title, columns, rows), settled]


def problems(runs: Sequence[Run]) -> list[str]:
    mistakes = []
    for run in runs:
        if run.bound and not run.mode.alone:
            mistakes.append(f"{run.mode}: {run.bound} gangs started although none fits")
        if run.flushed and not run.mode.alone:
            mistakes.append(f"{run.mode}: {run.flushed} pods waited for kube-scheduler's flush")
    return mistakes


KIND = Kind(Run, tables, problems)


def benchmark(
    name: str, nodes: int, count: int, window_s: float, rate: float, modes: Sequence[Mode], *, alike: bool
) -> Benchmark[Run]:
    settings = {"nodes": nodes, "gangs": count, "window_s": window_s, "rate": rate, "alike": alike, "modes": modes}
    steps = {mode.value: partial(measure, nodes, count, window_s, rate, alike, mode) for mode in modes}
    return Benchmark(name, KIND, settings, steps)
