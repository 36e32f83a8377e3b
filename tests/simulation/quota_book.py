"""The referee's own arithmetic of quota: what the queue objects say that may be used.

Cohorts of its seeds are in no other cohort. Queues of Volcano have a capability and a guarantee; only where some have a
guarantee are all nodes a limit, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from policies.model import Node
from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueObject,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Strategy,
    VolcanoQueue,
)
from tests.builders import GPU

Used = Counter[tuple[str, str]]
"""GPUs by queue and flavor."""
ALL_NODES = "nodes"
"""The flavor of all nodes, where there are Queues of Volcano."""
_ENDLESS = 1 << 40
_ROOT = f"{VOLCANO}root"


class Book:
    """What the queue objects say, while there are these nodes."""

    def __init__(self, things: Iterable[QueueObject], nodes: Iterable[Node] = ()) -> None:
        said = list(things)
        volcanos = [one for one in said if isinstance(one, VolcanoQueue)]
        known: list[QueueObject] = [one for one in said if not isinstance(one, VolcanoQueue)]
        self.counts_nodes = any(one.guarantee for one in volcanos)
        known += _drawn(volcanos, sum(dict(one.allocatable).get(GPU, 0) for one in nodes))
        self.queues = {one.name: one for one in known if isinstance(one, ClusterQueue)}
        self._cohorts = {one.name: one for one in known if isinstance(one, Cohort)}
        self._locals = {one.name: one for one in known if isinstance(one, LocalQueue)}
        self.flavors = {one.name for one in known if isinstance(one, ResourceFlavor)}

    def queue_of(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue that a LocalQueue leads to."""
        local = self._locals.get(name)
        return None if local is None else self.queues.get(local.queue)

    @property
    def there(self) -> bool:
        return bool(self.queues or self._locals)

    def over(self, queue: ClusterQueue, flavor: str, used: Used) -> str:
        """What is exceeded of that flavor by the queue, or by those that it shares with; empty if nothing is."""
        quota, mine = _quota(queue, flavor), used[queue.name, flavor]
        if not queue.cohort:
            return _said(queue.name, mine, quota.nominal) if mine > quota.nominal else ""
        if quota.borrowing is not None and mine > quota.nominal + quota.borrowing:
            return _said(queue.name, mine, quota.nominal + quota.borrowing)
        taken, there = self._shared(queue, flavor, used)
        beyond = max(0, mine - _kept(quota))
        return _said(f"cohort {queue.cohort}", taken, there) if beyond and taken > there else ""

    def left(self, queue: ClusterQueue, flavor: str, used: Used, wanted: int) -> bool:
        """Whether so much could be used beside. As in Kueue, what others of its cohort use beyond all that is shared,
        because quota was made smaller, is missing to each queue of it."""
        if self.over(queue, flavor, used + Counter({(queue.name, flavor): wanted})):
            return False
        taken, there = self._shared(queue, flavor, used) if queue.cohort else (0, 0)
        kept = max(0, _kept(_quota(queue, flavor)) - used[queue.name, flavor])
        return taken <= there or kept - (taken - there) >= wanted

    def _shared(self, queue: ClusterQueue, flavor: str, used: Used) -> tuple[int, int]:
        """Of what its cohort shares: what is taken, and what there is."""
        own = self._cohorts.get(queue.cohort)
        there = 0 if own is None else _quota(own, flavor).nominal
        taken = 0
        for one in (one for one in self.queues.values() if one.cohort == queue.cohort):
            kept = _kept(_quota(one, flavor))
            there += _quota(one, flavor).nominal - kept
            taken += max(0, used[one.name, flavor] - kept)
        return taken, there


def left_for(book: Book, queue: ClusterQueue, flavor: str, used: Used, wanted: int) -> bool:
    """Whether so many GPUs of the flavor could be used beside."""
    return not wanted or book.left(queue, flavor, used, wanted)


def is_strict(queue: ClusterQueue) -> bool:
    return queue.strategy is Strategy.STRICT


def _drawn(queues: Sequence[VolcanoQueue], total: int) -> Iterator[QueueObject]:
    """Queues of Volcano as queues that have what they are guaranteed and may borrow, up to their capability, what is
    left of all GPUs; and what leads there."""
    if not queues:
        return
    guaranteed = sum(one.guarantee.get(GPU, 0) for one in queues)
    yield ResourceFlavor(ALL_NODES)
    yield Cohort(_ROOT, groups=_of_all(Quota(total - guaranteed if guaranteed else _ENDLESS)))
    for one in queues:
        name, own, most = f"{VOLCANO}{one.name}", one.guarantee.get(GPU, 0), one.capability.get(GPU)
        quota = Quota(own, borrowing=None if most is None else most - own, lending=0)
        yield ClusterQueue(name, _of_all(quota), cohort=_ROOT)
        yield LocalQueue("", name, name)


def _of_all(quota: Quota) -> tuple[ResourceGroup, ...]:
    return (ResourceGroup((GPU,), ((ALL_NODES, {GPU: quota}),)),)


def _quota(one: ClusterQueue | Cohort, flavor: str) -> Quota:
    found = next((quotas[GPU] for group in one.groups for name, quotas in group.flavors if name == flavor), None)
    return found or Quota(0)


def _kept(quota: Quota) -> int:
    """What nobody else may use of it."""
    return 0 if quota.lending is None else max(0, quota.nominal - quota.lending)


def _said(who: str, used: int, there: int) -> str:
    return f"{who} would use {used} GPUs of {there}"
