"""What each workload uses of the quota of its ClusterQueue: for every node promised to it, and for every pod of it on a
node until that has gone. It follows from the claims, and so from the API objects alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from extender.core.claims import Claim, Claims, Owner, SlotOf
from extender.core.flavoring import PartKey, of_job, told_by
from extender.core.limits import Limits
from extender.core.queues import Queues, Route
from extender.core.quota_uses import Unseen, Use, amounts_of, unseen_of
from extender.core.reasons import Reason
from extender.core.workload import Workload
from policies.model import GroupKey, Pod
from policies.model.queues import ClusterQueue, FlavorResource
from policies.quota.tree import QuotaNode

_FREE = Route("")


class Quotas:
    """``version`` grows whenever something that a report says may have changed. ``freed``: roots of the trees in which
    quota was given back since that was taken."""

    def __init__(
        self, limits: Limits, claims: Claims, pods: Mapping[str, Pod], workloads: Mapping[GroupKey, Workload]
    ) -> None:
        self.queues = Queues()
        self.version = 0
        self.freed: dict[str, None] = {}
        self.moved_on: dict[str, None] = {}
        """ClusterQueues of which some workload has left, or stands otherwise, since that was taken."""
        self.uses: dict[GroupKey, dict[Owner, Use]] = {}
        self.members: dict[str, dict[GroupKey, None]] = {}
        """The workloads of each ClusterQueue, waiting or not."""
        self._limits = limits
        self._claims = claims
        self._pods = pods
        self._workloads = workloads
        self._names: dict[GroupKey, str] = {}
        """The LocalQueue of each workload that has one."""
        self._queue_of: dict[GroupKey, str] = {}
        self._states: dict[GroupKey, object] = {}
        self.usage_version = 0
        self._known: dict[tuple[str, FlavorResource], dict[GroupKey, int]] = {}
        self._known_at = 0

    def route(self, workload: Workload) -> Route:
        """Where it belongs, and why it is not admitted there. Without a queue nothing keeps it, unless one is asked."""
        if (name := self._names.get(workload.key)) is None:
            if self._limits.require_queue:
                return Route("", Reason("QueueMissing", "it names no queue, and every workload has to (require_queue)"))
            return _FREE
        return self.queues.route(workload.key.namespace, name) if self.queues.in_force else _FREE

    def queue_of(self, key: GroupKey) -> ClusterQueue | None:
        """The ClusterQueue whose quota it uses; None for a workload that needs none."""
        name = self._queue_of.get(key)
        return None if name is None else self.queues.picture.queues.get(name)

    def node_of(self, queue: str) -> QuotaNode | None:
        return self.queues.picture.tree.queues.get(queue)

    def local_of(self, key: GroupKey) -> str:
        """The LocalQueue that it names or has by default; empty without one."""
        return self._names.get(key, "")

    def see(self, workload: Workload) -> None:
        """It was settled: its queue, and what it uses without a claim, may be others."""
        key, name = workload.key, workload.queue
        if not name and self._limits.default_queue and self.queues.local(key.namespace, self._limits.default_queue):
            name = self._limits.default_queue
        if name != self._names.get(key, ""):
            self._name(key, name)
            self.recount(workload)
        if name:
            self._count_unseen(workload)
            state = workload.phase, bool(workload.members.slots.lacking), workload.priority, workload.paused
            if self._states.get(key) != state:
                self._states[key] = state
                self.moved_on[self._queue_of.get(key, "")] = None
                self.version += 1

    def forget(self, key: GroupKey) -> None:
        """Nothing is left of the workload."""
        if key in self._names:
            self._name(key, "")
            self._leave(key)

    def restore(self, workload: Workload) -> None:
        """After a restart the job says with which flavors it was started."""
        if workload.job is not None and (said := workload.job.seen.flavors):
            known = self.queues.picture.flavors
            workload.flavor({name: of_job(known, chosen) for name, chosen in said.items()})

    def redraw(self) -> None:
        """The objects have changed: everything is counted anew."""
        former = {key: dict(uses) for key, uses in self.uses.items()}
        self.queues.redraw()
        self.uses.clear()
        for workload in self._workloads.values():
            self.see(workload)
            if workload.key in self._names:
                self.recount(workload, former.get(workload.key))
        self.freed.update((self.root_of(name), None) for name in self.queues.picture.tree.queues)
        self._change()

    def recount(self, workload: Workload, former: Mapping[Owner, Use] | None = None) -> None:
        """Its queue or its flavors are others: all of its claims are counted anew. ``former``: what it had of them."""
        key = workload.key
        former = dict(self.uses.get(key, {})) if former is None else former
        self._leave(key)
        queue = self.route(workload).queue
        if not queue or key not in self._names:
            return
        self._queue_of[key] = queue
        self.members.setdefault(queue, {})[key] = None
        slots = workload.members.slots
        owners: Iterator[Owner] = (SlotOf(key, slot) for slot in (*slots.planned, *workload.reserved))
        for owner in (*(member.uid for member in workload.members), *owners):
            if (claim := self._claims.get(owner)) is not None and owner not in self.uses.get(key, {}):
                self._use(key, owner, claim, former.get(owner))
        self._count_unseen(workload)

    def moved(self, owner: Owner, claim: Claim, taken: bool) -> None:
        """Room has changed hands: so has quota, if it was a workload's that has a queue."""
        key = claim.workload
        if key is None or key not in self._queue_of:
            return
        if taken:
            self._use(key, owner, claim, None)
        else:
            self._end(key, owner)

    def node_seen(self, node: str) -> None:
        """Its labels may be others: so may the flavors of the gangs' pods on it."""
        keys = {claim.workload: None for _, claim in self._claims.on(node) if claim.workload in self._queue_of}
        for key in keys:
            if key is not None and (workload := self._workloads.get(key)) is not None and workload.job is None:
                self.recount(workload)

    def users(self, what: FlavorResource, queue: str) -> Mapping[GroupKey, int]:
        """Who uses how much of that flavor and resource, of that queue and those that lend to it."""
        if self._known_at != self.usage_version:
            self._known_at = self.usage_version
            self._known.clear()
        root = self.root_of(queue)
        if (found := self._known.get((root, what))) is None:
            found = self._known[root, what] = {}
            for name in self.beside(queue):
                for key in self.members.get(name, ()):
                    if amount := sum(use.usage.get(what, 0) for use in self.uses.get(key, {}).values()):
                        found[key] = amount
        return found

    def beside(self, queue: str) -> list[str]:
        """The queues that lend each other, this one among them."""
        root, tree = self.root_of(queue), self.queues.picture.tree
        return [name for name in tree.queues if self.root_of(name) == root]

    def take_freed(self) -> list[str]:
        """Roots of the trees in which quota was given back since the last time."""
        freed, self.freed = [*self.freed], {}
        return freed

    def root_of(self, queue: str) -> str:
        """What tells apart the trees in which quota is lent."""
        node = self.node_of(queue)
        return "" if node is None else f"{node.root.height}/{node.root.name}"

    def take_moved_on(self) -> None:
        self.moved_on = {}

    def _name(self, key: GroupKey, name: str) -> None:
        if name:
            self._names[key] = name
        else:
            self._names.pop(key, None)
            self._states.pop(key, None)

    def _leave(self, key: GroupKey) -> None:
        """It uses nothing of its queue any more."""
        for owner in [*self.uses.get(key, ())]:
            self._end(key, owner)
        if (queue := self._queue_of.pop(key, None)) is not None:
            self.moved_on[queue] = None
            self.members[queue].pop(key, None)
            if not self.members[queue]:
                del self.members[queue]
        self.version += 1

    def _change(self) -> None:
        self.version += 1
        self.usage_version += 1

    def _use(self, key: GroupKey, owner: Owner, claim: Claim, former: Use | None) -> None:
        workload, queue = self._workloads[key], self._queue_of[key]
        part, flavors = self._flavors(workload, owner, claim, former)
        self._put(key, owner, Use(queue, part, flavors, amounts_of(claim.requests, flavors)))

    def _put(self, key: GroupKey, owner: Owner, use: Use) -> None:
        self._end(key, owner)
        self.uses.setdefault(key, {})[owner] = use
        if use.queue in self.queues.picture.tree.queues:
            self.queues.picture.tree.use(use.queue, use.usage)
        self._change()

    def _end(self, key: GroupKey, owner: Owner) -> None:
        uses = self.uses.get(key)
        if uses is None or (use := uses.pop(owner, None)) is None:
            return
        if not uses:
            del self.uses[key]
        if use.queue in self.queues.picture.tree.queues:
            self.queues.picture.tree.free(use.queue, use.usage)
            self.freed[self.root_of(use.queue)] = None
        self._change()

    def _flavors(
        self, workload: Workload, owner: Owner, claim: Claim, former: Use | None
    ) -> tuple[PartKey, Mapping[str, str]]:
        """Those that it was admitted with; else those of its node; of a node that is gone those that were known."""
        part = self._part(workload, owner, claim)
        if workload.job is not None:
            known = workload.flavoring.get(part)
            told = known.flavors if known is not None else (workload.job.seen.flavors or {}).get(str(part))
            if told:
                return part, told
        queue, node = self.queue_of(workload.key), self._claims.nodes.get(claim.node)
        if queue is None or node is None:
            return part, former.flavors if former is not None else {}
        return part, told_by(node, queue, self.queues.picture.flavors)

    def _part(self, workload: Workload, owner: Owner, claim: Claim) -> PartKey:
        job, pod = workload.job, self._pods.get(owner) if isinstance(owner, str) else None
        if job is None:
            return claim.requests
        if pod is not None:
            return pod.series
        prefix = str(owner.slot[0]) if isinstance(owner, SlotOf) else ""
        return prefix.removeprefix(job.seen.uid)

    def _count_unseen(self, workload: Workload) -> None:
        """Jobs that somebody else has started use quota from the first second on, before their pods have a node."""
        key, queue = workload.key, self.queue_of(workload.key)
        uses = self.uses.get(key, {})
        before = {owner: use for owner, use in uses.items() if isinstance(owner, Unseen)}
        after = {} if queue is None else unseen_of(workload, queue, [*uses.values()])
        if before != after:
            for owner in before:
                self._end(key, owner)
            for unseen, use in after.items():
                self._put(key, unseen, use)
