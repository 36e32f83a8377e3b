"""The shared scenarios on a real control plane: each ends as it is written, and as it does in the simulator."""

from __future__ import annotations

import pytest

from tests.integration.company import Company
from tests.scenarios import SCENARIOS, Scenario
from tests.scenarios.stage import Setting
from tests.scenarios.walk import Walk
from tests.simulation.stage import SimulatedStage

pytestmark = pytest.mark.xdist_group("scenarios")

CALM = [scenario for scenario in SCENARIOS.values() if scenario.part != "faults"]
# The scenarios are sorted by setting, so that Muster is seldom restarted; the usual setting is last, for the walks too.
CHOSEN = sorted(CALM, key=lambda scenario: (scenario.setting == Setting(), repr(scenario.setting)))


@pytest.mark.parametrize("scenario", CHOSEN, ids=str)
def test_on_a_real_control_plane_it_ends_as_it_is_written(company: Company, scenario: Scenario) -> None:
    assert company.play(scenario) == scenario.ending


@pytest.mark.parametrize("seed", [3, 12])
def test_a_random_walk_stands_after_every_step_as_in_the_simulator(company: Company, seed: int) -> None:
    simulated = SimulatedStage(seed, Setting())
    drawn = Walk(seed, simulated, lambda: simulated.let(60)).steps(15)
    for step, standing in company.walk(drawn):
        assert standing == step.ending, step.told
