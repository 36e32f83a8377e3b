"""Gangs whose members demand something of other pods, or are spread, and which of them kube-scheduler is to try."""

from __future__ import annotations

from typing import Any

from extender.core.effects import Nominate
from policies.model import GANG_GATE, Constraints, HostPort, Pod, Requirement, Spread, Term
from tests.builders import gang
from tests.core.script import Script

HOST = "kubernetes.io/hostname"
PORT = Constraints((HostPort(29500),))
TRAIN = (Requirement("app", "In", ("train",)),)
APART = Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),))


def asking(name: str, size: int, constraints: Constraints) -> list[Pod]:
    return gang(name, size, gpus=1, labels=(("app", "train"),), constraints=constraints)


CLIQUE = "nvidia.com/gpu.clique"
EVENLY = Constraints(spread=(Spread(HOST, 1, TRAIN),))
NEAR = Constraints(affinity=(Term(CLIQUE, TRAIN, ("default",)),))
GATED: dict[str, Any] = {"gates": (GANG_GATE,)}


def members(size: int, constraints: Constraints = EVENLY, **facts: Any) -> list[Pod]:
    return gang("train", size, gpus=1, labels=(("app", "train"),), constraints=constraints, **facts)


def nominated(script: Script, pods: list[Pod]) -> list[Pod]:
    """The pods that the last requests nominate for the node that they are planned on."""
    last = {effect.uid: effect.node for effect in script.effects if isinstance(effect, Nominate)}
    return [pod for pod in pods if last.get(pod.uid) and last[pod.uid] == script.planned(pod)]
