"""The referee's own book of gangs of pods that are let go without a plan, and so have quota for all of their pods: told
from gates that come off where nothing is promised. Whatever changes around such a gang may end that: it does here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from extender.core.effects import Effect, Milestone, Reached, Report, Ungate
from extender.core.events import Event, GroupGone, GroupSeen, QueueGone, QueueSeen, Synced
from policies.model import GroupKey, Pod
from tests.simulation.queue_plan import FLAVOR, MADE
from tests.simulation.shown import Shown
from tests.simulation.sight import slot

_WITH_A_PLAN = (Milestone.PLANNED, Milestone.RELEASED, Milestone.STARTED)
"""A gang that runs is let go no more: a member that comes later is planned, and no milestone tells that."""


class LetGoGangs:
    """One life of the extender. ``within_s``: so long it awaits nodes; 0: never."""

    def __init__(self, shown: Shown, within_s: float) -> None:
        self._shown = shown
        self._within_s = within_s
        self._until: dict[GroupKey, float] = {}
        self._as_it_was: dict[GroupKey, object] = {}
        self._planned: set[GroupKey] = set()
        self._free: dict[GroupKey, set[str]] = {}

    def hear(self, event: Event) -> None:
        match event:
            case QueueSeen() | QueueGone() | Synced():
                self._until.clear()
            case GroupSeen(group):
                self._until.pop(group.key, None)
            case GroupGone(key):
                self._until.pop(key, None)
            case _:
                pass

    def watch(self, effects: Iterable[Effect], jobs: Mapping[GroupKey, object], now: float) -> list[GroupKey]:
        """Those that are let go by these effects of one event."""
        let_go: dict[GroupKey, set[str]] = {}
        for effect in effects:
            match effect:
                case Reached(milestone=Milestone.UNRESERVED):
                    pass  # it is planned by then, or goes on to wait
                case Reached(key, milestone):
                    self._until.pop(key, None)
                    self._planned.discard(key)
                    if milestone in _WITH_A_PLAN:
                        self._planned.add(key)
                case Report(key, code=code) if code != "AwaitingNodes":
                    self._until.pop(key, None)
                case Ungate(uid, pin=(), group=GroupKey() as key) if self._within_s and key not in jobs:
                    let_go.setdefault(key, set()).add(uid)
        if let_go:
            self._planned = {key for key in self._planned if self._members(key)}
        found = [key for key in let_go if key not in self._planned and key not in self._until]
        for key in found:
            self._until[key], self._as_it_was[key] = now + self._within_s, self._seen(key)
            self._free[key] = let_go[key] | {pod.uid for pod in self._members(key) if not pod.gates}
        return found

    def pods(self, now: float) -> Iterator[Pod]:
        """All that have quota of the flavor that is made. Of two pods of one index one has."""
        for key, until in self._until.items():
            if now < until and self._as_it_was[key] == self._seen(key):
                free = (pod for pod in self._members(key) if pod.uid in self._free[key])
                slots = {slot(pod): pod for pod in free}
                yield from (pod for pod in slots.values() if dict(pod.selection.node_selector).get(FLAVOR) == MADE)

    def _members(self, key: GroupKey) -> list[Pod]:
        return list(self._shown.members.get(key, {}).values())

    def _seen(self, key: GroupKey) -> object:
        """Without what kube-scheduler and the gate change."""
        return {
            pod.uid: (pod.queue, pod.requests, pod.selection, pod.priority, pod.group, pod.live, pod.node)
            for pod in self._members(key)
        }
