"""The benchmarks whose results are committed, each with the settings that docs/benchmarks.md quotes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import (
    contention,
    core,
    courses,
    creation,
    dashboard,
    devices,
    gang,
    jobs,
    latency,
    levels,
    memory,
    preemption,
    queues,
    racks,
    throughput,
    waiting,
    writes,
)
from benchmarks.benchmark import Benchmark
from benchmarks.job_stage import Arm, Shape
from benchmarks.stage import Mode
from extender.cli.load import Verb

RESULTS = Path(__file__).parent / "results"
MODES = tuple(Mode)
LARGE = tuple(mode for mode in Mode if mode is not Mode.AUTO)
"""In large clusters auto is nominate."""
PATIENCE_S = 180.0
ARMS = (Arm.ADAPTIVE, Arm.ALL, Arm.MUSTER)


def benchmarks(repeat: int) -> Sequence[Benchmark[Any]]:
    """All of them, the most telling first; ``repeat``: the rounds of benchmarks that vary from run to run."""
    return (
        jobs.benchmark("jobs-1000", 1000, jobs.SHAPES, None, ARMS, repeat, PATIENCE_S),
        jobs.benchmark("jobs-5000", 5000, jobs.SHAPES, None, ARMS, repeat, PATIENCE_S),
        jobs.benchmark("jobs-500", 500, [Shape(512, 1)], 1, (Arm.ADAPTIVE, Arm.NATIVE, Arm.MUSTER), repeat, PATIENCE_S),
        # 20 requests a second for a minute or two: once says enough.
        jobs.benchmark(
            "jobs-throttled", 1000, [Shape(8, 8)], 60, (Arm.ADAPTIVE, Arm.MUSTER), 1, PATIENCE_S, throttled=True
        ),
        creation.benchmark(500, 600.0),
        throughput.benchmark("throughput-1000", 1000, 375, 8, LARGE, repeat, PATIENCE_S),
        throughput.benchmark("throughput-5000", 5000, 188, 8, LARGE, repeat, PATIENCE_S),
        levels.benchmark(1000, 188, 8, repeat, PATIENCE_S),
        racks.benchmark(20, 20, 16, racks.MODES, repeat, PATIENCE_S),
        gang.benchmark(500, 512, MODES, repeat),
        # Pins need no row of their own: gated gangs wait alike, however they are steered later.
        contention.benchmark(32, 12, 8, 60.0, (Mode.NOMINATE, Mode.UNGATED)),
        waiting.benchmark("waiting", 100, 1000, 20.0, 10.0, [Mode.NOMINATE], alike=False),
        # Thousands of pods that kube-scheduler tries again and again would take the time of all the rest.
        waiting.benchmark("waiting-ungated", 100, 100, 20.0, 10.0, [Mode.UNGATED], alike=False),
        latency.benchmark(tuple(Verb), 100.0, 512, 1000, 5000),
        core.benchmark((1000, 5000, 20000), 1000),
        devices.benchmark(5000, 8, repeat),
        preemption.benchmark(5000, (100, 700)),
        queues.benchmark(),
        courses.benchmark(),
        memory.benchmark(5000, 20000),
        dashboard.benchmark(5000, 2000, 20, 2, repeat, 15.0),
        writes.benchmark(500, 1),
    )
