"""Texts for reasons about the room that is kept for replacements of lost members.

They name an instant: a text that changed as time passes would be reported again and again.
"""

from __future__ import annotations

from datetime import UTC, datetime

from extender.core.member import Stage
from extender.core.state import State
from extender.core.workload import Workload
from policies.model import Pod
from policies.words import listed, many


def incomplete(state: State, workload: Workload) -> str:
    """``"2 of 3 members are bound; room for 1 pod is kept on n-1 until 2026-11-21 14:05:10 UTC"``."""
    bound = f"{workload.share(Stage.BOUND)} are bound"
    if not workload.missing:
        return f"{bound}; the others have a node"
    if not workload.reserved:
        return f"{bound}; no room is kept for the others"
    return f"{bound}; {kept_for_it(state, workload)}"


def kept_for_it(state: State, workload: Workload) -> str:
    """Say where its own kept room is, and how long it is kept. There must be some."""
    rooms = state.kept_rooms(workload)
    nodes = listed(sorted({claim.node for claim in rooms}))
    ends = max((claim.until or 0.0 for claim in rooms), default=0.0)
    return f"room for {many(len(rooms), 'pod')} is kept on {nodes} {_until(state, ends)}"


def kept_for_others(state: State, workload: Workload, pod: Pod) -> str:
    """``"; room for 1 pod is kept until 2026-11-21 14:05:10 UTC for replacements of lost members of other gangs"``:
    where this pod might go; empty for none."""
    others = [state.workloads[key] for key in state.keeping if key != workload.key]
    rooms = [claim for other in others for claim in state.kept_rooms(other)]
    open_to_it = state.claims.admitting(workload.asking(pod).selection) if rooms else bool
    there = [claim for claim in rooms if open_to_it(claim.node)]
    if not there:
        return ""
    ends = max(claim.until or 0.0 for claim in there)
    kept = f"room for {many(len(there), 'pod')} is kept {_until(state, ends)}"
    return f"; {kept} for replacements of lost members of other gangs"


def _until(state: State, instant: float) -> str:
    """``instant`` is of the core's clock."""
    return f"until {datetime.fromtimestamp(instant - state.epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"
