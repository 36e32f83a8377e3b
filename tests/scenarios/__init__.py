"""Scenarios written once: the simulator and the real control plane play them, and must end the same way."""

from tests.scenarios import dialects, faults, gangs, gates, topology
from tests.scenarios.scenario import SCENARIOS, Scenario

__all__ = ["SCENARIOS", "Scenario", "dialects", "faults", "gangs", "gates", "topology"]
