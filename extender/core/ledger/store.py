"""The store of pods, PodGroups and workloads as last seen, and of which workloads are to be settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from extender.core.ledger.volumes import Volumes
from extender.core.workload.members import Member
from extender.core.workload.release import Binding
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupKey, Pod, PodGroup


class Store:
    """``dirty``: workloads that something has happened to since they were settled; none when an event ends.

    It records, and then calls what ``extender.core.ledger.consequences`` lists. ``on_put`` gets the pod as it is and
    as it was; ``on_drop`` gets the pod.
    """

    def __init__(self, volumes: Volumes) -> None:
        self._volumes = volumes
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[GroupKey, Workload] = {}
        self.groups: dict[tuple[GroupKey, Dialect], PodGroup] = {}
        self.dirty: dict[GroupKey, None] = {}
        self.bound_by_us: dict[str, Binding] = {}
        """Pods that are bound, and not confirmed by the watch yet."""
        self.on_put: tuple[Callable[[Pod, Pod | None], None], ...] = ()
        self.on_drop: tuple[Callable[[Pod], None], ...] = ()

    def put_pod(self, pod: Pod) -> Pod | None:
        """Record a pod's new facts, and do what follows. Returns those before, None if the pod is new."""
        old = self.pods.get(pod.uid)
        if not pod.node and (done := self.bound_by_us.get(pod.uid)):
            # A watch event from before our own Binding must not unbind it.
            pod = replace(pod, node=done.node, stamp=done.stamp)
        pod = self.seat(self._volumes.mount(pod) if pod.claims else pod)
        for follow in self.on_put:
            follow(pod, old)
        return old

    def seat(self, pod: Pod, *, seated: bool = False) -> Pod:
        """Record the pod as a member of its workload, in a slot. ``seated``: its index is its slot already."""
        if (key := pod.group_key) is not None:
            workload = self.workloads.get(key) or self.add(key)
            if not seated and workload.members.slots.seats(pod):
                pod = workload.seated_as(pod, self.pods.get(pod.uid))
            if workload.members.put(pod):
                self.mark_dirty(workload)
            if workload.group is None and pod.group and (group := self.groups.get((key, pod.group.dialect))):
                workload.follow(group)
                self.mark_dirty(workload)
        self.pods[pod.uid] = pod
        return pod

    def drop_pod(self, uid: str) -> None:
        """Forget a pod, and do what follows. Nothing happens if it is not known."""
        if (pod := self.pods.pop(uid, None)) is not None:
            for follow in self.on_drop:
                follow(pod)

    def mark_bound(self, uid: str, binding: Binding) -> None:
        """Record that our Binding succeeded: the pod is bound before the watch says so."""
        if (pod := self.pods.get(uid)) is not None and not pod.node:
            self.put_pod(replace(pod, node=binding.node, stamp=binding.stamp, nominated_node=None))
            self.bound_by_us[uid] = binding

    def confirm_bound(self, uid: str) -> None:
        """The watch shows that the pod is bound, or gone: no event from before our own Binding can follow."""
        self.bound_by_us.pop(uid, None)

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

    def mark_dirty(self, workload: Workload) -> None:
        """Have the workload settled before the event ends. ``Pending.wake`` is for the next cycle."""
        self.dirty[workload.key] = None

    def mark_keys_dirty(self, keys: Iterable[GroupKey]) -> None:
        """Have the workloads of these names settled before the event ends, if there are any."""
        self.dirty.update(dict.fromkeys(keys))

    def mark_all_dirty(self, workloads: Iterable[Workload]) -> None:
        """Have these settled before the event ends."""
        for workload in workloads:
            self.mark_dirty(workload)

    def settled(self, key: GroupKey) -> None:
        """Note that what has happened to the workload by now was looked at."""
        self.dirty.pop(key, None)
