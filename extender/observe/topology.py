"""The content of /topology and /domains: the levels in force, their domains with free room, and contradictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from extender.api.models import (
    ComputeDomainView,
    DeviceStock,
    DomainStock,
    DomainView,
    LevelView,
    TopologyView,
)
from extender.core.ledger.state import State
from extender.core.workload.workload import Workload
from policies.devices.lines import Match
from policies.model import CLIQUE
from policies.model.devices import DOMAIN_LABEL, ComputeDomain, DeviceKey
from policies.placement.columns import Codes
from policies.placement.snapshot import Amounts, Counts, Level, Snapshot
from policies.words import counted, natural

_GPU = "/gpu"


def topology(snapshot: Snapshot, *, configured: bool) -> TopologyView:
    """The levels as of now."""
    levels = snapshot.levels
    return TopologyView(configured=configured, levels=[_level(levels, at) for at in range(len(levels))])


def inside(levels: Sequence[Level], at: int, code: int) -> str | None:
    """The domain of the next level farther out that contains the domain; None without one."""
    parent = int(levels[at].above[0][code]) if at + 1 < len(levels) else -1
    return levels[at + 1].names[parent] if parent >= 0 else None


def in_order(level: Level) -> list[int]:
    """The codes of the level's domains in the order of their names, as people count."""
    return sorted(range(len(level.names)), key=lambda code: natural(level.names[code]))


def levels_line(view: TopologyView) -> str:
    """The levels in a line for the log: ``clique (nvidia.com/gpu.clique): 14 domains of 16 to 18 nodes; ...``."""
    source = "configured" if view.configured else "detected"
    return f"topology levels, {source}, nearest first: " + "; ".join(map(_level_line, view.levels))


def _level(levels: Sequence[Level], at: int) -> LevelView:
    level = levels[at]
    counts, outside = level.tally(np.ones(len(level.codes), dtype=np.int64))
    domains = [
        DomainView(name=level.names[code], nodes=int(counts[code]), inside=inside(levels, at, code))
        for code in in_order(level)
        if counts[code]
    ]
    torn = list(level.torn)
    return LevelView(name=level.name, key=level.key, domains=domains, outside=outside, contradictions=torn)


def _level_line(level: LevelView) -> str:
    sizes = [domain.nodes for domain in level.domains]
    text = f"{level.name} ({level.key}): {len(sizes)} domains"
    if sizes:
        text += f" of {min(sizes)} nodes" if min(sizes) == max(sizes) else f" of {min(sizes)} to {max(sizes)} nodes"
    if level.outside:
        text += f", {level.outside} nodes in none"
    if level.contradictions:
        text += f", CONTRADICTION: {', '.join(level.contradictions[:5])} in two domains farther out each"
    return text


def domains(state: State) -> list[DomainStock]:
    """All domains, nearest level first, by name; nodes in no domain of a level are one entry without a name."""
    view = state.claims.snapshot()
    lines = [line for name, line in view.resources.items() if name.endswith(_GPU)]
    offered, free = view.allocatable[lines].sum(axis=0), np.maximum(view.free[lines], 0).sum(axis=0)
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
    rows_of_gangs, devices = _rows_of_gangs(state, view), device_counts(state, view)
    return [
        domain_stock
        for at in range(len(view.levels))
        for domain_stock in _of(at, view, per_node, rows_of_gangs, devices)
    ]


def device_counts(state: State, view: Snapshot) -> dict[str, Amounts]:
    """The devices of each node, and how many are free, promised and used, by what pods ask for."""
    counts: dict[str, Amounts] = {}
    kinds = list(state.devices.counted())
    for node, row in view.rows.items():
        for stock in devices_of(state, view, node, kinds):
            here = counts.setdefault(stock.name, np.zeros((4, len(view.names)), dtype=np.int64))
            here[:, row] = stock.devices, stock.free, stock.promised, stock.used
    return dict(sorted(counts.items()))


