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
        self._runs: defaultdict[str, dict[str, Run]] = defaultdict(dict)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        report = yield
        known = fact_of(item)
        if known and report.when == "call" and report.passed and (known.slow or known.id in self.figures):
            self._runs[known.module][known.id] = run_now(self.figures.get(known.id, {}))
        return report

    def store(self) -> None:
        """Write down what has run."""
        for module, runs in self._runs.items():
            store(module, runs)


def fact_of(item: pytest.Item) -> Fact | None:
    """The fact that a test asserts."""
    return getattr(getattr(item, "function", None), "fact", None)
