"""The API server: objects with UIDs and versions, the rules of the writes that matter here, and the news of changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from extender.core.bare import bare
from extender.core.events import CapacitySeen, ClaimSeen, Event, StorageClassSeen, StorageDriverSeen, VolumeSeen
from extender.core.gate.stamps import stamp_of
from extender.runtime.quarantine import Source
from policies.model import (
    GANG_GATE,
    DisruptionBudget,
    GangOwner,
    GroupJob,
    GroupKey,
    Node,
    Pod,
    PodGroup,
    PodSets,
    SlotKey,
)
from policies.model.devices import Allocation, DeviceClaim
from policies.model.queues import QueueObject
from tests.simulation.model.batch import BatchJob, Write, written
from tests.simulation.model.changes import ApiObject, Change, Kind, StorageObject
from tests.simulation.model.devices import Thing
from tests.simulation.model.devices import uid_of as uid_of_thing
from tests.simulation.model.owner import OwnerObject
from tests.simulation.model.pods import WOKEN, as_read, pinned
from tests.simulation.model.wire import Stage, Wire

ObjectT = TypeVar("ObjectT", Pod, Node, PodGroup, BatchJob)

OK, NOT_FOUND, CONFLICT, REFUSED, INVALID, TOO_MANY = 200, 404, 409, 412, 422, 429
"""Statuses of writes, as the real one gives them."""

Listener = Callable[[Change], None]


def uid_of(thing: StorageObject) -> str:
    match thing:
        case ClaimSeen(namespace, name):
            return f"claim {namespace}/{name}"
        case VolumeSeen(name):
            return f"volume {name}"
        case StorageClassSeen(known):
            return f"class {known.name}"
        case StorageDriverSeen(name):
            return f"driver {name}"
        case CapacitySeen(capacity):
            return f"capacity {capacity.namespace}/{capacity.name}"


class ApiServer:
    """The truth. ``pods`` by UID, ``nodes`` by name, the others by key; ``changes`` is the last one of every object."""

    def __init__(self, wire: Wire | None = None) -> None:
        """``wire``: nodes and pods are written as objects, too."""
        self.wire = wire
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.groups: dict[GroupKey, PodGroup] = {}
        self.group_jobs: dict[GroupKey, GroupJob] = {}
        self.jobs: dict[GroupKey, BatchJob] = {}
        self.queues: dict[str, QueueObject] = {}
        """ClusterQueues, LocalQueues, Cohorts and ResourceFlavors, by kind and name."""
        self.owners: dict[GroupKey, OwnerObject] = {}
        self.things: dict[str, Thing] = {}
        """Slices, classes and templates of claims, by kind and name."""
        self.claims: dict[str, DeviceClaim] = {}
        """ResourceClaims, by UID."""
        self.budgets: dict[str, DisruptionBudget] = {}
        """The budgets by namespace and name."""
        self.storage: dict[str, StorageObject] = {}
        """Volumes, claims and classes, by kind and name."""
        self.may_evict: Callable[[Pod], bool] = lambda _: True
        """The question of the Eviction API about a pod."""
        self.blocked: dict[GroupKey, None] = {}
        """Jobs of which no pod can be created, as a ResourceQuota does it; a dry run says so."""
        self.failing: dict[str, str] = {}
        """UIDs of objects that the core fails on, each with the version, or empty for every version."""
        self.changes: dict[Kind, dict[str, Change]] = {kind: {} for kind in Kind}
        self.listeners: dict[Kind, list[Listener]] = {kind: [] for kind in Kind}
        self._names: dict[tuple[str, str], str] = {}
        self._node_uids: dict[str, str] = {}
        self.version = 0

    def fails_the_core(self, event: Event, source: Source) -> bool:
        """Say whether it does when it is shown this of an object: its bare facts are harmless."""
        version = self.failing.get(source.uid)
        return version in ("", source.version) and all(str(event) != str(bare_event) for bare_event in bare(event))

    def create_pod(self, pod: Pod) -> int:
        if (pod.namespace, pod.name) in self._names:
            return CONFLICT
        self._names[pod.namespace, pod.name] = pod.uid
        self._set_pod(pod)
        return OK

    def change_pod(self, uid: str, **facts: object) -> int:
        """Write these fields; a write that changes nothing notifies no watch."""
        pod = self.pods.get(uid)
        if pod is None:
            return NOT_FOUND
        changed = replace(pod, **facts)  # type: ignore[arg-type]
        if changed != pod:
            self._set_pod(changed)
        return OK

    def touch_pod(self, uid: str, **facts: object) -> int:
        """Write these fields, and something that no field of ``Pod`` shows, such as a condition or an unused label."""
        pod = self.pods.get(uid)
        if pod is None:
            return NOT_FOUND
        self._set_pod(replace(pod, **facts))  # type: ignore[arg-type]
        return OK

    def report_pod(self, uid: str, stage: Stage, **facts: object) -> int:
        """Write as much of its status, and these fields."""
        if self.wire is not None and uid in self.pods:
            self.wire.stages[uid] = stage
        return self.touch_pod(uid, **facts)

    def bind(self, uid: str, name: tuple[str, str], node: str, annotations: Mapping[str, str]) -> int:
        """POST a Binding: only for an unbound pod of that UID, without gates and not being deleted.

        From then on Muster reads the pod as a member of the gang that it was bound with, whatever edits change
        meanwhile.
        """
        pod = self._named(name)
        if pod is None:
            return NOT_FOUND
        if pod.uid != uid or pod.node or pod.deleting or pod.gates or pod.terminal:
            return CONFLICT
        self._set_pod(replace(pod.bound(node, stamp_of(annotations)), nominated_node=None, refusal=None))
        return OK

    def nominate(self, uid: str, name: tuple[str, str], node: str | None, *, wakes: bool = False) -> int:
        """PATCH ``status.nominatedNodeName``, which a bound pod cannot have; ``wakes``: with or without its label."""
        pod = self._named(name)
        if pod is None:
            return NOT_FOUND
        if pod.uid != uid:
            return CONFLICT
        if pod.node and node:
            return INVALID
        if not wakes:
            return self.change_pod(uid, nominated_node=node)
        labels = (*as_read(pod).labels, WOKEN) if node else as_read(pod).labels
        return self.change_pod(uid, nominated_node=node, labels=labels)

    def ungate(self, uid: str, name: tuple[str, str], pin: tuple[str, ...]) -> int:
        """PATCH the gate of ours away, and pin the pod to nodes if there are any to pin it to."""
        pod = self._named(name)
        if pod is None:
            return NOT_FOUND
        selection = pinned(pod.selection, pin)
        if pod.uid != uid or (selection != pod.selection and not pod.gates):
            return INVALID  # the affinity of a pod without gates cannot be changed
        gates = tuple(gate for gate in pod.gates if gate != GANG_GATE)
        return self.change_pod(uid, gates=gates, selection=selection)

    def confirm(self, uid: str, name: tuple[str, str]) -> int:
        """PATCH the annotation that says that the pod's release is whole."""
        pod = self._named(name)
        if pod is None:
            return NOT_FOUND
        if pod.uid != uid:
            return CONFLICT
        return self.change_pod(uid, stamp=replace(pod.stamp, complete=True) if pod.stamp is not None else None)

    def evict_pod(self, uid: str) -> int:
        """POST an Eviction."""
        pod = self.pods.get(uid)
        return TOO_MANY if pod is not None and not self.may_evict(pod) else self.delete_pod(uid)

    def delete_pod(self, uid: str) -> int:
        """DELETE, or an eviction that nothing forbids: a bound pod is only marked, and its kubelet ends it."""
        pod = self.pods.get(uid)
        if pod is None:
            return NOT_FOUND
        if pod.node and not pod.terminal:
            return self.change_pod(uid, deleting=True)
        return self.remove_pod(uid)

    def remove_pod(self, uid: str) -> int:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return NOT_FOUND
        del self._names[pod.namespace, pod.name]
        if self.wire is not None:
            self.wire.forget(uid)
        self._end(Kind.PODS, uid)
        return OK

    def set_node(self, node: Node) -> None:
        self.nodes[node.name] = node
        uid = self._node_uids.setdefault(node.name, f"{node.name}@{self.version}")
        self._tell(Kind.NODES, uid, node, b"" if self.wire is None else self.wire.node(node))

    def remove_node(self, name: str) -> None:
        """Remove the node. Its pods stay, until the garbage collector removes them."""
        del self.nodes[name]
        self._end(Kind.NODES, self._node_uids.pop(name))

    def set_group(self, group: PodGroup) -> None:
        """Create or change a PodGroup; one of another UID takes the place of the last."""
        before = self.groups.get(group.key)
        if before is not None and before.uid != group.uid:
            self.remove_group(group.key)
        self.groups[group.key] = group
        self._tell(Kind.GROUPS, group.uid, group)

    def remove_group(self, key: GroupKey) -> None:
        self._end(Kind.GROUPS, self.groups.pop(key).uid)

    def take_up(self, key: GroupKey, uid: str) -> int:
        """PATCH the phase of a PodGroup, so that its job makes its pods."""
        group = self.groups.get(key)
        if group is None or group.uid != uid or not group.pending:
            return OK
        self.set_group(replace(group, pending=False, starting=True))
        return OK

    def tell_of_group(self, key: GroupKey, uid: str, *, started: bool) -> int:
        """PATCH the phase of a PodGroup whose job made its pods."""
        group = self.groups.get(key)
        if group is not None and group.uid == uid and group.job is not None and group.starting == started:
            self.set_group(replace(group, starting=not started, pending=False))
        return OK

    def set_group_job(self, job: GroupJob) -> None:
        """Create the job that makes the pods of a PodGroup; a job of another UID replaces the last one."""
        if job.key in self.group_jobs:
            self.remove_group_job(job.key)
        self.group_jobs[job.key] = job
        self._tell(Kind.GROUP_JOBS, job.uid, job)

    def remove_group_job(self, key: GroupKey) -> None:
        self._end(Kind.GROUP_JOBS, self.group_jobs.pop(key).uid)

    def set_job(self, job: BatchJob) -> None:
        """Create or change a job; a write that changes nothing notifies no watch."""
        if self.jobs.get(job.key) != job:
            self.jobs[job.key] = job
            self._tell(Kind.JOBS, job.uid, job)

    def set_queue(self, thing: QueueObject) -> None:
        """Create or change one."""
        uid = f"{type(thing).__name__}/{thing.name}"
        self.queues[uid] = thing
        self._tell(Kind.QUEUES, uid, thing)

    def remove_queue(self, uid: str) -> None:
        del self.queues[uid]
        self._end(Kind.QUEUES, uid)

    def set_storage(self, thing: StorageObject) -> None:
        """Create or change a volume, a claim or a class; a write that changes nothing notifies no watch."""
        uid = uid_of(thing)
        if self.storage.get(uid) != thing:
            self.storage[uid] = thing
            self._tell(Kind.STORAGE, uid, thing)

    def remove_storage(self, uid: str) -> None:
        if self.storage.pop(uid, None) is not None:
            self._end(Kind.STORAGE, uid)

    def choose_volume(self, key: tuple[str, str], volume: str, node: str) -> int:
        """Keep that volume for the claim, or have one made for it on the node."""
        claim = self.storage.get(f"claim {key[0]}/{key[1]}")
        if not isinstance(claim, ClaimSeen):
            return NOT_FOUND
        if not volume:
            if claim.node not in ("", node):
                return CONFLICT
            self.set_storage(replace(claim, node=node))
            return OK
        chosen = self.storage.get(f"volume {volume}")
        if not isinstance(chosen, VolumeSeen) or chosen.claim not in ("", claim.name):
            return CONFLICT
        self.set_storage(replace(chosen, namespace=claim.namespace, claim=claim.name))
        return OK

    def set_budget(self, budget: DisruptionBudget) -> None:
        """Create or change one."""
        self.budgets[f"{budget}"] = budget
        self._tell(Kind.BUDGETS, f"{budget}", budget)

    def set_thing(self, thing: Thing) -> None:
        """Create or change an object that a driver publishes, or that users write for devices."""
        self.things[uid_of_thing(thing)] = thing
        self._tell(Kind.DEVICES, uid_of_thing(thing), thing)

    def remove_thing(self, uid: str) -> None:
        del self.things[uid]
        self._end(Kind.DEVICES, uid)

    def set_claim(self, claim: DeviceClaim) -> None:
        """Create or change a ResourceClaim; a write that changes nothing notifies no watch."""
        if self.claims.get(claim.uid) != claim:
            self.claims[claim.uid] = claim
            self._tell(Kind.CLAIMS, claim.uid, claim)

    def remove_claim(self, uid: str) -> None:
        del self.claims[uid]
        self._end(Kind.CLAIMS, uid)

    def reserve_claim(self, uid: str, chosen: Allocation | None, pod: str) -> tuple[int, DeviceClaim | None]:
        """Reserve the claim for the pod, with the ``chosen`` allocation; None: the claim has an allocation already."""
        claim = self.claims.get(uid)
        if claim is None:
            return NOT_FOUND, None
        if (claim.allocation is None) != (chosen is not None):
            return CONFLICT, None
        reserved = claim.reserved_for if pod in claim.reserved_for else (*claim.reserved_for, pod)
        self.set_claim(replace(claim, allocation=chosen or claim.allocation, reserved_for=reserved))
        return OK, self.claims[uid]

    def unreserve_claim(self, uid: str, pod: str) -> int:
        """Take the reservation of the pod back, and nothing else."""
        claim = self.claims.get(uid)
        if claim is None:
            return NOT_FOUND
        self.set_claim(replace(claim, reserved_for=tuple(user for user in claim.reserved_for if user != pod)))
        return OK

    def look_at_claim(self, uid: str) -> tuple[int, DeviceClaim | None]:
        """GET it, with its version."""
        claim = self.claims.get(uid)
        return (0, None) if claim is None else (self.changes[Kind.CLAIMS][uid].version, claim)

    def deallocate_claim(self, uid: str, version: int, but: str = "") -> int:
        """Clear allocation and reservations of that version of the claim.

        ``but``: the one pod that may have reserved it.
        """
        claim = self.claims.get(uid)
        if claim is None:
            return NOT_FOUND
        if self.changes[Kind.CLAIMS][uid].version != version:
            return CONFLICT
        if {*claim.reserved_for} - {but}:
            return REFUSED
        self.set_claim(replace(claim, allocation=None, reserved_for=()))
        return OK

    @property
    def podsets(self) -> dict[GroupKey, PodSets]:
        """The podsets of the jobs that have not ended."""
        shown = [(key, job.shown()) for key, job in self.jobs.items()]
        return {key: job.podsets for key, job in shown if not job.finished}

    def done(self, key: GroupKey) -> tuple[frozenset[SlotKey], int]:
        """Slots of the job that are done by its status, and how many of those without an index get no other pod."""
        job = self.jobs[key].shown() if key in self.jobs else None
        return (frozenset(), 0) if job is None else (job.done, job.closed)

    def remove_job(self, key: GroupKey) -> None:
        """Remove the job. Its pods stay, until the garbage collector removes them."""
        self._end(Kind.JOBS, self.jobs.pop(key).uid)

    def set_owner(self, owner: OwnerObject) -> None:
        """Create or change an owner; one of another UID takes the place of the last."""
        before = self.owners.get(owner.key)
        if before is not None and before.uid != owner.uid:
            self.remove_owner(owner.key)
        self.owners[owner.key] = owner
        self._tell(Kind.OWNERS, owner.uid, owner)

    def remove_owner(self, key: GroupKey) -> None:
        """Remove the owner. Its pods stay, until the garbage collector removes them."""
        self._end(Kind.OWNERS, self.owners.pop(key).uid)

    @property
    def gang_owners(self) -> dict[GroupKey, GangOwner]:
        """The gangs that the owners declare."""
        return {key: owner.shown() for key, owner in self.owners.items()}

    def look_at_job(self, write: Write) -> tuple[int, BatchJob | None]:
        """GET the job that the write changes, with its version."""
        job = self.jobs.get(write.job.key) if write.job is not None else None
        if job is None or write.job is None or job.uid != write.job.uid:
            return 0, None
        return self.changes[Kind.JOBS][job.uid].version, job

    def write_job(self, write: Write, seen: tuple[int, BatchJob | None]) -> int:
        """PATCH it on the condition that it is as it was seen."""
        version, job = seen
        if job is None:
            return NOT_FOUND
        after = written(job, write)
        if isinstance(after, str):
            return REFUSED
        if after != job:
            if self.look_at_job(write)[0] != version:
                return CONFLICT
            self.set_job(after)
        return OK

    def node_of(self, uid: str, name: tuple[str, str]) -> str | None:
        """GET the pod's node: empty while it is unbound, None when it is gone or another one has its name."""
        pod = self._named(name)
        return None if pod is None or pod.uid != uid else pod.node or ""

    def _named(self, name: tuple[str, str]) -> Pod | None:
        uid = self._names.get(name)
        return None if uid is None else self.pods[uid]

    def _set_pod(self, pod: Pod) -> None:
        self.pods[pod.uid] = pod
        self._tell(Kind.PODS, pod.uid, pod, b"" if self.wire is None else self.wire.pod(pod, self.version + 1))

    def _tell(
        self,
        kind: Kind,
        uid: str,
        value: ApiObject,
        written: bytes = b"",
    ) -> None:
        self.version += 1
        change = self.changes[kind][uid] = Change(kind, uid, value, self.version, written=written)
        for listener in self.listeners[kind]:
            listener(change)

    def _end(self, kind: Kind, uid: str) -> None:
        last = self.changes[kind].pop(uid)
        self.version += 1
        for listener in self.listeners[kind]:
            listener(Change(kind, uid, last.value, self.version, gone=True))
