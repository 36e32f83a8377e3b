"""What enforcing would change, as metrics: GPUs held by gangs that cannot run, and domains used against those advised.

Computed when /metrics is read, with the contradictions between labels, which make all these figures worse.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from prometheus_client.core import Metric

from extender.core.state import State
from extender.core.workload import Workload
from extender.observe.gauges import gauge, gauges
from extender.observe.quality import codes_of, gpus_of
from policies.placement.snapshot import Level, Snapshot


def comparison(state: State) -> Iterator[Metric]:
    """The metrics of advisory mode, and the contradictions between labels."""
    gangs, view = state.workloads.values(), state.claims.snapshot()
    yield gauge(
        "stranded_gpus",
        "GPUs of bound members whose gang has not its quorum. Enforcing keeps this at 0 but for the moments of a "
        "release; so in advisory mode it is what enforcing would save.",
        sum(map(stranded, gangs)),
    )
    domains: dict[tuple[str, str], int] = {}
    for level in view.levels:
        used, advised = against_advice(gangs, level, view)
        domains |= {(level.name, "used"): used, (level.name, "advised"): advised}
    yield gauges(
        "advisory_domains",
        "In advisory mode: domains of all running gangs whose members were all advised, as they are used and as "
        "advised.",
        "level placement",
        domains,
    )
    torn = {level.name: len(level.torn) for level in view.levels}
    yield gauges("topology_contradictions", "Label values that are in two domains farther out.", "level", torn)


def stranded(gang: Workload) -> int:
    """GPUs of its bound members, as long as those are too few for it to run."""
    if gang.whole or gang.release.complete:
        return 0
    return sum(gpus_of(pod.requests) for pod in gang.bound)


def against_advice(gangs: Iterable[Workload], level: Level, snapshot: Snapshot) -> tuple[int, int]:
    """Domains that gangs use which are whole and were advised for each member, and the domains of that advice."""
    codes = codes_of(level)
    used = advised = 0
    for gang in gangs:
        if gang.advised and gang.whole:
            nodes = [(pod.node or "", gang.advised.get(pod.uid, "")) for pod in gang.bound]
            pairs = [(snapshot.rows.get(node), snapshot.rows.get(advice)) for node, advice in nodes]
            rows = np.array([pair for pair in pairs if None not in pair], dtype=np.intp)
            if len(rows) == len(pairs):
                used, advised = used + len(np.unique(codes[rows[:, 0]])), advised + len(np.unique(codes[rows[:, 1]]))
    return used, advised
