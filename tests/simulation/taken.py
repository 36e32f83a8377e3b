"""How far kube-scheduler has come in its queue."""

from __future__ import annotations

from math import inf

from extender.core.events import Event, FilterCalled, PodSeen
from tests.simulation.shown import Shown


class LastTaken:
    """``at``: when it last took a pod that it had not tried before, as far as the watch shows."""

    def __init__(self, shown: Shown) -> None:
        self.at = -inf
        self._shown = shown

    def hear(self, event: Event, now: float) -> None:
        """Before ``shown`` knows of it."""
        match event:
            case FilterCalled(pod=pod) if self._shown.pods.get(pod.uid, pod).refusal is None:
                self.at = now
            case PodSeen(pod) if pod.node and (before := self._shown.pods.get(pod.uid)) and not before.node:
                self.at = now
            case _:
                pass
