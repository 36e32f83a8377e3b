"""The plugin of `make facts`: keeps the figures of facts that hold, and is the sign that slow facts run, too."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest

from tests.facts.fact import Fact
from tests.facts.results import Figures, Run, run_now, store


class Recorder:
    """Figures come in through the fixture `measured`."""

    def __init__(self) -> None:
        self.figures: dict[str, Figures] = {}
        self._failed: set[str] = set()
        self._runs: defaultdict[str, dict[str, Run]] = defaultdict(dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        if known := fact_of(item):
            self.saw(known, report)
        return report

    def saw(self, known: Fact, report: pytest.TestReport) -> None:
        """A test of this fact, which may have several, by its parameters, has come so far."""
        if report.when == "call" and report.passed and (known.slow or known.id in self.figures):
            self._runs[known.module][known.id] = run_now(self.figures.get(known.id, {}))
        elif report.failed:
            self._failed.add(known.id)

    def store(self) -> None:
        """Write down the figures of facts that have run and hold with every parameter."""
        for module, runs in self._runs.items():
            if held := {name: run for name, run in runs.items() if name not in self._failed}:
                store(module, held)


def fact_of(item: pytest.Item) -> Fact | None:
    """The fact that a test asserts."""
    return getattr(getattr(item, "function", None), "fact", None)
