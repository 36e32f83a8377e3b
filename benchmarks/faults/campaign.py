"""Every fault, round after round, each round on a control plane of its own; the outcomes, by fault."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Failed, Kind, Table, middle
from benchmarks.faults.scenarios import PROCESSES, WRITES, Fault
from benchmarks.faults.theatre import Scale, Theatre
from devcluster.progress import Progress


class Struck(Struct):
    """A fault that happened.

    ``wrong``: the promises that were not kept in the end.
    ``rest_s``: seconds from the repair until all promises were kept.
    """

    fault: str
    text: str
    wrong: list[str]
    rest_s: float


class Round(Struct):
    struck: list[Struck]


def measure(scale: Scale, progress: Progress) -> Round:
    struck = []
    with Theatre(scale, progress) as theatre:
        for fault in (*WRITES, *PROCESSES):
            progress(fault.name)
            struck.append(_strike(theatre, fault))
    return Round(struck)


def _strike(theatre: Theatre, fault: Fault) -> Struck:
    theatre.mend()
    began = time.monotonic()
    with theatre.scene() as scene:
        try:
            ends = fault.happen(theatre, scene)
            theatre.mend()
            began = time.monotonic()
            wrong = theatre.settle(scene, ends)
        except (*Failed, AssertionError) as error:
            theatre.mend()
            wrong = [f"it could not be tried: {error}"]
        return Struck(fault.name, fault.text, wrong, round(time.monotonic() - began, 2))


def tables(rounds: Sequence[Round]) -> list[Table]:
    rows = []
    for fault in (*WRITES, *PROCESSES):
        struck = [outcome for each in rounds for outcome in each.struck if outcome.fault == fault.name]
        good = [outcome.rest_s for outcome in struck if not outcome.wrong]
        rest = (f"{middle(good):.1f} s", f"{max(good):.1f} s") if good else ("-", "-")
        rows.append((fault.name, fault.text, str(len(struck)), str(len(good)), *rest))
    columns = ("fault", "what happened", "times", "ended as promised", "at rest after", "worst")
    return [Table("Faults, and how the gangs stood after them", columns, rows)]


def problems(rounds: Sequence[Round]) -> list[str]:
    return [f"{outcome.fault}: {wrong}" for each in rounds for outcome in each.struck for wrong in outcome.wrong]


KIND = Kind(Round, tables, problems)


def benchmark(rounds: int, scale: Scale) -> Benchmark[Round]:
    settings = {
        "rounds": rounds,
        "outage_s": scale.outage_s,
        "hang_s": scale.hang_s,
        "delay_s": scale.delay_s,
        "gangs": scale.gangs,
    }
    steps = {f"round {number}": partial(measure, scale) for number in range(1, rounds + 1)}
    return Benchmark("faults", KIND, settings, steps)
