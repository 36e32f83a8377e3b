"""The resident memory of the extender on a large cluster in use, and the time until the extender is ready."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from msgspec import Struct

from benchmarks.benchmark import Benchmark, Kind, Table, middle
from benchmarks.meter import cpu_ms, memory_mib
from benchmarks.sightings import PODS
from benchmarks.stage import GPUS_PER_NODE, Mode, Stage, pod
from devcluster import ClusterError
from devcluster.progress import Progress

SETTLE_S = 300.0
CALM_S, CALM_SHARE = 3.0, 0.2
"""The control plane is calm when all of it has used no more than this share of a core for this many seconds. The start
of 20,000 pods goes on for a minute after the last of them runs. That is no part of a start of the extender."""
STARTS = 3
PLATFORM = "dgx-b200"
"""Nodes of this platform have eight GPUs, sixteen names of resources, sixty labels and no taint."""


class Run(Struct, frozen=True):
    """The figures of every start of the extender on the same cluster.

    ``ready_s``: from the start of its process until /readyz is well.
    ``cpu_s``: its processor time until then.
    ``resident_mib``: its memory at that time.
    ``highest_mib``: its highest memory up to then.
    """

    nodes: int
    pods: int
    ready_s: list[float]
    cpu_s: list[float]
    resident_mib: list[float]
    highest_mib: list[float]


def measure(nodes: int, pods: int, platform: str, progress: Progress) -> Run:
    """Pods are created bound, and run by the time the extender starts. Raises TimeoutError when they do not."""
    if pods > nodes * GPUS_PER_NODE:
        raise ClusterError(f"{nodes} nodes have no room for {pods} pods with a GPU each")
    with Stage(Mode.UNGATED, nodes, progress, platform=platform) as stage:
        stage.end_muster()  # it need not follow how the cluster comes about
        progress(f"creating {pods} bound pods")
        names = stage.node_names
        stage.create(pod(f"bound-{n}", stage.mode, gpus=1, nodeName=names[n % nodes]) for n in range(pods))
        progress("waiting until they run")
        _wait_until_running(stage, pods)
        progress("waiting until the control plane is calm")
        _wait_until_calm(stage)
        starts = []
        for number in range(STARTS):
            progress(f"start {number + 1} of {STARTS}")
            starts.append(_start(stage))
    ready, cpu, resident, highest = ([round(values, 2) for values in figures] for figures in zip(*starts, strict=True))
    return Run(nodes, pods, ready, cpu, resident, highest)


def _wait_until_running(stage: Stage, pods: int) -> None:
    """Asked for now and then: a watch of all these changes would cost more than they do."""
    deadline = time.monotonic() + SETTLE_S
    while (still := _not_running(stage)) and time.monotonic() < deadline:
        time.sleep(2.0)
    if still:
        raise TimeoutError(f"{still} of {pods} pods did not run after {SETTLE_S:g} s")


def _wait_until_calm(stage: Stage) -> None:
    deadline = time.monotonic() + SETTLE_S
    while (busy := _busy(stage)) > CALM_SHARE:
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {SETTLE_S:g} s the control plane still uses {busy:.1f} cores")


def _busy(stage: Stage) -> float:
    """How many cores the control plane uses, over the next few seconds."""
    before = stage.cpu_ms()
    time.sleep(CALM_S)
    after = stage.cpu_ms()
    return sum(after[name] - before[name] for name in after if name != "benchmark") / 1000 / CALM_S


def _not_running(stage: Stage) -> int:
    page = stage.api.get(PODS, fieldSelector="status.phase!=Running", limit=1)
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def _start(stage: Stage) -> tuple[float, float, float, float]:
    began = time.perf_counter()
    pid = stage.restart_muster()
    ready_s = time.perf_counter() - began
    resident, highest = memory_mib(pid)
    figures = ready_s, cpu_ms(pid) / 1000, resident, highest
    stage.end_muster()
    return figures


def tables(runs: Sequence[Run]) -> list[Table]:
    rows = [
        (
            f"{run.nodes:,} ({run.pods:,} pods)",
            f"{middle(run.ready_s):.2f} s",
            f"{max(run.ready_s):.2f} s",
            f"{middle(run.cpu_s):.2f} s",
            f"{max(run.resident_mib):.0f} MiB",
            f"{max(run.highest_mib):.0f} MiB",
        )
        for run in runs
    ]
    columns = ("nodes", "ready after", "worst", "processor time", "resident memory", "at its highest")
    return [Table("The extender on a cluster in use", columns, rows)]


KIND = Kind(Run, tables)


def benchmark(nodes: int, pods: int, platform: str = PLATFORM) -> Benchmark[Run]:
    settings = {"nodes": nodes, "pods": pods, "platform": platform}
    return Benchmark("memory", KIND, settings, {"one run": partial(measure, nodes, pods, platform)})
