"""A release: the Bindings of a gang that is there, posted together, and what their outcomes make of the gang."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from extender.core.events import BindingPosted, Outcome
from extender.core.gang import Gang
from extender.core.promises import Promises
from extender.core.reasons import Reason
from extender.core.roster import Stage
from extender.core.state import Posting, State
from extender.core.stock import Stock
from extender.core.turns import Cause, Turn
from policies.model import Pod, Stamp
from policies.placement.rules import keeps

GANG_UID = "muster.dev/gang-uid"
RELEASE = "muster.dev/release"
RELEASE_COMPLETE = "muster.dev/release-complete"
RELEASE_QUORUM = "muster.dev/release-quorum"
RELEASE_SIZE = "muster.dev/release-size"
RELEASED_AT = "muster.dev/released-at"
STAMPED = (GANG_UID, RELEASE, RELEASE_COMPLETE, RELEASE_QUORUM, RELEASE_SIZE, RELEASED_AT)
"""What is read again after a restart."""
NODE = "muster.dev/node"
RANK = "muster.dev/rank"
DOMAIN = "muster.dev/domain"
"""The member's index, or its place among all where members have none or several series of them, and its domain of the
nearest level."""

_LONGEST_UID = 128
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


class Releases:
    """Starts a release when a quorum is held, and posts its last Binding when all others are in."""

    def __init__(self, state: State, promises: Promises, stock: Stock) -> None:
        self._state = state
        self._promises = promises
        self._stock = stock

    def attempt(self, gang: Gang, now: float) -> None:
        """Release what is held if that is a quorum by now, or if the gang has started before."""
        needed = gang.min_member
        if gang.complete or gang.releasing:
            if not gang.complete and gang.final is None and not gang.roster.started:
                # The last one went away and is back, and nothing is bound yet: it is the last one again.
                gang.final = self._last(gang)
            return self._post_held(gang, gang.complete)
        arrived = gang.reached(Stage.ARRIVED)
        if needed is None or arrived < needed:
            held = f"{arrived} of {needed} members reached bind"
            return self._state.explain(gang, Reason("Holding", held, warning=False), now)
        if now >= self.deadline(gang):
            why = "the gang became complete too late to bind it in time"
            return self._promises.forget(gang, why, now, Cause.HOLD_DEADLINE, penalty=True)
        if (spoiled := self._spoiled(gang)) is not None:
            return self._promises.forget(gang, spoiled, now, Cause.LAST_LOOK)
        last = self._last(gang)
        if len(gang.holds) > 1:
            # The last Binding says that the release is whole, so a restart can tell a broken release from a lost pod.
            gang.final = last
        gang.release = gang.release or gang.roster.continued or last
        gang.released_at = now if gang.released_at is None else gang.released_at
        gang.note(now, f"released with {len(gang.holds)} members")
        self._state.turned(gang, Turn.RELEASED, now, since=gang.holds.first_arrived())
        self._state.explain(gang, Reason("Releasing", "its members are being bound", warning=False), now)
        return self._post_held(gang, len(gang.holds) == 1)

    def retry(self, gang: Gang, now: float) -> None:
        """The gang's quorum may have changed (minMember, members): release what is held if it suffices now."""
        if gang.releasing or not self._state.synced:
            return
        if gang.holds:
            self.watch(gang)
            self.attempt(gang, now)
        if not gang.releasing:
            self._stock.take(gang, now)

    def deadline(self, gang: Gang) -> float:
        """The instant by which posting has to start, so that it ends before the first held request expires."""
        limits = self._state.limits
        deadline = gang.holds.first_to_expire() - limits.post_margin_s - limits.post_member_s * len(gang.placement)
        if gang.group is None or gang.group.timeout_s is None:
            return deadline
        return min(deadline, gang.holds.first_arrived() + gang.group.timeout_s)

    def is_late(self, gang: Gang, now: float) -> bool:
        """Whether something is held that cannot wait any longer."""
        return bool(gang.holds) and now >= self.deadline(gang)

    def watch(self, gang: Gang) -> None:
        """Have a timer run out at the deadline of what is held, or before."""
        deadline = self.deadline(gang)
        if not gang.hold_timer or deadline < gang.hold_timer:
            gang.hold_timer = deadline
            self._state.set_timer(deadline, gang.key)

    def recover(self, gang: Gang, now: float) -> None:
        """After a restart: what the stamps of its bound members tell of its release.

        It was whole if some member says so, or if as many slots were bound by it as its quorum was then, whatever has
        become of them. Else it broke off. What an older Muster has bound says no quorum: then it broke off if the
        member that was to be bound last, whose UID names it, is there.
        """
        state = self._state
        bound = [pod.stamp for pod in gang.bound if pod.stamp is not None]
        gang.release = bound[0].release if bound else ""
        same = [(pod, pod.stamp) for pod in gang.members.values() if pod.stamp and pod.stamp.release == gang.release]
        began = min((stamp.at for _, stamp in same if stamp.at), default=None)
        gang.released_at = None if began is None else min(began + state.epoch, now)
        quorum = min((stamp.quorum for _, stamp in same if stamp.quorum), default=None)
        if quorum is None:
            whole = bool(same) and gang.release not in gang.members
        else:
            whole = len({pod.identity for pod, _ in same}) >= quorum
        gang.complete = gang.whole or whole or any(stamp.complete for _, stamp in same)
        self._stock.take(gang, now, gang.released_at)

    def posted(self, event: BindingPosted, now: float) -> None:
        """A Binding has ended: tell the calls that wait for it, and see how the release stands."""
        state = self._state
        posting = state.posting.pop(event.uid, None)
        if posting is None:
            return
        done = event.outcome is Outcome.DONE
        for call in posting.calls:
            state.answer(call, "" if done else event.detail or "the Binding failed")
        gang = state.gangs.get(posting.group) if posting.group else None
        home = state.gang_of(state.pods[event.uid]) if event.uid in state.pods else None
        if done:
            state.mark_bound(event.uid, posting)
        elif gang is None and event.outcome is Outcome.REFUSED:
            pod = state.pods.get(event.uid)
            if pod is None or (not pod.node and pod.group_key is None):
                state.uncharge(event.uid)
        if gang is not None:
            self._member_posted(gang, event, now)
            self.settle(gang, now)
            state.review(gang)
        if home is not None and home is not gang:
            self._posted_elsewhere(home, event, posting, now)

    def moved(self, pod: Pod, now: float) -> None:
        """A pod belongs to another gang, or to none, since now. If it is being bound for the old one, the room stays.

        To the new gang it is a member whose Binding may have been written.
        """
        state, posting = self._state, self._state.posting.get(pod.uid)
        if posting is None or pod.node or not pod.live:
            return
        gang = state.gang_of(pod)
        if gang is None:
            state.ledger.charge(pod.uid, posting.node, pod.requests, assumed=True)
            return
        state.assume(gang, pod, posting.node)
        if pod.uid not in gang.posting:
            gang.doubtful[pod.uid] = None
        self._promises.extend(gang, now)

    def _posted_elsewhere(self, gang: Gang, event: BindingPosted, posting: Posting, now: float) -> None:
        """A Binding that was asked for another gang has ended, and the pod belongs to this one by now."""
        state, uid = self._state, event.uid
        if event.outcome is Outcome.UNKNOWN and uid in gang.placement:
            state.ledger.charge(uid, posting.node, state.pods[uid].requests, assumed=True)
            return
        if event.outcome is Outcome.DONE:
            gang.doubtful.pop(uid, None)
            self._promises.keep(gang, uid)
        else:
            state.unassume(gang, uid)
        if gang.releasing:
            self.settle(gang, now)
        else:
            self.retry(gang, now)
        state.review(gang)

    def settle(self, gang: Gang, now: float) -> None:
        """With no Binding of the release under way or in doubt any more: post the last one, or take stock."""
        self._stock.notice_whole(gang, now)
        if gang.posting:
            return
        if gang.final is not None and gang.doubtful and not self.is_late(gang, now):
            return self.watch(gang)
        if gang.final is not None:
            if not gang.roster.started:
                gang.final = None
                why = "none of the gang's Bindings was accepted"
                return self._promises.forget(gang, why, now, Cause.BINDINGS_REFUSED, penalty=True)
            uid, gang.final = gang.final, None
            whole = gang.reached(Stage.BOUND) + 1 >= (gang.min_member or 0)
            return self._post_member(gang, uid, ranks_of(gang, [uid])[uid], complete=whole)
        self._stock.take(gang, now)
        return None

    def _member_posted(self, gang: Gang, event: BindingPosted, now: float) -> None:
        gang.end_binding(event.uid)
        gang.doubtful.pop(event.uid, None)
        match event.outcome:
            case Outcome.DONE:
                self._promises.keep(gang, event.uid)
            case Outcome.REFUSED:
                self._promises.lose(gang, event.uid, now)
            case Outcome.UNKNOWN:
                gang.note(now, f"the Binding of {event.uid} may or may not have been written")
                self._promises.extend(gang, now)
                if (member := gang.members.get(event.uid)) is None or not member.live:
                    self._state.unassume(gang, event.uid)
                elif event.uid in gang.placement:
                    gang.doubtful[event.uid] = None

    def _spoiled(self, gang: Gang) -> str | None:
        """The last look at every node and pod before anything is bound."""
        for uid, hold in gang.holds.items():
            pod = self._state.pods.get(uid)
            if pod is None or not pod.live or pod.node:
                return "a held member changed before the release"
            if (unfit := self._state.unfit(pod, hold.node)) is not None:
                return unfit
        placed = [(gang.asking(gang.members[uid]), hold.node) for uid, hold in gang.holds.items()]
        if not keeps(placed, self._state.ledger.snapshot()):
            return "labels of its nodes have changed: the planned nodes do not have the topology that it requires"
        return None

    def _last(self, gang: Gang) -> str:
        return max(gang.holds, key=lambda uid: self._state.pods[uid].rank)

    def _post_held(self, gang: Gang, complete: bool) -> None:
        uids = [uid for uid in gang.holds if uid != gang.final]
        ranks = ranks_of(gang, uids)
        for uid in uids:
            self._post_member(gang, uid, ranks[uid], complete=complete)

    def _post_member(self, gang: Gang, uid: str, rank: int, *, complete: bool) -> None:
        hold = gang.holds[uid]
        self._state.calls.pop(hold.call, None)
        gang.start_binding(uid, hold.node)
        gang.let_go(uid)
        quorum, size = gang.min_member or 0, gang.reached(Stage.ARRIVED)
        at = 0.0 if gang.released_at is None else gang.released_at - self._state.epoch
        stamp = Stamp(gang.uid, gang.release or uid, complete, quorum, size, at)
        marks = {**marks_of(stamp), NODE: hold.node, RANK: str(rank)}
        if (nearest := next(self._state.ledger.domains(hold.node), None)) is not None:
            marks[DOMAIN] = nearest[1]
        posting = Posting(hold.node, [hold.call], gang.key, stamp)
        self._state.post(self._state.pods[uid], posting, hold.expires, marks)


