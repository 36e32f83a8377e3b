"""The progress of kube-scheduler in its queue, and its consequences for plans.

No job is started over because its pods wait their turn there, and not every gang loses its plan because
kube-scheduler stands still.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from extender.core.effects import Effect, Reached, RevokedFor, SuspendJob
from extender.core.events import Event, FilterCalled, PodSeen
from policies.model import GroupKey
from tests.simulation.model.world import World
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


_PLAN_S, _HOLD_S = 20.0, 30.0
"""How long kube-scheduler may try no new pod, before a gang starts and while some of its members are held."""
_MARGIN_S = 1.0
_PATIENT_S = 100.0
"""A kube-scheduler that waits this long for the answers to its binds does not time out meanwhile."""


class QueueTurns:
    """The turns in one life of the extender."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._taken = LastTaken(shown)
        self._tried_at = -inf
        self._given_up_at = -inf
        self._unlike: set[GroupKey] = set()
        """Gangs of which kube-scheduler has refused a pod, so that it has come to them, or whose pods had gates: their
        place in its queue is another one."""

    def hear(self, event: Event, now: float) -> None:
        """Before ``shown`` knows of it."""
        self._taken.hear(event, now)
        if isinstance(event, FilterCalled):
            self._tried_at = now
        self._tried_at = max(self._tried_at, self._taken.at)
        match event:
            case PodSeen(pod) if (pod.refusal is not None or pod.gates) and pod.group_key is not None:
                self._unlike.add(pod.group_key)
            case _:
                pass

    def judge(self, effect: Effect, held: Collection[str], world: World) -> str | None:
        """``held``: the pods whose bind waits for an answer."""
        if isinstance(effect, Reached) and effect.cause is RevokedFor.PLAN_DEADLINE:
            return self._in_vain(effect.key, world.clock.now)
        if not isinstance(effect, SuspendJob) or world.scheduler is None:
            return None
        key, reason = effect.job.key, effect.reason
        since_s = world.clock.now - self._taken.at
        early = ("did not take up" in reason and since_s < _PLAN_S - _MARGIN_S) or (
            "reached bind before the deadline" in reason
            and since_s < _HOLD_S - _MARGIN_S
            and world.profile.bind_timeout_s >= _PATIENT_S
        )
        members = [pod for pod in self._shown.members.get(key, {}).values() if pod.live and not pod.node]
        awaited = [pod.uid for pod in members if pod.uid not in held]
        if not early or key in self._unlike or not world.scheduler.has_yet_to_try(awaited):
            return None
        return f"{key} is started over {since_s:.1f} s after kube-scheduler took a pod, with {awaited} yet in its queue"

    def _in_vain(self, key: GroupKey, now: float) -> str | None:
        """The complaint about a plan that was not used in time, if kube-scheduler tries no pod at all.

        Then a deadline may be true of all gangs.
        """
        silent_s, after_s, self._given_up_at = now - self._tried_at, now - self._given_up_at, now
        if silent_s < _PLAN_S + _MARGIN_S or after_s > _PLAN_S - _MARGIN_S:
            return None
        silence = f"and kube-scheduler has tried nobody for {silent_s:.1f} s"
        return f"{key} loses its plan {after_s:.1f} s after another has, {silence}"
