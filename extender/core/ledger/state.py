"""Everything the core knows: the parts of the ledger, created together. Each class gets the parts that it uses.

A store records, and then calls its list of consequences. The lists are here, with the reason for each entry's position.
Observers of the core come after all of these (``extender.observe.changes``).
What follows for a gang (its member, its Bindings, its job) is listed in ``extender.core.apply``: it needs the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import TypeVar

from extender.core.ledger.backfill import Backfills
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claim, Claims, emptied
from extender.core.ledger.cliques import Cliques
from extender.core.ledger.creation import Creation, FailedCreation, Trials
from extender.core.ledger.device_users import DeviceUsers
from extender.core.ledger.devices import Devices
from extender.core.ledger.durations import Durations
from extender.core.ledger.expectations import Expectations
from extender.core.ledger.kube_scheduler import KubeQueue, Refusing
from extender.core.ledger.pending import Changes, Nodes, Own, Pending, Starting, Timers
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.room import Room
from extender.core.ledger.singles import BlockedSinglePods, WaitingSingles
from extender.core.ledger.store import Counts, Namespaces, Outbox, Process, Store
from extender.core.ledger.volumes import Volumes
from extender.core.limits import Limits
from extender.core.workload.additions import Additions
from extender.core.workload.names import MovedPods
from extender.core.workload.release import BindCalls
from extender.core.workload.workload import Workload
from policies.model import GroupKey, Pod
from policies.model.levels import LevelKey


@dataclass(eq=False)
class Consequences:
    """The consequences of changes of the stores. The constructor subscribes to them."""

    _schedulers: tuple[str, ...]
    _store: Store
    _room: Room
    _claims: Claims
    _quotas: Quotas
    _preemptions: Preemptions
    _backfills: Backfills
    _volumes: Volumes
    _devices: Devices
    _cliques: Cliques
    _changes: Changes
    _pending: Pending
    _singles: WaitingSingles
    _blocked_singles: BlockedSinglePods
    _refusing: Refusing
    _binds: BindCalls
    _moved_pods: MovedPods

    def __post_init__(self) -> None:
        self._store.on_put = (
            # First what the pod is: moved out of its job's gang, in a native group, or waiting alone.
            self.find_strays,
            self.count_native,
            self.line_up_single,
            # Then its room. A single pod that is on a node waits no longer, so its kept room ends before its claim
            # begins.
            self.claim_room,
            # Then what depends on its room: workloads with demands on other pods.
            self.note_neighbour,
        )
        # A known pod has changed, and all of the above is done: quota, reasons with numbers, victims, volume claims.
        self._store.on_change = (self.count_claims, self.note_end, self.note_victim, self.give_claims_back)
        # A pod was forgotten. Its workload knows it as a member until the last entry.
        self._store.on_drop = (
            # First what waits for the pod, so that nothing is kept for it when its room comes free.
            self.forget_bind_calls,
            self.forget_single,
            self.unmount,
            self.forget_stray,
            # Then its room, while it is a member: the cause that wakes others names the workload.
            self.free_room,
            # Then its device claims, whose devices are part of that room.
            self.forget_claims,
            # Last the member: the entries before may need its promise.
            self.drop_member,
        )
        # A node came, went or changed. Its room is up to date.
        self._claims.on_node = (
            # Quota by node labels and cached shortfalls depend on nothing else here.
            self.count_relabelled,
            self.count_devices,
            self.wake_all,
            # Refusals by the node and victims on it may be outdated.
            self.forgive_node,
            self.note_node_of_victims,
            # When all others have seen the node: whether single pods still fit in their kept room.
            self.drop_displaced_singles,
            self._backfills.node_changed,
        )
        # Room has changed hands: five books count along, and do not read each other.
        self._claims.on_move = (
            self._quotas.moved,
            self._preemptions.moved,
            self._devices.moved,
            self._cliques.moved,
            self._backfills.moved,
        )
        # Room was given back. The claim has ended, and nothing else has the room yet.
        self._room.on_free = (
            # Reasons that name the former owner are out of date.
            self.note_former_owner,
            # Then the ones that may use the room: preemptors, single pods kept out of a promise, gangs refused by the
            # node.
            self.note_room_of_victims,
            self.reopen_to_singles,
            self.forgive_refusals,
        )

    # A pod was recorded.

    def find_strays(self, pod: Pod, old: Pod | None) -> None:
        """Settle the gangs that the pod has left or joined by a label that is not its job's."""
        if concerned := self._moved_pods.record(pod, old):
            self._store.mark_keys_dirty(concerned)

    def count_native(self, pod: Pod, _: Pod | None) -> None:
        """Count the pod in its native group, on its node."""
        self._singles.natives.record(pod)

    def line_up_single(self, pod: Pod, _: Pod | None) -> None:
        """Record a single pod while it waits, and end its kept room when it waits no longer."""
        if pod.group_key is None:
            self._singles.update(pod, self._schedulers, self._room.unreserve_single)

    def claim_room(self, pod: Pod, _: Pod | None) -> None:
        """Claim the room of a bound pod, and free the room of an ended one. Other pods have room only by a promise."""
        if pod.terminal:
            self._room.free(pod.uid)
        elif pod.node:
            claim = self._claims.get(pod.uid)
            if claim is not None and claim.node != pod.node:
                self._room.free(pod.uid)
            if (claim is None or claim.node != pod.node) and (workload := self._store.workload_of(pod)) is not None:
                self._room.use_reserved(workload, pod, pod.node)
            self._changes.room_taken |= claim is None
            if pod.group_key is None and (claim is None or claim.promised):
                self._preemptions.add_candidate(pod.priority)
            self._claims.confirm(pod)
            self._room.drop_displaced(pod.node)

    def note_neighbour(self, pod: Pod, old: Pod | None) -> None:
        """Note the pod for workloads with demands on other pods."""
        self._changes.note_pod(pod, old)

    # A known pod has changed.

    def count_claims(self, pod: Pod, old: Pod) -> None:
        """Count the quota of the workload again if the device claims of the pod were read after the pod."""
        if old.by_class != pod.by_class and (workload := self._store.workload_of(pod)) is not None:
            self._quotas.recount(workload)

    def note_end(self, pod: Pod, old: Pod) -> None:
        """Update reservations, and the reasons that name when room comes free, if the expected end of the pod has
        changed."""
        # The end of a member is that of its workload, which is settled.
        moved = (old.node, old.began, old.run) != (pod.node, pod.began, pod.run)
        if pod.group_key is None and pod.node and moved:
            self._backfills.note_end(pod.node)
            self._claims.note_change()
        if (old.ends, old.deleting) != (pod.ends, pod.deleting):
            self._changes.room_taken = True
            self._claims.note_change()

    def note_victim(self, pod: Pod, old: Pod) -> None:
        """Search for victims again if the pod's eviction settings or labels have changed."""
        if pod.node:
            self._preemptions.note_edit((old.eviction, old.labels), (pod.eviction, pod.labels))

    def give_claims_back(self, pod: Pod, old: Pod) -> None:
        """Wake the workloads that wait for a volume claim of a pod that has ended."""
        if pod.claims and pod.terminal and not old.terminal:
            for name in pod.claims:
                self.wake_users((pod.namespace, name))

    def wake_users(self, claim: tuple[str, str]) -> None:
        """Wake the workloads whose pods mount that volume claim."""
        for uid in self._volumes.users.get(claim, ()):
            if (member := self._store.member(uid)) is not None:
                self._pending.wake(Own(member[0].key, recompute=True))

    # A pod was forgotten.

    def forget_bind_calls(self, pod: Pod) -> None:
        """Forget the bind calls for the pod."""
        self._binds.forget(pod.uid)

    def forget_single(self, pod: Pod) -> None:
        """End the room that is kept for the pod, and its wait."""
        self._blocked_singles.drop(pod.uid)
        self._room.unreserve_single(pod.uid)
        self._singles.gone(pod.uid)

    def unmount(self, pod: Pod) -> None:
        """Forget the pod's volumes, and wake the workloads that share its claims."""
        for claim in self._volumes.unmount(pod):
            self.wake_users(claim)

    def forget_stray(self, pod: Pod) -> None:
        """Settle the gang that the pod was moved out of."""
        self._store.mark_keys_dirty(self._moved_pods.remove(pod))

    def free_room(self, pod: Pod) -> None:
        """Free the pod's room."""
        self._room.free(pod.uid)

    def forget_claims(self, pod: Pod) -> None:
        """Forget the pod's device claims."""
        self._devices.drop(pod)

    def drop_member(self, pod: Pod) -> None:
        """Remove the pod from its workload."""
        if (workload := self._store.workload_of(pod)) is not None:
            workload.members.drop(pod.uid)
            self._store.mark_dirty(workload)

    # A node came, went or changed.

    def count_relabelled(self, node: str, relabelled: bool) -> None:
        """Count quota by the node's new labels."""
        if relabelled:
            self._quotas.node_seen(node)

    def count_devices(self, node: str, _: bool) -> None:
        """Count the devices and volumes that the node reaches."""
        self._devices.node_changed(node)
        self._volumes.node_changed(node)

    def wake_all(self, node: str, _: bool) -> None:
        """Wake every workload that waits for room."""
        self._pending.wake(Nodes())
        self._quotas.node_changed(node)

    def forgive_node(self, node: str, _: bool) -> None:
        """Forget that the node refused pods."""
        for workload in self._refusing.forget(node, None, self._store.workloads):
            self._store.mark_dirty(workload)

    def note_node_of_victims(self, node: str, _: bool) -> None:
        """Search for victims again."""
        self._preemptions.note_node_change(node)

    def drop_displaced_singles(self, node: str, _: bool) -> None:
        """Take back room that is kept on the node for single pods and no longer fits."""
        self._room.drop_displaced(node)

    # Room was given back.

    def note_former_owner(self, claim: Claim) -> None:
        """Update the reasons that name the workload."""
        if claim.workload is not None:
            self._changes.ended[str(claim.workload)] = None

    def note_room_of_victims(self, claim: Claim) -> None:
        """Search for victims again."""
        self._preemptions.note_freed_room(claim.node)

    def reopen_to_singles(self, claim: Claim) -> None:
        """Let single pods try the node again that were kept out of promised room."""
        if claim.promised:
            self._blocked_singles.reopen(claim.node)

    def forgive_refusals(self, claim: Claim) -> None:
        """Forget that the node refused pods, unless this promise caused that."""
        for workload in self._refusing.forget(claim.node, claim, self._store.workloads):
            self._store.mark_dirty(workload)


