"""Pods that are seen together are shown to the core in one event: what follows for their gangs is worked out once."""

from __future__ import annotations

from extender.core.events import PodsSeen
from policies.model import Pod

_MOST = 64
"""More would hold up whoever calls."""


class Together:
    """Those that the core is yet to be shown. Whoever keeps them shows them before anything else happens."""

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}

    def __bool__(self) -> bool:
        return bool(self._pods)

    def takes(self, pod: Pod) -> bool:
        """Whether it can be shown with the others. The core sees each version of a pod."""
        return pod.uid not in self._pods and len(self._pods) < _MOST

    def put(self, pod: Pod) -> None:
        self._pods[pod.uid] = pod

    def take(self) -> PodsSeen | None:
        """What the core is to be shown now, if there is anything."""
        pods, self._pods = tuple(self._pods.values()), {}
        return PodsSeen(pods) if pods else None
