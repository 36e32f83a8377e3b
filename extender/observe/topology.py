"""What /topology shows: the levels in force, their domains, and what the labels contradict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel

from policies.placement.snapshot import Level, Snapshot


class DomainView(BaseModel):
    """One domain: how many nodes it has. ``inside``: its domain at the next level farther out, if it has one."""

    name: str
    nodes: int
    inside: str | None


class LevelView(BaseModel):
    """One level. ``outside``: nodes without the label. ``contradictions``: values seen in two farther domains."""

    name: str
    key: str
    domains: list[DomainView]
    outside: int
    contradictions: list[str]


class TopologyView(BaseModel):
    """``levels`` are nearest first; ``configured`` or else found by the labels that nodes have."""

    configured: bool
    levels: list[LevelView]


def topology(snapshot: Snapshot, *, configured: bool) -> TopologyView:
    """The levels as of now."""
    levels = snapshot.levels
    return TopologyView(configured=configured, levels=[_level(levels, at) for at in range(len(levels))])


def inside(levels: Sequence[Level], at: int, code: int) -> str | None:
    """The domain of the next level farther out that a domain is in."""
    parent = int(levels[at].above[0][code]) if at + 1 < len(levels) else -1
    return levels[at + 1].names[parent] if parent >= 0 else None


def told(view: TopologyView) -> str:
    """In one line, for the log: ``clique (nvidia.com/gpu.clique): 14 domains of 16 to 18 nodes; ...``."""
    source = "configured" if view.configured else "detected"
    return f"topology levels, {source}, nearest first: " + "; ".join(map(_told, view.levels))


def _level(levels: Sequence[Level], at: int) -> LevelView:
    level = levels[at]
    counts, outside = level.tally(np.ones(len(level.codes), dtype=np.int64))
    domains = [
        DomainView(name=level.names[code], nodes=int(counts[code]), inside=inside(levels, at, code))
        for code in np.argsort(level.rank).tolist()
        if counts[code]
    ]
    torn = list(level.torn)
    return LevelView(name=level.name, key=level.key, domains=domains, outside=outside, contradictions=torn)


def _told(level: LevelView) -> str:
    sizes = [domain.nodes for domain in level.domains]
    text = f"{level.name} ({level.key}): {len(sizes)} domains"
    if sizes:
        text += f" of {min(sizes)} nodes" if min(sizes) == max(sizes) else f" of {min(sizes)} to {max(sizes)} nodes"
    if level.outside:
        text += f", {level.outside} nodes in none"
    if level.contradictions:
        text += f", CONTRADICTION: {', '.join(level.contradictions[:5])} in two domains farther out each"
    return text
