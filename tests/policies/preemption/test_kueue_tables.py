"""The victims in Kueue's own tests, and the victims of Muster where they differ on purpose."""

from __future__ import annotations

import pytest

from policies.model.queues import FairStrategy
from tests.conformance.preemption import World, decide
from tests.policies.tables import Case, candidates, cases, request

FAIR = {
    "fair": (FairStrategy.FINAL, FairStrategy.INITIAL),
    "fair final": (FairStrategy.FINAL,),
    "fair initial": (FairStrategy.INITIAL,),
}


@pytest.mark.parametrize("case", cases("preemption.txt"), ids=lambda case: case.where)
def test_victims(case: Case) -> None:
    fair = FAIR.get(case.parts[0], ())
    runs, asks, gone, *others = case.parts[bool(fair) :]
    decision = decide(World(candidates(runs), case.queues, case.cohorts, fair), request(asks))
    victims = [f"{name} {why}" for name, why in (decision.victims or {}).items()]
    assert sorted(victims or ["nobody"]) == sorted(gone.split(", "))
    assert gone not in others
