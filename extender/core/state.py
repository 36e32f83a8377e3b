"""Everything the core knows: the API objects as last seen, and what has been promised on top of them."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field, replace

from extender.core.crowd import Crowd
from extender.core.effects import AnswerBind, Effect, PostBinding, Report, Turned
from extender.core.events import BindArrived
from extender.core.gang import Gang, kept_for
from extender.core.ledger import Ledger
from extender.core.limits import Limits
from extender.core.news import News
from extender.core.reasons import Reason, when_to_tell
from extender.core.turns import Cause, Turn
from policies.model import Dialect, GroupKey, Pod, PodGroup, Stamp

_TIMERS_AT_ONCE = 256


@dataclass(slots=True)
class Posting:
    """A Binding under way, the calls that wait for it, and for a gang's member what it writes on the pod."""

    node: str
    calls: list[int]
    group: GroupKey | None = None
    stamp: Stamp | None = None


@dataclass(slots=True)
class State:
    """The facts, the promises, the outbox and the timers. ``out`` is drained by the scheduler after every event."""

    schedulers: tuple[str, ...] = ("muster",)
    limits: Limits = field(default_factory=Limits)
    pods: dict[str, Pod] = field(default_factory=dict)
    gangs: dict[GroupKey, Gang] = field(default_factory=dict)
    groups: dict[GroupKey, PodGroup] = field(default_factory=dict)
    claims: dict[tuple[str, str], bool] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    calls: dict[int, str] = field(default_factory=dict)
    """Held call -> pod UID."""
    posting: dict[str, Posting] = field(default_factory=dict)
    unseen: dict[str, tuple[BindArrived, float]] = field(default_factory=dict)
    bound_by_us: dict[str, Posting] = field(default_factory=dict)
    """Pods that are bound, and not confirmed by the watch yet."""
    waiting: dict[GroupKey, None] = field(default_factory=dict)
    """Gangs with members that have no node and no promise of one."""
    stale: dict[GroupKey, None] = field(default_factory=dict)
    """Waiting gangs that have changed since the queue looked at them."""
    news: News = field(default_factory=News)
    """What has changed around them."""
    refusing: dict[str, dict[GroupKey, None]] = field(default_factory=dict)
    """Node -> gangs that remember a refusal by it."""
    kept_out: dict[str, None] = field(default_factory=dict)
    """Singles that were refused for the sake of promised room."""
    reopened: dict[str, None] = field(default_factory=dict)
    """Nodes where a promise has ended since they were last looked at for those who were kept out."""
    crowd: Crowd = field(default_factory=Crowd)
    advised: Counter[str] = field(default_factory=Counter)
    """In advisory mode: how often enforcing would have said what (``extender.core.advice``)."""
    synced: bool = False
    recovered: bool = False  # what the objects tell of an earlier life of ours is known: calls can be answered
    epoch: float = 0.0
    """The instant of the core's clock at which the epoch of the wall clock was, by the last that was heard."""
    out: list[Effect] = field(default_factory=list)
    _timers: list[tuple[float, GroupKey]] = field(default_factory=list)

    def gang_of(self, pod: Pod) -> Gang | None:
        key = pod.group_key
        return None if key is None else self.gangs.get(key)

    def put_pod(self, pod: Pod) -> Pod | None:
        """Take over a pod's new facts. Returns the facts before, or None when it is new."""
        old = self.pods.get(pod.uid)
        if pod.node:
            self.bound_by_us.pop(pod.uid, None)
        elif done := self.bound_by_us.get(pod.uid):
            # A watch event from before our own Binding must not unbind it.
            pod = replace(pod, node=done.node, stamp=done.stamp)
        self.pods[pod.uid] = pod
        if old is not None and old.group_key != pod.group_key:
            self._leave(old)
        if (key := pod.group_key) is not None:
            gang = self.gangs.get(key)
            if gang is None:
                gang = self.gangs[key] = Gang(key)
            gang.enrol(pod)
            if gang.group is None and pod.group is not None and pod.group.dialect is Dialect.COSCHEDULING:
                gang.follow(self.groups.get(key))
        self._charge(pod)
        if old is not None and (old.ends, old.deleting) != (pod.ends, pod.deleting):
            self.news.taken = True
            self.ledger.changes += 1
        return old

    def drop_pod(self, uid: str) -> Pod | None:
        pod = self.pods.pop(uid, None)
        self.bound_by_us.pop(uid, None)
        self.unseen.pop(uid, None)
        self.kept_out.pop(uid, None)
        if pod is not None:
            self.uncharge(uid)
            self._leave(pod)
        return pod

    def mark_bound(self, uid: str, posting: Posting) -> None:
        """Our Binding succeeded: the pod is bound before the watch says so."""
        pod = self.pods.get(uid)
        if pod is not None and not pod.node:
            self.put_pod(replace(pod, node=posting.node, stamp=posting.stamp, nominated_node=None))
            self.bound_by_us[uid] = posting

    def assume(self, gang: Gang, pod: Pod, node: str) -> None:
        gang.promise(pod.uid, node)
        self.news.taken = True
        self.ledger.charge(pod.uid, node, pod.requests, assumed=True)

    def unassume(self, gang: Gang, uid: str) -> None:
        gang.doubtful.pop(uid, None)
        if gang.unpromise(uid) is not None:
            pod = self.pods.get(uid)
            if pod is None or not pod.node:
                self.uncharge(uid)

    def uncharge(self, uid: str) -> None:
        """Take room back; a node with more room is a reason to try again what it refused or what waits."""
        charge = self.ledger.charges.get(uid)
        if charge is not None:
            self.news.will_free(charge.node, self.ledger)
            self.ledger.release(uid)
            if charge.assumed and self.kept_out:
                self.reopened[charge.node] = None
            self._try_again_on(charge.node, at_once=not charge.assumed)

    def node_changed(self, node: str) -> None:
        self.news.nodes = True
        self._try_again_on(node, at_once=True)

    def unfit(self, pod: Pod, node: str) -> str | None:
        """Why a promise of that node to this pod cannot be kept any more; None while it can."""
        if not self.ledger.admits(node, pod.selection):
            return f"node {node} is gone, not ready or closed to the gang"
        if self.ledger.overcommitted(node, pod.requests):
            return f"node {node} has been filled by somebody else"
        return None

    def post(self, pod: Pod, posting: Posting, expires: float, marks: dict[str, str] | None = None) -> None:
        """Ask for a Binding with these annotations."""
        self.posting[pod.uid] = posting
        where = pod.uid, pod.namespace, pod.name, posting.node
        self.out.append(PostBinding(*where, tuple(posting.calls), expires, marks or {}, posting.group))

    def answer(self, call: int, error: str) -> None:
        """End a bind request; an empty error means that the pod is bound."""
        self.calls.pop(call, None)
        self.out.append(AnswerBind(call, error))

    def set_claim(self, namespace: str, name: str, bound: bool | None) -> None:
        """A volume claim has a volume, has none yet, or (None) is gone."""
        if self.claims.get((namespace, name)) == bound:
            return
        if bound is None:
            del self.claims[namespace, name]
        else:
            self.claims[namespace, name] = bound
        for key in self.waiting:
            gang = self.gangs[key]
            if key.namespace == namespace and any(name in pod.claims for pod in gang.roster.odd.values()):
                gang.demand = None
                self.stale[key] = None

    def unbound_claim(self, pod: Pod) -> str | None:
        return next((name for name in pod.claims if not self.claims.get((pod.namespace, name), False)), None)

    def set_timer(self, at: float, key: GroupKey) -> None:
        """Have the gang looked at again at that instant."""
        heapq.heappush(self._timers, (at, key))

    def watch_plan(self, gang: Gang, at: float) -> None:
        """Have the gang's placement looked at by then. One timer is enough: whoever it wakes sets the next."""
        if not gang.plan_timer or at < gang.plan_timer:
            gang.plan_timer = at
            self.set_timer(at, gang.key)

    def watch_nominations(self, gang: Gang, now: float) -> None:
        """Have a look, after a while, whether nominations that were to be cleared are."""
        if not gang.sweep_timer:
            gang.sweep_timer = now + self.limits.plan_s
            self.set_timer(gang.sweep_timer, gang.key)

    def due(self, now: float) -> list[GroupKey]:
        """Gangs to be looked at again by now; not all at once if they are many."""
        keys: dict[GroupKey, None] = {}
        while self._timers and self._timers[0][0] <= now and len(keys) < _TIMERS_AT_ONCE:
            keys[heapq.heappop(self._timers)[1]] = None
        return list(keys)

    def next_timer(self) -> float | None:
        return self._timers[0][0] if self._timers else None

    def review(self, gang: Gang) -> None:
        """After a change of the gang: keep its life and the index of waiting gangs right, let an empty gang go."""
        if not gang.roster.started and not gang.releasing:
            # We have bound nothing of it: whatever we start next under this name is another release.
            gang.partial_since, gang.release, gang.released_at = None, "", None
            # While somebody else's Bindings make it whole, it is; else it needs its own quorum.
            gang.complete &= bool(gang.bound)
            while gang.kept:
                # To give room back can lead here again: a node that has more is tried again.
                self.uncharge(kept_for(gang.kept.popitem()[0]))
        if not gang.members and not gang.posting:
            for uid in gang.kept:
                self.uncharge(kept_for(uid))
            self.gangs.pop(gang.key, None)
        if gang.roster.lacks:
            self.waiting[gang.key] = None
            self.crowd.come(gang.key, self.limits.waiting)
            if gang.demand is None and not gang.releasing:
                self.stale[gang.key] = None
        else:
            self.waiting.pop(gang.key, None)
            self.stale.pop(gang.key, None)
            if (following := self.crowd.leave(gang.key)) is not None:
                self.gangs[following].demand = None
                self.stale[following] = None

    def explain(self, gang: Gang, reason: Reason, now: float) -> None:
        """Make this the gang's one current reason. It is reported once it has lasted (``tell``)."""
        if reason is gang.reason or reason == gang.reason:
            return
        if reason.code != gang.reason.code:
            gang.note(now, f"{reason.code}: {reason.message}")
            gang.reason_since = now
        gang.reason = reason
        self.tell(gang, now)

    def tell(self, gang: Gang, now: float) -> None:
        """Report the gang's reason, or have a timer do it when its time has come."""
        at = when_to_tell(gang.reason, gang.reason_since, gang.told, self.limits.report_s)
        if at is None:
            return
        if now < at:
            if gang.tell_timer != at:
                gang.tell_timer = at
                self.set_timer(at, gang.key)
            return
        self.report(gang, now)

    def report(self, gang: Gang, now: float) -> None:
        """Report the gang's reason at once."""
        reason = gang.reason
        gang.told = gang.told.then(reason, now)
        group = gang.group.uid if gang.group else None
        # What is said of those that wait is said on one of them.
        about = (gang.surplus is not None and gang.roster.unplaced()) or gang.live
        first = min(about, key=lambda pod: pod.rank, default=None)
        member, owner = ((first.uid, first.name), first.controller) if first else (None, None)
        said = reason.code, reason.message, reason.warning
        self.out.append(Report(gang.key, group, member, *said, len(gang.live), len(gang.bound), owner))

    def turned(
        self, gang: Gang, turn: Turn, now: float, *, since: float | None = None, cause: Cause | None = None,
        detail: str = "",
    ) -> None:  # fmt: skip
        """The gang has come to a turning point; ``since`` is the instant that is counted from, unless its first one."""
        began = gang.seen_at if since is None else since
        size = gang.min_member or len(gang.live)
        self.out.append(Turned(gang.key, turn, size, 0.0 if began is None else now - began, cause, detail))

    def _try_again_on(self, node: str, *, at_once: bool) -> None:
        """Who remembers a refusal by that node forgets it. Room that was only promised is no reason for haste."""
        for key in self.refusing.pop(node, {}):
            if (gang := self.gangs.get(key)) is not None:
                gang.forgive(node)
                if at_once and gang.refusals:
                    gang.not_before, gang.demand = 0.0, None
                self.review(gang)

    def _leave(self, pod: Pod) -> None:
        key = pod.group_key
        gang = self.gangs.get(key) if key else None
        if gang is None:
            return
        gang.dismiss(pod.uid)
        self.review(gang)

    def _charge(self, pod: Pod) -> None:
        if pod.terminal:
            self.uncharge(pod.uid)
        elif pod.node:
            charge = self.ledger.charges.get(pod.uid)
            if charge is not None and charge.node != pod.node:
                self.uncharge(pod.uid)
            self.news.taken |= charge is None
            self.ledger.charge(pod.uid, pod.node, pod.requests, assumed=False)
        # An unbound pod has room only by a promise, which the gate and the queue make and take back.
