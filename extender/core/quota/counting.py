"""How much a pod or slot with room uses of which quota, and so do the pods of a job that nobody has seen yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from extender.core.claim import Claim, ClaimState, Owner, SlotOf
from extender.core.claims import Claims
from extender.core.quota.flavoring import PartKey, has_labels, offered, told_by
from extender.core.quota.queues import Queues
from extender.core.quota.uses import Use
from extender.core.workload import Workload
from policies.model import Pod, Requests
from policies.model.queues import ClusterQueue, FlavorResource, Usage


class Unseen(str):
    """The pods of a podset that have no node yet, of a job that runs by no plan of ours."""

    __slots__ = ()


class QuotaCounting:
    """It follows from the claims and from the objects as they are seen: nothing is kept here."""

    def __init__(self, queues: Queues, claims: Claims, pods: Mapping[str, Pod]) -> None:
        self._queues = queues
        self._claims = claims
        self._pods = pods

    def use_of(self, workload: Workload, owner: Owner, claim: Claim, queue: str, former: Use | None) -> Use:
        """Of a claim of that workload, which belongs to that ClusterQueue. ``former``: what was counted before."""
        part = self._part(workload, owner, claim)
        flavors = self._flavors(workload, part, claim, queue, former)
        kept = claim.state is ClaimState.RESERVED
        return Use(queue, part, flavors, _amounts_of(claim.requests, flavors), unseen=kept)

    def of_seats(self, seats: Iterable[tuple[Pod, str]], queue: str) -> Counter[FlavorResource]:
        """Of pods of a gang, each on that node."""
        picture, total = self._queues.picture, Counter[FlavorResource]()
        for pod, name in seats:
            if (node := self._claims.nodes.get(name)) is not None:
                total.update(_amounts_of(pod.requests, told_by(node, picture.queues[queue], picture.flavors)))
        return total

    def _flavors(
        self, workload: Workload, part: PartKey, claim: Claim, queue: str, former: Use | None
    ) -> Mapping[str, str]:
        """The flavors that it was admitted with, as far as its queue has them and the node their labels. Else those of
        its node; of a node that is gone those that were known."""
        picture, node = self._queues.picture, self._claims.nodes.get(claim.node)
        told: Mapping[str, str] = {}
        if workload.job is not None:
            known = workload.flavoring.get(part)
            told = known.flavors if known is not None else (workload.job.seen.flavors or {}).get(str(part)) or {}
        if queue not in picture.queues:
            return told or (former.flavors if former is not None else {})
        told = offered(picture.queues[queue], told)
        if node is None:
            return told or (former.flavors if former is not None else {})
        suiting = {one: name for one, name in told.items() if has_labels(node, picture.flavors.get(name))}
        # A node whose labels say nothing, for a while maybe, gives back no quota.
        return {**told, **told_by(node, picture.queues[queue], picture.flavors), **suiting}

    def _part(self, workload: Workload, owner: Owner, claim: Claim) -> PartKey:
        job, pod = workload.job, self._pods.get(owner) if isinstance(owner, str) else None
        if job is None:
            return claim.requests
        if pod is not None:
            return pod.series
        if isinstance(owner, SlotOf) and (lost := workload.reserved.get(owner.slot)) is not None:
            return lost.series
        prefix = str(owner.slot[0]) if isinstance(owner, SlotOf) else ""
        return prefix.removeprefix(job.seen.uid)


def unseen_of(workload: Workload, queue: ClusterQueue, uses: Collection[Use]) -> dict[Owner, Use]:
    """Jobs that somebody else has started, or that were let go, use quota from the first second on, before their pods
    have a node. ``uses``: what counts already, for a pod each."""
    job = workload.job
    if job is None or job.plan is not None or job.seen.suspended or job.seen.finished or job.stop:
        return {}
    found: dict[Owner, Use] = {}
    for podset in job.seen.podsets.podsets:
        there = sum(use.part == podset.name for use in uses)
        done = podset.left_out.union(int(slot[1]) for slot in job.seen.done if slot[0] == podset.prefix)
        missing = podset.count - there - len(done)
        flavors = offered(queue, (job.seen.flavors or {}).get(podset.name) or {}) or _first_of(queue)
        requests = tuple((name, amount * missing) for name, amount in podset.template.requests)
        if missing > 0:
            usage = _amounts_of(requests, flavors)
            found[Unseen(podset.name)] = Use(queue.name, podset.name, flavors, usage, unseen=True)
    return found


def _amounts_of(requests: Requests, flavors: Mapping[str, str]) -> Usage:
    return {(flavors[name], name): amount for name, amount in requests if amount and name in flavors}


def _first_of(queue: ClusterQueue) -> dict[str, str]:
    """Of a pod whose node nobody knows."""
    return {
        resource: name
        for group in queue.groups
        for name, quotas in reversed(group.flavors)
        for resource in group.limited()
        if resource in quotas
    }