def marks_of(stamp: Stamp) -> dict[str, str]:
    """The stamp as annotations of a Binding."""
    marks = {GANG_UID: stamp.gang, RELEASE: stamp.release}
    marks |= {RELEASE_QUORUM: str(stamp.quorum), RELEASE_SIZE: str(stamp.size)}
    if stamp.at:
        released = datetime.fromtimestamp(stamp.at, UTC).isoformat(timespec="milliseconds")
        marks[RELEASED_AT] = released.replace("+00:00", "Z")
    return marks | {RELEASE_COMPLETE: "true"} if stamp.complete else marks


def stamp_of(annotations: Mapping[str, str]) -> Stamp | None:
    """The stamp as it stands on a pod, or None. Anybody can write these: what cannot be read was not said."""
    gang, release = annotations.get(GANG_UID), annotations.get(RELEASE)
    if not gang or not release or len(gang) > _LONGEST_UID or len(release) > _LONGEST_UID:
        return None
    quorum, size = (_count(annotations.get(key, "")) for key in (RELEASE_QUORUM, RELEASE_SIZE))
    complete = annotations.get(RELEASE_COMPLETE) == "true"
    return Stamp(gang, release, complete, quorum, size, _instant(annotations.get(RELEASED_AT, "")))


def _count(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


def _instant(text: str) -> float:
    try:
        instant = datetime.fromisoformat(text)
        return instant.timestamp() if instant.tzinfo is not None else 0.0
    except (ValueError, OverflowError):
        return 0.0


def ranks_of(gang: Gang, uids: Sequence[str]) -> dict[str, int]:
    """At least for these members: what is stamped on them."""
    indexes = {uid: index for uid in uids if (index := gang.members[uid].index) is not None}
    one_series = len({pod.series for pod in gang.live}) <= 1
    if one_series and len(indexes) == len(uids):
        return indexes
    known = {pod.uid: pod for pod in (*gang.live, *(gang.members[uid] for uid in uids))}
    ordered = sorted(known.values(), key=lambda pod: pod.rank)
    places = {pod.uid: place for place, pod in enumerate(ordered)}
    return places | indexes if one_series else places
