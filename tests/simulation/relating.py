"""What pods demand of each other in the tests of the model and of the referee."""

from __future__ import annotations

from policies.model import CLIQUE, Constraints, Pod, Requirement, Spread, Term
from tests.builders import gang
from tests.simulation.relation_plan import DATA, HOST

OWN = (Requirement("app", "In", ("train",)),)
EVENLY = Constraints(spread=(Spread(HOST, 1, OWN),))
APART = Constraints(anti_affinity=(Term(HOST, OWN, ("default",)),))
NEAR_DATA = Constraints(affinity=(Term(CLIQUE, DATA, ("default",)),))


def members(size: int, constraints: Constraints) -> list[Pod]:
    return gang("train", size, gpus=1, labels=(("app", "train"), ("tier", "train")), constraints=constraints)
