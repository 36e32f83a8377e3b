"""How far kube-scheduler has come in its queue, as its calls and the pods that it binds tell.

It takes pods by priority, and those of one priority as they were created (its plugin PrioritySort). A pod behind many
others is tried late; one that was tried in vain is tried again at some time or other.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from policies.model import Pod


class KubeQueue:
    """``taken_at``: when it last took a pod, which it may have found no node for."""

    def __init__(self) -> None:
        self.taken_at = -inf
        self._newest: dict[int, float] = {}  # by priority: when the newest pod that it took was created

    def taken(self, pod: Pod, now: float) -> None:
        """It asks about this pod, or has a node for it. One that was tried in vain before comes in any order."""
        if pod.refusal is None:
            self.taken_at = now
            self._newest[pod.priority] = max(pod.created, self._newest.get(pod.priority, -inf))

    def shown(self, pod: Pod, before: Pod | None, schedulers: Collection[str], now: float) -> None:
        """The watch shows the pod on a node; ``before``: the pod as it was known. A list says nothing of when."""
        if before is not None and not before.node and pod.scheduler in schedulers:
            self.taken(pod, now)

    def has_passed(self, pod: Pod) -> bool:
        """Whether it took one that is behind this pod: then it is not this one's turn that is awaited."""
        return any(newest > pod.created for priority, newest in self._newest.items() if priority <= pod.priority)
