"""The store of pods, PodGroups and workloads as last seen, and of which workloads are to be settled."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.workload.members import Member
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupKey, Pod, PodGroup


class Store:
    """``touched``: workloads that something has happened to since they were settled; none when an event ends."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[GroupKey, Workload] = {}
        self.groups: dict[tuple[GroupKey, Dialect], PodGroup] = {}
        self.touched: dict[GroupKey, None] = {}

    def workload_of(self, pod: Pod) -> Workload | None:
        """Return the workload whose member the pod is, if it is in a gang."""
        return None if pod.group_key is None else self.workloads.get(pod.group_key)

    def member(self, uid: str) -> tuple[Workload, Member] | None:
        """Return the pod as a member of its workload; None for a pod in no gang, or one that is not known."""
        pod = self.pods.get(uid)
        workload = self.workload_of(pod) if pod is not None else None
        member = workload.members.get(uid) if workload is not None else None
        return None if workload is None or member is None else (workload, member)

    def add(self, key: GroupKey) -> Workload:
        """Return the workload of that name, which is made when the name is first seen."""
        return self.workloads.setdefault(key, Workload(key))

    def forget(self, key: GroupKey) -> None:
        """Forget a workload of which nothing is left."""
        self.workloads.pop(key, None)

    def touch(self, workload: Workload) -> None:
        """Have the workload settled before the event ends."""
        self.touched[workload.key] = None

    def touch_all(self, keys: Iterable[GroupKey]) -> None:
        """Have the workloads of these names settled before the event ends, if there are any."""
        self.touched.update(dict.fromkeys(keys))

    def nudge(self, workload: Workload) -> None:
        """Note that something around the workload has changed that its plan depends on."""
        workload.nudge()
        self.touch(workload)

    def settled(self, key: GroupKey) -> None:
        """Note that what has happened to the workload by now was looked at."""
        self.touched.pop(key, None)