T = TypeVar("T")


class State:
    """The facts, the promises and the outbox. The engine creates it; tests, reports and metrics read it."""

    def __init__(
        self,
        schedulers: tuple[str, ...] = ("muster",),
        limits: Limits | None = None,
        levels: tuple[LevelKey, ...] = (),
    ) -> None:
        self.schedulers, self.limits = schedulers, limits or Limits()
        self.process, self.counts = Process(), Counts()
        self.budgets, self.namespaces = DisruptionBudgets(), Namespaces()
        self.claims = claims = Claims(levels)
        self.volumes, self.devices = Volumes(claims), Devices(claims, self.limits)
        self.store = store = Store(self.volumes, self.devices)
        self.cliques = Cliques(claims, store.pods)
        self.quotas = Quotas(self.limits, claims, store.pods, store.workloads, self.namespaces)
        self.durations = self.make(Durations)
        self.preemptions = Preemptions(claims)
        self.backfills = self.make(Backfills)
        self.creation, self.failed_creation = Creation(), FailedCreation()
        self.trials, self.additions, self.moved_pods = Trials(enabled=self.limits.trials), Additions(), MovedPods()
        self.starting, self.timers = Starting(), Timers()
        self.singles, self.blocked_singles = WaitingSingles(), BlockedSinglePods()
        self.kube_queue, self.refusing, self.changes = KubeQueue(), Refusing(), Changes()
        self.pending = self.make(Pending)
        self.expectations = self.make(Expectations)
        self.binds = BindCalls()
        self.outbox = Outbox(store, self.binds)
        self.room = self.make(Room)
        self.make(Consequences)
        self.device_users = self.make(DeviceUsers)

    @property
    def pods(self) -> dict[str, Pod]:
        return self.store.pods

    @property
    def workloads(self) -> dict[GroupKey, Workload]:
        return self.store.workloads

    def take_apart(self) -> Iterator[None]:
        """Free everything in small steps, when the core is not needed any more.

        The lists of consequences tie the stores to each other: without them nothing is left for a garbage collector.
        """
        self.store.on_put = self.store.on_change = self.store.on_drop = ()
        self.claims.on_node = self.claims.on_move = self.room.on_free = ()
        yield from self.claims.take_apart()
        yield from emptied(self.workloads)
        yield from emptied(self.pods)

    def make(self, kind: Callable[..., T], **others: object) -> T:
        """Create an object from the parts that its constructor names. ``others``: arguments that are not parts."""
        names = _named_by(kind)
        parts = {name: getattr(self, name) for name in names if name not in others and hasattr(self, name)}
        return kind(**{names[name]: field for name, field in (parts | others).items()})


@cache
def _named_by(kind: Callable[..., object]) -> dict[str, str]:
    """The constructor's parameters, by the names of the parts. A class stores a private part with a leading
    underscore."""
    return {name.lstrip("_"): name for name in signature(kind).parameters}
