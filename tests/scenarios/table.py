"""The table of the shared scenarios in README.md beside this file: `python -m tests.scenarios.table` prints it."""

from __future__ import annotations

from tests.scenarios import SCENARIOS, Scenario
from tests.scenarios.stage import Setting

_ORDER = ("gangs", "gates", "topology", "dialects", "faults")
_NOT_COLLAPSED = (
    "singles_beside_a_waiting_gang",  # `muster simulate` leaves single pods to kube-scheduler
    "a_single_of_higher_priority_goes_first",
    "filter_is_never_called_for_a_gang_without_a_placement",  # no call is waiting for an answer there
    "the_extender_killed_while_it_ungates",  # and no process is killed
)

COLLAPSED = tuple(
    scenario
    for scenario in SCENARIOS.values()
    if scenario.part != "faults" and scenario.setting == Setting() and scenario.name not in _NOT_COLLAPSED
)
"""The scenarios whose facts the collapsed control plane of `muster simulate` has."""


def table() -> str:
    """The table in Markdown: the scenario, and the ending that every stage must reach."""
    scenarios = sorted(SCENARIOS.values(), key=lambda scenario: _ORDER.index(scenario.part))
    rows = [
        f"| {scenario.about} | {_ending(scenario)} | {'yes' if scenario in COLLAPSED else ''} |"
        for scenario in scenarios
    ]
    head = "| what happens | how it ends, simulated and real | collapsed too |"
    return "\n".join([head, "| --- | --- | --- |", *rows])


def _ending(one: Scenario) -> str:
    return "<br>".join(line.replace("|", "\\|") for line in one.ending)


if __name__ == "__main__":
    print(table())  # noqa: T201
