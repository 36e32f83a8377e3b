"""The referee's own reading of ``spec.preemption``: the allowed victims. The cohorts of its seeds are flat."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction

from policies.model import GroupKey, Pod, Reservation, Victim
from policies.model.queues import ClusterQueue, Evicts
from tests.builders import GPU
from tests.simulation.queue_plan import FLAVOR
from tests.simulation.quota import Book, QuotaJudge, Used
from tests.simulation.shown import Shown

_LATE_S = 5.0
"""How long ago the queues may have been as a decision of now takes them to be."""


class Reclaims:
    """``fair``: shares are compared, which is not judged; nor is whose quota is contested."""

    def __init__(self, shown: Shown, quota: QuotaJudge, *, fair: bool, saturation: Fraction | None = None) -> None:
        self._shown = shown
        self._quota = quota
        self._fair = fair
        self._saturation = saturation
        self._going: set[str] = set()
        """The pods of all victims."""

    def judge(
        self, key: GroupKey, reservation: Reservation, others: Sequence[Reservation], now: float
    ) -> Iterator[str]:
        """The rules that forbid a victim, at the decision. ``others``: the reservations of other preemptors."""
        books = self._quota.books(now - _LATE_S)
        self._going = {
            uid for kept in (reservation, *others) for victim in kept.victims for uid in self._pods_of(victim)
        }
        for victim in reservation.victims:
            reasons = [self._forbids(book, key, victim, reservation) for book in books]
            if all(reasons):
                yield f"{victim} is to give way to {key}, and {reasons[-1]}"

    def queue_of(self, book: Book, key: GroupKey) -> ClusterQueue | None:
        """The ClusterQueue of a gang or job."""
        return book.queue_of(self._quota.local_of(key))

    def _forbids(self, book: Book, key: GroupKey, victim: Victim, reservation: Reservation) -> str:
        ours = self.queue_of(book, key) if book.there else None
        gang = self._gang_of(victim)
        theirs = None if gang is None or not book.there else self.queue_of(book, gang)
        mine, other = self.priority(key), self.priority(victim.key, victim.pod)
        if ours is None or theirs is None:
            return "" if other < mine else f"its priority {other} is no lower than {mine}"
        if ours.name == theirs.name:
            newer = other == mine and gang is not None and max(self._ages(gang)) >= min(self._ages(key))
            may = {Evicts.NEVER: False, Evicts.LOWER: other < mine, Evicts.LOWER_OR_NEWER: other < mine or newer}
            return "" if may[ours.preemption.within] else f"withinClusterQueue is {ours.preemption.within}"
        if not ours.cohort or ours.cohort != theirs.cohort:
            return f"its queue {theirs.name} is not in the cohort of {ours.name}"
        rules = ours.preemption
        may = {Evicts.NEVER: False, Evicts.LOWER: other < mine, Evicts.ANY: True}
        if not may[rules.reclaim]:
            return f"reclaimWithinCohort of {ours.name} is {rules.reclaim}"
        if not self._may_borrow(book, theirs):
            return f"its queue {theirs.name} has borrowed nothing"
        if self._is_saturated(book, ours, theirs, reservation):
            return f"{ours.name} would use as much of its own as {theirs.name} does"
        if self._fair or not self._would_borrow(book, ours, reservation):
            return ""
        below = rules.threshold is None or other <= rules.threshold
        return (
            ""
            if rules.borrow is Evicts.LOWER and other < mine and below
            else f"{ours.name} would borrow, and borrowWithinCohort is {rules.borrow}"
        )

    def _gang_of(self, victim: Victim) -> GroupKey | None:
        """The gang that a surplus pod belongs to; None for a single pod."""
        if not victim.pod:
            return victim.key
        return self._shown.pods[victim.pod].group_key if victim.pod in self._shown.pods else None

    def priority(self, key: GroupKey, uid: str = "") -> int:
        """The priority as the watches have shown it."""
        if uid:
            return self._shown.pods[uid].priority if uid in self._shown.pods else 0
        pods = self._shown.pods.values()
        if (alone := next((pod for pod in pods if pod.group_key is None and alone_key(pod) == key), None)) is not None:
            return alone.priority
        job = self._shown.jobs.get(key)
        live = [pod.priority for pod in self._shown.members.get(key, {}).values() if pod.live]
        return max(
            [*(podset.template.priority for podset in (job.podsets if job is not None else ())), *live], default=0
        )

    def _ages(self, key: GroupKey) -> list[float]:
        """The times that may count as its arrival: those of its job, its PodGroup, and its pods."""
        job, group = self._quota.jobs.get(key), self._shown.groups.get(key)
        pods = [pod.created for pod in self._shown.members.get(key, {}).values()]
        return [dated.created for dated in (job, group) if dated is not None] + pods or [0.0]

    def _may_borrow(self, book: Book, queue: ClusterQueue) -> bool:
        """Whether the queue uses more than its own of a flavor, counting all promises."""
        used, waiting = self._quota.used(book), self._promised(book, queue)
        return any(used[queue.name, name] + waiting > quota for name, quota in _nominal(queue).items())

    def _promised(self, book: Book, queue: ClusterQueue) -> int:
        promised = [pod.requests for pod in self._shown.pods.values() if self._is_promised(book, queue, pod)]
        promised += [requests for key, requests in self._quota.awaited() if self.queue_of(book, key) is queue]
        return sum(dict(requests).get(GPU, 0) for requests in promised)

    def _is_saturated(self, book: Book, ours: ClusterQueue, theirs: ClusterQueue, reservation: Reservation) -> bool:
        """Whether the queue would use more than its own of everything that it gets, and about as many times that as the
        other.

        The usage of the other queue includes all promises.
        """
        if self._saturation is None:
            return False
        after, used, own = self._after(book, ours, reservation), self._quota.used(book), _nominal(ours)
        others, promised = _nominal(theirs), self._promised(book, theirs)

        def is_so(name: str) -> bool:
            has, others_have, uses = own.get(name, 0), others.get(name, 0), after[ours.name, name]
            theirs_use = used[theirs.name, name] + promised
            return uses > has and uses * others_have * (self._saturation or 0) >= theirs_use * has

        names = [name for _, name in self._wanted(ours, reservation) if name in own]
        return bool(names) and all(map(is_so, names))

    def _is_promised(self, book: Book, queue: ClusterQueue, pod: Pod) -> bool:
        """Whether the pod has no node yet, and may be about to get one."""
        key = pod.group_key
        return key is not None and not pod.node and pod.live and self.queue_of(book, key) is queue

    def _would_borrow(self, book: Book, queue: ClusterQueue, reservation: Reservation) -> bool:
        """Whether the queue would use more than its own of the preemptor's flavors, when its victims have gone."""
        total = self._after(book, queue, reservation)
        return any(total[queue.name, name] > quota for name, quota in _nominal(queue).items())

    def _pods_of(self, victim: Victim) -> Collection[str]:
        return (victim.pod,) if victim.pod else self._shown.members.get(victim.key, {})

    def _wanted(self, queue: ClusterQueue, reservation: Reservation) -> Used:
        """The amounts that the workload gets, by flavor."""
        nodes, wanted = self._shown.nodes, Used()
        for name, requests in reservation.rooms:
            flavor = nodes[name].labels.get(FLAVOR, "") if name in nodes else ""
            wanted[queue.name, flavor] += dict(requests).get(GPU, 0)
        return wanted

    def _after(self, book: Book, queue: ClusterQueue, reservation: Reservation) -> Used:
        """The amounts that the queue uses of these when the preemptor runs, and the queue's own victims have gone."""
        used, nodes, pods = self._quota.used(book), self._shown.nodes, self._shown.pods
        for pod in (pods[uid] for uid in self._going if uid in pods):
            own = pod.group_key is not None and self.queue_of(book, pod.group_key) is queue
            if own and pod.node in nodes and not pod.terminal:
                used[queue.name, nodes[pod.node].labels.get(FLAVOR, "")] -= dict(pod.requests).get(GPU, 0)
        wanted = self._wanted(queue, reservation)
        return Used({what: used[what] + amount for what, amount in wanted.items()})


def _nominal(queue: ClusterQueue) -> dict[str, int]:
    return {name: quotas[GPU].nominal for group in queue.groups for name, quotas in group.flavors}


def alone_key(pod: Pod) -> GroupKey:
    """The key that stands for a single pod as a preemptor."""
    return GroupKey(pod.namespace, f"pod {pod.name}")
