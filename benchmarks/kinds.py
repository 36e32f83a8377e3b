"""The kinds of benchmarks by name: each reads its results file and makes the tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks import (
    contention,
    core,
    courses,
    creation,
    dashboard,
    devices,
    fragmentation,
    gang,
    jobs,
    latency,
    levels,
    memory,
    preemption,
    queues,
    racks,
    replay,
    takeover,
    throughput,
    waiting,
    writes,
)
from benchmarks.benchmark import Kind
from benchmarks.faults import campaign
from benchmarks.record import Content, read_runs

KINDS: dict[str, Kind[Any]] = {
    "throughput": throughput.KIND,
    "levels": levels.KIND,
    "jobs": jobs.KIND,
    "creation": creation.KIND,
    "gang": gang.KIND,
    "contention": contention.KIND,
    "waiting": waiting.KIND,
    "latency": latency.KIND,
    "core": core.KIND,
    "devices": devices.KIND,
    "racks": racks.KIND,
    "memory": memory.KIND,
    "preemption": preemption.KIND,
    "queues": queues.KIND,
    "courses": courses.KIND,
    "takeover": takeover.KIND,
    "dashboard": dashboard.KIND,
    "faults": campaign.KIND,
    "replay": replay.KIND,
    "fragmentation": fragmentation.KIND,
    "writes": writes.KIND,
}


def kind_of(name: str) -> Kind[Any]:
    """The kind of a benchmark by its name, which begins with it: throughput-1000 is a throughput."""
    return KINDS[name.partition("-")[0]]


def runs_of(content: Content) -> Sequence[Any]:
    """The runs of a results file, as its kind has them. Raises RecordError."""
    return read_runs(content, kind_of(content.benchmark).run)
