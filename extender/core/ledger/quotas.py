"""Quota: how much of its ClusterQueue each workload uses, by promised node and by pod that is on a node.

The amounts follow from the claims, and so from the API objects alone. A job's annotations name the flavors of its
start; the flavor of a gang's pod follows from its node. So a restart counts the same.

Where a ClusterQueue orders by past use, the use of each LocalQueue is sampled at intervals, and the use of a started
workload counts at once. A restart reads the past use from the status of the LocalQueue (``policies/quota/history.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter

from extender.core.causes import Missing, QueueMissing
from extender.core.ledger.claims import Claim, Claims, ClaimState, Owner, SlotOf
from extender.core.ledger.queues import Queues, Route
from extender.core.ledger.store import Namespaces
from extender.core.limits import Limits
from extender.core.workload.shape import (
    Flavoring,
    PodSetKey,
    flavors_of_node,
    has_labels,
    of_gang,
    of_job,
    offered,
    podset_key,
    suit,
)
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupKey, Pod, Requests
from policies.model.queues import VOLCANO, ClusterQueue, FlavorResource, LocalQueue, PastUse, Usage
from policies.quota.history import History, Sampling
from policies.quota.tree import QuotaNode, QuotaTree
from policies.statement import Statement
from policies.words import stated


class Unseen(str):
    """The pods of a podset that have no node yet, of a job that runs without a plan of Muster."""

    __slots__ = ()


@dataclass(eq=False)
class QuotaCounting:
    """How much quota a claim uses. The answers follow from the claims and the API objects; nothing is stored here."""

    _queues: Queues
    _claims: Claims
    _pods: Mapping[str, Pod]

    def use_of(self, workload: Workload, owner: Owner, claim: Claim, queue: str, former: Use | None) -> Use:
        """The use of one claim of the workload in the ClusterQueue ``queue``. ``former``: the use that was counted
        before."""
        podset = self._podset_of(workload, owner, claim)
        flavors = self._flavors(workload, podset, claim, queue, former)
        reserved = claim.state is ClaimState.RESERVED
        usage = _amounts_of(claim.requests, flavors, self._by_class(workload, owner))
        return Use(queue, podset, flavors, usage, unseen=reserved)

    def of_placed(self, placed: Iterable[tuple[Pod, str]], queue: str) -> Counter[FlavorResource]:
        """The usage that pods of a gang would have in the ClusterQueue, each on the node beside it."""
        snapshot, total = self._queues.snapshot, Counter[FlavorResource]()
        for pod, name in placed:
            if (node := self._claims.nodes.get(name)) is not None:
                flavors = flavors_of_node(node, snapshot.queues[queue], snapshot.flavors)
                total.update(_amounts_of(pod.requests, flavors, pod.by_class))
        return total

    def _flavors(
        self, workload: Workload, podset: PodSetKey, claim: Claim, queue: str, former: Use | None
    ) -> Mapping[str, str]:
        """The flavor of each resource of a claim.

        The flavors that the job was admitted with count, as far as its queue offers them and the node has their labels.
        Other flavors follow from the node. If the node is gone, the flavors that were counted before stay.
        """
        snapshot, node = self._queues.snapshot, self._claims.nodes.get(claim.node)
        flavors: Mapping[str, str] = {}
        if workload.job is not None:
            known = workload.flavoring.get(podset)
            flavors = known.flavors if known is not None else (workload.job.seen.flavors or {}).get(str(podset)) or {}
        if queue not in snapshot.queues:
            return flavors or (former.flavors if former is not None else {})
        flavors = offered(snapshot.queues[queue], flavors)
        if node is None:
            return flavors or (former.flavors if former is not None else {})
        suiting = {resource: name for resource, name in flavors.items() if has_labels(node, snapshot.flavors.get(name))}
        # A node may lack its labels for a while only: then the flavors of the start count, so no quota is given back.
        return {**flavors, **flavors_of_node(node, snapshot.queues[queue], snapshot.flavors), **suiting}

    def _podset_of(self, workload: Workload, owner: Owner, claim: Claim) -> PodSetKey:
        job, pod = workload.job, self._pods.get(owner) if isinstance(owner, str) else None
        if job is None:
            return stated(claim.requests)
        if pod is not None:
            return pod.series
        if isinstance(owner, SlotOf) and (lost := workload.reserved.get(owner.slot)) is not None:
            return lost.series
        prefix = str(owner.slot[0]) if isinstance(owner, SlotOf) else ""
        return prefix.removeprefix(job.seen.uid)

    def _by_class(self, workload: Workload, owner: Owner) -> Requests:
        """Return how many devices of each DeviceClass a pod or slot claims."""
        if isinstance(owner, str):
            return pod.by_class if (pod := self._pods.get(owner)) is not None else ()
        if (lost := workload.reserved.get(owner.slot)) is not None:
            return lost.by_class
        template = workload.members.slots.templates.get(owner.slot)
        return template.by_class if template is not None else ()


def unseen_of(workload: Workload, queue: ClusterQueue, uses: Collection[Use]) -> dict[Owner, Use]:
    """The uses of pods without a node, of a job that another client started or that was released without a plan.

    Such a job uses quota from the moment it is started. ``uses``: the uses of its pods that have nodes.
    """
    job = workload.job
    if job is None or job.plan is not None or job.seen.suspended or job.seen.finished or job.stop:
        return {}
    unseen: dict[Owner, Use] = {}
    for podset in job.seen.podsets.podsets:
        there = sum(use.podset == podset.name for use in uses)
        done = podset.left_out.union(int(slot[1]) for slot in job.seen.done if slot[0] == podset.prefix)
        missing = podset.count - there - len(done)
        flavors = offered(queue, (job.seen.flavors or {}).get(podset.name) or {}) or _first_flavors(queue)
        if missing > 0:
            each = _amounts_of(podset.template.requests, flavors, podset.template.by_class)
            usage = {what: amount * missing for what, amount in each.items()}
            unseen[Unseen(podset.name)] = Use(queue.name, podset.name, flavors, usage, unseen=True)
    return unseen


def _amounts_of(requests: Requests, flavors: Mapping[str, str], by_class: Requests) -> Usage:
    usage = {(flavors[name], name): amount for name, amount in requests if amount and name in flavors}
    for name, amount in by_class:
        if name in flavors:
            usage[flavors[name], name] = usage.get((flavors[name], name), 0) + amount
    return usage


def _first_flavors(queue: ClusterQueue) -> dict[str, str]:
    """The first flavor of the queue for each limited resource, for a pod whose node is unknown."""
    return {
        resource: name
        for group in queue.groups
        for name, quotas in reversed(group.flavors)
        for resource in group.limited
        if resource in quotas
    }


class QueueMembers:
    """The workloads of each queue.

    ``names``: the LocalQueue of each workload that has one.
    ``changed_queues``: ClusterQueues that a workload has left, or in which its state has changed, since the last
    ``take_changed_queues``.
    """

    def __init__(self) -> None:
        self.names: dict[GroupKey, str] = {}
        self.changed_queues: dict[str, None] = {}
        self._of: dict[str, dict[GroupKey, None]] = {}
        self._queue_of: dict[GroupKey, str] = {}
        self._states: dict[GroupKey, object] = {}
        self._versions: dict[str, int] = {}

    def touch(self, queue: str) -> None:
        """Note that the text of a report about the queue may have changed."""
        self._versions[queue] = self._versions.get(queue, 0) + 1

    def version(self, queues: Iterable[str]) -> int:
        """A number that changes whenever one of the queues was touched."""
        return sum(self._versions.get(queue, 0) for queue in queues)

    def of(self, queue: str) -> Iterable[GroupKey]:
        """The workloads of the ClusterQueue."""
        return self._of.get(queue, ())

    def queue_of(self, key: GroupKey) -> str | None:
        """The ClusterQueue in which the workload is counted."""
        return self._queue_of.get(key)

    def name(self, key: GroupKey, name: str) -> None:
        """Record the LocalQueue that the workload names; an empty ``name`` removes it."""
        if name:
            self.names[key] = name
        else:
            self.names.pop(key, None)
            self._states.pop(key, None)

    def enter(self, key: GroupKey, queue: str) -> None:
        """Add the workload to the ClusterQueue. The caller has removed it from its earlier one."""
        self.touch(queue)
        self._queue_of[key] = queue
        self._of.setdefault(queue, {})[key] = None

    def leave(self, key: GroupKey) -> None:
        """Remove the workload from its ClusterQueue."""
        if (queue := self._queue_of.pop(key, None)) is not None:
            self.touch(queue)
            self.changed_queues[queue] = None
            self._of[queue].pop(key)
            if not self._of[queue]:
                del self._of[queue]

    def set_state(self, key: GroupKey, state: object) -> bool:
        """Record the state of the workload. Returns whether it differs from the last one."""
        if self._states.get(key) == state:
            return False
        self._states[key] = state
        queue = self._queue_of.get(key, "")
        self.touch(queue)
        self.changed_queues[queue] = None
        return True

    def take_changed_queues(self) -> dict[str, None]:
        """Return the ClusterQueues in which a workload has moved on since the last call."""
        changed_queues, self.changed_queues = self.changed_queues, {}
        return changed_queues


class ReservedQuota(str):
    """The owner of quota that is kept for a workload while its victims terminate, or while it lacks only nodes."""

    __slots__ = ()


RESERVED_QUOTA = ReservedQuota("kept")


@dataclass(frozen=True, slots=True)
class Use:
    """The quota that one pod or slot uses.

    ``queue``: the ClusterQueue.
    ``podset``: the podset, as in ``Flavoring``.
    ``unseen``: whether the use rests on no pod: the pods have no node yet, or the quota is kept for a later one.
    """

    queue: str
    podset: PodSetKey
    flavors: Mapping[str, str]
    usage: Usage
    unseen: bool = False


class QuotaUses:
    """The quota that workloads use.

    ``version`` grows with every change.
    ``freed``: roots of the trees in which quota was given back since the last ``take_freed``.
    """

    def __init__(self, queues: Queues, members: QueueMembers) -> None:
        self.version = 0
        self.freed: dict[str, None] = {}
        self._changed: dict[str, None] = {}
        self._queues = queues
        self._members = members
        self._of: dict[GroupKey, dict[Owner, Use]] = {}
        self._known: dict[tuple[str, FlavorResource], dict[GroupKey, int]] = {}
        self._known_at = 0

    def __iter__(self) -> Iterator[GroupKey]:
        """Iterate over the workloads that use quota."""
        return iter(self._of)

    def __contains__(self, key: GroupKey) -> bool:
        """Whether the workload uses quota."""
        return key in self._of

    def of(self, key: GroupKey) -> Mapping[Owner, Use]:
        """The uses of the workload, by pod or slot."""
        return self._of.get(key, {})

    def put(self, key: GroupKey, owner: Owner, use: Use) -> None:
        """Set what the owner uses, in place of its earlier use."""
        self.end(key, owner)
        self._of.setdefault(key, {})[owner] = use
        tree = self._queues.snapshot.tree
        if use.queue in tree.queues:
            tree.use(use.queue, use.usage)
            self._changed[tree.root_of(use.queue)] = None
        self._members.touch(use.queue)
        self.version += 1

    def end(self, key: GroupKey, owner: Owner) -> None:
        """End the use of the owner, if there is one."""
        uses, tree = self._of.get(key), self._queues.snapshot.tree
        if uses is None or (use := uses.pop(owner, None)) is None:
            return
        if not uses:
            del self._of[key]
        if use.queue in tree.queues:
            tree.free(use.queue, use.usage)
            root = tree.root_of(use.queue)
            self.freed[root] = self._changed[root] = None
        self._members.touch(use.queue)
        self.version += 1

    def total(self, key: GroupKey) -> Counter[FlavorResource]:
        """The sum of what the workload uses."""
        total = Counter[FlavorResource]()
        for use in self.of(key).values():
            total.update(use.usage)
        return total

    def spend(self, key: GroupKey, owner: Owner) -> None:
        """End a use whose quota goes to other uses of the same workload. The quota does not count as freed."""
        freed = dict(self.freed)
        self.end(key, owner)
        self.freed = freed

    def end_all(self, key: GroupKey) -> None:
        """End all uses of the workload."""
        for owner in [*self.of(key)]:
            self.end(key, owner)

    def reset(self) -> dict[GroupKey, dict[Owner, Use]]:
        """Drop all uses, because the quota tree was rebuilt. Returns the former uses."""
        former, self._of = self._of, {}
        self.freed.update((root, None) for root in self._queues.snapshot.tree.roots)
        self.version += 1
        return former

    def carry_over(self, former: QuotaTree, queues: Iterable[str]) -> None:
        """Copy the used amounts of the former tree into the rebuilt one. ``queues``: the ones that may have more quota
        now."""
        tree = self._queues.snapshot.tree
        for name, node in former.queues.items():
            tree.use(name, node.used)
        self.freed.update((tree.root_of(name), None) for name in queues)
        self.version += 1

    def users(self, what: FlavorResource, queue: str) -> Mapping[GroupKey, int]:
        """How much of the flavor and resource each workload uses, in all queues of the tree that ``queue`` belongs
        to."""
        if self._known_at != self.version:
            self._known_at = self.version
            self._known.clear()
        tree = self._queues.snapshot.tree
        root = tree.root_of(queue)
        if (users := self._known.get((root, what))) is None:
            users = self._known[root, what] = {}
            for name in tree.below(root):
                for key in self._members.of(name):
                    if amount := sum(use.usage.get(what, 0) for use in self.of(key).values()):
                        users[key] = amount
        return users

    def take_freed(self) -> list[str]:
        """Return the roots of the trees in which quota was given back since the last call."""
        freed, self.freed = [*self.freed], {}
        return freed

    def take_changed(self, known: Container[str]) -> list[str]:
        """Return the roots of the trees whose use has changed since the last call, except the ``known`` ones."""
        changed, self._changed = self._changed, {}
        return [root for root in changed if root not in known]


LocalKey = tuple[str, str]
"""Namespace and name of a LocalQueue."""


@dataclass(eq=False)
class PastUsage:
    """The past use of LocalQueues whose ClusterQueue orders by it.

    ``version`` grows with every change of the order or of what is stored.
    """

    _sampling: Sampling
    _queues: Queues
    _members: QueueMembers
    _uses: QuotaUses
    _workloads: Mapping[GroupKey, Workload]

    def __post_init__(self) -> None:
        self.version = 0
        self._reordered: dict[str, None] = {}
        self._histories: dict[LocalKey, History] = {}
        self._counted: dict[GroupKey, LocalKey] = {}
        """The LocalQueue in which each started workload was counted."""
        self._touched: dict[GroupKey, None] = {}
        self._sampled_at: float | None = None
        """The last sample; None until recovery ends, because an earlier process has counted what runs at that time."""
        self._wall_offset = 0.0

    def begin(self, wall_offset: float, now: float) -> None:
        """Begin to sample: what runs now is counted already. ``wall_offset``: the wall clock's epoch on the clock of
        ``now``."""
        self._wall_offset, self._sampled_at = wall_offset, now
        self.rebuild()

    def rebuild(self) -> None:
        """Follow changed queue objects.

        A LocalQueue gets a history when its ClusterQueue first orders by past use, and keeps it until it is deleted.
        Its ClusterQueue may be deleted and created again, or order otherwise for a while. Workloads that run when a
        history begins do not count as started.
        """
        former, self._histories = self._histories, {}
        if self._sampled_at is None or not self._sampling.half_life_s:
            return
        snapshot = self._queues.snapshot
        for key, local in snapshot.locals.items():
            known = former.get(key)
            if known is not None or local.past is not None or self._counts(local):
                history = self._histories[key] = known or self._restored(local)
                history.weight = float(local.weight)
        for workload, name in self._members.names.items():
            at = workload.namespace, name
            if at in self._histories and at not in former and (workload in self._uses or self._runs(workload)):
                self._counted[workload] = at
        self._counted = {workload: at for workload, at in self._counted.items() if at in self._histories}

    def next_sample(self) -> float | None:
        if not self._histories or self._sampled_at is None:
            return None
        return self._sampled_at + self._sampling.interval_s

    def sample(self, now: float) -> None:
        """Take a sample if one is due."""
        due = self.next_sample()
        if due is None or now < due:
            return
        self._catch_up()
        used: dict[LocalKey, Counter[str]] = {key: Counter() for key in self._histories}
        for workload in self._uses:
            if (local := self._local_of(workload)) in used:
                used[local].update(self._total(workload))
        for key, history in self._histories.items():
            history.sample(used[key], now)
            self._reorder(key)
        self._sampled_at = now

    def touch(self, workload: GroupKey) -> None:
        """Note that what the workload uses, or its status, has changed."""
        if self._histories and (workload in self._counted or self._local_of(workload) in self._histories):
            self._touched[workload] = None

    def value(self, local: LocalKey) -> float:
        """The weighted past use of the LocalQueue; the lowest comes first. 0 where the ClusterQueue does not order by
        it."""
        self._catch_up()
        history = self._histories.get(local)
        counts = history is not None and self._counts(self._queues.snapshot.locals[local])
        return history.value if history is not None and counts else 0.0

    def stored(self, local: LocalKey) -> PastUse | None:
        """The past use to write to the LocalQueue's status, which a restart reads."""
        self._catch_up()
        history = self._histories.get(local)
        return None if history is None else PastUse(dict(history.consumed), history.sampled_at - self._wall_offset)

    def reorders(self, queues: Container[str]) -> bool:
        """Whether the order of one of these queues may have changed."""
        self._catch_up()
        return any(name in queues for name in self._reordered)

    def take_reordered(self) -> list[str]:
        """Return the ClusterQueues whose order may have changed since the last call."""
        self._catch_up()
        reordered, self._reordered = self._reordered, {}
        return [*reordered]

    def _catch_up(self) -> None:
        for key in [*self._touched]:
            workload = self._workloads.get(key)
            if workload is None or not workload.filling:
                del self._touched[key]
                self._follow(key)

    def _follow(self, key: GroupKey) -> None:
        before, runs = self._counted.get(key), self._runs(key)
        # A workload that runs while its ClusterQueue is deleted uses no quota, but still counts as started.
        goes_on = before is not None and runs and self._members.queue_of(key) is None
        local = self._local_of(key) if goes_on or key in self._uses else None
        if before is not None and before != local:
            del self._counted[key]
            if before in self._histories:
                self._histories[before].failed(str(key))
                self._reorder(before)
        if local is None or local not in self._histories:
            return
        if before != local:
            self._counted[key] = local
            self._histories[local].started(str(key), self._total(key))
            self._reorder(local)
        if runs:
            self.version += self._histories[local].settled(str(key))

    def _reorder(self, local: LocalKey) -> None:
        self.version += 1
        self._reordered[self._queues.snapshot.locals[local].queue] = None

    def _counts(self, local: LocalQueue) -> bool:
        """Whether the ClusterQueue of the LocalQueue orders by past use."""
        queue = self._queues.snapshot.queues.get(local.queue)
        return queue is not None and queue.by_past_usage

    def _runs(self, key: GroupKey) -> bool:
        """Whether the workload is known to have started."""
        workload = self._workloads.get(key)
        return workload is not None and (workload.release.complete or workload.has_bound_quorum)

    def _local_of(self, workload: GroupKey) -> LocalKey | None:
        name = self._members.names.get(workload)
        return None if name is None else (workload.namespace, name)

    def _total(self, workload: GroupKey) -> Counter[str]:
        total: Counter[str] = Counter()
        for use in self._uses.of(workload).values():
            for (_, resource), amount in use.usage.items():
                total[resource] += amount
        return total

    def _restored(self, local: LocalQueue) -> History:
        """The history from the status of the LocalQueue; a new one if the status has none."""
        now, past = self._sampled_at or 0.0, local.past
        if past is None:
            return History(self._sampling, now=now)
        return History(self._sampling, now=min(now, past.at + self._wall_offset), consumed=past.consumed)


