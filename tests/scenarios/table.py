"""The table of the shared scenarios in docs/simulate.md: `python -m tests.scenarios.table` prints it."""

from __future__ import annotations

from tests.scenarios import SCENARIOS, Scenario

_ORDER = ("gangs", "gates", "topology", "dialects", "faults")


def table() -> str:
    """Markdown: what happens, and the ending that both stages are held to."""
    scenarios = sorted(SCENARIOS.values(), key=lambda one: _ORDER.index(one.part))
    rows = [f"| {one.about} | {_ending(one)} |" for one in scenarios]
    return "\n".join(["| what happens | how it ends, simulated and real |", "| --- | --- |", *rows])


def _ending(one: Scenario) -> str:
    return "<br>".join(line.replace("|", "\\|") for line in one.ending)


if __name__ == "__main__":
    print(table())  # noqa: T201
