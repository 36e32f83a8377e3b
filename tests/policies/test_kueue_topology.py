"""The fits in Kueue's own topology tests, and those of Muster where they differ on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from extender.core.ledger.claims import Claims
from policies.model import Pod, Topology
from policies.model.levels import levels_from
from policies.placement.place import Placed, place
from policies.placement.snapshot import Snapshot
from tests.builders import gang, node, requests

LEVELS = ("host", "rack", "block")
TABLE = Path(__file__).parent / "tables" / "topology.txt"


def cases() -> Iterator[tuple[int, list[str], list[str]]]:
    """The number of each line, its nodes and its parts."""
    nodes: list[str] = []
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        if not line:
            nodes = []
        elif line.startswith("node "):
            nodes.append(line)
        elif not line.startswith("#"):
            yield number, nodes, [column.strip() for column in line.split("||")]


@pytest.mark.parametrize(("number", "nodes", "parts"), cases())
def test_what_fits(number: int, nodes: list[str], parts: list[str]) -> None:
    wanted, answer, *others = parts
    members = [pod for at, text in enumerate(wanted.split(" + ")) for pod in podset(str(at), text)]
    plan = place(members, len(members), snapshot(nodes))
    assert ("fits" if isinstance(plan, Placed) else "waits") == answer, number
    assert answer not in others


def snapshot(nodes: list[str]) -> Snapshot:
    claims = Claims(levels_from([f"{name}=example.com/{name}" for name in LEVELS]))
    for text in nodes:
        _, where, cpus = text.split()
        name, _, domains = where.partition("@")
        block, _, rack = domains.partition("/")
        labels = {f"example.com/{level}": at for level, at in zip(LEVELS, (name, rack, block), strict=True)}
        claims.set_node(node(name, 0, cpu=int(cpus), labels=labels))
    return claims.snapshot()


def podset(series: str, text: str) -> list[Pod]:
    amount, *asks = text.split()
    count, _, cpus = amount.partition("*")
    options = dict(option.split("=") for option in asks)
    size, _, level = options.get("slices", "").partition("/")
    topology = Topology(options.get("required"), options.get("preferred"), int(size) if size else None, level or None)
    pods = gang(f"train-{series}", int(count))
    return [replace(pod, topology=topology, series=series, requests=requests(0, int(cpus))) for pod in pods]
