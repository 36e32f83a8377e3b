"""The store of pods, PodGroups, workloads and namespaces as last seen; the outbox; and the state of the process.

The store marks the workloads that are to be settled before the event ends. The outbox has the effects that the driver
carries out then, and knows which bind requests they answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from math import inf

from extender.core.causes import NamespaceTerminating
from extender.core.effects import AnswerBind, Effect, PostBinding
from extender.core.events import NamespaceGone, NamespaceSeen
from extender.core.ledger.devices import Devices
from extender.core.ledger.volumes import Volumes
from extender.core.workload.members import Member
from extender.core.workload.release import BindCalls, Binding
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupKey, Labels, Pod, PodGroup

_REMEMBERED = 1_000
"""Deleted namespaces that are remembered, at most: their last objects are deleted within moments."""


class Namespaces:
    """The namespaces as last seen.

    ``labels``: the labels of each known namespace. One that was never seen counts as existing, since Muster may lack
    the right to read namespaces.
    """

    def __init__(self) -> None:
        self.labels: dict[str, Labels] = {}
        self._annotations: dict[str, Labels] = {}
        self._ending: dict[str, NamespaceTerminating] = {}
        """Why nothing starts in a namespace, by its name. Deleted ones are included, since watches of their objects may
        lag."""

    def changes(self, event: NamespaceSeen | NamespaceGone) -> bool:
        """Tell whether the API server may treat new pods of a known namespace differently after this event."""
        if event.name not in self.labels:
            return False
        known = self.labels[event.name], self._annotations[event.name]
        return isinstance(event, NamespaceGone) or known != (event.labels, event.annotations)

    def note(self, event: NamespaceSeen | NamespaceGone) -> bool:
        """Record the namespace. Returns whether the cause why nothing starts there has changed."""
        name = event.name
        before = self._ending.pop(name, None)
        if isinstance(event, NamespaceGone):
            self.labels.pop(name, None)
            self._annotations.pop(name, None)
            self._ending[name] = NamespaceTerminating(name, gone=True)
            gone = [name for name in self._ending if name not in self.labels]
            for subject in gone[:-_REMEMBERED]:
                del self._ending[subject]
        else:
            self.labels[name] = event.labels
            self._annotations[name] = event.annotations
            if event.terminating:
                self._ending[name] = NamespaceTerminating(name, gone=False)
        return before != self._ending.get(name)

    def ending(self, namespace: str) -> NamespaceTerminating | None:
        """Why no workload of the namespace starts: it is being deleted, so no pod can be created in it. None if it is
        not."""
        return self._ending.get(namespace)


@dataclass(slots=True)
class Process:
    """The stages of the process: start, first lists, counting devices and volumes, recovery, answering calls."""

    synced: bool = False
    synced_at: float = 0.0
    """The instant at which every list was in."""
    counted: bool = False
    """Whether the devices and volumes of those lists are counted. Workloads are recovered and settled from then on."""
    recovered: bool = False
    """Whether the plans of an earlier process were read from the objects, so that calls can be answered."""
    paused_until: float = -inf
    """The instant until which no new plan is made."""
    wall_offset: float = 0.0
    """The wall clock's epoch on the core's clock, as of the last event that had both."""
    subject: str | GroupKey | None = None
    """The pod or workload that is being handled, to find the object that the core has failed on."""

    def sync(self, wall_offset: float, now: float) -> None:
        """Record that every list is in."""
        self.wall_offset, self.synced, self.synced_at = wall_offset, True, now


@dataclass(slots=True)
class Counts:
    """Counters for the metrics. No decision depends on them."""

    advised: Counter[str] = field(default_factory=Counter)
    """How often enforcing would have given which answer, in advisory mode (``extender.core.gate.advisory``)."""
    unpinned: int = 0
    """How many pods of started jobs came without their pin."""
    policy_errors: Counter[str] = field(default_factory=Counter)

    def blame(self, policy: str) -> None:
        """Count a failure of the policy."""
        self.policy_errors[policy] += 1


class Store:
    """Pods, groups and workloads as last seen.

    ``dirty``: workloads to be settled before the event ends; empty between events.
    ``version``: grows whenever something has happened to a workload, so that it is marked dirty.

    The store records, and then calls what ``extender.core.ledger.state`` lists. ``on_put`` and ``on_change`` get
    the pod as it is and as it was; ``on_drop`` gets the pod.
    """

    def __init__(self, volumes: Volumes, devices: Devices) -> None:
        self._volumes = volumes
        self._devices = devices
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[GroupKey, Workload] = {}
        self.groups: dict[tuple[GroupKey, Dialect], PodGroup] = {}
        self.dirty: dict[GroupKey, None] = {}
        self.version = 0
        self.bound_by_us: dict[str, Binding] = {}
        """The pods that Muster has bound and the watch has yet to confirm."""
        self.on_put: tuple[Callable[[Pod, Pod | None], None], ...] = ()
        self.on_change: tuple[Callable[[Pod, Pod], None], ...] = ()
        self.on_drop: tuple[Callable[[Pod], None], ...] = ()
        self.on_settle: tuple[Callable[[GroupKey], None], ...] = ()
        """Called with each workload that has been settled: something had happened to it."""

    def put_pod(self, pod: Pod) -> Pod | None:
        """Record the pod, call ``on_put``, and ``on_change`` if it was known.

        Returns the pod as it was; None if it is new.
        """
        old = self.pods.get(pod.uid)
        if self._volumes.concerns(pod):
            pod = self._volumes.mount(pod)
        if self._devices.concerns(pod):
            pod = self._devices.record(pod)
        pod = self.enlist(pod)
        for follow in self.on_put:
            follow(pod, old)
        if old is not None:
            for follow_change in self.on_change:
                follow_change(pod, old)
        return old

    def enlist(self, pod: Pod, *, has_slot: bool = False) -> Pod:
        """Record the pod as a member of its workload, in a slot. ``has_slot``: its index is its slot already."""
        if (key := pod.group_key) is not None:
            workload = self.workloads.get(key) or self.add(key)
            if not has_slot and workload.members.slots.takes_any_slot(pod):
                pod = workload.with_slot(pod, self.pods.get(pod.uid))
            if workload.members.put(pod):
                self.mark_dirty(workload)
            if workload.group is None and pod.group and (group := self.groups.get((key, pod.group.dialect))):
                workload.follow(group)
                self.mark_dirty(workload)
        self.pods[pod.uid] = pod
        return pod

    def drop_pod(self, uid: str) -> None:
        """Forget the pod and call ``on_drop``. Nothing happens if it is not known."""
        if (pod := self.pods.pop(uid, None)) is not None:
            for follow in self.on_drop:
                follow(pod)

    def mark_bound(self, uid: str, binding: Binding) -> None:
        """Record that Muster's Binding succeeded: the pod is bound before the watch shows that."""
        if (pod := self.pods.get(uid)) is not None and not pod.node:
            self.put_pod(replace(pod.bound(binding.node, binding.stamp), nominated_node=None))
            self.bound_by_us[uid] = binding

    def confirm_bound(self, uid: str) -> None:
        """Record that the watch shows the pod bound or gone: no event from before the Binding can follow."""
        if self.bound_by_us.pop(uid, None) is not None and (entry := self.member(uid)) is not None:
            self.mark_dirty(entry[0])  # even if the pod is as it was expected to be: its stamp may be confirmed now

    def workload_of(self, pod: Pod) -> Workload | None:
        """Return the workload of which the pod is a member; None for a single pod."""
        return None if pod.group_key is None else self.workloads.get(pod.group_key)

    def member(self, uid: str) -> tuple[Workload, Member] | None:
        """Return the workload of the pod and the pod as its member; None for a single or unknown pod."""
        pod = self.pods.get(uid)
        workload = self.workload_of(pod) if pod is not None else None
        member = workload.members.get(uid) if workload is not None else None
        return None if workload is None or member is None else (workload, member)

    def add(self, key: GroupKey) -> Workload:
        """Return the workload of that name, which is created if it is new."""
        return self.workloads.setdefault(key, Workload(key))

    def forget(self, key: GroupKey) -> None:
        """Forget a workload that is gone."""
        self.workloads.pop(key, None)

    def mark_dirty(self, workload: Workload) -> None:
        """Have the workload settled before the event ends. ``Pending.wake`` is for the next cycle."""
        self.dirty[workload.key] = None
        self.version += 1

    def mark_keys_dirty(self, keys: Iterable[GroupKey]) -> None:
        """Have the workloads of these names settled before the event ends. Unknown names are passed over."""
        for key in keys:
            self.dirty[key] = None
            self.version += 1

    def settled(self, key: GroupKey) -> None:
        """Record that the workload was settled."""
        self.dirty.pop(key, None)
        for follow in self.on_settle:
            follow(key)


