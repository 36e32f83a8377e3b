"""Records of pods and nodes as the watches show them, with all that follows from them for the ledger."""

from __future__ import annotations

from dataclasses import replace

from extender.core.ledger.claims import Claims
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import KeptOut, WaitingSingles
from extender.core.ledger.store import Store
from extender.core.ledger.volumes import Volumes
from extender.core.ledger.waiting import Changes
from extender.core.workload.names import Astray
from extender.core.workload.release import BindCalls, Binding
from policies.model import Pod


class Records:
    """``bound_by_us``: pods that are bound, and not confirmed by the watch yet."""

    def __init__(
        self,
        schedulers: tuple[str, ...],
        store: Store,
        room: Room,
        claims: Claims,
        quotas: Quotas,
        preemptions: Preemptions,
        volumes: Volumes,
        singles: WaitingSingles,
        changes: Changes,
        kept_out: KeptOut,
        binds: BindCalls,
        astray: Astray,
    ) -> None:
        self._schedulers = schedulers
        self._store = store
        self._room = room
        self._claims = claims
        self._quotas = quotas
        self._preemptions = preemptions
        self._volumes = volumes
        self._singles = singles
        self._changes = changes
        self._kept_out = kept_out
        self._binds = binds
        self._astray = astray
        self.bound_by_us: dict[str, Binding] = {}

    def put(self, pod: Pod, *, seated: bool = False) -> Pod | None:
        """Take over a pod's new facts; ``seated``: its index is its slot. Returns those before, None if it is new."""
        old = self._store.pods.get(pod.uid)
        if not pod.node and (done := self.bound_by_us.get(pod.uid)):
            # A watch event from before our own Binding must not unbind it.
            pod = replace(pod, node=done.node, stamp=done.stamp)
        if pod.claims:
            pod = self._volumes.mount(pod)
        if (key := pod.group_key) is not None:
            workload = self._store.workloads.get(key) or self._store.add(key)
            if not seated and workload.members.slots.seats(pod):
                pod = workload.seated_as(pod, old)
            if workload.members.put(pod):
                self._store.touch(workload)
            if workload.group is None and pod.group and (group := self._store.groups.get((key, pod.group.dialect))):
                workload.follow(group)
                self._store.touch(workload)
        self._store.pods[pod.uid] = pod
        self._store.touch_all(self._astray.see(pod, old))
        self._singles.natives.see(pod)
        if pod.group_key is None:
            self._singles.see(pod, self._schedulers, self._room.end_kept)
        self._claim(pod)
        self._changes.see(pod, old)
        if old is not None and (old.ends, old.deleting) != (pod.ends, pod.deleting):
            self._changes.taken = True
            self._claims.note_change()
        return old

    def drop(self, uid: str) -> None:
        pod = self._store.pods.pop(uid, None)
        self._binds.forget(uid)
        self._kept_out.drop(uid)
        self._room.end_kept(uid)
        self._singles.gone(uid)
        if pod is None:
            return
        self._volumes.unmount(pod)
        self._store.touch_all(self._astray.drop(pod))
        self._room.free(uid)
        if (workload := self._store.workload_of(pod)) is not None:
            workload.members.drop(uid)
            self._store.touch(workload)

    def confirm_bound(self, uid: str) -> None:
        """The watch shows that the pod is bound, or gone: no event from before our own Binding can follow."""
        self.bound_by_us.pop(uid, None)

    def mark_bound(self, uid: str, binding: Binding) -> None:
        """Our Binding succeeded: the pod is bound before the watch says so."""
        if (pod := self._store.pods.get(uid)) is not None and not pod.node:
            self.put(replace(pod, node=binding.node, stamp=binding.stamp, nominated_node=None))
            self.bound_by_us[uid] = binding

    def node_changed(self, node: str) -> None:
        self._changes.nodes = True
        self._quotas.node_changed(node)
        self._room.forget_refusals(node)
        self._preemptions.node_changed(node)
        self._room.crowd_out(node)

    def _claim(self, pod: Pod) -> None:
        """An unbound pod has room only by a promise."""
        if pod.terminal:
            self._room.free(pod.uid)
        elif pod.node:
            claim = self._claims.get(pod.uid)
            if claim is not None and claim.node != pod.node:
                self._room.free(pod.uid)
            if (claim is None or claim.node != pod.node) and (workload := self._store.workload_of(pod)) is not None:
                self._room.use_kept(workload, pod, pod.node)
            self._changes.taken |= claim is None
            if pod.group_key is None and (claim is None or claim.promised):
                self._preemptions.came(pod.priority)
            self._claims.confirm(pod)
            self._room.crowd_out(pod.node)
