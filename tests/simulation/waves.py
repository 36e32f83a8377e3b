"""Gangs whose pods come later: pods that an owner makes when others run, and pods of a pending PodGroup.

The room that is kept for them is not written anywhere.
"""

from __future__ import annotations

from extender.core.effects import Effect, Enqueue, Milestone, Reached
from policies.model import GroupKey
from tests.simulation.shown import Shown

_PATIENCE_S = 25.0
"""How long a pod may take to its kept room: kube-scheduler may have tried it before it could know."""


class Waves:
    """The later pods in one life of the extender."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._planned: dict[GroupKey, None] = {}
        self._since: dict[str, float] = {}
        """Pods of a gang that has started in order, and that wait."""

    def apply(self, effect: Effect) -> None:
        match effect:
            case Reached(key, Milestone.PLANNED):
                self._planned[key] = None
            case Reached(key, Milestone.FORGOTTEN):
                self._planned.pop(key, None)
            case _:
                pass

    @property
    def any(self) -> bool:
        """Whether room may be kept for pods that are not there."""
        return any(
            (sight := self._shown.sight(key)) is not None and sight.coming and (sight.bound or key in self._planned)
            for key in self._shown.members
        ) or any(self._awaits_pods(key) for key in self._planned)

    def _awaits_pods(self, key: GroupKey) -> bool:
        group, sight = self._shown.groups.get(key), self._shown.sight(key)
        return group is not None and group.job is not None and (sight is None or not sight.bound)

    def judge(self, effect: Effect) -> str | None:
        """No pod is to come before there is a node for it."""
        if isinstance(effect, Enqueue) and effect.key not in self._planned:
            return f"{effect.key} is to be taken up, and has no plan"
        return None

    def late(self, now: float) -> str | None:
        """The complaint about a later pod of a calm start that lacks its room, among pods that start together."""
        since, self._since = self._since, {}
        for key in self._shown.members:
            sight = self._shown.sight(key)
            if sight is None or not 0 < len(sight.bound) < sight.together:
                continue
            for pod in sight.waiting:
                self._since[pod.uid] = since.get(pod.uid, now)
                if now - self._since[pod.uid] > _PATIENCE_S:
                    return f"{pod.uid} waits, and room was kept for it when {key} started"
        return None
