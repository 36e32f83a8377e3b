"""What each LocalQueue has used in the past, where its ClusterQueue orders by that: sampled now and then, and what is
started counts at once. A restart reads it from the status of the LocalQueue (``policies/quota/history.py``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping

from extender.core.quota.queues import Queues
from extender.core.quota.uses import QueueMembers, QuotaUses
from extender.core.workload import Workload
from policies.model import GroupKey
from policies.model.queues import LocalQueue, PastUse
from policies.quota.history import History, Sampling

LocalKey = tuple[str, str]
"""Namespace and name of a LocalQueue."""


class PastUsage:
    """``version`` grows with everything that makes the order, or what is stored, another one."""

    def __init__(
        self,
        sampling: Sampling,
        queues: Queues,
        members: QueueMembers,
        uses: QuotaUses,
        workloads: Mapping[GroupKey, Workload],
    ) -> None:
        self.version = 0
        self._sampling = sampling
        self._queues = queues
        self._members = members
        self._uses = uses
        self._workloads = workloads
        self._reordered: dict[str, None] = {}
        self._histories: dict[LocalKey, History] = {}
        self._counted: dict[GroupKey, LocalKey] = {}
        """Workloads that count as started in that queue."""
        self._touched: dict[GroupKey, None] = {}
        self._sampled_at: float | None = None
        """None before everything was read: what runs by then was counted in an earlier life."""
        self._epoch = 0.0

    def begin(self, epoch: float, now: float) -> None:
        """What runs now has been counted. ``epoch``: when that of the wall clock was, by the clock of ``now``."""
        self._epoch, self._sampled_at = epoch, now
        self.redraw()

    def redraw(self) -> None:
        """The objects may have changed. A LocalQueue has a history from when its ClusterQueue first orders by it, and
        as long as it is there: the ClusterQueue may be gone and made anew, or order otherwise for a while. What runs
        when a history begins is nothing that starts."""
        former, self._histories = self._histories, {}
        if self._sampled_at is None or not self._sampling.half_life_s:
            return
        picture = self._queues.picture
        for key, local in picture.locals.items():
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
        """If it is time for it."""
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
        """What it uses, or how far it has come, has changed."""
        if self._histories and (workload in self._counted or self._local_of(workload) in self._histories):
            self._touched[workload] = None

    def value(self, local: LocalKey) -> float:
        """What the queue has used, by weight; the least comes first. 0 where that does not count."""
        self._catch_up()
        history = self._histories.get(local)
        counts = history is not None and self._counts(self._queues.picture.locals[local])
        return history.value if history is not None and counts else 0.0

    def stored(self, local: LocalKey) -> PastUse | None:
        """What a later life has to know."""
        self._catch_up()
        history = self._histories.get(local)
        return None if history is None else PastUse(dict(history.consumed), history.sampled_at - self._epoch)

    def reorders(self, queues: Container[str]) -> bool:
        """Whether the order of one of them may be another one."""
        self._catch_up()
        return any(name in queues for name in self._reordered)

    def take_reordered(self) -> list[str]:
        """The ClusterQueues whose order may be another one than the last time."""
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
        # What runs while its ClusterQueue is gone uses no quota, and has started all the same.
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
        self._reordered[self._queues.picture.locals[local].queue] = None

    def _counts(self, local: LocalQueue) -> bool:
        """Whether its ClusterQueue orders by past usage."""
        queue = self._queues.picture.queues.get(local.queue)
        return queue is not None and queue.by_past_usage

    def _runs(self, key: GroupKey) -> bool:
        """It is known to have started."""
        workload = self._workloads.get(key)
        return workload is not None and (workload.release.complete or workload.whole)

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
        """As its status says; of one that says nothing it begins now."""
        now, past = self._sampled_at or 0.0, local.past
        if past is None:
            return History(self._sampling, now=now)
        return History(self._sampling, now=min(now, past.at + self._epoch), consumed=past.consumed)
