"""Everything the core knows: the API objects as last seen, and what has been promised on top of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from math import inf

from extender.core.effects import AnswerBind, Effect, PostBinding
from extender.core.ledger.budgets import DisruptionBudgets
from extender.core.ledger.claims import Claim, Claims, Owner, SlotOf
from extender.core.ledger.creation import Creation, FailedCreation, Trials
from extender.core.ledger.devices import DeviceClasses
from extender.core.ledger.kube_scheduler import KubeQueue, Refusing
from extender.core.ledger.namespaces import Namespaces
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.quotas import Quotas
from extender.core.ledger.singles import KeptOut, WaitingSingles
from extender.core.ledger.volumes import Volumes
from extender.core.ledger.waiting import Changes, Starting, Timers, Waiting
from extender.core.limits import Limits
from extender.core.workload.additions import Additions
from extender.core.workload.members import Member, MemberState
from extender.core.workload.names import Astray
from extender.core.workload.release import BindCalls, Binding
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupKey, Pod, PodGroup, Requests, SlotKey


@dataclass(slots=True)
class State:
    """The facts, the promises and the outbox. ``out`` is drained after every event, ``touched`` settled before that."""

    schedulers: tuple[str, ...] = ("muster",)
    limits: Limits = field(default_factory=Limits)
    pods: dict[str, Pod] = field(default_factory=dict)
    workloads: dict[GroupKey, Workload] = field(default_factory=dict)
    groups: dict[tuple[GroupKey, Dialect], PodGroup] = field(default_factory=dict)
    volumes: Volumes = field(default_factory=Volumes)
    namespaces: Namespaces = field(default_factory=Namespaces)
    budgets: DisruptionBudgets = field(default_factory=DisruptionBudgets)
    devices: DeviceClasses = field(default_factory=DeviceClasses)
    claims: Claims = field(default_factory=Claims)
    creation: Creation = field(default_factory=Creation)
    """Pods of admitted jobs that are yet to come."""
    failed_creation: FailedCreation = field(default_factory=FailedCreation)
    """The namespaces where pods of admitted jobs did not come."""
    additions: Additions = field(default_factory=Additions)
    """Additions of the API server to the pods of a template."""
    astray: Astray = field(default_factory=Astray)
    starting: Starting = field(default_factory=Starting)
    binds: BindCalls = field(default_factory=BindCalls)
    bound_by_us: dict[str, Binding] = field(default_factory=dict)
    """Pods that are bound, and not confirmed by the watch yet."""
    touched: dict[GroupKey, None] = field(default_factory=dict)
    """Workloads that something has happened to since they were settled."""
    waiting: Waiting = field(init=False)
    quotas: Quotas = field(init=False)
    preemptions: Preemptions = field(init=False)
    trials: Trials = field(init=False)
    singles: WaitingSingles = field(default_factory=WaitingSingles)
    changes: Changes = field(default_factory=Changes)
    refusing: Refusing = field(default_factory=Refusing)
    kept_out: KeptOut = field(default_factory=KeptOut)
    keeping: dict[GroupKey, None] = field(default_factory=dict)
    """Workloads that room is kept for whose lost members are to be replaced."""
    kube_queue: KubeQueue = field(default_factory=KubeQueue)
    timers: Timers = field(default_factory=Timers)
    advised: Counter[str] = field(default_factory=Counter)
    """In advisory mode: how often enforcing would have said what (``extender.core.gate.advisory``)."""
    unpinned: int = 0
    """How many pods of started jobs came without their pin."""
    policy_errors: Counter[str] = field(default_factory=Counter)
    subject: str | GroupKey | None = None
    """The pod or the workload that is being taken up, for whoever has to find out what the core has failed on."""
    paused_until: float = -inf
    """Before this instant nothing is planned that is not planned yet."""
    synced: bool = False
    synced_at: float = 0.0
    """When every list was in."""
    recovered: bool = False
    """What the objects tell of an earlier life of ours is known: calls can be answered."""
    epoch: float = 0.0
    """The instant of the core's clock at which the epoch of the wall clock was, by the last that was heard."""
    out: list[Effect] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.waiting = Waiting(self.limits.waiting)
        self.quotas = Quotas(self.limits, self.claims, self.pods, self.workloads, self.namespaces)
        self.preemptions = Preemptions(self.claims)
        self.trials = Trials(enabled=self.limits.trials)
        self.claims.follow(self.quotas.moved)
        self.claims.follow(self.preemptions.moved)

    def workload_of(self, pod: Pod) -> Workload | None:
        return None if pod.group_key is None else self.workloads.get(pod.group_key)

    def member(self, uid: str) -> tuple[Workload, Member] | None:
        """The pod as a member of its workload; None for one of no gang, or that is not known."""
        pod = self.pods.get(uid)
        workload = self.workload_of(pod) if pod is not None else None
        member = workload.members.get(uid) if workload is not None else None
        return None if workload is None or member is None else (workload, member)

    def touch(self, workload: Workload) -> None:
        """Something has happened to it: it is settled before the event ends."""
        self.touched[workload.key] = None

    def settled(self, key: GroupKey) -> None:
        """What has happened to it by now has been looked at."""
        self.touched.pop(key, None)

    def sync(self, epoch: float, now: float) -> None:
        """Every list is in."""
        self.epoch, self.synced, self.synced_at = epoch, True, now

    def recover(self) -> None:
        """From now on calls are answered."""
        self.recovered = True
        self.take_changes()

    def take_changes(self) -> Changes:
        """What has changed since the last time."""
        changes, self.changes = self.changes, Changes(wary=self.changes.wary)
        return changes

    def blame(self, policy: str) -> None:
        self.policy_errors[policy] += 1

    def add(self, key: GroupKey) -> Workload:
        """A workload of that name is seen for the first time."""
        return self.workloads.setdefault(key, Workload(key))

    def forget(self, workload: Workload) -> None:
        """Nothing is left of it."""
        self.unreserve_all(workload)
        self.workloads.pop(workload.key, None)
        self.quotas.forget(workload.key)

    def put_pod(self, pod: Pod, *, seated: bool = False) -> Pod | None:
        """Take over a pod's new facts; ``seated``: its index is its slot. Returns those before, None if it is new."""
        old = self.pods.get(pod.uid)
        if not pod.node and (done := self.bound_by_us.get(pod.uid)):
            # A watch event from before our own Binding must not unbind it.
            pod = replace(pod, node=done.node, stamp=done.stamp)
        if pod.claims:
            pod = self.volumes.mount(pod)
        if (key := pod.group_key) is not None:
            workload = self.workloads.get(key) or self.add(key)
            if not seated and workload.members.slots.seats(pod):
                pod = workload.seated_as(pod, old)
            if workload.members.put(pod):
                self.touched[key] = None
            if workload.group is None and pod.group and (group := self.groups.get((key, pod.group.dialect))):
                workload.follow(group)
                self.touched[key] = None
        self.pods[pod.uid] = pod
        self.touched |= self.astray.see(pod, old)
        self.singles.natives.see(pod)
        if pod.group_key is None:
            self.singles.see(pod, self.schedulers, self.end_kept)
        self._claim(pod)
        self.changes.see(pod, old)
        if old is not None and (old.ends, old.deleting) != (pod.ends, pod.deleting):
            self.changes.taken = True
            self.claims.note_change()
        return old

    def drop_pod(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        self.binds.forget(uid)
        self.kept_out.drop(uid)
        self.end_kept(uid)
        self.singles.gone(uid)
        if pod is None:
            return
        self.volumes.unmount(pod)
        self.touched |= self.astray.drop(pod)
        self.free(uid)
        if (workload := self.workload_of(pod)) is not None:
            workload.members.drop(uid)
            self.touch(workload)

    def confirm_bound(self, uid: str) -> None:
        """The watch shows that the pod is bound, or gone: no event from before our own Binding can follow."""
        self.bound_by_us.pop(uid, None)

    def mark_bound(self, uid: str, binding: Binding) -> None:
        """Our Binding succeeded: the pod is bound before the watch says so."""
        if (pod := self.pods.get(uid)) is not None and not pod.node:
            self.put_pod(replace(pod, node=binding.node, stamp=binding.stamp, nominated_node=None))
            self.bound_by_us[uid] = binding

    def node_changed(self, node: str) -> None:
        self.changes.nodes = True
        self.quotas.node_changed(node)
        self._forget_refusals(node)
        self.preemptions.node_changed(node)
        self.crowd_out(node)

    def reorder(self, namespace: str) -> None:
        """Have the next pass look at all waiting workloads of a namespace whose turns have changed."""
        for key in self.waiting.keys:
            if key.namespace == namespace:
                self.waiting.look_again(key)

    def fail_creation(self, workload: Workload, now: float, *, in_full: bool) -> None:
        """Pods of it were not created in time. ``in_full``: it had the full time."""
        self.creation.doubt(workload.key.namespace)
        if workload.job is not None:
            self.trials.fail_creation(workload.key, workload.job.seen.podsets, now)
        job = workload.job is not None
        if self.failed_creation.fail(workload.key, workload.priority, now, in_full=in_full, job=job):
            self.reorder(workload.key.namespace)

    def cure_creation(self, workload: Workload) -> None:
        """All pods of it were created."""
        if self.failed_creation.cure(workload.key, workload.priority):
            self.reorder(workload.key.namespace)

    def nudge(self, workload: Workload) -> None:
        """Something around it has changed that its plan depends on."""
        workload.nudge()
        self.touch(workload)

    def assume(self, workload: Workload, member: Member, node: str) -> None:
        """Promise the member a node."""
        workload.members.move(member, MemberState.ASSUMED, node)
        self.changes.taken = True
        self.claims.assume(member.pod, node)
        self.touch(workload)

    def unassume(self, workload: Workload, member: Member) -> None:
        """The member is promised nothing any more. Whoever waits for its Binding has been answered."""
        if member.placed:
            workload.members.move(member, MemberState.WAITING)
            if not member.pod.node:
                self.free(member.uid)
        self.touch(workload)

    def assume_slot(self, workload: Workload, slot: SlotKey, node: str, turn: int = 0) -> None:
        """Promise the pod that will come to the slot a node; an empty one takes the promise back."""
        workload.members.slots.plan(slot, node, turn)
        owner = SlotOf(workload.key, slot)
        workload.nudge()
        if node:
            self.changes.taken = True
            self.claims.assume(workload.members.slots.templates[slot], node, owner)
        else:
            self.free(owner)
        self.touch(workload)

    def reserve(self, workload: Workload, lost: Pod, claim: Claim, until: float) -> None:
        """Keep the room that a lost member had for its replacement."""
        if workload.reserve(lost):
            self.keeping[workload.key] = None
            self.changes.taken = True
            self.claims.reserve(SlotOf(workload.key, lost.uid), claim, until)

    def unreserve(self, workload: Workload, slot: SlotKey) -> None:
        workload.unreserve(slot)
        if not workload.reserved:
            del self.keeping[workload.key]
        self.free(SlotOf(workload.key, slot))
        self.touch(workload)

    def kept_rooms(self, workload: Workload) -> list[Claim]:
        """The rooms that are kept for replacements of its lost members."""
        claims = (self.claims.get(SlotOf(workload.key, slot)) for slot in workload.reserved)
        return [claim for claim in claims if claim is not None]

    def use_kept(self, workload: Workload, pod: Pod, node: str) -> None:
        """Give up kept room that a member needs on its node: that of the lost member most like it. A member that fits
        beside the kept room needs none."""
        if self.claims.fits(node, pod.requests):
            return
        kept = [
            slot
            for slot in workload.reserved
            if (claim := self.claims.get(SlotOf(workload.key, slot))) is not None and claim.node == node
        ]
        if kept:
            self.unreserve(workload, min(kept, key=lambda slot: _unlike(workload.reserved[slot], pod)))

    def unreserve_all(self, workload: Workload) -> None:
        """No replacement is awaited any more."""
        for slot in list(workload.reserved):
            self.unreserve(workload, slot)

    def free(self, owner: Owner) -> None:
        """Take room back; a node with more room is a reason to try again what it refused or what waits."""
        claim = self.claims.get(owner)
        if claim is not None:
            self.changes.will_free(claim.node, self._left(claim.node, claim.requests))
            if claim.workload is not None:
                self.changes.ended[str(claim.workload)] = None
            self.claims.release(owner)
            self.preemptions.changed(claim.node)
            if claim.promised:
                self.kept_out.reopen(claim.node)
            self._forget_refusals(claim.node, claim)

    def _left(self, node: str, requests: Requests) -> dict[str, int]:
        """Return the free amounts of what they ask for, without room kept for single pods, as gangs are planned."""
        return self.singles.left(node, self.claims.room(node, requests))

    def end_kept(self, uid: str) -> None:
        """No room is for this pod of no gang alone any more."""
        pod = self.singles.get(uid)
        for node, requests in self.singles.places(uid).items():
            self.changes.will_free(node, self._left(node, requests))
            if pod is not None:
                self.changes.ended[str(pod)] = None
        if uid in self.singles.kept:
            self.singles.end(uid)
            self.claims.expect_no_longer(uid)

    def crowd_out(self, *nodes: str) -> None:
        """Others have room there: pods of no gang lose what was kept for them and is not left."""
        for uid in self.singles.crowded_out(nodes, self.claims) if self.singles.kept else ():
            self.end_kept(uid)

    def post(self, pod: Pod, binding: Binding, expires: float, marks: dict[str, str], *, again: bool = False) -> None:
        """Ask for a Binding with these annotations. ``again``: as in PostBinding."""
        self.binds.write(pod.uid, binding)
        self.crowd_out(binding.node)
        where = pod.uid, pod.namespace, pod.name, binding.node
        self.out.append(PostBinding(*where, tuple(binding.calls), expires, marks, binding.workload, again))

    def answer(self, call: int, error: str) -> None:
        """End a bind request; an empty error means that the pod is bound."""
        self.binds.let_go(call)
        self.out.append(AnswerBind(call, error))

    def answer_hold(self, workload: Workload, member: Member, error: str) -> None:
        """End the bind request of a member, if one waits."""
        if (hold := workload.members.let_go(member)) is not None:
            self.answer(hold.call, error)
            self.touch(workload)

    def _forget_refusals(self, node: str, given_back: Claim | None = None) -> None:
        for workload in self.refusing.forget(node, given_back, self.workloads):
            self.touch(workload)

    def _claim(self, pod: Pod) -> None:
        """An unbound pod has room only by a promise."""
        if pod.terminal:
            self.free(pod.uid)
        elif pod.node:
            claim = self.claims.get(pod.uid)
            if claim is not None and claim.node != pod.node:
                self.free(pod.uid)
            if (claim is None or claim.node != pod.node) and (workload := self.workload_of(pod)) is not None:
                self.use_kept(workload, pod, pod.node)
            self.changes.taken |= claim is None
            if pod.group_key is None and (claim is None or claim.promised):
                self.preemptions.came(pod.priority)
            self.claims.confirm(pod)
            self.crowd_out(pod.node)


def _unlike(lost: Pod, pod: Pod) -> tuple[bool, bool, bool]:
    """How little a member can be the replacement of a lost one: the less, the sooner it takes the room kept for it."""
    roles = [one.group.role if one.group is not None else "" for one in (lost, pod)]
    return lost.identity != pod.identity, roles[0] != roles[1], lost.requests != pod.requests
