"""The facts about a run that the referee needs beside the objects."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf


@dataclass(frozen=True, slots=True)
class Terms:
    """The facts about a run that the referee needs.

    ``calm``: nothing goes wrong, so gangs start without delay.
    ``grace_s``: how long a half-released gang has room kept.
    ``seat_s``: how long a running gang has the room of a lost member kept.
    ``waiting``: how many gangs of one namespace are looked at.
    ``writes_at_once``: how many requests the extender may have under way.
    ``creation_s``: how long the next pod of a job may take to be created.
    ``restless``: gangs that kube-scheduler refuses for reasons of its own.
    ``vague``: the planned nodes are not written on pods.
    ``queued``: there may be queues, which decide the turns.
    ``fair``: by their shares, also for evictions.
    ``preempts``: workloads are evicted for others, which fairness does not model.
    ``min_runtime_s``: a workload that has run for less is not evicted.
    ``evictions_per_hour``: nor one that was evicted this often; 0: no limit.
    ``saturation``: a queue that uses more than its own evicts for one only of a smaller share, times this.
    ``within_s``: how long workloads without a plan await nodes; 0: none starts without a plan.
    ``pins``: gated members get their nodes with their gates.
    ``sliced``: much happens in the middle of a pass.
    ``storage``: gangs have volume claims, which fairness does not model.
    ``claims``: pods have claims of devices.
    ``reserves``: room is reserved for workloads that wait, which fairness knows nothing of.
    ``steady``: workloads end when they say, and nothing but the extender fails.
    ``overrun_s``: one that declares so is ended when it runs that much longer than it says where room is reserved.
    """

    calm: bool
    grace_s: float = 60.0
    waiting: int = 20_000
    restless: tuple[str, ...] = ()
    vague: bool = False
    writes_at_once: int = 64
    creation_s: float = 30.0
    pins: bool = False
    queued: bool = False
    fair: bool = False
    preempts: bool = False
    min_runtime_s: float = 0.0
    evictions_per_hour: int = 0
    saturation: Fraction | None = None
    within_s: float = 0.0
    sliced: bool = False
    seat_s: float = 60.0
    storage: bool = False
    claims: bool = False
    reserves: bool = False
    steady: bool = False
    overrun_s: float = inf
