"""The self-check in the simulator: every kind of fact is compared, drift is found, and a restart repairs it."""

from __future__ import annotations

from collections import Counter

import pytest

from extender.runtime.compare import Difference, Kind
from tests.simulation.campaign import Run
from tests.simulation.drawing import draw
from tests.simulation.plants.drifting import room_of_a_pod_that_was_deleted_stays_taken

WITH_DEVICES = 1_000_001


class Repaired(Run):
    """A run in which drift ends the extender, which starts again without its bug."""

    def __init__(self, seed: int, bug: pytest.MonkeyPatch) -> None:
        super().__init__(draw(seed), every=0)
        self.found: list[list[Difference]] = []
        self._bug = bug

    def _drifted(self, drift: list[Difference]) -> None:
        self.found.append(drift)
        self._bug.undo()
        self.world.kill_extender()
        self.referee.extender_killed()
        self.world.start_extender()


def test_drift_is_found_and_a_restart_repairs_it() -> None:
    with pytest.MonkeyPatch.context() as bug:
        room_of_a_pod_that_was_deleted_stays_taken(bug)
        run = Repaired(11, bug)
        run.play()
    (drift,) = run.found
    assert [(difference.kind, difference.rebuilt) for difference in drift] == [(Kind.CLAIMS, "no room")]


def test_every_kind_of_fact_is_compared() -> None:
    compared = Counter[Kind]()
    for seed in (46, WITH_DEVICES):
        run = Run(draw(seed), every=0)
        run.play()
        compared += run.checks.compared
    assert compared.keys() == {*Kind}, compared
