"""The release of a gang: its bind requests, from the first that is held to the last Binding.

``Holds`` has the bind requests of a workload that have no answer yet. ``Release`` says how far the release is, from
the last check before a Binding to its end. ``BindCalls`` has the calls of all workloads.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import NamedTuple

from extender.core.events import BindArrived
from policies.model import GroupKey, Stamp

_MOST_CALLS = 8
"""Calls that may wait for one Binding. kube-scheduler asks again only after it has given up the earlier request."""


@dataclass(slots=True)
class Binding:
    """A Binding that is being written.

    ``calls``: the calls that wait for it.
    ``workload``, ``stamp``: for a member its workload, and the stamp that is written.
    """

    node: str
    calls: list[int]
    workload: GroupKey | None = None
    stamp: Stamp | None = None

    def await_by(self, call: int) -> int | None:
        """Add a call that waits for the Binding. Returns the call that this replaces, if too many wait."""
        self.calls.append(call)
        # Never the first: the Binding is sent only while that call waits.
        return self.calls.pop(1) if len(self.calls) > _MOST_CALLS else None


@dataclass(slots=True)
class BindCalls:
    """The bind calls of all pods.

    ``held``: call -> UID of the pod whose gang is awaited.
    ``writing``: pod UID -> its Binding.
    ``unseen``: pod UID -> a bind of a pod that the watch has yet to show, and until when it may wait.
    ``unknown``: pod UID -> until when its room stays promised; pods without a gang whose Binding may have been written.
    """

    held: dict[int, str] = field(default_factory=dict)
    writing: dict[str, Binding] = field(default_factory=dict)
    unseen: dict[str, tuple[BindArrived, float]] = field(default_factory=dict)
    unknown: dict[str, float] = field(default_factory=dict)

    def hold(self, call: int, uid: str) -> None:
        self.held[call] = uid

    def end_call(self, call: int) -> str:
        """End the wait of a held call, or let it wait for its Binding.

        Returns the pod's UID; empty if it was not held.
        """
        return self.held.pop(call, "")

    def write(self, uid: str, binding: Binding) -> None:
        self.writing[uid] = binding
        self.unknown.pop(uid, None)

    def written(self, uid: str) -> Binding | None:
        """Remove the Binding of a pod, which has its outcome. Returns it; None without one."""
        return self.writing.pop(uid, None)

    def mark_unknown(self, uid: str, until: float) -> None:
        """Record that the pod's Binding may have been written: the watch will show it."""
        self.unknown[uid] = until

    def await_pod(self, event: BindArrived, until: float) -> None:
        self.unseen[event.uid] = (event, until)

    def stop_awaiting(self, uid: str) -> BindArrived | None:
        """Remove the bind that waited for the pod to be seen. Returns it; None without one."""
        unseen = self.unseen.pop(uid, None)
        return None if unseen is None else unseen[0]

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.unseen.pop(uid, None)
        self.unknown.pop(uid, None)

    def instants(self) -> list[float]:
        """The instants at which one of these waits ends by itself."""
        return [*(until for _, until in self.unseen.values()), *self.unknown.values()]


class Hold(NamedTuple):
    """A bind request that waits for the rest of the gang."""

    call: int
    node: str
    arrived: float
    expires: float


