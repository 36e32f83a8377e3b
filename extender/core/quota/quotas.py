"""What each workload uses of the quota of its ClusterQueue: for every node promised to it, and for every pod of it on a
node until that has gone. It follows from the claims, and so from the API objects alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from operator import attrgetter

from extender.core.claim import Claim, Owner, SlotOf
from extender.core.claims import Claims
from extender.core.cluster.namespaces import Namespaces
from extender.core.limits import Limits
from extender.core.quota.counting import QuotaCounting, Unseen, unseen_of
from extender.core.quota.flavoring import Flavoring, PartKey, of_gang, of_job, offered, part_of, suit
from extender.core.quota.past_usage import PastUsage
from extender.core.quota.queues import Queues, Route
from extender.core.quota.uses import KEPT, QueueMembers, QuotaUses, Use
from extender.core.reasons import Reason
from extender.core.workload import Workload
from policies.model import Dialect, GroupKey, Pod, Requests
from policies.model.queues import VOLCANO, ClusterQueue, FlavorResource, Usage
from policies.quota.tree import QuotaNode

_FREE = Route("")
_DEFAULT = f"{VOLCANO}default"
"""Where a PodGroup of Volcano belongs that names no queue, as in Volcano."""


class Quotas:
    """``queues``: the objects. ``members``: who belongs to which. ``uses``: who uses how much of their quota.
    ``past``: what LocalQueues have used before."""

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
        self._kept: dict[GroupKey, Usage] = {}
        self.whole: dict[GroupKey, None] = {}
        """Those for whom all is kept that they ask for, and who lack nodes alone."""
        self.counted: dict[GroupKey, None] = {}
        """Those with pods that have no node, and quota that is counted for them (``unseen_of``)."""
        self._stood = 0
        self._has: dict[str, Requests] = {}
        """Of each node."""
        self._total: Counter[str] = Counter()

    @property
    def version(self) -> int:
        """It grows whenever something that a report says may have changed."""
        return self._stood + self.uses.version + self.past.version

    def route(self, workload: Workload) -> Route:
        """Where it belongs, and why it is not admitted there. Without a queue nothing keeps it, unless one is asked."""
        if not (name := self.local_of(workload.key)):
            if self._limits.require_queue:
                return Route("", Reason("QueueMissing", "it names no queue, and every workload has to (require_queue)"))
            return _FREE
        return self.queues.route(workload.key.namespace, name) if self.queues.in_force(name) else _FREE

    def queue_of(self, key: GroupKey) -> ClusterQueue | None:
        """The ClusterQueue whose quota it uses; None for a workload that needs none."""
        name = self.members.queue_of(key)
        return None if name is None else self.queues.picture.queues.get(name)

    def node_of(self, queue: str) -> QuotaNode | None:
        return self.queues.picture.tree.queues.get(queue)

    def is_there(self, queue: str) -> Callable[[FlavorResource, int], bool]:
        """Whether it has so much of its quota left, or can borrow it."""
        node = self.queues.picture.tree.queues.get(queue)
        return lambda what, amount: node is not None and amount <= node.left(what)

    def overdrawn(self, key: GroupKey) -> str:
        """A sentence on the first of its resources of which its queue uses more than it may; empty if there is none.

        A queue that uses no more than its own is not to blame for what its cohort lacks.
        """
        name, uses = self.members.queue_of(key), self.uses.of(key).values()
        node = None if name is None else self.node_of(name)
        whats = dict.fromkeys(what for use in uses for what in use.usage)
        lacking = next(
            (what for what in whats if node is not None and node.left(what) < 0 and node.borrows(what)), None
        )
        return f"ClusterQueue {name} has no quota for its {lacking[1]} in flavor {lacking[0]}" if lacking else ""

    def local_of(self, key: GroupKey) -> str:
        """The LocalQueue that it names or has by default; empty without one."""
        return self.members.names.get(key, "")

    def past_of(self, key: GroupKey) -> float:
        """What its LocalQueue has used, by weight, where that decides who is next."""
        return self.past.value((key.namespace, self.local_of(key)))

    def see(self, workload: Workload, former: Container[GroupKey] = ()) -> None:
        """It was settled: its queue, and what it uses without a claim, may be others. ``former``: who has used quota
        before that is counted anew."""
        key, name = workload.key, workload.queue
        if not name and _is_leaving(workload):
            name = self.local_of(key) if key in self.uses or key in former else self._left_by(workload)
        if not name and self._limits.default_queue and self.queues.local(key.namespace, self._limits.default_queue):
            name = self._limits.default_queue
        if not name and _is_volcanos(workload) and _DEFAULT in self.queues.picture.queues:
            name = _DEFAULT
        if name != self.local_of(key):
            self.members.name(key, name)
            self.recount(workload)
        if name:
            self.count_unseen(workload)
            lacking = bool(workload.members.slots.lacking)
            state = (
                *(workload.phase, lacking, lacking and workload.seated),
                *(workload.priority, workload.paused, workload.release.complete),
            )
            self._stood += self.members.stand(key, state)
            self.past.touch(key)

    def _left_by(self, workload: Workload) -> str:
        """After a restart: what its last pods name, which terminate and have their nodes yet."""
        held = (one.pod.named_queue for one in workload.members if self._claims.get(one.uid))
        return next(filter(None, held), "")

    def forget(self, key: GroupKey) -> None:
        """Nothing is left of the workload."""
        if self.local_of(key):
            self.members.name(key, "")
            self._leave(key)

    def restore(self, workload: Workload) -> None:
        """After a restart the job says with which flavors it was started, as far as its queue has them."""
        if workload.job is not None and (said := workload.job.seen.flavors):
            known, queue = self.queues.picture.flavors, self.queue_of(workload.key)
            had = {name: chosen if queue is None else offered(queue, chosen) for name, chosen in said.items()}
            workload.flavor({name: of_job(known, chosen) for name, chosen in had.items()})

    def as_bound(self, workload: Workload) -> dict[PartKey, Flavoring]:
        """What those of a gang that lack a node are held to by the flavors of its bound pods that ask for the same: the
        first that suits them, for their roles may ask for nodes of different ones."""
        queue = self.queue_of(workload.key)
        if queue is None:
            return {}
        told = self._flavors_of_bound(workload)
        slots, known = workload.members.slots, self.queues.picture.flavors
        lacking = {part_of(pod, of_job=False): pod for pod in map(workload.members.stands_for, slots.lacking)}
        found = {
            part: next((one for one in told.get(pod.requests, ()) if suit(known, one, pod.selection)), None)
            for part, pod in lacking.items()
        }
        return {part: of_gang(queue, known, chosen) for part, chosen in found.items() if chosen is not None}

    def unlike_bound(self, workload: Workload) -> list[str]:
        """Members (by UID) that have been promised nodes of other flavors than its bound pods that ask for the same."""
        told, uses = self._flavors_of_bound(workload), self.uses.of(workload.key)
        placed = ((uid, uses.get(uid)) for uid in workload.members.placed)
        return [
            uid
            for uid, use in placed
            if use is not None and (counted := _counted(use)) and counted not in told.get(use.part, [counted])
        ]

    def _flavors_of_bound(self, workload: Workload) -> dict[PartKey, list[Mapping[str, str]]]:
        uses = self.uses.of(workload.key)
        told: dict[PartKey, list[Mapping[str, str]]] = {}
        for pod in sorted(workload.bound, key=attrgetter("rank")):
            if (use := uses.get(pod.uid)) is not None and (counted := _counted(use)):
                some = told.setdefault(use.part, [])
                if counted not in some:
                    some.append(counted)
        return told

    def keep(self, key: GroupKey, usage: Usage) -> None:
        """So much of the quota of its queue is for nobody else, before it has any node. Nothing ends that."""
        if self._kept.pop(key, {}) != usage or not usage:
            self.uses.end(key, KEPT)
        if not usage:
            return
        self._kept[key] = usage
        if KEPT not in self.uses.of(key) and (queue := self.members.queue_of(key)) is not None:
            self.uses.put(key, KEPT, Use(queue, None, {}, usage, unseen=True))

    def reserve(self, key: GroupKey, usage: Usage) -> None:
        """Keep so much, which is all that it asks for."""
        self.whole[key] = None
        self.keep(key, usage)

    def unreserve(self, key: GroupKey) -> None:
        """It is for everybody again, or used by now."""
        self.whole.pop(key, None)
        self.keep(key, {})

    def kept(self, key: GroupKey) -> Usage:
        """What is kept for it just now: nothing while that is lifted."""
        use = self.uses.of(key).get(KEPT)
        return {} if use is None else use.usage

    def has_own(self, key: GroupKey) -> bool:
        """Whether quota is its own that it has no nodes for: what others lack says nothing of it."""
        return key in self.whole or key in self.counted

    def lift(self, key: GroupKey) -> Usage:
        """What is kept for it, and what its pods without a node are counted with, is its own to use: ``put_back`` what
        is not used. Returns what is kept."""
        for owner in [owner for owner, use in self.uses.of(key).items() if use.unseen]:
            self.uses.lift(key, owner)
        return self._kept.get(key, {})

    def put_back_reserved(self, key: GroupKey) -> None:
        """Count the room again that is kept for replacements of its lost members."""
        if (workload := self._workloads.get(key)) is None:
            return
        for owner in [SlotOf(key, slot) for slot in workload.reserved]:
            if owner not in self.uses.of(key) and (claim := self._claims.get(owner)) is not None:
                self._use(workload, owner, claim, None)

    def put_back(self, key: GroupKey) -> None:
        """It has not used what was lifted: so much is for nobody else as is to be kept by now."""
        self.keep(key, self._kept.get(key, {}))
        self.put_back_reserved(key)
        if (workload := self._workloads.get(key)) is not None:
            self.count_unseen(workload)

    def count_unseen(self, workload: Workload) -> None:
        """What its pods without a node are counted with, if somebody else has started its job."""
        key, queue = workload.key, self.queue_of(workload.key)
        uses = self.uses.of(key)
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

    def redraw(self) -> Mapping[str, None] | None:
        """The objects have changed: everything is counted anew, unless only amounts have. Returns whose quota may be
        another, as ``Redrawn`` has it."""
        tree = self.queues.picture.tree
        others, alike = self.queues.redraw()
        self.past.redraw()
        if others is not None and alike:
            self.uses.carry_over(tree, others)
            return others
        former = self.uses.begin_anew()
        for workload in self._workloads.values():
            self.see(workload, former)
            if self.local_of(workload.key):
                self.recount(workload, former.get(workload.key))
        return others

    def recount(self, workload: Workload, former: Mapping[Owner, Use] | None = None) -> None:
        """Its queue or its flavors are others: all of its claims are counted anew. ``former``: what it had of them."""
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
        self.keep(key, self._kept.get(key, {}))
        self.count_unseen(workload)

    def moved(self, owner: Owner, claim: Claim, taken: bool) -> None:
        """Room has changed hands: so has quota, if it was a workload's that has a queue."""
        key = claim.workload
        if key is None or self.members.queue_of(key) is None:
            return
        self.past.touch(key)
        if taken:
            self._use(self._workloads[key], owner, claim, None)
        else:
            self.uses.end(key, owner)

    def node_changed(self, name: str) -> None:
        """What it has by now counts, and no longer what it had."""
        node = self._claims.nodes.get(name)
        self._total.subtract(dict(self._has.pop(name, ())))
        if node is not None:
            self._has[name] = node.allocatable
            self._total.update(dict(node.allocatable))
        self.queues.share(+self._total)

    def node_seen(self, node: str) -> None:
        """Its labels may be others: so may the flavors of the gangs' pods on it."""
        for key in {claim.workload: None for _, claim in self._claims.on(node)}:
            if key is not None and self.members.queue_of(key) is not None:
                workload = self._workloads.get(key)
                if workload is not None and workload.job is None:
                    self.recount(workload)

    def _leave(self, key: GroupKey) -> None:
        """It uses nothing of its queue any more."""
        self.past.touch(key)
        self.counted.pop(key, None)
        self.uses.end_all(key)
        self.members.leave(key)
        self._stood += 1

    def _use(self, workload: Workload, owner: Owner, claim: Claim, former: Use | None) -> None:
        key = workload.key
        if (queue := self.members.queue_of(key)) is not None:
            self.uses.put(key, owner, self.counting.use_of(workload, owner, claim, queue, former))


def _is_leaving(workload: Workload) -> bool:
    """Its last pods terminate, or the PodGroup is gone that may have named its queue for them."""
    said = workload.members.said
    grouped = any(dialect is not None and dialect.has_objects for dialect in said.dialects)
    return not said.words or (workload.group is None and grouped)


def _is_volcanos(workload: Workload) -> bool:
    return workload.job is None and workload.group is not None and workload.group.dialect is Dialect.VOLCANO


def _counted(use: Use) -> Mapping[str, str]:
    """The flavors of what it uses quota of. A pod that uses none may be on a node of any flavor."""
    return {resource: flavor for flavor, resource in use.usage}
