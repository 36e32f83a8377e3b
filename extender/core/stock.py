"""Taking stock of a gang when no release is under way: is it whole, bound in part, or still to start?"""

from __future__ import annotations

from extender.core.effects import Evict
from extender.core.gang import Gang, kept_for
from extender.core.problems import foreign, running
from extender.core.promises import Promises
from extender.core.reasons import Reason
from extender.core.roster import Stage
from extender.core.state import State
from extender.core.turns import Cause, Turn
from policies.words import counted


class Stock:
    """Judges what is bound. Nothing stays bound in part: it is completed in time, or evicted."""

    def __init__(self, state: State, promises: Promises) -> None:
        self._state = state
        self._promises = promises

    def take(self, gang: Gang, now: float, released_at: float | None = None) -> None:
        """Find out how the gang stands, and say so. ``released_at``, after a restart: when its release began."""
        self._drop_unled(gang, now)
        if self._is_shared(gang):
            if (why := foreign(gang, self._state.schedulers)) is not None:
                self._state.explain(gang, why, now)
            return self._state.review(gang)
        self._drop_unfit(gang, now)
        if gang.whole:
            self._became_whole(gang, now)
        elif gang.roster.started and not gang.complete and not gang.doubtful:
            self._became_partial(gang, now, released_at)
        elif gang.bound and (gang.reason.code in ("Placed", "Releasing") or (gang.complete and not gang.roster.lacks)):
            self._running(gang, now)
        elif not gang.live:
            self._over(gang, now)
        self._state.review(gang)

    def notice_whole(self, gang: Gang, now: float) -> None:
        """In the middle of a release: it has been whole, even if a member is lost before the last answer has come."""
        if gang.whole and not gang.complete and not self._is_shared(gang):
            self._became_whole(gang, now)

    def evict_partial(self, gang: Gang, now: float) -> None:
        """The bound members of a gang that stayed incomplete for too long give their room back."""
        limits = self._state.limits
        if gang.partial_since is None or gang.complete or now < gang.partial_since + limits.partial_s:
            return
        gang.partial_since = now
        self._state.set_timer(now + limits.partial_s, gang.key)
        if limits.evict_partial and not gang.releasing:
            gang.note(now, "evicting the bound members: the gang never became whole")
            for pod in [pod for pod in gang.bound if pod.stamp is not None]:
                self._state.out.append(Evict(pod.uid, pod.namespace, pod.name, "its gang never became whole"))

    def _is_shared(self, gang: Gang) -> bool:
        """Not ours to judge: what another scheduler has bound is never evicted."""
        return any(name not in self._state.schedulers for name in gang.roster.schedulers)

    def _drop_unled(self, gang: Gang, now: float) -> None:
        """Whom nobody leads to his node would keep it for ever."""
        why = next((why for uid, why in gang.unled.items() if uid not in gang.doubtful), None)
        if why is not None:
            self._promises.forget(gang, why, now, Cause.WRITE_FAILED, penalty=True)

    def _drop_unfit(self, gang: Gang, now: float) -> None:
        """No promise is taken back while a release is under way or in doubt: what became of its nodes counts now."""
        if not gang.unsettled:
            return
        for uid, node in gang.placement.items():
            pod = gang.members.get(uid)
            if pod is None or node not in gang.unsettled or uid in gang.doubtful:
                continue
            if (unfit := self._state.unfit(pod, node)) is not None:
                return self._promises.forget(gang, unfit, now, Cause.NODE_CHANGED)
        if not gang.doubtful:
            gang.unsettled.clear()

    def _became_whole(self, gang: Gang, now: float) -> None:
        if not gang.complete and gang.live:
            self._state.turned(gang, Turn.STARTED, now)
        gang.complete, gang.partial_since, gang.failures, gang.seen_at = True, None, 0, None
        gang.refusals, gang.words = 0, ""
        for uid in list(gang.kept):
            del gang.kept[uid]
            self._state.uncharge(kept_for(uid))
        self._running(gang, now)

    def _running(self, gang: Gang, now: float) -> None:
        if not gang.live:
            return self._over(gang, now)
        self._state.explain(gang, running(gang), now)
        return None

    def _over(self, gang: Gang, now: float) -> None:
        """Nobody of it waits or runs: its pods have ended, or are those of an earlier PodGroup of its name."""
        ours = [pod for pod in gang.members.values() if gang.roster.is_ours(pod)]
        if ended := [pod for pod in ours if pod.terminal]:
            failed = sum(pod.phase == "Failed" for pod in ended)
            text = f"{counted(len(ended), 'member', 'has', 'have')} ended" + (
                f", {failed} of them failed" if failed else ""
            )
            self._state.explain(gang, Reason("Ended", text, warning=False), now)
        elif gang.members and not ours:
            old = counted(len(gang.members), "pod", "belongs", "belong")
            text = f"0 of {gang.min_member} members exist; {old} to an earlier PodGroup of this name"
            self._state.explain(gang, Reason("MembersMissing", text, warning=False), now)

    def _became_partial(self, gang: Gang, now: float, released_at: float | None) -> None:
        if gang.min_member is None:
            return  # nobody says what whole is, so nobody is evicted for not being it
        if gang.partial_since is None:
            self._state.turned(gang, Turn.BROKEN, now)
            gang.partial_since = now if released_at is None else self._since(released_at, now)
            self._state.set_timer(gang.partial_since + self._state.limits.partial_s, gang.key)
        count, needed = gang.reached(Stage.BOUND), gang.min_member
        message = f"its start broke off with {count} of {needed} members bound; replacements are placed first"
        self._state.explain(gang, Reason("Partial", message), now)

    def _since(self, released_at: float, now: float) -> float:
        """A restart gives no more time than was left, except what kube-scheduler needs to complete the gang."""
        limits = self._state.limits
        return max(released_at, now - max(0.0, limits.partial_s - limits.plan_s))