class Holds(dict[str, Hold]):
    """The held requests of a workload: pod UID -> request, in the order of arrival."""

    def __init__(self) -> None:
        self._ends: list[tuple[float, int, str]] = []
        """A heap of (expires, call, UID). Entries of requests that ended are dropped when they come up."""
        self._told_at = 0.0

    def add(self, uid: str, hold: Hold) -> None:
        self.pop(uid, None)
        self[uid] = hold
        if len(self._ends) > 2 * len(self) + 64:
            self._ends = [(hold.expires, hold.call, whose) for whose, hold in self.items()]
            heapq.heapify(self._ends)
        else:
            heapq.heappush(self._ends, (hold.expires, hold.call, uid))

    def remove(self, uid: str) -> None:
        """Remove the request of a pod, if it has one."""
        self.pop(uid, None)
        if not self:
            self._ends.clear()
            self._told_at = 0.0

    def wait_from(self, now: float) -> None:
        """Let the requests wait as long again, for members that are steered only now."""
        self._told_at = now

    def first_to_expire(self) -> float:
        """The instant at which the first request expires. There must be one."""
        while (held := self.get(self._ends[0][2])) is None or held.call != self._ends[0][1]:
            heapq.heappop(self._ends)
        return self._ends[0][0]

    def first_arrived(self) -> float:
        """The instant at which the first request arrived: they are kept in that order. There must be one."""
        return next(iter(self.values())).arrived

    def began(self) -> float:
        """The instant from which the requests have waited for the next member. There must be one."""
        return max(self._told_at, self.first_arrived())


@dataclass(slots=True)
class Release:
    """How far a release is, and what came of it.

    ``name``: the UID of the member that was to be bound last, which no other release can have.
    ``began``: the instant at which it began.
    ``last``: the held member whose Binding is posted after all others, and stamps the release as complete.
    ``failed``: whether a Binding has failed whose pod still exists.
    ``complete``: whether the workload had its quorum bound once, so that a replacement needs no new quorum.
    ``partial_since``: the instant from which the time counts to complete a start that broke off.
    ``partial_count``: slots that were bound then.
    ``incomplete_since``: the instant from which a gang that was complete has had too few members.
    ``given_back``: whether it is being evicted for that.
    ``reserved_until``: until when the room of its lost members is kept.
    ``gone_whole``: whether it ran complete until no member was left, and has not started again.
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
    reserved_until: float = 0.0
    gone_whole: bool = False

    def begin(self, name: str, now: float) -> None:
        """Begin to post Bindings: a quorum is held. A release that completes an earlier one keeps its name."""
        self.name = self.name or name
        self.began = now if self.began is None else self.began
        self.failed = False

    def fail(self) -> None:
        """Record that a Binding has failed although its pod exists."""
        self.failed = True

    def wait_for(self, last: str | None) -> None:
        """Set the member whose Binding is posted last; None: no Binding waits for the others."""
        self.last = last

    def wait_no_more_for(self, uid: str) -> None:
        """Forget the last Binding if it was that member's."""
        if self.last == uid:
            self.last = None

    def recover(self, name: str, began: float | None, *, complete: bool) -> None:
        """Set what the stamps on members show after a restart."""
        self.name, self.began, self.complete = name, began, complete

    def start_anew(self) -> None:
        """Forget the release, for another PodGroup of the same name is another workload.

        Writes that are under way go on.
        """
        self.name, self.began, self.complete, self.partial_since = "", None, False, None
        self.reserved_until, self.gone_whole = 0.0, False
        self.miss(None)

    def become_whole(self) -> None:
        self.complete, self.partial_since, self.gone_whole = True, None, False
        self.miss(None)

    def miss(self, since: float | None) -> None:
        """Set since when a gang that ran has had too few members; None: it has enough."""
        self.incomplete_since, self.given_back = since, False

    def reserve_rooms(self, until: float) -> None:
        """Set until when the room of lost members is kept."""
        self.reserved_until = until

    def give_back(self) -> None:
        """Record that its members are evicted. They are evicted again if it stays incomplete for as long once more."""
        self.given_back = True

    def break_off(self, since: float, count: int) -> None:
        self.partial_since, self.partial_count, self.gone_whole = since, count, False

    def lapse(self, *, whole: bool, outcome_unknown: bool) -> None:
        """End the release, since no member is known to be bound by Muster or on its way. The next start has another
        name.

        ``outcome_unknown``: a Binding may have been written, so the release goes on under its name.
        ``whole``: Bindings of another client make the workload complete, so it needs no quorum of its own.
        """
        if not outcome_unknown:
            self.name, self.began, self.partial_since = "", None, None
        if self.complete and not whole:
            self.complete, self.gone_whole = False, not self.given_back
            self.miss(None)
