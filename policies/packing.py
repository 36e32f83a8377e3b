"""Packing: fill nodes and cliques that are broken already, so that whole ones stay whole."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from policies.api import NOBODY
from policies.model import Pod, Requests
from policies.snapshot import Amounts, Counts, Level, Rows, Snapshot


class Packing:
    """Half of the score is how full the node is, half how full its clique is, in what the pod asks for and is scarce.

    A node in no clique counts as one in a full clique: what runs there breaks none. Whatever is in use at all makes a
    point, so that the slightly broken is preferred to the whole.
    """

    def score(self, pod: Pod, rows: Rows, snapshot: Snapshot, beside: Rows = NOBODY) -> Counts:  # noqa: ARG002
        used, offered = scarce(pod.requests, snapshot)
        shares = fullness(used[:, rows], offered[:, rows])
        if snapshot.levels:
            level = snapshot.levels[0]
            cliques = np.append(fullness(*domain_sums(level, used, offered)), 1.0)
            # The code -1 finds the last one.
            shares = (shares + cliques[level.codes[rows]]) / 2
        return np.ceil(100 * shares).astype(np.int64)


def scarce(requests: Requests, snapshot: Snapshot) -> tuple[Amounts, Amounts]:
    """Used and offered, shape ``(kinds, nodes)``, of the extended resources asked for, else of cpu and memory."""
    asked = [name for name, amount in requests if amount and name in snapshot.resources]
    kinds = [name for name in asked if "/" in name] or [name for name in asked if name in ("cpu", "memory")]
    lines = [snapshot.resources[name] for name in kinds]
    offered = snapshot.allocatable[lines]
    return offered - snapshot.free[lines], offered


def domain_sums(level: Level, used: Amounts, offered: Amounts) -> tuple[Amounts, Amounts]:
    """The same for the domains of a level: shape ``(kinds, domains)``."""
    shape = (len(used), len(level.names))
    sums = [np.array([level.tally(line)[0] for line in amounts]).reshape(shape) for amounts in (used, offered)]
    return sums[0], sums[1]


def fullness(used: Amounts, offered: Amounts) -> NDArray[np.float64]:
    """0..1 for each place: the largest share in use of any kind."""
    shares = np.divide(used, offered, out=np.zeros(used.shape), where=offered > 0)
    return np.asarray(np.clip(shares.max(axis=0, initial=0.0), 0.0, 1.0), dtype=np.float64)