def devices_of(
    state: State, view: Snapshot, node: str, kinds: Iterable[tuple[str, Match, str]] | None = None
) -> list[DeviceStock]:
    """The devices of a node, by what pods ask for; devices that no pod asks for, by driver.

    Devices that several nodes reach belong to none. ``kinds``: those of ``Devices.counted``, for callers that have
    them.
    """
    if not (there := state.devices.inventory.on_node(node)):
        return []
    kinds = [*(state.devices.counted() if kinds is None else kinds)]
    as_room = state.devices.counted_as_room(node)
    by_kind: dict[str, list[DeviceKey]] = {}
    for key, known in there.items():
        for name in [name for name, match, _ in kinds if known.match & match] or [key.driver]:
            by_kind.setdefault(name, []).append(key)
    lines = {name: view.resources.get(line) for name, _, line in kinds}
    stocks, row = [], view.rows[node]
    for name, keys in sorted(by_kind.items()):
        used = sum(there[key].used or key in as_room for key in keys)
        promised = 0
        if (line := lines.get(name)) is not None:
            # A bound pod's room is taken from the amount that its node offers, and is no promise.
            taken = int(view.allocatable[line, row] - view.free[line, row])
            room = sum(key in as_room and not there[key].used for key in keys)
            promised = min(max(0, taken - room), len(keys) - used)
        stocks.append(_stock(name, (len(keys), len(keys) - used - promised, promised, used)))
    return stocks


def compute_domains(state: State, of: Workload | None = None) -> list[ComputeDomainView]:
    """All ComputeDomains, by namespace and name; ``of``: those of this workload."""
    seen = state.devices.domains.seen.values()
    uids = None if of is None else {*of.compute_domains}
    return [_compute_domain(domain, state) for domain in sorted(seen, key=str) if uids is None or domain.uid in uids]


def _compute_domain(domain: ComputeDomain, state: State) -> ComputeDomainView:
    gangs = [workload for _, workload in sorted(state.workloads.items()) if domain.uid in workload.compute_domains]
    singles = [pod for pod in state.devices.pods_of(domain) if pod.group_key is None and pod.live]
    members = len(singles) + sum(workload.members_of(domain.uid) for workload in gangs)
    nodes = [node for node in state.claims.nodes.values() if node.labels.get(DOMAIN_LABEL) == domain.uid]
    cliques = sorted({node.labels[CLIQUE] for node in nodes if node.labels.get(CLIQUE)}, key=natural)
    problems = []
    if domain.nodes and members and domain.nodes != members:
        problems.append(f"numNodes is {domain.nodes}, and {counted(members, 'pod', 'has', 'have')} a channel of it")
    if len(cliques) > 1:
        problems.append(
            f"it is divided among {len(cliques)} cliques: pods reach each other by NVLink inside of one only"
        )
    return ComputeDomainView(
        namespace=domain.namespace,
        name=domain.name,
        uid=domain.uid,
        num_nodes=domain.nodes,
        members=members,
        workloads=[*(str(workload.key) for workload in gangs), *(str(pod) for pod in singles)],
        nodes=len(nodes),
        cliques=cliques,
        problems=problems,
    )


def _of(
    at: int, view: Snapshot, per_node: dict[str, Counts], rows_of_gangs: dict[str, Codes], devices: dict[str, Amounts]
) -> Iterator[DomainStock]:
    level = view.levels[at]
    sums = {what: level.tally(amounts) for what, amounts in per_node.items()}
    stocks = {name: level.sums(counts) for name, counts in devices.items()}
    gangs: dict[int, list[str]] = {}
    for gang, rows in rows_of_gangs.items():
        for code in np.unique(level.codes[rows]).tolist():
            gangs.setdefault(code, []).append(gang)
    for code in (*in_order(level), -1):
        counts = {what: int(outside if code < 0 else inner[code]) for what, (inner, outside) in sums.items()}
        name, outer = (level.names[code], inside(view.levels, at, code)) if code >= 0 else ("", None)
        if counts["nodes"]:
            here = [_stock(what, sums[:, code + 1].tolist()) for what, sums in stocks.items() if sums[0, code + 1]]
            gangs_here = gangs.get(code, [])
            yield DomainStock(level=level.name, name=name, inside=outer, gangs=gangs_here, devices=here, **counts)


def _stock(name: str, counts: Sequence[int]) -> DeviceStock:
    devices, free, promised, used = counts
    return DeviceStock(name=name, devices=devices, free=free, promised=promised, used=used)


def _rows_of_gangs(state: State, view: Snapshot) -> dict[str, Codes]:
    """The rows of the nodes with bound or promised members, by gang."""
    rows_by_gang = {}
    for key, gang in sorted(state.workloads.items()):
        rows = [row for node in gang.member_nodes if (row := view.rows.get(node)) is not None]
        if rows:
            rows_by_gang[str(key)] = np.array(rows, dtype=np.intp)
    return rows_by_gang
