"""Every shared scenario in the simulator. The same ones are played on the real control plane in tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios import SCENARIOS, Scenario
from tests.scenarios.scenario import Ending, at_rest, ending
from tests.scenarios.stage import Setting
from tests.scenarios.table import COLLAPSED, table
from tests.scenarios.walk import Walk
from tests.simulation.stage import CollapsedStage, SimulatedStage
from tests.simulation.virtual import VirtualStage

DOCUMENT = Path(__file__).parents[1] / "scenarios" / "README.md"


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=str)
def test_in_the_simulator_it_ends_as_it_is_written(scenario: Scenario) -> None:
    for seed in (1, 2, 3):
        play(scenario, SimulatedStage(seed, scenario.setting))


@pytest.mark.parametrize("scenario", COLLAPSED, ids=str)
def test_as_muster_simulate_collapses_it_it_ends_as_it_is_written(scenario: Scenario) -> None:
    play(scenario, CollapsedStage(scenario.setting))


@pytest.mark.parametrize("seed", range(1, 21))
def test_how_long_things_take_does_not_change_how_a_random_walk_goes(seed: int) -> None:
    first, other = walk(seed, SimulatedStage(1, Setting())), walk(seed, SimulatedStage(2, Setting()))
    assert first == other


def walk(seed: int, stage: SimulatedStage) -> list[tuple[str, Ending]]:
    return [(step.told, step.ending) for step in Walk(seed, stage, lambda: stage.let(60)).steps(15)]


def play(scenario: Scenario, stage: VirtualStage) -> None:
    """Play the scenario to its end, and some time beyond."""
    scenario.play(stage)
    try:
        stage.wait(lambda: ending(stage), lambda seen: seen == scenario.ending and at_rest(stage))
    except TimeoutError:
        assert ending(stage) == scenario.ending
        raise
    stage.let(300)
    assert ending(stage) == scenario.ending, "it went on"


def test_the_document_has_the_table_of_the_scenarios() -> None:
    assert table() in DOCUMENT.read_text(), "write it anew: python -m tests.scenarios.table"
