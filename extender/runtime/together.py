"""Pods that are seen together reach the core in one event, so that the conclusions for their gangs are made once."""

from __future__ import annotations

from extender.core.events import Event, PodSeen, PodsSeen
from extender.runtime.quarantine import Source
from policies.model import Pod

_MOST = 64
"""Most pods of one event; more would delay the caller."""


class Together:
    """The pods that the core has yet to be shown. Their keeper shows them before anything else happens."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[PodSeen, Source | None]] = {}

    def __bool__(self) -> bool:
        return bool(self._pods)

    def takes(self, pod: Pod) -> bool:
        """Whether the pod can be shown with the others. The core sees each version of a pod."""
        return pod.uid not in self._pods and len(self._pods) < _MOST

    def put(self, event: PodSeen, source: Source | None = None) -> None:
        self._pods[event.pod.uid] = event, source

    def take(self) -> tuple[PodsSeen, list[tuple[Event, Source]]] | None:
        """The event to hand over now, with the objects of its pods; None without any."""
        shown, self._pods = list(self._pods.values()), {}
        if not shown:
            return None
        return PodsSeen(tuple(event.pod for event, _ in shown)), [(event, of) for event, of in shown if of is not None]
