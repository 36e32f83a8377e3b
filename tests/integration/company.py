"""Who plays scenarios on a real control plane: Muster in the setting that each asks for, and a toll gate behind it."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from devcluster import Cluster
from devcluster.muster import RunningMuster, start_muster
from devcluster.scheduler import Scheduler
from tests.integration.stage import RealStage, add_priorities
from tests.integration.tollgate import TollGate
from tests.scenarios import Scenario
from tests.scenarios.scenario import Ending, at_rest, ending
from tests.scenarios.stage import LONGEST_BACKOFF_S, PRIORITIES, Setting


class Company:
    """On one cluster. What runs is ended and started anew when a scenario asks for another setting."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tollgate = TollGate()
        self._setting: Setting | None = None
        self._muster: RunningMuster | None = None
        self._alone: Scheduler | None = None

    def __enter__(self) -> Self:
        add_priorities(self._cluster, PRIORITIES)
        self._tollgate.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tollgate.__exit__(kind, error, trace)

    def play(self, scenario: Scenario) -> Ending:
        """Play it, and return its ending: the one that is written, or what there is when patience has run out."""
        if scenario.setting != self._setting:
            self._dismiss()
            self._hire(scenario.setting)
        with RealStage(self._cluster, self._muster, self._tollgate) as stage:
            scenario.play(stage)
            try:
                return stage.wait(lambda: ending(stage), lambda seen: seen == scenario.ending and at_rest(stage))
            except TimeoutError:
                return ending(stage)

    def _hire(self, setting: Setting) -> None:
        if setting.muster:
            patch = {"podMaxBackoffSeconds": int(LONGEST_BACKOFF_S)}
            self._muster = start_muster(self._cluster, setting.settings(), patch, [self._tollgate.entry])
        else:
            self._alone = self._cluster.start_scheduler(name="kube-scheduler-alone")
        self._setting = setting

    def _dismiss(self) -> None:
        if self._muster is not None:
            self._muster.stop()
        if self._alone is not None:
            self._alone.terminate()
        self._muster = self._alone = self._setting = None
