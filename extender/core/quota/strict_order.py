"""Queues that are StrictFIFO: nobody passes by the first workload that was refused."""

from __future__ import annotations

from dataclasses import dataclass

from extender.core.reasons import Reason
from extender.core.state import State
from extender.core.waiting.turns import Turns
from extender.core.workload import Workload
from policies.api import PolicyError, SortKey
from policies.model import GroupKey
from policies.model.queues import Strategy


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Why the others of a queue wait: the first one of it does."""

    queue: str
    first: GroupKey
    reason: Reason


class StrictOrder:
    """``first``: of each such queue, whom the others wait for."""

    def __init__(self, state: State, turns: Turns) -> None:
        self.first: dict[str, HeldUp] = {}
        self._state = state
        self._turns = turns

    def see(self, workload: Workload, now: float) -> HeldUp | None:
        """It was looked at: if it waits still, and its queue is StrictFIFO, those behind it wait for it."""
        queue, demand = self._state.quotas.queue_of(workload.key), workload.asked
        if queue is None or queue.strategy is not Strategy.STRICT:
            return None
        known = self.first.get(queue.name)
        plannable = demand is None or demand.shape is not None
        if not plannable or workload.seated or now < workload.retries.not_before:
            if known is not None and known.first == workload.key:
                self.look_again(queue.name)
            return None
        if self.held_up(queue.name, workload) is None and (known is None or known.first != workload.key):
            text = f"{workload.key.mention} is before it in {queue.title}, which is {Strategy.STRICT}"
            self._take_place_of(known, workload.key)
            known = self.first[queue.name] = HeldUp(queue.name, workload.key, Reason("QueueOrder", text))
        return known

    def held_up(self, queue: str, workload: Workload) -> Reason | None:
        """Somebody before it waits, and its queue is StrictFIFO."""
        known = self.first.get(queue)
        first = self._state.workloads.get(known.first) if known is not None else None
        if known is None or first is None or first is workload or known.first not in self._state.waiting.keys:
            return None
        try:
            return known.reason if self._place(first) < self._place(workload) else None
        except PolicyError:
            return None

    def waits_behind(self, queue: str, workload: Workload) -> Reason | None:
        """The same. A workload has had its turn if others are evicted for it, or room is kept for its lost members."""
        had_turn = workload.resumes or workload.key in self._state.preemptions.under_way
        return None if had_turn else self.held_up(queue, workload)

    def look_again(self, queue: str) -> None:
        """At all who wait in it."""
        self.first.pop(queue, None)
        for key in self._state.quotas.members.of(queue):
            self._state.waiting.look_again(key)

    def _take_place_of(self, before: HeldUp | None, key: GroupKey) -> None:
        """Look again at all others of the queue, the one that was first too: each has to name the new first one."""
        for other in self._state.quotas.members.of(before.queue) if before is not None else ():
            if other != key:
                self._state.waiting.look_again(other)

    def _place(self, workload: Workload) -> tuple[int, float, SortKey]:
        put_off, order = self._turns.of(workload)
        return put_off, self._state.quotas.past_of(workload.key), order
