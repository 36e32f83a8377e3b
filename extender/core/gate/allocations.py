"""Free the devices that a failed start has left with pods that wait.

kube-scheduler allocates the claims of a pod before it asks for the pod's Binding. When the bind fails, it revokes the
reservation but not the allocation (facts ``prebind.*`` in ``tests/facts/all.md``). The next plan goes where the
allocations are (``Devices.resolved``). A gang that finds no such plan, or fails there again, would keep its devices
from all others. So its allocations are cleared, and it is planned again. A job that is being suspended needs none of
this: its claims are deleted with its pods.

A late Binding would start a pod whose devices belong to another one. So no allocation is cleared while a Binding of its
pods is under way, or may have been written, also before a restart. No Binding can start a pod that is gone: when no pod
names the claim any more, nothing is waited for. A restart forgets that Muster planned these pods, and nothing on the
claim says whose start allocated it. The API server notices a pod that reserves the claim meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from extender.core.answers import Deallocated
from extender.core.effects import Deallocate
from extender.core.events import DeviceClaimGone, DeviceClaimSeen
from extender.core.gate.steering import Repeats
from extender.core.ledger.devices import Devices, ObjectKey
from extender.core.ledger.pending import Pending
from extender.core.ledger.store import Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.workload.members import MemberState
from extender.core.workload.release import BindCalls
from extender.core.workload.workload import Workload
from policies.model.devices import DeviceClaim


@dataclass(eq=False)
class Allocations:
    """Decides which allocations are cleared. ``follow`` is called at the end of each event."""

    _schedulers: tuple[str, ...]
    _limits: Limits
    _process: Process
    _store: Store
    _outbox: Outbox
    _devices: Devices
    _pending: Pending
    _binds: BindCalls
    _repeats: Repeats
    _advising: bool

    def __post_init__(self) -> None:
        self._left: dict[ObjectKey, None] = {}
        """Claims that are allocated and reserved for no pod."""
        self._named: dict[ObjectKey, None] = {}
        """Claims of pods that Muster plans, or has planned."""
        self._look: dict[ObjectKey, None] = {}
        """Claims of ``_left`` that are due for a check."""
        self._deallocating: dict[ObjectKey, DeviceClaim] = {}
        """Claims whose deallocation was asked for, as they were then."""

    def note(self, event: DeviceClaimSeen | DeviceClaimGone) -> None:
        """Record what the watch shows of a claim."""
        named = event.claim if isinstance(event, DeviceClaimSeen) else event
        key = named.namespace, named.name
        claim = self._devices.claims.get(key)
        if claim is None:
            self._named.pop(key, None)
        if claim is None or claim.allocation is None or claim.reserved_for or self._advising:
            self._left.pop(key, None)
            self._deallocating.pop(key, None)
        else:
            self._left[key] = self._look[key] = None

    def settle(self, workload: Workload) -> None:
        """Have the claims of the workload's pods checked, because it was settled or parked just now."""
        if not self._devices.claims:
            return
        for member in workload.members:
            for key in self._devices.claims_of(member.pod):
                if key in self._devices.claims and member.pod.scheduler in self._schedulers:
                    self._named[key] = None
                if key in self._left:
                    self._look[key] = None
        # A pod that is gone is no member any more.
        self._look |= dict.fromkeys(key for key in self._left if key in self._named)

    def follow(self, now: float) -> None:
        """Ask for the deallocation of claims that keep devices from others without using them."""
        if not self._process.synced:
            return
        for key in list(self._look):
            claim = self._devices.claims.get(key)
            if claim is not None and self._devices.users_of(key) and now < self._sure_at:
                continue  # a Binding from before a restart may come
            del self._look[key]
            device_claim = self._deallocating.get(key)
            if claim is not None and claim is not device_claim and key in self._left and self._is_idle(key, now):
                self._deallocating[key] = claim
                self._outbox.append(Deallocate(claim.uid, claim.namespace, claim.name))

    def answered(self, event: Deallocated, now: float) -> None:
        """Ask again later for a deallocation that failed, and note why in the history of its gangs."""
        effect = event.effect
        key = effect.namespace, effect.name
        if not event.detail or key not in self._left:
            return
        for workload in dict.fromkeys(map(self._workload_of, self._devices.users_of(key))):
            if workload is not None:
                why = f"ResourceClaim {effect.name} keeps the devices of a start that failed: {event.detail}"
                if all(why != text for _, text in workload.reason_state.story):
                    workload.reason_state.note(now, why)
        self._repeats.repeat_later(effect, now)

    def wants(self, effect: Deallocate, now: float) -> bool:
        """Whether the claim still keeps devices without using them."""
        key = effect.namespace, effect.name
        claim = self._devices.claims.get(key)
        return claim is not None and claim.uid == effect.uid and key in self._left and self._is_idle(key, now)

    def next_look(self) -> float | None:
        """When a check is due without an event; None without one."""
        return self._sure_at if self._look and self._process.synced else None

    def _workload_of(self, uid: str) -> Workload | None:
        member = self._store.member(uid)
        return None if member is None else member[0]

    @property
    def _sure_at(self) -> float:
        """When no Binding from before a restart can be under way any more."""
        return self._process.synced_at + self._limits.plan_s if self._process.synced else inf

    def _is_idle(self, key: ObjectKey, now: float) -> bool:
        """Whether no pod of the claim has a node or a plan, and none may be bound or be planned next."""
        users = self._devices.users_of(key)
        return all(self._waits(uid, now) for uid in users) if users else key in self._named

    def _waits(self, uid: str, now: float) -> bool:
        """Whether the pod has ended, was looked at and has no plan, or pauses after repeated failures of its gang."""
        pod, entry = self._store.pods.get(uid), self._store.member(uid)
        if pod is None or pod.deleting:
            return False  # the claims that were made for the pod are deleted with it
        if pod.terminal and not pod.node:
            return True
        if entry is None or pod.node or pod.scheduler not in self._schedulers:
            return False
        workload, member = entry
        if uid in self._binds.writing or uid in self._binds.unknown or uid in self._binds.unseen:
            return False
        if (job := workload.job) is not None and (job.stop or job.seen.suspended):
            return False  # its controller deletes the pod
        if member.state is MemberState.DONE:
            return True
        parked = self._pending.is_parked(workload.key) and now >= workload.retries.not_before
        return member.state is MemberState.WAITING and (parked or workload.retries.rests_again(now))
