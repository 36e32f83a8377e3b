"""Pods of no gang in the order: who of them could be bound, and who may be left aside."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from extender.core.effects import AnswerFilter, Effect
from extender.core.events import Event, FilterCalled, PodSeen, PreemptCalled
from policies.model import Pod
from tests.simulation.claims import Claims
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits, lets_in
from tests.simulation.taken import LastTaken

OURS = "muster"
_SINGLE_S, _KEPT_S = 15.0, 25.0
"""A pod of no gang that has had room for so long may be, or has to be left aside: it is not taken up."""
_PLAN_S = 20.0
"""So long after kube-scheduler took a pod that it had not tried before, others may have room kept for them anew."""


class SingleTurns:
    """One life of the extender. A pod that was left aside stands in line again when kube-scheduler shows that it would
    take it up: some node is refused to it, or it asks to preempt wherever the pod had room."""

    def __init__(self, shown: Shown, claims: Claims) -> None:
        self._shown = shown
        self._claims = claims
        self._come: dict[str, float] = {}
        """When each was seen first."""
        self._roomy: dict[str, float] = {}
        """Those that could be bound, and since when."""
        self._where: dict[str, set[str]] = {}
        """On which nodes, in all that time."""
        self._aside: dict[str, set[str]] = {}
        """Those that could have been bound for long, and where."""
        self._taken = LastTaken(shown)

    def pardon(self) -> None:
        """The extender stands still."""
        for uid in self._come:
            self._roomy[uid] = 0.0

    def hear(self, event: Event, now: float) -> None:
        """Before ``shown`` knows of it."""
        self._taken.hear(event, now)
        match event:
            case PodSeen(pod):
                self._come.setdefault(pod.uid, now)
            case PreemptCalled(_, pod, victims) if pod.uid in self._aside and self._aside[pod.uid] <= victims.keys():
                del self._aside[pod.uid]
            case _:
                pass

    def judge(self, effect: Effect, event: Event) -> None:
        if isinstance(effect, AnswerFilter) and effect.refused and isinstance(event, FilterCalled):
            self._aside.pop(event.pod.uid, None)

    def waiting(self) -> list[Pod]:
        """Those that kube-scheduler could bind if there is room."""
        busy = self._claims.on_their_way
        return [
            pod
            for uid, pod in self._shown.pods.items()
            if pod.group_key is None and pod.live and not pod.node and not pod.gates and pod.scheduler == OURS
            if uid not in busy
        ]

    def look(self, room: Room, could_start: Callable[[Pod], bool], now: float) -> list[Pod]:
        """Those that could be bound. To be called every second or so."""
        able = [pod for pod in self.waiting() if could_start(pod)]
        self._roomy = {pod.uid: self._roomy.get(pod.uid, now) for pod in able}
        self._where = {pod.uid: self._where.get(pod.uid, set()) | self._open_to(pod, room) for pod in able}
        self._aside |= {uid: self._where[uid] for uid, since in self._roomy.items() if now - since >= _SINGLE_S}
        return able

    def keeps_room(self, pod: Pod, since: float, now: float) -> bool:
        """Whether room may be kept for it, from those who could start since then."""
        queued = -inf if pod.refusal else self._taken.at + _PLAN_S
        return now - max(self._roomy[pod.uid], since, queued) < _KEPT_S

    def stands_in_line(self, pod: Pod, now: float) -> bool:
        known, roomy = self._come[pod.uid], self._roomy.get(pod.uid, now)
        return known < now and pod.uid not in self._aside and now - roomy < _SINGLE_S

    def _open_to(self, pod: Pod, room: Room) -> set[str]:
        nodes = self._shown.nodes
        return {one for one, left in room.items() if fits(left, pod.requests) and lets_in(nodes[one], pod.selection)}
