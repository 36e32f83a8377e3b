"""How far kube-scheduler has come in its queue, as its calls and the pods that it binds tell.

It takes pods by priority, and those of one priority as they were created (its plugin PrioritySort). A pod behind many
others is tried late; one that was tried in vain is tried again at some time or other.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from policies.model import Pod


class KubeQueue:
    """``taken_at``: when it last took a pod that it had not tried before; it may have found no node for it."""

    def __init__(self) -> None:
        self.taken_at = -inf
        self._tried_at = -inf  # the same of any pod
        self._given_up_at = -inf
        self._newest: dict[int, float] = {}  # by priority: when the newest pod that it took was created

    def taken(self, pod: Pod, now: float) -> None:
        """It asks about this pod, or has a node for it. One that was tried in vain before comes in any order."""
        self._tried_at = now
        if pod.refusal is None:
            self.taken_at = now
            self._newest[pod.priority] = max(pod.created, self._newest.get(pod.priority, -inf))

    def shown(self, pod: Pod, before: Pod | None, schedulers: Collection[str], now: float) -> None:
        """The watch shows the pod on a node; ``before``: the pod as it was known. A list says nothing of when."""
        if before is not None and not before.node and pod.scheduler in schedulers:
            self.taken(pod, now)

    def give_up(self, now: float, after_s: float) -> float:
        """A placement may be given up that it has not taken up for so long: 0, or until when that has to wait.

        Where it tries nobody at all it may stand still, and all would be given up in vain: then one is, to see.
        """
        if self._tried_at < now - after_s and now < (until := self._given_up_at + after_s):
            return until
        self._given_up_at = now
        return 0.0

    def has_yet_to_try(self, pod: Pod) -> bool:
        """Whether it has yet to come to this pod, for all that is known."""
        return pod.refusal is None and not self.has_passed(pod)

    def has_passed(self, pod: Pod) -> bool:
        """Whether it took one that is behind this pod: then it is not this one's turn that is awaited."""
        return any(newest > pod.created for priority, newest in self._newest.items() if priority <= pod.priority)