_FREE = Route("")
_DEFAULT = f"{VOLCANO}default"
"""The queue of a Volcano PodGroup that names none; Volcano does the same."""


class Quotas:
    """The quota side of the ledger.

    ``queues``: the queue objects.
    ``members``: the workloads of each queue.
    ``uses``: the quota that each workload uses.
    ``past``: the past use of LocalQueues.
    """

    def __init__(
        self,
        limits: Limits,
        claims: Claims,
        pods: Mapping[str, Pod],
        workloads: Mapping[GroupKey, Workload],
        namespaces: Namespaces,
    ) -> None:
        self.queues = Queues(namespaces)
        self.members = QueueMembers()
        self.uses = QuotaUses(self.queues, self.members)
        self.past = PastUsage(limits.past_usage, self.queues, self.members, self.uses, workloads)
        self._limits = limits
        self._claims = claims
        self._workloads = workloads
        self.counting = QuotaCounting(self.queues, claims, pods)
        self._reserved: dict[GroupKey, Usage] = {}
        self.fully_reserved: dict[GroupKey, None] = {}
        """Workloads whose whole request is kept, because they lack only nodes."""
        self.counted: dict[GroupKey, None] = {}
        """Workloads whose pods have no node but count quota (``unseen_of``)."""
        self._state_changes = 0

    @property
    def version(self) -> int:
        """A number that grows whenever the text of a report may have changed."""
        return self._state_changes + self.uses.version + self.past.version

    def route(self, workload: Workload) -> Route:
        """The ClusterQueue of the workload, and why it is not admitted there.

        A workload without a queue is free to start, unless the setting requires a queue.
        """
        if not (name := self.local_of(workload.key)):
            if self._limits.require_queue:
                return Route("", QueueMissing(Missing.NAME))
            return _FREE
        return self.queues.route(workload.key.namespace, name) if self.queues.in_force(name) else _FREE

    def queue_of(self, key: GroupKey) -> ClusterQueue | None:
        """The ClusterQueue whose quota the workload uses; None for a workload that needs none."""
        name = self.members.queue_of(key)
        return None if name is None else self.queues.snapshot.queues.get(name)

    def node_of(self, queue: str) -> QuotaNode | None:
        return self.queues.snapshot.tree.queues.get(queue)

    def is_there(self, queue: str) -> Callable[[FlavorResource, int], bool]:
        """A test whether the queue has that amount left of a flavor and resource, its own or borrowed."""
        node = self.queues.snapshot.tree.queues.get(queue)
        return lambda what, amount: node is not None and amount <= node.left(what)

    def overdrawn(self, key: GroupKey) -> str:
        """A sentence on the first of the workload's resources of which its queue uses more than it may, or empty.

        A queue within its own quota is not blamed for what its cohort lacks.
        """
        name, uses = self.members.queue_of(key), self.uses.of(key).values()
        node = None if name is None else self.node_of(name)
        whats = dict.fromkeys(what for use in uses for what in use.usage)
        lacking = next(
            (what for what in whats if node is not None and node.left(what) < 0 and node.borrows(what)), None
        )
        return f"ClusterQueue {name} has no quota for its {lacking[1]} in flavor {lacking[0]}" if lacking else ""

    def local_of(self, key: GroupKey) -> str:
        """The LocalQueue that the workload names or has by default; empty without one."""
        return self.members.names.get(key, "")

    def past_of(self, key: GroupKey) -> float:
        """The weighted past use of the workload's LocalQueue; 0 where it does not decide the order."""
        return self.past.value((key.namespace, self.local_of(key)))

    def update(self, workload: Workload, former: Container[GroupKey] = ()) -> None:
        """Follow a workload that was settled: its queue, and its use without a claim, may have changed.

        ``former``: the workloads that used quota before everything was counted again.
        """
        key, name = workload.key, workload.queue
        if not name and _is_leaving(workload):
            name = self.local_of(key) if key in self.uses or key in former else self._left_by(workload)
        if not name and self._limits.default_queue and self.queues.local(key.namespace, self._limits.default_queue):
            name = self._limits.default_queue
        if not name and _is_volcanos(workload) and _DEFAULT in self.queues.snapshot.queues:
            name = _DEFAULT
        if name != self.local_of(key):
            self.members.name(key, name)
            self.recount(workload)
        if name:
            self.count_unseen(workload)
            lacking = bool(workload.members.slots.lacking)
            state = (
                workload.releasing,
                workload.has_bound_quorum,
                workload.starting,
                lacking,
                lacking and workload.has_promised_quorum,
                workload.priority,
                workload.paused,
                workload.release.complete,
            )
            self._state_changes += self.members.set_state(key, state)
            self.past.touch(key)

    def _left_by(self, workload: Workload) -> str:
        """The queue that the last pods name, which terminate on their nodes after a restart; empty if none does."""
        held = (member.pod.named_queue for member in workload.members if self._claims.get(member.uid))
        return next(filter(None, held), "")

    def forget(self, key: GroupKey) -> None:
        """Forget a workload that is gone."""
        if self.local_of(key):
            self.members.name(key, "")
            self._leave(key)

    def restore(self, workload: Workload) -> None:
        """Take over the flavors of a job's start from its annotations after a restart, as far as its queue offers
        them."""
        if workload.job is not None and (named := workload.job.seen.flavors):
            known, queue = self.queues.snapshot.flavors, self.queue_of(workload.key)
            had = {name: chosen if queue is None else offered(queue, chosen) for name, chosen in named.items()}
            workload.set_flavors({name: of_job(known, chosen) for name, chosen in had.items()})

    def as_bound(self, workload: Workload) -> dict[PodSetKey, Flavoring]:
        """The flavors for members without a node of a partly bound gang, by podset.

        A member gets those of a bound pod with equal requests: the first that match its node selector, since roles may
        need different nodes.
        """
        queue = self.queue_of(workload.key)
        if queue is None:
            return {}
        of_bound = self._flavors_of_bound(workload)
        slots, known = workload.members.slots, self.queues.snapshot.flavors
        lacking = {podset_key(pod, of_job=False): pod for pod in map(workload.members.pod_for, slots.lacking)}
        flavors = {
            podset: next(
                (held for held in of_bound.get(stated(pod.requests), ()) if suit(known, held, pod.selection)), None
            )
            for podset, pod in lacking.items()
        }
        return {podset: of_gang(queue, known, chosen) for podset, chosen in flavors.items() if chosen is not None}

    def unlike_bound(self, workload: Workload) -> list[str]:
        """The members (by UID) with a promised node whose flavors differ from those of bound pods with equal
        requests."""
        of_bound, uses = self._flavors_of_bound(workload), self.uses.of(workload.key)
        placed = ((uid, uses.get(uid)) for uid in workload.members.placed)
        return [
            uid
            for uid, use in placed
            if use is not None and (counted := _counted(use)) and counted not in of_bound.get(use.podset, [counted])
        ]

    def _flavors_of_bound(self, workload: Workload) -> dict[PodSetKey, list[Mapping[str, str]]]:
        uses = self.uses.of(workload.key)
        by_podset: dict[PodSetKey, list[Mapping[str, str]]] = {}
        for pod in sorted(workload.bound, key=attrgetter("rank")):
            if (use := uses.get(pod.uid)) is not None and (counted := _counted(use)):
                known = by_podset.setdefault(use.podset, [])
                if counted not in known:
                    known.append(counted)
        return by_podset

    def reserve_part(self, key: GroupKey, usage: Usage) -> None:
        """Keep quota of its queue for the workload before it has nodes; an empty ``usage`` ends that. No change of its
        pods does."""
        if self._reserved.pop(key, {}) != usage or not usage:
            self.uses.end(key, RESERVED_QUOTA)
        if not usage:
            return
        self._reserved[key] = usage
        if RESERVED_QUOTA not in self.uses.of(key) and (queue := self.members.queue_of(key)) is not None:
            self.uses.put(key, RESERVED_QUOTA, Use(queue, None, {}, usage, unseen=True))

    def reserve(self, key: GroupKey, usage: Usage) -> None:
        """Keep all the quota that the workload asks for."""
        self.fully_reserved[key] = None
        self.reserve_part(key, usage)

    def unreserve(self, key: GroupKey) -> None:
        """Stop keeping quota for the workload: it is free, or used by its pods."""
        self.fully_reserved.pop(key, None)
        self.reserve_part(key, {})

    def reserved(self, key: GroupKey) -> Usage:
        """Return the quota that is kept for the workload now."""
        use = self.uses.of(key).get(RESERVED_QUOTA)
        return {} if use is None else use.usage

    def has_own(self, key: GroupKey) -> bool:
        """Whether the workload has quota without nodes. If so, the shortfall of other workloads of its shape does not
        apply."""
        return key in self.fully_reserved or key in self.counted

    @contextmanager
    def statement(self, key: GroupKey) -> Iterator[Statement]:
        """Open a statement on the quota that the workload may use, with the quota it has without nodes.

        Everybody shares the tree, so nothing else may happen inside the block.
        """
        statement = Statement(tree=self.queues.snapshot.tree, of_ledger=True)
        with statement.open():
            self.give_back_own(statement, key)
            yield statement

    def give_back_own(self, statement: Statement, key: GroupKey) -> None:
        """Try the statement without the quota that the workload has without nodes."""
        for use in self.uses.of(key).values():
            if use.unseen:
                statement.give_back(use.queue, use.usage)

    def spend_own(self, key: GroupKey) -> None:
        """End the uses of the workload without nodes, because its plan uses that quota now.

        Room that is reserved for replacements of members still counts.
        """
        for owner in [
            owner for owner, use in self.uses.of(key).items() if use.unseen and not isinstance(owner, SlotOf)
        ]:
            self.uses.spend(key, owner)
        self.reserve_part(key, {})

    def count_unseen(self, workload: Workload) -> None:
        """Set the use of the workload's pods without a node, if another client has started its job."""
        key = workload.key
        if workload.job is None and key not in self.counted:
            return
        queue, uses = self.queue_of(key), self.uses.of(key)
        before = {owner: use for owner, use in uses.items() if isinstance(owner, Unseen)}
        there = [use for owner, use in uses.items() if not use.unseen or isinstance(owner, SlotOf)]
        after = {} if queue is None else unseen_of(workload, queue, there)
        if after:
            self.counted[key] = None
        else:
            self.counted.pop(key, None)
        if before != after:
            for owner in before:
                self.uses.end(key, owner)
            for unseen, use in after.items():
                self.uses.put(key, unseen, use)

    def rebuild(self) -> Mapping[str, None] | None:
        """Follow changed queue objects: count everything again, unless only amounts have changed.

        Returns the ClusterQueues whose quota may have changed, as ``QueueDiff`` does.
        """
        tree = self.queues.snapshot.tree
        others, only_amounts_changed = self.queues.rebuild()
        self.past.rebuild()
        if others is not None and only_amounts_changed:
            self.uses.carry_over(tree, others)
            return others
        former = self.uses.reset()
        for workload in self._workloads.values():
            self.update(workload, former)
            if self.local_of(workload.key):
                self.recount(workload, former.get(workload.key))
        return others

    def recount(self, workload: Workload, former: Mapping[Owner, Use] | None = None) -> None:
        """Count all claims of the workload again: its queue or its flavors have changed. ``former``: its uses
        before."""
        key = workload.key
        former = dict(self.uses.of(key)) if former is None else former
        self._leave(key)
        queue = self.route(workload).queue
        if not queue or not self.local_of(key):
            return
        self.members.enter(key, queue)
        slots = workload.members.slots
        owners: Iterator[Owner] = (SlotOf(key, slot) for slot in (*slots.planned, *workload.reserved))
        for owner in (*(member.uid for member in workload.members), *owners):
            if (claim := self._claims.get(owner)) is not None and owner not in self.uses.of(key):
                self._use(workload, owner, claim, former.get(owner))
        self.reserve_part(key, self._reserved.get(key, {}))
        self.count_unseen(workload)

    def moved(self, owner: Owner, claim: Claim, taken: bool) -> None:
        """Follow room that has changed hands: a workload in a queue uses or gives back quota with it."""
        key = claim.workload
        if key is None or self.members.queue_of(key) is None:
            return
        self.past.touch(key)
        if taken:
            self._use(self._workloads[key], owner, claim, None)
        else:
            self.uses.end(key, owner)

    def node_changed(self, name: str) -> None:
        """Count the allocatable amounts of a node that was added, changed or deleted."""
        node = self._claims.nodes.get(name)
        self.queues.count_node(name, () if node is None else node.allocatable)

    def node_seen(self, node: str) -> None:
        """Count gangs with pods on the node again: its labels, and so their flavors, may have changed."""
        for key in {claim.workload: None for _, claim in self._claims.on(node)}:
            if key is not None and self.members.queue_of(key) is not None:
                workload = self._workloads.get(key)
                if workload is not None and workload.job is None:
                    self.recount(workload)

    def _leave(self, key: GroupKey) -> None:
        """End all uses of the workload and remove it from its queue."""
        self.past.touch(key)
        self.counted.pop(key, None)
        self.uses.end_all(key)
        self.members.leave(key)
        self._state_changes += 1

    def _use(self, workload: Workload, owner: Owner, claim: Claim, former: Use | None) -> None:
        key = workload.key
        if (queue := self.members.queue_of(key)) is not None:
            self.uses.put(key, owner, self.counting.use_of(workload, owner, claim, queue, former))


def _is_leaving(workload: Workload) -> bool:
    """Whether the last pods of the workload terminate, or the PodGroup that may have named its queue is gone."""
    declared = workload.members.declared
    grouped = any(dialect is not None and dialect.has_objects for dialect in declared.dialects)
    return not declared.combinations or (workload.group is None and grouped)


def _is_volcanos(workload: Workload) -> bool:
    return workload.job is None and workload.group is not None and workload.group.dialect is Dialect.VOLCANO


def _counted(use: Use) -> Mapping[str, str]:
    """The flavor of each resource that the use takes quota of. A pod without any may be on a node of any flavor."""
    return {resource: flavor for flavor, resource in use.usage}
