"""Plays scenarios on a real control plane: Muster in the setting of each scenario, and a toll gate behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
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
from tests.scenarios.walk import Step


class Company:
    """The processes on one cluster. They are ended and started again when a scenario asks for another setting."""

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
        """Play it, and return its ending: the written one, or the state when patience has run out."""
        with self._stage(scenario.setting) as stage:
            scenario.play(stage)
            return _come_to(scenario.ending, stage, brief=False)

    def walk(self, steps: Iterable[Step]) -> Iterator[tuple[Step, Ending]]:
        """Carry out drawn steps. Yields each step with the state after it, as above."""
        with self._stage(Setting()) as stage:
            for step in steps:
                step.act(stage)
                yield step, _come_to(step.ending, stage, brief=True)

    def _stage(self, setting: Setting) -> RealStage:
        if setting != self._setting:
            self.dismiss()
            self._hire(setting)
        return RealStage(self._cluster, self._muster, self._tollgate)

    def _hire(self, setting: Setting) -> None:
        if setting.muster:
            patch = {"podMaxBackoffSeconds": int(LONGEST_BACKOFF_S)}
            self._muster = start_muster(self._cluster, setting.settings(), patch, [self._tollgate.entry])
        else:
            self._alone = self._cluster.start_scheduler(name="kube-scheduler-alone")
        self._setting = setting

    def dismiss(self) -> None:
        """End all processes."""
        if self._muster is not None:
            self._muster.stop()
        if self._alone is not None:
            self._alone.terminate()
        self._muster = self._alone = self._setting = None


def _come_to(expected: Ending, stage: RealStage, *, brief: bool) -> Ending:
    try:
        return stage.wait(lambda: ending(stage, brief=brief), lambda seen: seen == expected and at_rest(stage))
    except TimeoutError:
        return ending(stage, brief=brief)
