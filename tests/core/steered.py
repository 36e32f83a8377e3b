"""What the core writes to lead pods to their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.effects import Nominate, Ungate
from extender.core.gate.steering import SteeringMode
from policies.model import GANG_GATE, Node
from tests.builders import cluster
from tests.core.script import Script

BLOCK = "cloud.google.com/gce-topology-block"
GATED: dict[str, Any] = {"gates": (GANG_GATE,)}
PINS = pytest.mark.parametrize("mode", [SteeringMode.PIN_NODE, SteeringMode.PIN_DOMAIN])


def ungates(script: Script) -> list[Ungate]:
    return [effect for effect in script.effects if isinstance(effect, Ungate)]


def nominations(script: Script) -> list[str]:
    return [effect.name for effect in script.effects if isinstance(effect, Nominate) and effect.node]


def in_blocks(*texts: str) -> list[Node]:
    """``in_blocks("x a: 2x8")``: a clique as ``cluster`` makes it, in the block x."""
    return [
        replace(one, labels={**one.labels, BLOCK: text[0]}) for text in texts for one in cluster(text.partition(" ")[2])
    ]


def many_nodes(count: int) -> list[Node]:
    return cluster(f"a: {count}x8")
