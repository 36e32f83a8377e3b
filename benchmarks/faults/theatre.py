"""A control plane with Muster on it that is struck again and again, and repaired as a kubelet would do it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from benchmarks.faults.scene import PATIENCE_S, Scene
from devcluster import Api, ApiError, Cluster
from devcluster.muster import start_muster
from devcluster.progress import Progress, silent
from devcluster.proxy import Write

AT_ONCE = 4
"""Writes of the extender at the same time: few, so that it can be struck between two."""
SETTINGS = {
    "bind_timeout_s": 8,
    "plan_timeout_s": 8,
    "partial_grace_s": 15,
    "writes_at_once": AT_ONCE,
    # Faults strike at nominations, too.
    "steering": "nominate",
}
SCHEDULER = {
    "leaderElection": {"leaseDuration": "6s", "renewDeadline": "4s", "retryPeriod": "1s"},
    "podMaxBackoffSeconds": 3,
}
"""Shorter than as shipped, so that deadlines pass soon, but long enough for an interrupted replica to go on."""


@dataclass(frozen=True)
class Scale:
    """How hard to strike. ``outage_s`` and ``hang_s``: how long something is away, or stands still."""

    outage_s: float = 30.0
    hang_s: float = 10.0
    delay_s: float = 0.5
    gangs: int = 1000
    flaps: int = 10


GENTLE = Scale(outage_s=3.0, hang_s=3.0, delay_s=0.2, gangs=200, flaps=3)
"""The scale for the test suite: the same faults, shorter and with fewer gangs."""


class Theatre:
    """Made with ``with``. Scenes follow each other on it; ``mend`` comes between them."""

    def __init__(self, scale: Scale, progress: Progress = silent) -> None:
        self.scale = scale
        self.progress = progress
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.cluster = stack.enter_context(Cluster(self.progress))
            self.proxy = stack.enter_context(self.cluster.proxy())
            self.muster = start_muster(self.cluster, SETTINGS, SCHEDULER, server=self.proxy.url)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def api(self) -> Api:
        return self.cluster.api

    def scene(self) -> Scene:
        return Scene(self.cluster, self.muster)

    def strike(
        self, scene: Scene, kind: Write, number: int, action: Callable[[], object], *, after: bool = False
    ) -> None:
        """Have this happen at a write of the extender in the scene that is still to come: those in the one before it
        may come late."""
        self.proxy.strike(kind, number, action, after=after, namespace=scene.namespace)

    def wait_struck(self) -> None:
        """Raises TimeoutError when it did not come to that write."""
        if not self.proxy.struck.wait(PATIENCE_S):
            raise TimeoutError("the write to strike at was not made")

    def component_away(self, name: str, seconds: float) -> None:
        """Kill a component of the control plane (-9), and start it again as it was after that many seconds."""
        process = self.cluster.process(name)
        process.kill()
        time.sleep(seconds)
        self.cluster.again(process)

    def mend(self) -> None:
        """Resume every stopped process, and start every ended one again; returns when Muster acts."""
        self.proxy.delay_s = 0.0
        for process in (self.muster.extender, self.muster.scheduler):
            process.signal(signal.SIGCONT)
        self._wait_for_api_server()
        self.revive()
        self.scene().wait(self._leads, bool)

    def settle(self, scene: Scene, ends: dict[str, str]) -> list[str]:
        """``Scene.settle`` with a kubelet at work: a kube-scheduler that has lost its Lease ends, maybe only now."""
        return scene.settle(ends, self.revive)

    def revive(self) -> None:
        """Start every ended process again."""
        if not self.muster.extender.running:
            self.muster.restart_extender()
        if not self.muster.scheduler.running:
            self.muster.restart_scheduler()

    def _leads(self) -> bool:
        self.revive()
        return self.scene().metric("muster_leader") == 1.0

    def _wait_for_api_server(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                if self.api.raw("/readyz") == "ok":
                    return
            except (httpx.HTTPError, ApiError):
                pass  # not there, or not ready
            if time.monotonic() > deadline:
                raise TimeoutError(f"the API server was not ready after {PATIENCE_S:g} s")
            time.sleep(0.1)
