"""handle(): the one way in. An event and the time go in, effects come out, nothing else ever changes the core."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from extender.core.advice import Advice, Mode, Onlooker, OpenGate
from extender.core.effects import Effect
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    BindingPosted,
    ClaimGone,
    ClaimSeen,
    Event,
    FilterCalled,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    Nominated,
    PodGone,
    PodSeen,
    PreemptCalled,
    Synced,
    Tick,
    Ungated,
)
from extender.core.gang import Gang
from extender.core.gate import Gate
from extender.core.hints import Hints
from extender.core.ledger import Ledger
from extender.core.limits import Limits
from extender.core.planner import Planner
from extender.core.problems import running
from extender.core.promises import Promises
from extender.core.queue import Queue
from extender.core.recovery import Recovery
from extender.core.refusals import refused_by_plugins
from extender.core.releases import Releases
from extender.core.singles import Singles
from extender.core.state import State
from extender.core.steering import Steering, SteeringMode
from extender.core.stock import Stock
from extender.core.turns import Cause
from extender.core.verdicts import Verdicts
from policies.chosen import OURS, Policies
from policies.model import GroupKey, Node, Pod, PodGroup
from policies.model.levels import LevelKey
from policies.placement.request import rows_of
from policies.strategies.scoring import marks


class Scheduler:
    """The core. ``handle`` mutates ``state`` and returns what is to be done about it, in order."""

    def __init__(
        self,
        schedulers: tuple[str, ...] = ("muster",),
        limits: Limits | None = None,
        policies: Policies = OURS,
        steering: SteeringMode = SteeringMode.NOMINATE,
        levels: tuple[LevelKey, ...] = (),
        mode: Mode = Mode.ENFORCE,
    ) -> None:
        advising, limits = mode is Mode.ADVISE, limits or Limits()
        if advising:
            limits = replace(limits, evict_partial=False)
        self.state = State(schedulers, limits, ledger=Ledger(levels))
        self._steering = (Onlooker if advising else Steering)(self.state, steering)
        self._promises = Promises(self.state, self._steering)
        self._stock = Stock(self.state, self._promises)
        self._releases = Releases(self.state, self._promises, self._stock)
        self._singles = Singles(self.state)
        self._hints = Hints(self.state)
        self._recovery = Recovery(self.state, self._releases, self._steering, self._hints)
        gate = OpenGate if advising else Gate
        self._gate = gate(self.state, self._promises, self._stock, self._releases, self._singles)
        self._verdicts = (Advice if advising else Verdicts)(self.state, self._gate, self._singles)
        self._queue = Queue(self.state, policies.queue, Planner(self.state, policies, self._steering, self._promises))
        self._scoring = policies.scoring

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Apply one event at ``now`` (seconds, monotonic). Never raises for what the outside can send."""
        self._apply(event, now)
        self._queue.listen(now)
        effects, self.state.out = self.state.out, []
        return effects

    def prioritize(self, pod: Pod, candidates: Sequence[str]) -> list[int]:
        """How good each candidate is for a pod that no plan has placed: 0..10. A question, not an event."""
        state = self.state
        pod, view = state.pods.get(pod.uid, pod), state.ledger.snapshot()
        gang = state.gang_of(pod)
        beside = rows_of([] if gang is None else gang.seats, view)
        return marks(pod, candidates, view, self._scoring, beside)

    @property
    def passes(self) -> tuple[int, bool]:
        """How many admission passes have ended, and whether one is under way."""
        return self._queue.passes, self._queue.walking

    def next_wake(self) -> float | None:
        """The instant by which a Tick is due, or None while nothing is pending."""
        instants = [self._queue.wake(), self.state.next_timer()]
        instants += [until for _, until in self.state.unseen.values()]
        return min((instant for instant in instants if instant is not None), default=None)

    def _apply(self, event: Event, now: float) -> None:
        match event:
            case PodSeen(pod):
                self._pod_seen(pod, now)
            case PodGone(uid):
                self._pod_gone(uid, now)
            case NodeSeen(node):
                self._node_seen(node, now)
            case NodeGone(name):
                self._node_gone(name, now)
            case GroupSeen(group):
                self._group_seen(group, now)
            case GroupGone(key, uid):
                self._group_gone(key, uid, now)
            case ClaimSeen(namespace, name, bound):
                self.state.set_claim(namespace, name, bound)
            case ClaimGone(namespace, name):
                self.state.set_claim(namespace, name, None)
            case Synced(wall):
                self._recovery.begin(now - wall)
                self._queue.recover(now, self._recovery)
            case Tick():
                self._tick(now)
            case FilterCalled():
                self._verdicts.filter(event, now)
            case PreemptCalled():
                self._verdicts.preempt(event)
            case BindArrived():
                self._gate.arrived(event, now)
            case BindDisconnected(call):
                self._gate.disconnected(call, now)
            case BindingPosted():
                self._releases.posted(event, now)
            case Nominated():
                self._written(event, self._steering.nominated(event, now), "nominated", now)
            case Ungated():
                self._written(event, self._steering.ungated(event, now), "ungated", now)
            case _:
                assert_never(event)

    def _tick(self, now: float) -> None:
        state = self.state
        self._gate.expire_unseen(now)
        for key in state.due(now):
            self._recovery.find_out(key, now)
            if (gang := state.gangs.get(key)) is not None:
                self._gate.expire(gang, now)
                state.review(gang)
        if self._queue.tick(now):
            self._singles.wake()

    def _pod_seen(self, pod: Pod, now: float) -> None:
        state = self.state
        known = state.pods.get(pod.uid)
        self._recovery.find_out(pod.group_key, now)
        moved = known is not None and known.group_key != pod.group_key
        if moved:
            # Its labels or annotations were edited: the old gang has lost it.
            done = state.bound_by_us.get(pod.uid)
            self._pod_gone(pod.uid, now)
            if done is not None:
                state.bound_by_us[pod.uid] = done
        old = state.put_pod(pod)
        pod = state.pods[pod.uid]
        gang = state.gang_of(pod)
        if moved:
            self._releases.moved(pod, now)
        if gang is not None:
            self._member_seen(gang, old, pod, now)
        if pod.node and (old is None or old.node != pod.node):
            self._promises.give_way(pod.node, now)
        if old is None and (unseen := state.unseen.pop(pod.uid, None)) is not None:
            self._gate.arrived(unseen[0], now)
        if old is None or old.hint != pod.hint:
            self._hints.see(pod, now)

    def _member_seen(self, gang: Gang, old: Pod | None, pod: Pod, now: float) -> None:
        state = self.state
        if gang.seen_at is None and old is None and not gang.complete:
            gang.seen_at = now
        if pod.node and (old is None or not old.node):
            self._gate.member_bound(gang, pod, now)
        if not pod.live and (old is None or old.live):
            self._gate.member_lost(gang, pod.uid, now)
        elif old is not None and not pod.node and refused_by_plugins(gang, old, pod):
            self._gate.refused(gang, pod, now)
        if pod.terminal and old is not None and not old.terminal:
            self._releases.retry(gang, now)
        self._steering.shown(gang, pod)
        self._steering.confirm(gang)
        state.review(gang)
        if gang.surplus is not None and not gang.roster.lacks:
            gang.surplus = None
            if gang.whole:
                state.explain(gang, running(gang), now)

    def _pod_gone(self, uid: str, now: float) -> None:
        state = self.state
        pod = state.pods.get(uid)
        if pod is None:
            return
        self._recovery.find_out(pod.group_key, now)
        if (unseen := state.unseen.get(uid)) is not None:
            state.unseen[uid] = (unseen[0], now)
        if not pod.deleting:
            self._pod_seen(replace(pod, deleting=True), now)
        state.drop_pod(uid)

    def _node_seen(self, node: Node, now: float) -> None:
        state = self.state
        if state.ledger.nodes.get(node.name) == node:
            return
        state.ledger.set_node(node)
        state.node_changed(node.name)
        self._check_promises(node.name, now)

    def _node_gone(self, name: str, now: float) -> None:
        self.state.ledger.drop_node(name)
        self.state.node_changed(name)
        self._check_promises(name, now)

    def _check_promises(self, node: str, now: float) -> None:
        """A node changed: placements on it that no longer hold are forgotten, and planned anew."""
        state = self.state
        for uid in state.ledger.assumed_on(node):
            pod = state.pods.get(uid)
            gang = state.gang_of(pod) if pod else None
            if gang is None or pod is None or uid not in gang.placement or state.ledger.admits(node, pod.selection):
                continue
            if gang.releasing or uid in gang.doubtful:
                gang.unsettled[node] = None
            else:
                self._promises.forget(
                    gang, f"node {node} is gone, not ready or closed to the gang", now, Cause.NODE_CHANGED
                )
        self._promises.give_way(node, now)

    def _group_seen(self, group: PodGroup, now: float) -> None:
        state = self.state
        if state.groups.get(group.key) == group:
            return  # what we report is written on it, too
        self._recovery.find_out(group.key, now)
        state.groups[group.key] = group
        gang = state.gangs.get(group.key)
        if gang is None or not self._reads_groups(gang):
            return
        before, started = gang.group.uid if gang.group is not None else gang.former, gang.roster.started
        gang.follow(group)
        if (before and before != group.uid) or (started and not gang.roster.started):
            gang.complete, gang.partial_since, gang.release, gang.released_at = False, None, "", None
            self._promises.forget(gang, "its PodGroup was made anew", now, Cause.PODGROUP_CHANGED)
            self._releases.retry(gang, now)
        elif group.deleting and not gang.releasing:
            self._promises.forget(gang, "its PodGroup is being deleted", now, Cause.PODGROUP_CHANGED)
        else:
            self._releases.retry(gang, now)
        state.review(gang)

    def _group_gone(self, key: GroupKey, uid: str, now: float) -> None:
        state = self.state
        known = state.groups.get(key)
        if known is None or known.uid != uid:
            return
        self._recovery.find_out(key, now)
        del state.groups[key]
        gang = state.gangs.get(key)
        if gang is not None and gang.group is not None:
            gang.former = uid
            gang.follow(None)
            if not gang.releasing:
                self._promises.forget(gang, "its PodGroup was deleted", now, Cause.PODGROUP_CHANGED)
            state.review(gang)

    def _written(self, event: Nominated | Ungated, failed: Gang | None, what: str, now: float) -> None:
        """``failed``: the gang that cannot be led any further without this write."""
        if failed is None:
            return
        why = f"pod {failed.members[event.uid].name} could not be {what}: {event.detail}"
        if failed.releasing:
            self._steering.unled(failed, event.uid, why)
        else:
            self._promises.forget(failed, why, now, Cause.WRITE_FAILED, penalty=True)

    @staticmethod
    def _reads_groups(gang: Gang) -> bool:
        return any(pod.group is not None and pod.group.dialect == "coscheduling" for pod in gang.members.values())