class Outbox:
    """Effects in the order in which the driver carries them out."""

    def __init__(self, store: Store, binds: BindCalls) -> None:
        self._store = store
        self._binds = binds
        self._effects: list[Effect] = []

    def append(self, effect: Effect) -> None:
        """Add the effect at the end."""
        self._effects.append(effect)

    def drain(self) -> list[Effect]:
        """Return all effects, and keep none."""
        if not self._effects:
            return []
        effects, self._effects = self._effects, []
        return effects

    def post(self, pod: Pod, binding: Binding, expires: float, marks: dict[str, str], *, again: bool = False) -> None:
        """Post a Binding with these annotations. ``again``: as in PostBinding."""
        self._binds.write(pod.uid, binding)
        where = pod.uid, pod.namespace, pod.name, binding.node
        self.append(PostBinding(*where, tuple(binding.calls), expires, marks, binding.workload, again))

    def answer(self, call: int, error: str) -> None:
        """End a bind request; an empty error means that the pod is bound."""
        self._binds.end_call(call)
        self.append(AnswerBind(call, error))

    def answer_hold(self, workload: Workload, member: Member, error: str) -> None:
        """End the bind request of a member, if one waits."""
        if (hold := workload.members.end_hold(member)) is not None:
            self.answer(hold.call, error)
            self._store.mark_dirty(workload)
