"""Who stands back although there may be room: others are being started who would be in its way."""

from __future__ import annotations

from extender.core.gang.shape import Demand
from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.workload import Workload

_CREATION_S = 1.0
"""How long a job waits until it is seen again whether the pods of others have been created."""


def until_created(state: State, workload: Workload, now: float) -> Reason | None:
    """Pods of jobs that were admitted are still being created: more of them would keep room for long."""
    podsets = workload.podsets
    if podsets is None or state.creation.lets(workload.key, podsets.minimum, now, state.limits.creation_s):
        return None
    workload.retries.pause(now + _CREATION_S)
    state.touch(workload)
    return state.creation.reason


def until_gone(state: State, workload: Workload) -> Reason | None:
    """It gives way to another one, and some of it has yet to go."""
    if (preemptor := state.preemptions.leaving.get(workload.key)) is None:
        return None
    return Reason("Preempted", f"it gives way to {preemptor}, and its pods have yet to go", warning=False)


def until_started(state: State, workload: Workload, demand: Demand, *, related: bool) -> Reason | None:
    """The topology spread of one that is being started counts its pods, or the other way round. What is half-released
    waits for nobody."""
    if workload.release.partial_since is not None:
        return None
    return state.starting.ahead(workload.key, demand.pods, related=related)
