"""When the turn of a workload comes: by the queue policy, jobs whose pods may never be created after all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from extender.core.ledger.singles import WaitingSingle, gpus_of
from extender.core.ledger.state import State
from extender.core.ledger.waiting import Turn
from extender.core.workload.workload import Workload
from policies.api import QueuePolicy
from policies.model import GroupKey, Pod


class Turns:
    """The turns by one queue policy. ``of`` raises PolicyError where the policy fails. Whatever changes ``put_off``
    calls ``State.reorder``."""

    def __init__(self, state: State, policy: QueuePolicy) -> None:
        self._state = state
        self._policy = policy

    def of(self, one: Workload | WaitingSingle) -> Turn:
        if isinstance(one, WaitingSingle):
            return 0, self._policy.order(one)
        return put_off(self._state, one), self._policy.order(QueueView(one))


class QueueView:
    """A workload as the queue policy sees it (``policies.api.WaitingGang``)."""

    __slots__ = ("_workload",)

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    @property
    def key(self) -> GroupKey:
        return self._workload.key

    @property
    def priority(self) -> int:
        return self._workload.priority

    @property
    def created(self) -> float:
        return self._workload.created

    @property
    def members(self) -> int:
        return sum(count for count, _ in self._parts())

    @property
    def requests(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for count, pod in self._parts():
            for name, amount in pod.requests:
                total[name] += count * amount
        return dict(total)

    @property
    def gpus(self) -> int:
        return gpus_of(self.requests)

    def _parts(self) -> list[tuple[int, Pod]]:
        """Returns how many members ask for the same as which pod."""
        workload = self._workload
        if workload.podsets is not None and workload.podsets.podsets:
            return [(podset.size, podset.template) for podset in workload.podsets.podsets]
        live = workload.live
        parts = [(1, pod) for pod in live]
        if live and (to_come := (workload.min_member or 0) - len(live)) > 0:
            parts.append((to_come, live[0]))
        return parts


def put_off(state: State, workload: Workload) -> int:
    """How far it is put off, whatever its priority and age, so that no tenant keeps the room of all others empty. 2: a
    job whose own pods were not created. 1: another one of its namespace that has no pod."""
    if workload.podsets is None or workload.admitted:
        return 0
    if state.failed_creation.has_failed(workload.key):
        return 2
    return int(not workload.members.live and state.failed_creation.go_last(workload.key.namespace))


def others_wait(state: State, workload: Workload, now: float) -> bool:
    """Whether somebody of another namespace waits whose turn is before that of those that are put off."""
    return any(namespace != workload.key.namespace for namespace in in_need(state, now))


def in_need(state: State, now: float) -> Iterator[str]:
    """The namespace of each workload that is not put off and waits for room or quota, and of each pod of no gang that
    promised room keeps out."""
    for pod in state.kept_out.pods.values():
        yield pod.namespace
    for key in state.waiting.keys:
        waits = state.workloads[key]
        plannable = waits.demand is None or waits.demand.shape is not None
        if plannable and now >= waits.retries.not_before and not put_off(state, waits):
            yield key.namespace
