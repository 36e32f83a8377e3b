"""Shared scenarios in which processes are killed or stand still, on a real control plane of their own."""

from __future__ import annotations

import pytest

from tests.integration.company import Company
from tests.scenarios import SCENARIOS, Scenario

pytestmark = pytest.mark.xdist_group("faults")
CHOSEN = [scenario for scenario in SCENARIOS.values() if scenario.part == "faults"]


@pytest.mark.parametrize("scenario", CHOSEN, ids=str)
def test_on_a_real_control_plane_it_ends_as_it_is_written(company: Company, scenario: Scenario) -> None:
    assert company.play(scenario) == scenario.ending
