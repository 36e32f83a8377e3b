"""After a workload was settled: indexes of those who wait, use quota or may give way are kept right."""

from __future__ import annotations

from extender.core.state import State
from extender.core.victims.candidates import is_evictable
from extender.core.workload import Workload


def index(state: State, workload: Workload) -> bool:
    """An empty one is let go. Returns whether it stays."""
    key, slots, stays = workload.key, workload.members.slots, True
    empty = not len(workload.members) and not (workload.reserved and workload.remade)
    if empty and workload.job is None and workload.podsets is None:
        state.forget(workload)
        state.preemptions.forget(key)
        stays = False
    else:
        state.quotas.see(workload)
        pods = len(workload.members.bound) if is_evictable(state, workload) else 0
        state.preemptions.offers(key, workload.priority, pods)
    if key in state.starting:
        for other in state.starting.go_on(workload):
            state.waiting.look_again(other)
    if slots.lacking and not workload.paused:
        state.waiting.come(key, changed=workload.asked is None and not workload.releasing)
    elif key in state.waiting.keys and (following := state.waiting.leave(key)) is not None:
        state.nudge(state.workloads[following])
    return stays
