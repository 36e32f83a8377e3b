"""How much a pod or slot with room uses of which quota, and so do the pods of a job that nobody has seen yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from extender.core.claim import Claim, ClaimState, Owner, SlotOf
from extender.core.claims import Claims
from extender.core.quota.flavoring import PartKey, told_by
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
        """Those that it was admitted with; else those of its node; of a node that is gone those that were known."""
        if workload.job is not None:
            known = workload.flavoring.get(part)
            told = known.flavors if known is not None else (workload.job.seen.flavors or {}).get(str(part))
            if told:
                return told
        picture, node = self._queues.picture, self._claims.nodes.get(claim.node)
        if queue not in picture.queues or node is None:
            return former.flavors if former is not None else {}
        return told_by(node, picture.queues[queue], picture.flavors)

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
    if job is None or job.plan is not None or job.seen.suspended or job.seen.finished:
        return {}
    found: dict[Owner, Use] = {}
    for podset in job.seen.podsets.podsets:
        there = sum(use.part == podset.name for use in uses)
        done = podset.left_out.union(int(slot[1]) for slot in job.seen.done if slot[0] == podset.prefix)
        missing = podset.count - there - len(done)
        flavors = (job.seen.flavors or {}).get(podset.name) or _first_of(queue)
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
