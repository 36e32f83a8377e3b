"""What the referee has to know of a run beside the objects."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Terms:
    """What of a run the referee has to know. ``calm``: nothing goes wrong, so gangs start without delay.

    ``grace_s``: how long a half-released gang has room kept. ``seat_s``: how long a running gang has the room of a lost
    member kept. ``waiting``: gangs of one namespace that are looked at.
    ``writes_at_once``: how many requests the extender may have under way.
    ``creation_s``: how long the next pod of a job may take to be created.
    ``restless``: gangs that kube-scheduler refuses for reasons of its own. ``vague``: nobody is told the planned nodes.
    ``queued``: there may be queues, which decide who is next. ``fair``: by their shares, also who is evicted.
    ``preempts``: workloads give way to others, which fairness knows nothing of.
    ``min_runtime_s``: nobody gives way who has run for less. ``evictions_per_hour``: nor who did so so often; 0: none.
    ``saturation``: a queue that uses more than it has evicts for one only of a smaller share, times this.
    ``within_s``: how long those that are let go await nodes; 0: nobody is.
    ``pins``: gated members are told theirs with their gates. ``sliced``: much happens in the middle of a pass.
    ``storage``: gangs have volume claims, which fairness knows nothing of.
    ``claims``: pods have claims of devices.
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
