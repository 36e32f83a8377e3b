"""Gangs that demand something of each other or of other pods, and where they are placed."""

from __future__ import annotations

from typing import Any

from policies.model import (
    Constraints,
    Node,
    Pod,
    Requirement,
    Selector,
    Term,
)
from policies.model.mentions import full
from policies.placement.fitting import fits
from policies.placement.place import Placed, Shortfall, place
from policies.placement.snapshot import Snapshot
from tests.builders import gang, node

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
TRAIN: Selector = (Requirement("app", "In", ("train",)),)
DATA: Selector = (Requirement("app", "In", ("data",)),)


def term(key: str, selector: Selector = TRAIN) -> Term:
    return Term(key, selector, ("default",))


def members(size: int, *, gpus: int = 1, app: str = "train", **asked: Any) -> list[Pod]:
    return gang(app, size, gpus=gpus, labels=(("app", app),), constraints=Constraints(**asked))


def zones(text: str, gpus: int = 8) -> list[Node]:
    """``zones("aab")``: three nodes, two in zone a and one in zone b; ``-`` for none."""
    return [node(f"n{at}", gpus, labels={} if zone == "-" else {ZONE: zone}) for at, zone in enumerate(text)]


def placed(pods: list[Pod], view: Snapshot, needed: int | None = None) -> list[str]:
    plan = place(pods, len(pods) if needed is None else needed, view)
    assert isinstance(plan, Placed), plan
    assert fits(plan.nodes, [pod for pod in pods if pod.uid in plan.nodes], view)
    return list(plan.nodes.values())


def refused(pods: list[Pod], view: Snapshot) -> str:
    shortfall = place(pods, len(pods), view)
    assert isinstance(shortfall, Shortfall)
    return full(shortfall.explanation)
