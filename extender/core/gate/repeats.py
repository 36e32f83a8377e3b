"""Writes that nothing waits for, and that could not be made: each is asked for again after a pause, while it is wanted.

A refused write is no reason to give something up for good: a restart would ask for it, so time has to do so as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from extender.core.answers import Unwritten
from extender.core.effects import Confirm, Hint, Nominate, Reserve, Ungate, Wake
from extender.core.gate.steering import Steering
from extender.core.instants import pause_s
from extender.core.ledger.namespaces import Namespaces
from extender.core.ledger.outbox import Outbox
from extender.core.ledger.preemptions import Preemptions
from extender.core.ledger.store import Store
from extender.core.workload.members import Step
from policies.model import GANG_GATE, GroupKey

Repeatable = Wake | Confirm | Hint | Nominate | Ungate | Reserve
_FIRST_S, _LONGEST_S = 5.0, 300.0


@dataclass(frozen=True, slots=True)
class _Later:
    """``times``: how often in a row it could not be written. ``asked``: it was asked for since, and ``at`` is when no
    answer means that it was written."""

    effect: Repeatable
    times: int
    at: float
    asked: bool = False


class Repeats:
    """``lets_go``: whether this pod is to lose its gate though it has no node."""

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        preemptions: Preemptions,
        namespaces: Namespaces,
        steering: Steering,
        lets_go: Callable[[GroupKey, str], bool],
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._preemptions = preemptions
        self._namespaces = namespaces
        self._steering = steering
        self._lets_go = lets_go
        self._later: dict[tuple[type, object], _Later] = {}
        self._first = inf
        """When the first of them is due, or earlier."""

    def unwritten(self, event: Unwritten, now: float) -> None:
        self.put(event.effect, now)

    def put(self, effect: Repeatable, now: float) -> None:
        """Note that this could not be written."""
        about: object
        match effect:
            case Reserve(key=workload, pod=pod):
                about = workload, pod and pod.uid
            case Hint(uid="", owner=owner):
                about = effect.namespace, owner
            case _:
                about = effect.uid
        key = type(effect), about
        known = self._later.get(key)
        times = 1 if known is None else known.times + known.asked
        at = now + pause_s(times, _FIRST_S, _LONGEST_S)
        self._later[key], self._first = _Later(effect, times, at), min(self._first, at)

    def repeat(self, now: float) -> None:
        """Ask for those whose pause is over."""
        if now < self._first:
            return
        for key, later in [(key, one) for key, one in self._later.items() if one.at <= now]:
            if later.asked or not self._ask(later.effect):
                del self._later[key]
            else:
                self._later[key] = replace(later, at=now + _LONGEST_S, asked=True)
        self._first = min((one.at for one in self._later.values()), default=inf)

    def next(self) -> float | None:
        return None if self._first == inf else self._first

    def _ask(self, effect: Repeatable) -> bool:
        """Whether it is wanted still: then it is asked for as things are now."""
        found = self._store.member(effect.uid) if isinstance(effect, Nominate | Ungate) else None
        if found is not None and found[0].admitted and found[1].step in (Step.NOMINATING, Step.UNGATING):
            self._steering.again(*found)
            return True
        if (wanted := self._wanted(effect)) is not None:
            self._outbox.append(wanted)
        return wanted is not None

    def _wanted(self, effect: Repeatable) -> Repeatable | None:
        if isinstance(effect, Reserve):
            return self._left_over(effect)
        if isinstance(effect, Hint) and not effect.uid:
            return effect if self._namespaces.ending(effect.namespace) is None else None
        found, pod = self._store.member(effect.uid), self._store.pods.get(effect.uid)
        if pod is None or not pod.live:
            return None
        match effect:
            case Hint():
                wanted = pod.unpinned if effect.once else pod.hint == effect.message
            case Wake():
                wanted = not pod.node
            case Nominate():
                wanted = bool(pod.nominated_node) and not pod.node and found is None
            case Confirm():
                confirmed = found is not None and pod.uid in found[0].members.confirmed
                wanted = found is not None and found[1].step is Step.CONFIRMING and not confirmed
            case Ungate():
                gated = GANG_GATE in pod.gates and (found is None or found[1].step is Step.NONE)
                wanted = gated and (bool(pod.native_group) if found is None else self._lets_go(found[0].key, pod.uid))
        return effect if wanted else None

    def _left_over(self, effect: Reserve) -> Reserve | None:
        """Return the write that takes a reservation off, if it is there still and its workload evicts no victims."""
        key = effect.key
        workload = self._store.workloads.get(key)
        if key in self._preemptions.under_way:
            return None
        if effect.pod is not None:
            pod = self._store.pods.get(effect.pod.uid)
            return None if pod is None or pod.reservation is None else replace(effect, pod=pod)
        record = None if workload is None else workload.job
        if record is None or effect.job is None or record.seen.uid != effect.job.uid or record.writing is not None:
            return None
        return None if record.seen.reservation is None else replace(effect, job=record.seen)
