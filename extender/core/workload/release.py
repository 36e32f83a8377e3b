"""The release of a gang: its bind requests, from the first that is held to the last Binding.

kube-scheduler's bind requests have no answer yet, and Bindings are being written for some of them. A workload has
those that wait (``Holds``), and how far its release is, from the last look before a Binding to its end.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from extender.core.events import BindArrived
from policies.model import GroupKey, Stamp

_MOST_CALLS = 8
"""That wait for one Binding: kube-scheduler asks again only when it has given the request before up."""


@dataclass(slots=True)
class Binding:
    """One that is being written, and the calls that wait for it; for a member its workload, and what it writes."""

    node: str
    calls: list[int]
    workload: GroupKey | None = None
    stamp: Stamp | None = None

    def await_by(self, call: int) -> int | None:
        """One more call waits for it. Returns the one that is superseded by it, if there are too many."""
        self.calls.append(call)
        # Not the first: while somebody waits for that one, the Binding is sent.
        return self.calls.pop(1) if len(self.calls) > _MOST_CALLS else None


@dataclass(slots=True)
class BindCalls:
    """``held``: call -> UID of the pod whose gang is awaited. ``writing``: pod UID -> its Binding. ``unseen``: pod UID
    -> a bind of a pod that the watch has yet to show, and until when it may wait. ``doubted``: pods of no gang whose
    Binding may have been written, and until when the room for it stays promised.
    """

    held: dict[int, str] = field(default_factory=dict)
    writing: dict[str, Binding] = field(default_factory=dict)
    unseen: dict[str, tuple[BindArrived, float]] = field(default_factory=dict)
    doubted: dict[str, float] = field(default_factory=dict)

    def hold(self, call: int, uid: str) -> None:
        self.held[call] = uid

    def let_go(self, call: int) -> str:
        """It waits no longer, or for a Binding from now on. Returns the pod's UID, if it was held."""
        return self.held.pop(call, "")

    def write(self, uid: str, binding: Binding) -> None:
        self.writing[uid] = binding
        self.doubted.pop(uid, None)

    def written(self, uid: str) -> Binding | None:
        """It is under way no longer. Returns it."""
        return self.writing.pop(uid, None)

    def doubt(self, uid: str, until: float) -> None:
        """Its Binding may have been written: the watch will tell."""
        self.doubted[uid] = until

    def await_pod(self, event: BindArrived, until: float) -> None:
        self.unseen[event.uid] = (event, until)

    def stop_awaiting(self, uid: str) -> BindArrived | None:
        """Returns the bind that waited for the pod."""
        found = self.unseen.pop(uid, None)
        return None if found is None else found[0]

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self.unseen.pop(uid, None)
        self.doubted.pop(uid, None)

    def instants(self) -> list[float]:
        """When something of this ends by itself."""
        return [*(until for _, until in self.unseen.values()), *self.doubted.values()]


class Hold(NamedTuple):
    """A bind request that waits for the rest of the gang."""

    call: int
    node: str
    arrived: float
    expires: float


class Holds(dict[str, Hold]):
    """Pod UID -> its request, in the order of arrival."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, str]] = []
        """A heap of (expires, call, UID); whoever has left is dropped when it comes up."""
        self._told_at = 0.0

    def put(self, uid: str, hold: Hold) -> None:
        self.pop(uid, None)
        self[uid] = hold
        if len(self._ends) > 2 * len(self) + 64:
            self._ends = [(one.expires, one.call, whose) for whose, one in self.items()]
            heapq.heapify(self._ends)
        else:
            heapq.heappush(self._ends, (hold.expires, hold.call, uid))

    def take(self, uid: str) -> None:
        """It waits no longer, if it did."""
        self.pop(uid, None)
        if not self:
            self._ends.clear()
            self._told_at = 0.0

    def wait_from(self, now: float) -> None:
        """They have as long as before to wait for those of whom kube-scheduler is told only now."""
        self._told_at = now

    def first_to_expire(self) -> float:
        """The instant at which the first of them ends. There must be one."""
        while (held := self.get(self._ends[0][2])) is None or held.call != self._ends[0][1]:
            heapq.heappop(self._ends)
        return self._ends[0][0]

    def first_arrived(self) -> float:
        """The instant at which the first of them came: they are kept in that order. There must be one."""
        return next(iter(self.values())).arrived

    def began(self) -> float:
        """The instant from which they wait for who is to come next. There must be one."""
        return max(self._told_at, self.first_arrived())


@dataclass(slots=True)
class Release:
    """``name``: the UID of the member that was to be bound last, which no other release can have. ``began``: when.

    ``last``: the held member whose Binding is posted after all others, and says that the release is whole. ``failed``:
    a Binding has failed whose pod is there. ``complete``: the workload has been whole once, and a replacement needs no
    new quorum. ``partial_since``: from when the time counts in which a start that broke off has to be completed;
    ``partial_count``: slots that are bound then. ``incomplete_since``: from when on a gang that was whole has had too
    few members; ``given_back``: it is being evicted for that. ``kept_until``: so long the room of its lost members is
    kept. ``gone_whole``: it ran as a whole until nothing of it was left, and has not started again.
    """

    name: str = ""
    began: float | None = None
    last: str | None = None
    failed: bool = False
    complete: bool = False
    partial_since: float | None = None
    partial_count: int = 0
    incomplete_since: float | None = None
    given_back: bool = False
    kept_until: float = 0.0
    gone_whole: bool = False

    def begin(self, name: str, now: float) -> None:
        """A quorum is held. What completes an earlier release goes on with its name."""
        self.name = self.name or name
        self.began = now if self.began is None else self.began
        self.failed = False

    def fail(self) -> None:
        """A Binding has failed for another reason than that its pod is gone."""
        self.failed = True

    def wait_for(self, last: str | None) -> None:
        """That member's Binding is posted last; None: there is none to wait for any more."""
        self.last = last

    def wait_no_more_for(self, uid: str) -> None:
        """If that member was the last one, there is none."""
        if self.last == uid:
            self.last = None

    def recover(self, name: str, began: float | None, *, complete: bool) -> None:
        """What the stamps on its members tell after a restart."""
        self.name, self.began, self.complete = name, began, complete

    def start_anew(self) -> None:
        """Another PodGroup of the same name is another workload. What is on its way goes on."""
        self.name, self.began, self.complete, self.partial_since = "", None, False, None
        self.kept_until, self.gone_whole = 0.0, False
        self.miss(None)

    def become_whole(self) -> None:
        self.complete, self.partial_since, self.gone_whole = True, None, False
        self.miss(None)

    def miss(self, since: float | None) -> None:
        """Note since when a gang that ran has had too few members; None: it has enough."""
        self.incomplete_since, self.given_back = since, False

    def keep(self, until: float) -> None:
        """Keep the room of lost members until then."""
        self.kept_until = until

    def give_back(self) -> None:
        """Note that its members are evicted, once more if it is incomplete for as long again."""
        self.given_back = True

    def break_off(self, since: float, count: int) -> None:
        self.partial_since, self.partial_count, self.gone_whole = since, count, False

    def lapse(self, *, whole: bool, doubtful: bool) -> None:
        """Nothing of ours is known to be bound or on its way: whatever starts next under this name is another release,
        unless it is ``doubtful`` whether a Binding of this one was written: then that one goes on.

        While somebody else's Bindings make it ``whole``, it is; else it needs its own quorum.
        """
        if not doubtful:
            self.name, self.began, self.partial_since = "", None, None
        if self.complete and not whole:
            self.complete, self.gone_whole = False, not self.given_back
            self.miss(None)
