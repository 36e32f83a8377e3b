"""Gangs whose members demand something of other pods, as the tests of relations make them."""

from __future__ import annotations

from policies.model import Constraints, HostPort, Pod, Requirement, Term
from tests.builders import gang

HOST = "kubernetes.io/hostname"
PORT = Constraints((HostPort(29500),))
TRAIN = (Requirement("app", "In", ("train",)),)
APART = Constraints(anti_affinity=(Term(HOST, TRAIN, ("default",)),))


def asking(name: str, size: int, constraints: Constraints) -> list[Pod]:
    return gang(name, size, gpus=1, labels=(("app", "train"),), constraints=constraints)
