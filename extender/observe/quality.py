"""How well running gangs are placed, and what the domains have left; computed for each request of /metrics.

Only GPUs count: resources whose name ends in ``/gpu``. A node without the label of a level counts as a domain of its
own. The best possible placement is judged by all GPUs of the domains, used or not.

The slowdown is a model, not a measurement. A ring all-reduce of S bytes over n GPUs takes at least
``2 (n - 1) / n * S / B``. B is the bandwidth of the slowest link in the ring (P. Patarasuk and X. Yuan, "Bandwidth
optimal all-reduce algorithms for clusters of workstations", J. Parallel Distrib. Comput. 69, 2009). S and n of a gang
stay the same wherever it runs. So the ratio of the slowest links is its time against the best possible. That ratio is
``bandwidth_ratio`` if the gang leaves a nearest domain that could have held it, and else 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from extender.core.workload.workload import Workload
from policies.model import Requests, Selection, Toleration
from policies.placement.columns import Codes
from policies.placement.snapshot import Counts, Level, Snapshot
from policies.steps import Steps, batched

ANYWHERE = "cluster"
"""The name for all nodes together, in place of a level's."""

_GPU = "/gpu"
_AT_ONCE, _PER_BATCH = 32, 64
"""Gangs that are looked at in one step, and its cost."""
_LEVEL = 200
"""The cost of a level."""


@dataclass(frozen=True, slots=True)
class LevelQuality:
    """The quality of placement at one level. Except ``domains``, means over the running gangs; 1 without any.

    ``domains``: how many domains with GPUs have none in use (whole), some (broken), or all (full).
    ``spread``: domains used, over the fewest that could hold the gang.
    ``pairs_together``: share of all pairs of a gang's GPUs that are in one domain.
    ``balance``: of gangs in several domains, the smallest share over the largest.
    """

    domains: dict[str, int]
    spread: float
    pairs_together: float
    balance: float


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of placement.

    ``levels``: by name, nearest first.
    ``slowdown``: modelled; 1 at best.
    ``largest``: the most entirely free nodes of the common kind in one domain, by level, and in the cluster.
    ``gpus``: used by pods or promised to them, free, and free on nodes that take no pods.
    """

    levels: dict[str, LevelQuality]
    largest: dict[str, int]
    slowdown: float
    gpus: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Members:
    """The bound members of all gangs with GPUs: three arrays of one length. Gangs are counted from 0."""

    gang: Codes
    row: Codes
    gpus: Counts
    gangs: int


def quality(gangs: Iterable[Workload], snapshot: Snapshot, bandwidth_ratio: float) -> Steps[Quality]:
    """The quality as of the snapshot, by arrays of all members and nodes."""
    kinds = gpu_kinds(snapshot)
    lines = [snapshot.resources[name] for name in kinds]
    offered = snapshot.allocatable[lines].sum(axis=0)
    free = np.maximum(snapshot.free[lines], 0).sum(axis=0)
    members = yield from _members(gangs, snapshot)
    # Nodes with GPUs are often tainted by the resource's name, and pods that ask for it tolerate that.
    usable = snapshot.eligible(Selection(tolerations=tuple(Toleration(name, "Exists", "", "") for name in kinds)))
    vacant = _vacant(offered, free) & usable
    levels, largest, slowdown = {}, {}, 1.0
    for at, level in enumerate(snapshot.levels):
        levels[level.name], divided = _level(level, members, offered, free)
        yield _LEVEL
        if at == 0:
            slowdown = _mean(np.where(divided, bandwidth_ratio, 1.0))
        largest[level.name] = int(level.tally(vacant.astype(np.int64))[0].max(initial=0))
    largest[ANYWHERE] = int(vacant.sum())
    closed = int(free[~usable].sum())
    gpus = {"used": int((offered - free).sum()), "free": int(free.sum()) - closed, "closed": closed}
    return Quality(levels, largest, slowdown, gpus)


def _members(gangs: Iterable[Workload], snapshot: Snapshot) -> Steps[_Members]:
    rows_found: list[tuple[int, int, int]] = []
    known: dict[Requests, int] = {}
    number = 0
    for batch in batched(gangs, _AT_ONCE):
        for gang in batch:
            before = len(rows_found)
            for pod in gang.bound:
                if (gpus := known.get(pod.requests)) is None:
                    gpus = known[pod.requests] = gpus_of(pod.requests)
                row = snapshot.rows.get(pod.node or "")
                if gpus and row is not None:
                    rows_found.append((number, row, gpus))
            number += len(rows_found) > before
        yield _PER_BATCH
    columns = np.array(rows_found, dtype=np.int64).reshape(-1, 3).T
    return _Members(columns[0].astype(np.intp), columns[1].astype(np.intp), columns[2], number)


def gpu_kinds(snapshot: Snapshot) -> list[str]:
    """The resources of the cluster that are GPUs."""
    return [name for name in snapshot.resources if name.endswith(_GPU)]


def gpus_of(requests: Requests) -> int:
    """GPUs that one pod asks for."""
    return sum(amount for name, amount in requests if name.endswith(_GPU))


def codes_of(level: Level) -> Codes:
    """The domain of each node; a node in no domain counts as one of its own."""
    return np.where(level.codes >= 0, level.codes, len(level.names) + np.arange(len(level.codes)))


def _level(level: Level, members: _Members, offered: Counts, free: Counts) -> tuple[LevelQuality, NDArray[np.bool_]]:
    """The quality at the level, and which gangs are divided although one domain could hold them."""
    codes = codes_of(level)
    size = int(codes.max(initial=0)) + 1
    # One entry for each pair of a gang and a domain with members of it.
    entries, place = np.unique(members.gang * size + codes[members.row], return_inverse=True)
    gpus = np.bincount(place, members.gpus, len(entries)).astype(np.int64)
    gang = entries // size
    totals, used = np.bincount(gang, gpus, members.gangs), np.bincount(gang, minlength=members.gangs)
    largest_first = np.sort(np.bincount(codes, offered, size))[::-1]
    least = np.minimum(np.searchsorted(np.cumsum(largest_first), totals) + 1, used)
    pairs, inside = _pairs(totals).sum(), _pairs(gpus).sum()
    smallest, largest = np.full(members.gangs, np.iinfo(np.int64).max), np.zeros(members.gangs, dtype=np.int64)
    np.minimum.at(smallest, gang, gpus)
    np.maximum.at(largest, gang, gpus)
    split = used > 1
    level_quality = LevelQuality(
        _domains(level.tally(offered)[0], level.tally(free)[0]),
        _mean(used / least),
        float(inside / pairs) if pairs else 1.0,
        _mean(smallest[split] / largest[split]),
    )
    return level_quality, split & (least == 1)


def _domains(offered: Counts, free: Counts) -> dict[str, int]:
    there = offered > 0
    whole, full = there & (free == offered), there & (free == 0)
    return {"whole": int(whole.sum()), "broken": int((there & ~whole & ~full).sum()), "full": int(full.sum())}


def _vacant(offered: Counts, free: Counts) -> NDArray[np.bool_]:
    """The unused nodes of the most common kind, by their GPUs; of two equally common kinds, the larger nodes."""
    kinds, counts = np.unique(offered[offered > 0], return_counts=True)
    if not len(kinds):
        return np.zeros(len(offered), dtype=np.bool_)
    usual = kinds[counts == counts.max()][-1]
    mask: NDArray[np.bool_] = (offered == usual) & (free == usual)
    return mask


def _pairs(counts: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(counts * (counts - 1) / 2, dtype=np.float64)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else 1.0
