"""The referee's own book of the room of members that a running gang has lost: it is for replacements, for a while.

Two answers are needed. ``sure``: the room is closed to all other pods. ``maybe``: waiting pods may have to wait for
it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from extender.core.effects import Effect, Evict
from extender.core.events import (
    Event,
    GroupGone,
    GroupSeen,
    NodeGone,
    NodeSeen,
    OwnerGone,
    OwnerSeen,
    PodGone,
    PodSeen,
    Synced,
)
from policies.model import GroupKey, Pod
from tests.simulation.doubts import Claim
from tests.simulation.seating import agree
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits


class Seats:
    """The kept room in one life of the extender. ``seat_s``: how long it is kept, from the end of a pod on."""

    def __init__(self, shown: Shown, seat_s: float) -> None:
        self.sure: dict[str, Claim] = {}
        self.maybe: dict[str, Claim] = {}
        self._shown = shown
        self._seat_s = seat_s
        self._seated: dict[str, Pod] = {}
        """Members with a node whose end is yet to be seen."""
        self._makers: dict[GroupKey, GroupKey] = {}
        """The owner of each gang that had a member on a node."""
        self._ended: set[str] = set()
        self._evicted: set[str] = set()
        self._until: dict[GroupKey, float] = {}
        """The time until which the room of each gang that has lost a member is kept."""
        self._now = 0.0
        self._synced_at = float("inf")

    def hear(self, event: Event, now: float) -> None:
        """Record an event that ``shown`` has handled. An event that might change how much is kept ends what is sure."""
        self._now = now
        match event:
            case Synced():
                self._synced_at = now
            case GroupSeen() | OwnerSeen():
                for key in self._shown.sized_by(event):
                    self.doubt(key)
            case GroupGone(key):
                self.doubt(key)
            case OwnerGone():
                self.maybe |= self.sure
                self.sure.clear()
            case NodeSeen() | NodeGone():
                self._doubt_node(event.node.name if isinstance(event, NodeSeen) else event.name)
            case PodSeen(pod) if pod.node:
                self._see(pod, pod.node)
            case _:
                pass

    def _see(self, pod: Pod, node: str) -> None:
        before = self._seated.get(pod.uid)
        if before is None or before.group != pod.group:
            self.doubt(pod.group_key)
            self.doubt(before.group_key if before is not None else None)
        if not pod.terminal and pod.group_key is not None:
            self._seated[pod.uid] = pod
            if pod.group is not None and pod.group.owner:
                self._makers[pod.group_key] = GroupKey(pod.namespace, pod.group.owner)
        elif pod.group_key is None:
            self._doubt_node(node)

    def lose(
        self,
        event: PodSeen | PodGone,
        whole: Collection[GroupKey],
        promised: Mapping[str, Claim],
        left: Callable[[Iterable[str]], Room],
    ) -> None:
        """Keep the room of a member that has ended by this event.

        ``left``: the room of nodes beside all promises. A pod may be bound to room that only kube-scheduler sees.
        """
        uid = event.uid if isinstance(event, PodGone) else event.pod.uid
        pod = self._seated.get(uid)
        if isinstance(event, PodSeen) and event.pod.terminal and uid not in self._ended:
            pod = event.pod
        elif isinstance(event, PodSeen):
            return None
        self._seated.pop(uid, None)
        if pod is None or pod.node is None or pod.group_key is None or uid in self._ended:
            return None
        if pod.phase == "Succeeded":
            return self.doubt(pod.group_key)  # the pod gets no replacement
        self._ended.add(uid)
        key = pod.group_key
        if uid in self._evicted:
            return self.doubt(key)
        self._until[key] = self._now + self._seat_s
        claim = Claim(key, pod.node, pod.requests, self._until[key])
        if self._is_sure(pod, whole, promised) and fits(left([pod.node])[pod.node], pod.requests):
            self.sure[uid] = claim
        else:
            self.doubt(key)
            self.maybe[uid] = claim
        return None

    def apply(self, effect: Effect) -> None:
        """Keep no room for a pod that the extender evicts."""
        if isinstance(effect, Evict):
            self._evicted.add(effect.uid)
            if (pod := self._shown.pods.get(effect.uid)) is not None:
                self.doubt(pod.group_key)

    def use(self, key: GroupKey | None, node: str, *, beside: bool) -> bool:
        """Record that a member of the gang is promised that node. Returns whether room was kept for it there.

        ``beside``: it fits there beside the kept room, so it need not use any. As one member less is missing, room
        on another node may end instead. The same holds where room may have been kept on that node, or not.
        """
        for book in (self.sure, self.maybe):
            for uid, claim in book.items():
                if (claim.gang, claim.node) == (key, node):
                    del book[uid]
                    if beside or book is self.maybe:
                        self.doubt(key)
                    return True
        self.doubt(key)  # one less is missing
        return False

    def break_promise(self, uid: str, claim: Claim | None) -> None:
        """A replacement has lost its node: that room may be kept, too."""
        until = self._until.get(claim.gang, 0.0) if claim is not None and claim.gang is not None else 0.0
        if claim is not None and until > self._now:
            self.maybe[uid] = Claim(claim.gang, claim.node, claim.requests, until)

    def outlasts_its_pods(self, key: GroupKey) -> bool:
        """Whether room may be kept while none of the gang is left, because its owner makes all of it again."""
        maker = self._makers.get(key)
        owner = self._shown.owners.get(maker) if maker is not None else None
        return owner is not None and not owner.ends

    def doubt(self, key: GroupKey | None) -> None:
        """Move the sure room of this gang to ``maybe``."""
        for uid in [uid for uid, claim in self.sure.items() if claim.gang == key]:
            self.maybe[uid] = self.sure.pop(uid)

    def lapse(self, now: float) -> bool:
        """Returns whether some room is free again."""
        over = [(book, uid) for book in (self.sure, self.maybe) for uid, seat in book.items() if now >= seat.until]
        for book, uid in over:
            del book[uid]
        return bool(over)

    def _is_sure(self, pod: Pod, whole: Collection[GroupKey], promised: Mapping[str, Claim]) -> bool:
        """Whether the gang certainly runs, and certainly misses this member."""
        key = pod.group_key
        sight = self._shown.sight(key) if key is not None else None
        if key is None or sight is None or key not in whole or key in self._shown.jobs or pod.uid in self._evicted:
            return False
        if pod.stamp is None or pod.phase == "Succeeded" or self._now < self._synced_at + 1.0 or not pod.node:
            return False
        if not sight.partial or not agree(sight.live) or any(fellow.group != pod.group for fellow in sight.live):
            return False
        if any(fellow.stamp is None for fellow in sight.bound) or any(claim.gang == key for claim in promised.values()):
            return False
        kept = sum(claim.gang == key for claim in (*self.sure.values(), *self.maybe.values()))
        missing = (sight.needed or 0) - sight.count(sight.bound)
        known = self._shown.groups.get(key)
        deleting = known is not None and known.deleting
        return kept < missing and not deleting

    def _doubt_node(self, node: str) -> None:
        for uid in [uid for uid, claim in self.sure.items() if claim.node == node]:
            self.maybe[uid] = self.sure.pop(uid)
