"""What /domains shows: every domain of every level, with what it has left and which gangs are in it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import BaseModel

from extender.core.state import State
from extender.observe.topology import inside
from policies.placement.columns import Codes
from policies.placement.snapshot import Counts, Snapshot

_GPU = "/gpu"


class DomainStock(BaseModel):
    """One domain. ``open``: nodes that are ready and not cordoned; ``whole``: open nodes all of whose GPUs are free.

    ``gangs`` are those with bound or promised members there.
    """

    level: str
    name: str
    inside: str | None
    nodes: int
    open: int
    whole: int
    gpus: int
    free_gpus: int
    gangs: list[str]


def domains(state: State) -> list[DomainStock]:
    """All of them, the nearest level first, by name; nodes in no domain of a level are one entry without a name."""
    view = state.claims.snapshot()
    lines = [line for name, line in view.resources.items() if name.endswith(_GPU)]
    offered, free = view.allocatable[lines].sum(axis=0), np.clip(view.free[lines].sum(axis=0), 0, None)
    nodes = [state.claims.nodes[name] for name in view.names]
    ready = np.array([node.ready and not node.unschedulable for node in nodes], dtype=np.int64)
    usable = free * ready
    per_node = {
        "nodes": np.ones(len(nodes), dtype=np.int64),
        "open": ready,
        "whole": ((offered > 0) & (usable == offered)).astype(np.int64),
        "gpus": offered,
        "free_gpus": usable,
    }
    seats = _seats(state, view)
    return [one for at in range(len(view.levels)) for one in _of(at, view, per_node, seats)]


def _of(at: int, view: Snapshot, per_node: dict[str, Counts], seats: dict[str, Codes]) -> Iterator[DomainStock]:
    level = view.levels[at]
    sums = {what: level.tally(amounts) for what, amounts in per_node.items()}
    gangs: dict[int, list[str]] = {}
    for gang, rows in seats.items():
        for code in np.unique(level.codes[rows]).tolist():
            gangs.setdefault(code, []).append(gang)
    for code in (*np.argsort(level.rank).tolist(), -1):
        counts = {what: int(outside if code < 0 else inner[code]) for what, (inner, outside) in sums.items()}
        name, outer = (level.names[code], inside(view.levels, at, code)) if code >= 0 else ("", None)
        if counts["nodes"]:
            yield DomainStock(level=level.name, name=name, inside=outer, gangs=gangs.get(code, []), **counts)


def _seats(state: State, view: Snapshot) -> dict[str, Codes]:
    """Gang -> the rows of the nodes where its members are or are promised to be."""
    found = {}
    for key, gang in sorted(state.workloads.items()):
        rows = [row for node in gang.seats if (row := view.rows.get(node)) is not None]
        if rows:
            found[str(key)] = np.array(rows, dtype=np.intp)
    return found
