"""A script in which workloads wait for running ones to end, and say how long they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from extender.core.answers import Reserved
from extender.core.effects import Effect, Reserve
from extender.core.ledger.backfill import Backfill
from extender.core.limits import Limits
from policies.model import Node, Pod, Reservation, RunTerms
from tests.builders import gang, key
from tests.core.script import Script

AFTER_S = 60.0
ON = Limits(reserve_after_s=AFTER_S)


class Backlog(Script):
    """Reservations are written down at once, unless ``answers`` is false."""

    def __init__(self, *facts: Node | Pod, limits: Limits = ON, answers: bool = True, **options: Any) -> None:
        self.written: list[Reserve] = []
        self._answers = answers
        super().__init__(*facts, limits=limits, **options)

    def _note(self, effect: Effect) -> None:
        super()._note(effect)
        if isinstance(effect, Reserve):
            self.written.append(effect)
            if not self._answers:
                return
            if effect.pod is not None and effect.pod.uid in self.pods:
                self.change(self.pods[effect.pod.uid], backfill=effect.reservation)
            self.feed(Reserved(effect.key, effect.pod, effect.job, effect.reservation, "", effect.backfill))

    def wait(self, name: str, size: int, runs_s: float | None = None, *, gpus: int = 8, **facts: Any) -> list[Pod]:
        """Submit a gang, which expects to run for ``runs_s`` seconds."""
        pods = [replace(pod, run=RunTerms(runs_s)) for pod in gang(name, size, gpus=gpus, created=self.now, **facts)]
        self.see(pods)
        return pods

    def start(self, name: str, size: int, runs_s: float | None = None, **facts: Any) -> list[Pod]:
        """Submit a gang as ``wait`` does; it has room, and runs."""
        pods = self.wait(name, size, runs_s, **facts)
        self.run(pods)
        assert len(self.bound(pods)) == size, f"{name} was to start"
        return pods

    def end(self, pods: Sequence[Pod]) -> None:
        """End the pods, and delete them."""
        for pod in pods:
            self.change(self.pods[pod.uid], phase="Succeeded")
        self.gone(*(self.pods[pod.uid] for pod in pods))

    def reservation(self, name: str) -> Backfill | None:
        return self.core.state.backfills.of.get(key(name))

    def last_written(self, name: str) -> Reservation | None:
        return next(effect.reservation for effect in reversed(self.written) if effect.key == key(name))
