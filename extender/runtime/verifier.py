"""Look for drift regularly and on demand: two checks 30 s apart. Differences that both find are reported and repaired.

The repair is a new core, which learns everything from the objects as at a takeover; no single field is corrected. It
comes at most once an hour, then less often, so that a bug of a check does not keep restarting the core.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from extender.core.effects import Hint
from extender.core.engine import Engine
from extender.core.events import Event
from extender.runtime import garbage
from extender.runtime.compare import Difference, Kind
from extender.runtime.driver import Observer
from extender.runtime.runner import Runner
from extender.runtime.verification import AGAIN_S, Check, confirmed
from policies.model import Controller
from policies.words import counted, listed

log = logging.getLogger("muster")

_SLICE_S, _PAUSE_S = 0.002, 0.008
"""Seconds that a check works, and then pauses for other tasks."""
_LONGEST_S = 600.0
"""Seconds after which a check is given up."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 3600.0, 86_400.0
"""Seconds after a restart without another one; each time twice as long."""
_SHOWN = 10
"""Most differences in the log and in an Event."""
NO_CHECK = "nothing is checked while Muster stands by or recovers"


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a round of checks.

    ``at``: when it ended, by the runner's clock.
    ``seconds``: how long its last check took.
    ``unconfirmed``: differences that only one check found.
    ``problem``: why there is no result.
    """

    at: float
    seconds: float = 0.0
    differences: tuple[Difference, ...] = ()
    unconfirmed: int = 0
    compared: Mapping[Kind, int] = field(default_factory=dict)
    left_out: Mapping[str, int] = field(default_factory=dict)
    problem: str = ""


class Verifier:
    """Runs the self-checks.

    ``objects``: the events of each existing object that the core is shown.
    ``every_s``: seconds between two rounds; with 0 rounds come only on demand, and nothing is repaired.
    ``restart``: begins with a new core.
    ``report``: reports drift to people; called after a restart, which would break off the write.
    ``again_s``: seconds between the two checks of a round.
    """

    def __init__(
        self,
        runner: Runner,
        new_core: Callable[[], Engine],
        objects: Callable[[], Iterable[Event]],
        *,
        every_s: float,
        restart: Callable[[], None],
        report: Callable[[str], None],
        observer: Observer | None = None,
        again_s: float = AGAIN_S,
    ) -> None:
        self.every_s = every_s
        self.rounds = 0
        """How many rounds have ended."""
        self.last: Result | None = None
        self.restarts = 0
        self.check: Check | None = None
        """The check under way."""
        self.confirming = False
        """Whether the first check of the round has found differences."""
        self._runner = runner
        self._new_core = new_core
        self._objects = objects
        self._restart = restart
        self._report = report
        self._observer = observer or Observer()
        self._again_s = again_s
        self._requested = asyncio.Event()
        self._no_restart_before = 0.0
        self._pause_s = FIRST_PAUSE_S

    def begin(self) -> None:
        """Begin a round now, unless one is under way."""
        self._requested.set()

    @property
    def under_way(self) -> bool:
        """Whether a round is under way, or about to begin."""
        return self._requested.is_set()

    async def run(self) -> None:
        """Run rounds until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self.every_s or None):
                    await self._requested.wait()
            except TimeoutError:
                self._requested.set()
            self.last = await self._round()
            self.rounds += 1
            self.confirming = False
            self._requested.clear()
            if self.last.differences:
                self._report_drift(self.last.differences)

    async def _round(self) -> Result:
        first = await self._checked()
        if not first.differences:
            return first
        self.confirming = True
        await asyncio.sleep(self._again_s)
        second = await self._checked()
        if second.problem:
            return second
        both = tuple(confirmed(first.differences, second.differences))
        unconfirmed = len({*first.differences, *second.differences}) - len(both)
        return Result(second.at, second.seconds, both, unconfirmed, compared=second.compared, left_out=second.left_out)

    async def _checked(self) -> Result:
        """Run one check. A bug in it is logged, and ends nothing else."""
        runner, began = self._runner, time.perf_counter()
        result = Result(runner.clock(), problem=NO_CHECK)
        try:
            if runner.acting.is_set():
                result = await self._check(runner.core, began)
        except Exception as error:
            log.exception("a self-check failed; a restart may fail in the same way")
            result = Result(runner.clock(), problem=f"the check failed: {type(error).__name__}: {error}; see the log")
        finally:
            self.check = None
        outcome = "failed" if result.problem else "differs" if result.differences else "agrees"
        self._observer.verified(outcome, time.perf_counter() - began)
        return result

    async def _check(self, core: Engine, began: float) -> Result:
        runner = self._runner
        runner.show_all()
        self.check = check = Check(core, self._new_core(), self._objects(), runner.clock())
        steps = check.steps()
        with garbage.none_collected():
            while True:
                until = time.perf_counter() + _SLICE_S
                for _ in steps:
                    if time.perf_counter() >= until:
                        break
                else:
                    break
                await asyncio.sleep(_PAUSE_S)
                if not runner.acting.is_set() or runner.core is not core:
                    return Result(runner.clock(), problem="another core has begun meanwhile")
                if time.perf_counter() - began > _LONGEST_S:
                    return Result(runner.clock(), problem=f"the check has taken longer than {_LONGEST_S:.0f} s")
        comparison = check.comparison
        seconds = time.perf_counter() - began
        return Result(
            runner.clock(),
            seconds,
            tuple(comparison.differences),
            compared=comparison.compared,
            left_out=comparison.left_out,
        )

    def _report_drift(self, differences: Sequence[Difference]) -> None:
        """Report drift, and repair it."""
        for difference in differences[:_SHOWN]:
            log.error("the self-check has found drift: %s", difference)
        self._observer.drifted([difference.kind for difference in differences])
        repairs = self.every_s > 0 and self._runner.clock() >= self._no_restart_before
        if repairs:
            self.restarts += 1
            self._no_restart_before = self._runner.clock() + self._pause_s
            log.error("the core is restarted after drift, and again in %.0f s at the earliest", self._pause_s)
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._observer.restarted()
            self._restart()
        does = "its core was restarted from the cluster's objects" if repairs else "its core goes on as it is"
        differences_text = counted(len(differences), "difference", "was", "were")
        self._report(
            f"{differences_text} found twice in a row by the self-check; {does}: {listed(map(str, differences), 3)}"
        )


def report_drift(runner: Runner, host: str, text: str) -> None:
    """Write an Event on Muster's own pod and Deployment.

    ``host``: the pod's name. Outside of a cluster there is no pod, and only the log has the text.
    """
    pod = next((pod for pod in runner.core.state.pods.values() if pod.name == host and pod.controller), None)
    log.error("%s", text)
    if pod is None or pod.controller is None:
        return
    owner = pod.controller
    if owner.kind == "ReplicaSet":
        # The name of a Deployment's ReplicaSet ends in the hash of its template.
        owner = Controller(owner.version, "Deployment", owner.name.rpartition("-")[0], "")
    runner.write_event(Hint(pod.uid, pod.namespace, pod.name, text, owner, "Drift"))
