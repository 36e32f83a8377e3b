"""The permit gate: bind requests are held until the gang is there, then released together, or forgotten together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from extender.core.backoff import pause_s
from extender.core.events import BindArrived
from extender.core.gang import Gang
from extender.core.holds import Hold
from extender.core.promises import Promises
from extender.core.reasons import Reason
from extender.core.refusals import words_of
from extender.core.releases import Releases
from extender.core.roster import Stage
from extender.core.singles import Singles
from extender.core.state import State
from extender.core.stock import Stock
from extender.core.turns import Cause
from policies.model import Pod

_FREE_TRIES = 3
"""Nodes that may refuse a gang before it rests between one try and the next."""
_REMEMBERED = 10
"""A node that refuses is remembered so much longer, at most, than a gang rests: meanwhile others are tried."""
_MOST_CALLS = 8
"""That wait for one Binding: kube-scheduler asks again only when it has given the request before up."""


class Gate:
    """Who may bind. Every method leaves its answers and writes in ``state.out``."""

    def __init__(self, state: State, promises: Promises, stock: Stock, releases: Releases, singles: Singles) -> None:
        self._state = state
        self._promises = promises
        self._stock = stock
        self._releases = releases
        self._singles = singles

    def arrived(self, event: BindArrived, now: float) -> None:
        """kube-scheduler asks for a Binding: answer, post, or hold."""
        state = self._state
        pod = state.pods.get(event.uid)
        if not state.recovered:
            return state.answer(event.call, "Muster is starting; try again")
        if pod is None:
            # kube-scheduler's watch can be ahead of ours: wait for the pod a moment instead of failing its bind.
            if (earlier := state.unseen.pop(event.uid, None)) is not None:
                state.answer(earlier[0].call, "superseded by a newer bind request")
            state.unseen[event.uid] = (event, now + state.limits.unseen_s)
            return None
        if pod.node:
            return state.answer(event.call, "" if pod.node == event.node else f"the pod is already on {pod.node}")
        if not pod.live:
            return state.answer(event.call, "the pod is being deleted or has ended")
        if (posting := state.posting.get(event.uid)) is not None:
            if posting.node == event.node:
                posting.calls.append(event.call)
                if len(posting.calls) > _MOST_CALLS:
                    # Not the first: while somebody waits for that one, the Binding is sent.
                    state.answer(posting.calls.pop(1), "superseded by a newer bind request")
                return None
            return state.answer(event.call, f"a Binding to {posting.node} is being posted")
        return self._decide(pod, event, now)

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
        gang.let_go(uid)
        gang.note(now, "a held bind request was given up by kube-scheduler")
        if not gang.holds:
            # Nobody is at the gate any more whose deadline would end it.
            self._promises.extend(gang, now)
        if gang.final == uid:
            gang.final = None
            self._releases.settle(gang, now)

    def member_bound(self, gang: Gang, pod: Pod, now: float) -> None:
        """The watch shows a member bound: its promise is kept, and whoever waits for it is told."""
        self._promises.keep(gang, pod.uid)
        gang.doubtful.pop(pod.uid, None)
        if (hold := gang.let_go(pod.uid)) is not None:
            self._state.answer(hold.call, "" if hold.node == pod.node else f"the pod is already on {pod.node}")
        if gang.final == pod.uid:
            gang.final = None
        if gang.releasing:
            self._releases.settle(gang, now)
        else:
            self._releases.retry(gang, now)

    def member_lost(self, gang: Gang, uid: str, now: float, why: str = "the pod is being deleted or has ended") -> None:
        """A member is gone, going or at its end: it can be held no longer, and the gang may not be able to start."""
        held = gang.let_go(uid)
        if held is not None:
            self._state.answer(held.call, why)
        if uid in gang.posting:
            return
        known, releasing = uid in gang.placement, gang.releasing
        if gang.final == uid:
            gang.final = None
        if known:
            self._promises.lose(gang, uid, now)
        if known and (releasing or gang.roster.started):
            # Nobody else may come by to judge a release of which this was the last Binding in doubt.
            self._releases.settle(gang, now)
        if known and not gang.complete and not gang.releasing and gang.partial_since is None:
            needed = gang.min_member
            if needed is None or gang.reached(Stage.PROMISED) < needed:
                self._promises.forget(gang, "a member was deleted before the gang could start", now, Cause.MEMBER_LOST)
        self._state.review(gang)

    def refused(self, gang: Gang, pod: Pod, now: float) -> None:
        """kube-scheduler will not have this member on its planned node: remember that for a while and plan anew."""
        node = gang.placement[pod.uid]
        why = f"kube-scheduler refused node {node} for pod {pod.name}"
        if releasing := gang.releasing:
            self.member_lost(gang, pod.uid, now, why)
        else:
            self._promises.forget(gang, why, now, Cause.NODE_REFUSED)
        gang.refusals += 1
        self._remember(gang, [node], now)
        if not releasing:
            self._rest(gang, why, words_of(pod), now)

    def _remember(self, gang: Gang, nodes: Sequence[str], now: float) -> None:
        """Plan around these nodes for a while. Only after room was given back there: that is no news about a node."""
        state = self._state
        until = now + pause_s(gang.refusals, 1.0, _REMEMBERED * state.limits.retry_max_s)
        for node in nodes:
            gang.refuse(node, until)
            state.refusing.setdefault(node, {})[gang.key] = None
        state.set_timer(until, gang.key)

    def _rest(self, gang: Gang, why: str, words: str, now: float) -> None:
        """A gang that is refused again and again holds no room for a while: others may start with it."""
        gang.words = words or gang.words
        if gang.refusals <= _FREE_TRIES:
            return
        pause = pause_s(gang.refusals - _FREE_TRIES, 1.0, self._state.limits.retry_max_s)
        gang.not_before = max(gang.not_before, now + pause)
        self._state.set_timer(gang.not_before, gang.key)
        if gang.roster.lacks and not gang.whole:
            said = f", and says: {gang.words}" if gang.words else ""
            text = f"{why}{said}; refused {gang.refusals} times in a row, it is planned again ever less often"
            self._state.explain(gang, Reason("Refused", text), now)
        self._state.review(gang)

    def expire(self, gang: Gang, now: float) -> None:
        """Look at every deadline of the gang; called when one of its timers has run out."""
        self._state.tell(gang, now)
        if now >= gang.sweep_timer:
            gang.sweep_timer = 0.0
        self._promises.lapse(gang, now)
        self._stock.evict_partial(gang, now)
        for node in [node for node, until in gang.refused.items() if now >= until]:
            gang.forgive(node)
        if gang.not_before and now >= gang.not_before:
            gang.not_before, gang.demand = 0.0, None
        if now >= gang.hold_timer:
            gang.hold_timer = 0.0
        if now >= gang.plan_timer:
            gang.plan_timer = 0.0
        self._expire_holds(gang, now)
        self._expire_plan(gang, now)

    def _expire_holds(self, gang: Gang, now: float) -> None:
        late = self._releases.is_late(gang, now)
        if gang.doubtful and (late or now >= gang.plan_deadline):
            # Whatever became of those Bindings, the others wait no longer. Their own room stays promised for a while.
            if now >= gang.plan_deadline:
                gang.doubtful.clear()
            self._releases.settle(gang, now)
        if gang.holds and late and gang.posting:
            # What becomes of the Binding that hangs decides about the last one: its bind has to come again.
            for uid in list(gang.holds):
                if (hold := gang.let_go(uid)) is not None:
                    self._state.answer(hold.call, "another Binding of its gang has not ended in time")
            gang.final = None
            self._promises.extend(gang, now)
        if gang.holds and not late:
            # Whoever had the first deadline may have left since this timer was set.
            self._releases.watch(gang)
        elif gang.holds and not gang.releasing:
            held, needed = len(gang.holds), gang.min_member
            missing = ", ".join(sorted(self._names(uid for uid in gang.placement if uid not in gang.holds))[:3])
            why = f"only {held} of {needed} members reached bind before the deadline; missing: {missing}"
            self._promises.forget(gang, why, now, Cause.HOLD_DEADLINE, penalty=True)

    def _expire_plan(self, gang: Gang, now: float) -> None:
        """A placement none of whose members is held has its time; what its gang waits for is not counted against it."""
        if not gang.placement:
            return
        if now < gang.plan_deadline:
            self._state.watch_plan(gang, gang.plan_deadline)
        elif gang.holds or gang.releasing or gang.carrying_out:
            self._state.watch_plan(gang, now + self._state.limits.report_s)
        else:
            self._plan_failed(gang, now)

    def _plan_failed(self, gang: Gang, now: float) -> None:
        """If its pods say that kube-scheduler's own plugins refuse them, it is these nodes that were refused."""
        why = "kube-scheduler did not take up the placement in time"
        refused = [
            (pod, node)
            for uid, node in gang.placement.items()
            if (pod := gang.members.get(uid)) is not None and not pod.node and words_of(pod)
        ]
        if not refused:
            return self._promises.forget(gang, why, now, Cause.PLAN_DEADLINE, penalty=True)
        self._promises.forget(gang, why, now, Cause.NODE_REFUSED)
        gang.refusals = max(gang.refusals, _FREE_TRIES) + 1
        self._remember(gang, list(dict.fromkeys(node for _, node in refused)), now)
        return self._rest(gang, why, words_of(refused[0][0]), now)

    def expire_unseen(self, now: float) -> None:
        for uid, (event, until) in list(self._state.unseen.items()):
            if now >= until:
                del self._state.unseen[uid]
                self._state.answer(event.call, "Muster has not seen this pod yet; try again")

    def _decide(self, pod: Pod, event: BindArrived, now: float) -> None:
        """What to do about a bind that nothing is wrong with."""
        gang = self._state.gang_of(pod)
        if gang is None:
            return self._singles.bind(pod, event)
        return self._hold(gang, pod, event, now)

    def _hold(self, gang: Gang, pod: Pod, event: BindArrived, now: float) -> None:
        state = self._state
        if gang.placement.get(pod.uid) != event.node:
            return state.answer(event.call, "the gang has no placement with this pod on this node any more")
        if (earlier := gang.let_go(pod.uid)) is not None:
            state.answer(earlier.call, "superseded by a newer bind request")
        gang.hold(pod.uid, Hold(event.call, event.node, now, event.expires))
        state.calls[event.call] = pod.uid
        self._releases.watch(gang)
        return self._releases.attempt(gang, now)

    def _names(self, uids: Iterable[str]) -> list[str]:
        return [pod.name for uid in uids if (pod := self._state.pods.get(uid)) is not None]
