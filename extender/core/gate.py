"""The permit gate: bind requests are held until the gang is there, then released together, or forgotten together."""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.effects import AnswerBind, Evict, PostBinding, Wake
from extender.core.events import BindArrived, BindingPosted, Outcome
from extender.core.gang import Gang, Hold, Kept, Reason
from extender.core.state import Posting, State
from extender.core.steering import Steering
from policies.model import Pod

GANG_UID = "muster.dev/gang-uid"
RELEASE = "muster.dev/release"
RELEASE_COMPLETE = "muster.dev/release-complete"
NODE = "muster.dev/node"


class Gate:
    """Who may bind. Every method leaves its answers and writes in ``state.out``."""

    def __init__(self, state: State, steering: Steering) -> None:
        self._state = state
        self._steering = steering

    def arrived(self, event: BindArrived, now: float) -> None:
        """kube-scheduler asks for a Binding: answer, post, or hold."""
        state = self._state
        pod = state.pods.get(event.uid)
        if not state.synced:
            return self._answer(event.call, "Muster is starting; try again")
        if pod is None:
            # kube-scheduler's watch can be ahead of ours: wait for the pod a moment instead of failing its bind.
            if (earlier := state.unseen.pop(event.uid, None)) is not None:
                self._answer(earlier[0].call, "superseded by a newer bind request")
            state.unseen[event.uid] = (event, now + state.limits.unseen_s)
            return None
        if pod.node:
            return self._answer(event.call, "" if pod.node == event.node else f"the pod is already on {pod.node}")
        if not pod.live:
            return self._answer(event.call, "the pod is being deleted or has ended")
        if (posting := state.posting.get(event.uid)) is not None:
            if posting.node == event.node:
                posting.calls.append(event.call)
                return None
            return self._answer(event.call, f"a Binding to {posting.node} is being posted")
        gang = state.gang_of(pod)
        if gang is None:
            return self._single(pod, event)
        return self._hold(gang, pod, event, now)

    def disconnected(self, call: int, now: float) -> None:
        """kube-scheduler gave up on a held call; its pod will come back through a new cycle."""
        state = self._state
        for waiting, (event, _) in list(state.unseen.items()):
            if event.call == call:
                del state.unseen[waiting]
        uid = state.calls.pop(call, "")
        pod = state.pods.get(uid)
        gang = state.gang_of(pod) if pod else None
        if gang is None or uid not in gang.holds:
            return
        del gang.holds[uid]
        gang.note(now, "a held bind request was given up by kube-scheduler")
        self._plan_expires(gang, now)
        if gang.final == uid:
            gang.final = None
            self._settle(gang, now)

    def posted(self, event: BindingPosted, now: float) -> None:
        """A Binding has ended: tell the calls that wait for it, and see how the release stands."""
        state = self._state
        posting = state.posting.pop(event.uid, None)
        if posting is None:
            return
        done = event.outcome is Outcome.DONE
        for call in posting.calls:
            self._answer(call, "" if done else event.detail or "the Binding failed")
        gang = state.gangs.get(posting.group) if posting.group else None
        if done:
            state.mark_bound(event.uid, posting.node)
        elif gang is None and event.outcome is Outcome.REFUSED:
            pod = state.pods.get(event.uid)
            if pod is None or (not pod.node and pod.group_key is None):
                state.uncharge(event.uid)
        if gang is not None:
            self._member_posted(gang, event, now)
            self._settle(gang, now)
            state.review(gang)

    def _member_posted(self, gang: Gang, event: BindingPosted, now: float) -> None:
        gang.posting.pop(event.uid, None)
        gang.doubtful.pop(event.uid, None)
        match event.outcome:
            case Outcome.DONE:
                gang.placement.pop(event.uid, None)
            case Outcome.REFUSED:
                self._lose(gang, event.uid, now)
            case Outcome.UNKNOWN:
                gang.note(now, f"the Binding of {event.uid} may or may not have been written")
                self._plan_expires(gang, now)
                if (member := gang.members.get(event.uid)) is None or not member.live:
                    self._state.unassume(gang, event.uid)
                elif event.uid in gang.placement:
                    gang.doubtful[event.uid] = None

    def member_bound(self, gang: Gang, pod: Pod, now: float) -> None:
        """The watch shows a member bound: its promise is kept, and whoever waits for it is told."""
        gang.placement.pop(pod.uid, None)
        gang.doubtful.pop(pod.uid, None)
        if (hold := gang.holds.pop(pod.uid, None)) is not None:
            self._answer(hold.call, "" if hold.node == pod.node else f"the pod is already on {pod.node}")
        if gang.final == pod.uid:
            gang.final = None
        self.retry(gang, now)

    def member_lost(self, gang: Gang, uid: str, now: float, why: str = "the pod is being deleted or has ended") -> None:
        """A member is gone, going or at its end: it can be held no longer, and the gang may not be able to start."""
        held = gang.holds.pop(uid, None)
        if held is not None:
            self._answer(held.call, why)
        if uid in gang.posting:
            return
        known = uid in gang.placement
        if gang.final == uid:
            gang.final = None
            self._lose(gang, uid, now)
            self._settle(gang, now)
        elif known:
            self._lose(gang, uid, now)
            self._wake_kept_out(gang)
        if known and not gang.complete and not gang.releasing and gang.partial_since is None:
            needed = gang.min_member
            if needed is None or len(gang.secured()) < needed:
                self.forget(gang, "a member was deleted before the gang could start", now)
        self._state.review(gang)

    def forget(self, gang: Gang, why: str, now: float, *, penalty: bool = False) -> None:
        """Take every promise back: held binds fail, assumed room is free, nominations are cleared."""
        state = self._state
        gang.note(now, f"forgotten: {why}")
        for hold in gang.holds.values():
            self._answer(hold.call, why)
        for uid in [uid for uid in gang.placement if uid not in gang.posting and uid not in gang.doubtful]:
            state.unassume(gang, uid)
            self._steering.stop(gang, uid)
        gang.holds.clear()
        gang.final = None
        self._wake_kept_out(gang)
        if penalty:
            gang.failures += 1
            gang.not_before = now + min(2.0 ** (gang.failures - 1), state.limits.retry_max_s)
            state.set_timer(gang.not_before, gang.key)
        if not gang.whole:
            state.explain(gang, Reason("Forgotten", why), now)
        state.review(gang)

    def _wake_kept_out(self, gang: Gang) -> None:
        """Touch, once, the singles that were refused for the sake of room that is free now."""
        for uid in gang.kept_out:
            single = self._state.pods.get(uid)
            if single is not None and not single.node and single.live:
                self._state.out.append(Wake(uid, single.namespace, single.name))
        gang.kept_out.clear()

    def expire(self, gang: Gang, now: float) -> None:
        """Look at every deadline of the gang; called when one of its timers has run out."""
        state = self._state
        state.tell(gang, now)
        for uid, kept in list(gang.kept.items()):
            if now >= kept.until:
                del gang.kept[uid]
                state.uncharge(f"kept:{uid}")
        self._evict_partial(gang, now)
        if gang.releasing:
            return
        if now >= gang.plan_deadline:
            gang.doubtful.clear()
        if gang.holds and (deadline := self._hold_deadline(gang)) > now:
            # Whoever had the first deadline may have left since this timer was set.
            state.set_timer(deadline, gang.key)
        elif gang.holds:
            held, needed = len(gang.holds), gang.min_member
            missing = ", ".join(sorted(self._names(uid for uid in gang.placement if uid not in gang.holds))[:3])
            why = f"only {held} of {needed} members reached bind before the deadline; missing: {missing}"
            self.forget(gang, why, now, penalty=True)
        elif gang.placement and not gang.unconfirmed and now >= gang.plan_deadline:
            self.forget(gang, "kube-scheduler did not take up the placement in time", now, penalty=True)

    def expire_unseen(self, now: float) -> None:
        for uid, (event, until) in list(self._state.unseen.items()):
            if now >= until:
                del self._state.unseen[uid]
                self._answer(event.call, "Muster has not seen this pod yet; try again")

    def retry(self, gang: Gang, now: float) -> None:
        """The gang's quorum may have changed (minMember, members): release what is held if it suffices now."""
        if gang.releasing or not self._state.synced:
            return
        if gang.holds:
            self._state.set_timer(self._hold_deadline(gang), gang.key)
            self._try_release(gang, now)
        if not gang.releasing:
            self.take_stock(gang, now)

    def _hold(self, gang: Gang, pod: Pod, event: BindArrived, now: float) -> None:
        if gang.placement.get(pod.uid) != event.node:
            return self._answer(event.call, "the gang has no placement with this pod on this node any more")
        if (earlier := gang.holds.pop(pod.uid, None)) is not None:
            self._answer(earlier.call, "superseded by a newer bind request")
        gang.holds[pod.uid] = Hold(event.call, event.node, now, event.expires)
        self._state.calls[event.call] = pod.uid
        self._state.set_timer(self._hold_deadline(gang), gang.key)
        self._try_release(gang, now)
        return None

    def _hold_deadline(self, gang: Gang) -> float:
        """The instant by which posting has to start, so that it ends before the first held request expires."""
        limits = self._state.limits
        expires = min(hold.expires for hold in gang.holds.values())
        deadline = expires - limits.post_margin_s - limits.post_member_s * len(gang.placement)
        if gang.group is None or gang.group.timeout_s is None:
            return deadline
        return min(deadline, min(hold.arrived for hold in gang.holds.values()) + gang.group.timeout_s)

    def _try_release(self, gang: Gang, now: float) -> None:
        needed = gang.min_member
        if gang.complete or gang.releasing:
            if not gang.complete and gang.final is None and not gang.bound:
                # The last one went away and is back, and nothing is bound yet: it is the last one again.
                gang.final = max(gang.holds, key=lambda uid: self._state.pods[uid].rank)
            return self._post_held(gang, gang.complete)
        if needed is None or len(gang.quorum()) < needed:
            held = f"{len(gang.quorum())} of {needed} members reached bind"
            return self._state.explain(gang, Reason("Holding", held, warning=False), now)
        if now >= self._hold_deadline(gang):
            return self.forget(gang, "the gang became complete too late to bind it in time", now, penalty=True)
        if (spoiled := self._spoiled(gang)) is not None:
            return self.forget(gang, spoiled, now)
        if len(gang.holds) > 1:
            # The last Binding says that the release is whole, so a restart can tell a broken release from a lost pod.
            gang.final = max(gang.holds, key=lambda uid: self._state.pods[uid].rank)
        gang.release = gang.release or min(gang.holds)
        gang.note(now, f"released with {len(gang.holds)} members")
        self._state.explain(gang, Reason("Releasing", "its members are being bound", warning=False), now)
        return self._post_held(gang, len(gang.holds) == 1)

    def _spoiled(self, gang: Gang) -> str | None:
        """The last look at every node and pod before anything is bound."""
        for uid, hold in gang.holds.items():
            pod = self._state.pods.get(uid)
            if pod is None or not pod.live or pod.node:
                return "a held member changed before the release"
            if (unfit := self._unfit(pod, hold.node)) is not None:
                return unfit
        return None

    def _unfit(self, pod: Pod, node: str) -> str | None:
        if not self._state.ledger.admits(node, pod.selection):
            return f"node {node} is gone, not ready or closed to the gang"
        if self._state.ledger.overcommitted(node, pod.requests):
            return f"node {node} has been filled by somebody else"
        return None

    def _post_held(self, gang: Gang, complete: bool) -> None:
        for uid in [uid for uid in gang.holds if uid != gang.final]:
            self._post_member(gang, uid, complete=complete)

    def _post_member(self, gang: Gang, uid: str, *, complete: bool) -> None:
        hold = gang.holds.pop(uid)
        self._state.calls.pop(hold.call, None)
        pod = self._state.pods[uid]
        gang.posting[uid] = hold.node
        stamp = {GANG_UID: gang.uid, RELEASE: gang.release or uid, NODE: hold.node}
        if complete:
            stamp[RELEASE_COMPLETE] = "true"
        self._post(pod, hold.node, hold.call, hold.expires, stamp, gang)

    def _single(self, pod: Pod, event: BindArrived) -> None:
        ledger = self._state.ledger
        promised = ledger.assumed_nodes.get(event.node, {})
        if promised and pod.uid not in promised and not ledger.fits(event.node, pod.requests):
            # It passed filter before the gang was planned.
            return self._answer(event.call, f"the room on {event.node} is kept for a gang that is starting")
        ledger.charge(pod.uid, event.node, pod.requests, assumed=True)
        self._post(pod, event.node, event.call, event.expires, {}, None)

    def _post(self, pod: Pod, node: str, call: int, expires: float, stamp: dict[str, str], gang: Gang | None) -> None:
        state = self._state
        state.posting[pod.uid] = Posting(node, [call], gang.key if gang else None)
        state.out.append(PostBinding(pod.uid, pod.namespace, pod.name, node, (call,), expires, stamp))

    def _settle(self, gang: Gang, now: float) -> None:
        """No Binding of the release is under way any more: post the last one, or take stock."""
        if gang.posting:
            return
        if gang.final is not None:
            if not gang.bound:
                gang.final = None
                return self.forget(gang, "none of the gang's Bindings was accepted", now, penalty=True)
            uid, gang.final = gang.final, None
            whole = len(gang.present(gang.bound)) + 1 >= (gang.min_member or 0)
            return self._post_member(gang, uid, complete=whole)
        self.take_stock(gang, now)
        return None

    def take_stock(self, gang: Gang, now: float) -> None:
        """With no release under way: is the gang whole, broken, or still to start?"""
        if any(pod.scheduler not in self._state.schedulers for pod in gang.live):
            # Not ours to judge: what another scheduler has bound is never evicted.
            return self._state.review(gang)
        self._drop_unfit(gang, now)
        if gang.whole:
            self._became_whole(gang, now)
        elif gang.bound and not gang.complete:
            self._became_partial(gang, now)
        elif gang.bound and gang.reason.code in ("Placed", "Releasing"):
            self._running(gang, now)
        self._state.review(gang)

    def _drop_unfit(self, gang: Gang, now: float) -> None:
        """No promise is taken back while a release is under way: what became of its nodes meanwhile counts now."""
        for uid, node in gang.placement.items():
            pod = gang.members.get(uid)
            if pod is not None and uid not in gang.doubtful and (unfit := self._unfit(pod, node)) is not None:
                return self.forget(gang, unfit, now)

    def _became_whole(self, gang: Gang, now: float) -> None:
        gang.complete, gang.partial_since, gang.failures = True, None, 0
        gang.refusals = 0
        gang.kept_out.clear()
        for uid in list(gang.kept):
            del gang.kept[uid]
            self._state.uncharge(f"kept:{uid}")
        self._running(gang, now)

    def _running(self, gang: Gang, now: float) -> None:
        count = len(gang.present(gang.bound))
        self._state.explain(gang, Reason("Running", f"{count} members are bound", warning=False), now)

    def _became_partial(self, gang: Gang, now: float) -> None:
        if gang.min_member is None:
            return  # nobody says what whole is, so nobody is evicted for not being it
        if gang.partial_since is None:
            gang.partial_since = now
            self._state.set_timer(now + self._state.limits.partial_s, gang.key)
        count, needed = len(gang.present(gang.bound)), gang.min_member
        message = f"its release broke off with {count} of {needed} members bound; replacements go first"
        self._state.explain(gang, Reason("Partial", message), now)

    def _evict_partial(self, gang: Gang, now: float) -> None:
        limits = self._state.limits
        if gang.partial_since is None or gang.complete or now < gang.partial_since + limits.partial_s:
            return
        gang.partial_since = now
        self._state.set_timer(now + limits.partial_s, gang.key)
        if limits.evict_partial and not gang.releasing:
            gang.note(now, "evicting the bound members: the gang never became whole")
            for pod in gang.bound:
                self._state.out.append(Evict(pod.uid, pod.namespace, pod.name, "its gang never became whole"))

    def _lose(self, gang: Gang, uid: str, now: float) -> None:
        """Take the room of a lost member back, unless part of its gang is bound: then its replacement gets the room."""
        state = self._state
        charge = state.ledger.charges.get(uid) if uid in gang.placement else None
        state.unassume(gang, uid)
        gang.unconfirmed.pop(uid, None)
        # The others may have waited for this one's nomination.
        self._steering.ungate(gang)
        started = gang.bound or gang.posting
        if charge is not None and started and not gang.complete and uid not in gang.kept:
            until = now + state.limits.partial_s
            gang.kept[uid] = Kept(charge.node, charge.requests, until)
            state.ledger.charge(f"kept:{uid}", charge.node, charge.requests, assumed=True)
            state.set_timer(until, gang.key)

    def _plan_expires(self, gang: Gang, now: float) -> None:
        gang.plan_deadline = now + self._state.limits.plan_s
        self._state.set_timer(gang.plan_deadline, gang.key)

    def _names(self, uids: Iterable[str]) -> list[str]:
        return [pod.name for uid in uids if (pod := self._state.pods.get(uid)) is not None]

    def _answer(self, call: int, error: str) -> None:
        self._state.calls.pop(call, None)
        self._state.out.append(AnswerBind(call, error))
