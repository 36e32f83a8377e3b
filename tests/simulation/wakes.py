"""Every workload that could start has been woken: once settled, a fresh look at all waiting ones finds nothing to do.

The look spoils the core, which is used no more: what it asks for lands nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.core.engine import Engine
from extender.core.events import Tick
from extender.core.ledger.pending import Config, Pending

_LASTS_S = 1.0
_HANDLE, _WAKE = Engine.handle, Pending.wake
"""The original functions: a recorder or a planted bug that replaces them later does not affect this look."""


def not_woken(core: Engine, now: float) -> Iterator[str]:
    """Yield the workloads that a look at every pending one plans, or evicts others for."""
    pending, under_way = core.state.pending, core.state.preemptions.under_way
    waits, evicting, passes, end = [*pending.keys], [*under_way], core.passes[0], now + _LASTS_S
    _WAKE(pending, Config())
    core.state.preemptions.invalidate_searches()  # nor are preemptors without victims remembered
    _HANDLE(core, Tick(), now)
    while core.passes[0] == passes and (due := core.next_wake()) is not None and due < end:
        now = max(now, due)
        _HANDLE(core, Tick(), now)
    for key in waits:
        if key in pending.keys and key not in pending.due and key not in pending._wake_on:
            yield f"{key} waits for nothing that could wake it"
        if key not in pending.keys or (key in under_way and key not in evicting):
            yield f"{key} waits, and a look at it finds what to do: nothing has woken it"
