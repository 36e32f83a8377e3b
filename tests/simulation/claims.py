"""The referee's own book of room: the promised nodes, by the core's requests and events.

A claim ends only when it certainly has: room beside all claims is really free.
"""

from __future__ import annotations

from collections.abc import Iterable

from extender.core.answers import BindingPosted, Outcome
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    Confirm,
    Effect,
    Milestone,
    Nominate,
    PostBinding,
    Reached,
    SuspendJob,
    Ungate,
)
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    Event,
    FilterCalled,
    GroupSeen,
    JobSeen,
    NodeGone,
    NodeSeen,
    OwnerSeen,
    PodGone,
    PodSeen,
    Tick,
)
from policies.model import GroupKey, Pod
from tests.simulation.admissions import Admissions
from tests.simulation.doubts import Claim, Doubts
from tests.simulation.releases import Releases
from tests.simulation.seats import Seats
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, Sight, fits, take


class Claims:
    """The claims in one life of the extender. ``hear`` gets each event first, then ``apply`` each effect of it, in
    order.

    ``grace_s``: how long the room of a lost member is kept for a half-released gang.
    ``seat_s``: how long it is kept for a running gang.
    """

    def __init__(self, shown: Shown, grace_s: float, admissions: Admissions, seat_s: float = 60.0) -> None:
        self.admissions = admissions
        self.promised: dict[str, Claim] = {}
        self.kept: dict[str, Claim] = {}
        """Lost member -> the room that is kept for its replacement."""
        self.seats = Seats(shown, seat_s)
        self.doubts = Doubts()
        self.posting: dict[str, PostBinding] = {}
        self.calls: dict[int, str] = {}
        """Open bind requests -> pod UID."""
        self.freed_at = 0.0
        """The time at which room last became free."""
        self.releases = Releases(shown, self.doubts, self.posting, self._end_release)
        self._untold: dict[GroupKey, None] = {}
        """Gangs with a plan of which not all members have been steered yet."""
        self._shown = shown
        self._grace_s = grace_s
        self._now = 0.0
        self._new: dict[str, bool] = {}
        """The pods that the last event promised a node, and whether others might have had that room."""

    def hear(self, event: Event, now: float) -> None:
        """``shown`` knows of it already."""
        self._now = now
        self._new.clear()
        self.releases.begin_event(now)
        self._lapse(event)
        self.seats.hear(event, now)
        match event:
            case BindArrived(call, uid):
                self.calls[call] = uid
            case BindDisconnected(call):
                self.calls.pop(call, None)
            case BindingPosted(uid, outcome):
                self._ended(self.posting.pop(uid), outcome)
            case PodSeen(pod):
                self._seen(pod)
                self.seats.lose(event, self.releases.whole, self.promised, self.left)
            case PodGone(uid):
                self._gone(uid)
                self.seats.lose(event, self.releases.whole, self.promised, self.left)
            case GroupSeen() | OwnerSeen():
                for key in self._shown.sized_by(event):
                    self.releases.weigh(key)
            case NodeSeen() | NodeGone():
                self.freed_at = now
            case JobSeen(job) if job.suspended:
                self._keep_no_longer(job.key)
            case _:
                pass

    def apply(self, effect: Effect, event: Event) -> None:
        self.seats.apply(effect)
        match effect:
            case Nominate(uid, node=str(node)) | Ungate(uid, pin=(node,)):
                self._promise(uid, node)
            case Nominate(uid):
                self._end(self.promised, uid)
            case AnswerFilter(_, passed) if isinstance(event, FilterCalled) and event.pod.group_key is not None:
                self._filtered(event.pod.uid, passed)
            case AnswerBind(call, error):
                self._answered(call, error, event)
            case PostBinding():
                self._posted(effect)
            case Reached(key, Milestone.PLANNED):
                self._planned(key)
            case Reached(key, Milestone.FORGOTTEN):
                self._forgotten(key)
            case Confirm(group=GroupKey() as key) if self.releases.broken(key):
                self.releases.declare(key)  # the present demand counts; it is judged at that time
            case SuspendJob(job):
                self._keep_no_longer(job.key)
            case _:
                pass

    def kept_for(self, gang: GroupKey) -> list[Claim]:
        books = (self.kept, self.seats.sure, self.seats.maybe)
        return [claim for book in books for claim in book.values() if claim.gang == gang]

    def new(self, *, free: bool = False) -> list[Claim]:
        """The promises since the last event. ``free``: without those whose room was kept for the gang before."""
        return [self.promised[uid] for uid in self.fresh if self._new[uid] or not free]

    @property
    def fresh(self) -> list[str]:
        """The pods that have been promised a node since the last event."""
        return [uid for uid in self._new if uid in self.promised]

    @property
    def undecided(self) -> dict[str, Claim]:
        """Nodes where members may be bound whose gang was planned since, and not steered completely."""
        books = self.doubts.waived | self.doubts.minded
        return {uid: claim for uid, claim in books.items() if claim.gang in self._untold and self._now < claim.until}

    def left(self, nodes: Iterable[str], but: Pod | None = None, *, again: bool = False, surely: bool = False) -> Room:
        """The room on these nodes beside what is bound, being bound and claimed. The claims of ``but`` are not
        subtracted.

        ``but``: a pod that asks about one node.
        ``again``: also leave out claims with an unknown outcome of other members of its gang, which were revoked
          with its own.
        ``surely``: leave out slots of jobs that may be stopped, because their room may be free. Leave out as well a
          promise whose room another pod has taken: it has ended, and the end of a pinned pod's promise is not
          reported.
        """
        room = {node: self._shown.free(node) for node in nodes}
        for uid, binding in self.posting.items():
            pod = self._shown.pods.get(uid)
            if binding.node in room and pod is not None and not pod.node and (but is None or uid != but.uid):
                take(room[binding.node], pod.requests)
        kept = [*self.kept.values(), *self.seats.sure.values(), *(() if surely else self.seats.maybe.values())]
        claims = [claim for claim in kept if but is None or claim.gang != but.group_key]
        waived = self.doubts.waived if but is None else {}
        promised = {
            uid: claim for uid, claim in self.promised.items() if fits(self._shown.free(claim.node), claim.requests)
        }
        for uid, claim in (waived | promised | self.doubts.minded).items():
            fellow = again and but is not None and claim.gang == but.group_key and self.doubts.get(uid) is not None
            if uid not in self.posting and (but is None or uid != but.uid) and not fellow:
                claims.append(claim)
        for claim in claims:
            if claim.node in room:
                take(room[claim.node], claim.requests)
        own = {} if but is None else {but.uid: next(iter(room))}
        self.admissions.slots.take(room, self.on_their_way | own, surely=surely)
        return room

    def short_of_room(self, node: str) -> bool:
        """Whether the node has less than is promised there, as when a pod is shown that an earlier life has bound. The
        core takes the youngest promise back first, even where an older one fits no more."""
        free = self._shown.free(node)
        ousted = any(claim.node == node and not fits(free, claim.requests) for claim in self.promised.values())
        return ousted or any(amount < 0 for amount in self.left([node])[node].values())

    @property
    def on_their_way(self) -> dict[str, str]:
        """Pods that are promised a node, or may be bound there."""
        return {uid: claim.node for uid, claim in (self.promised | self.doubts.minded | self.posting).items()}

    def _promise(self, uid: str, node: str) -> None:
        pod = self._shown.pods.get(uid)
        before = self.promised.get(uid)
        if pod is None or pod.node or (before is not None and before.node == node):
            return
        beside = fits(self.left((node,), surely=True)[node], pod.requests)
        self.promised[uid] = Claim(pod.group_key, node, pod.requests)
        if (waived := self.doubts.waived.get(uid)) is not None and waived.node != node:
            self.doubts.end(uid)
        used = [lost for lost, claim in self.kept.items() if (claim.gang, claim.node) == (pod.group_key, node)]
        self._new[uid] = not (used or self.seats.use(pod.group_key, node, beside=beside))
        for lost in used[:1]:
            del self.kept[lost]
        if (elsewhere := self.kept.pop(uid, None)) is not None:
            # It lacks no room any more: the room that was kept for it, or for another one of its gang, may be free.
            self.seats.maybe[uid] = elsewhere
            self.freed_at = self._now
        sight = None if pod.group_key is None else self._shown.sight(pod.group_key)
        if pod.group_key is not None and sight is not None:
            kept = sum(claim.gang == pod.group_key for claim in self.kept.values())
            if kept > max(0, (sight.needed or 0) - sight.count(self._with_node(sight))):
                self._doubt_kept(pod.group_key)

    def _doubt_kept(self, key: GroupKey) -> None:
        """Move all kept room of the gang to ``maybe``, because more is kept than members are missing.

        A replacement got another node, or may have. Some of the room ends, and the extender chooses which.
        """
        self.seats.doubt(key)
        for lost in [lost for lost, claim in self.kept.items() if claim.gang == key]:
            self.seats.maybe[lost] = self.kept.pop(lost)
            self.freed_at = self._now

    def _filtered(self, uid: str, passed: tuple[str, ...]) -> None:
        if len(passed) == 1:
            self._promise(uid, passed[0])
        elif not passed and self.doubts.waive(uid):
            # kube-scheduler tries the pod again, and excludes the node where it may have been bound.
            self.freed_at = self._now

    def _answered(self, call: int, error: str, event: Event) -> None:
        uid = self.calls.pop(call, "")
        # A newer request of the same pod may have replaced it, and a Binding that has ended was handled already. At a
        # deadline the promise ends if its gang is reported as forgotten: otherwise its bind may come again.
        if error and not isinstance(event, BindArrived | BindingPosted | Tick):
            self._end(self.promised, uid)

    def _posted(self, binding: PostBinding) -> None:
        self.posting[binding.uid] = binding
        self._end_doubt(binding.uid)
        self.releases.post(binding)
        self.admissions.post(binding)

    def _planned(self, key: GroupKey) -> None:
        """End kept room that others have taken: no replacement can have it any more.

        Other room that is kept on that node stays kept, if the others leave enough for it.
        """
        sight = self._shown.sight(key)
        if sight is not None and any(pod.uid not in self.promised for pod in sight.waiting):
            self._untold[key] = None
            self._doubt_kept(key)
        for book in (self.kept, self.seats.maybe):
            for uid, claim in list(book.items()):
                if claim.gang == key and claim.node in self._shown.nodes:
                    left = self.left((claim.node,), surely=book is self.kept)[claim.node]
                    if any(left.get(name, 0) < 0 for name, amount in claim.requests if amount):
                        self._end(book, uid)

    def _forgotten(self, key: GroupKey) -> None:
        self.releases.forget(key)
        for uid in [uid for uid, claim in self.promised.items() if claim.gang == key]:
            if uid not in self.posting and uid not in self.doubts.minded:
                self.seats.break_promise(uid, self.promised[uid])
                self._end(self.promised, uid)
        self.doubts.forget(key, self._now)
        self.releases.end(key)
        self.admissions.slots.drop_waiting(key, self.on_their_way)
        if key in self._untold:
            # The kept room may have been promised to the members that were to be steered later. A gang that has run
            # may keep the room of a lost promise.
            del self._untold[key]
            has_run = key in self.releases.whole or self.seats.outlasts_its_pods(key)
            self._keep_no_longer(key, *((self.kept,) if has_run else ()))

    def _seen(self, pod: Pod) -> None:
        key = pod.group_key
        claim = self.promised.get(pod.uid)
        if pod.node:
            self._settle(pod.uid)
            self.releases.weigh(key)
        if not pod.live:
            self._lose(pod.uid, key)
        elif claim is not None and claim.gang != key:
            self._end(self.promised, pod.uid)
        if pod.terminal:
            self.freed_at = self._now

    def _gone(self, uid: str) -> None:
        if uid in self.posting:  # the core learns with the end of its Binding that it is lost, when its room is free
            self._end(self.promised, uid)
        self._lose(uid)
        self.freed_at = self._now

    def _ended(self, binding: PostBinding, outcome: Outcome) -> None:
        uid = binding.uid
        pod = self._shown.pods.get(uid)
        if outcome is Outcome.DONE:
            self._shown.bound(binding)
            self._settle(uid)
            self.releases.weigh(binding.group)
        elif outcome is Outcome.REFUSED or pod is None or not pod.live:
            self._lose(uid, binding.group)
            self.freed_at = self._now
        elif not pod.node:
            self.doubts.begin(uid, Claim(pod.group_key, binding.node, pod.requests), self._now)
            # No pod needs to avoid the room of one that was moved to another gang meanwhile.
            self.releases.doubt(binding) if binding.group == pod.group_key else self.doubts.waive(uid)

    def _lose(self, uid: str, gang: GroupKey | None = None) -> None:
        """Record that a member lost its node, or is lost: part of its gang may be bound.

        ``gang``: None if it is unknown.
        """
        claim = self.promised.get(uid)
        self._end(self.promised, uid)
        self._end_doubt(uid)
        self.seats.break_promise(uid, claim)
        self.releases.lose(uid, gang)
        if claim is None or claim.gang is None or uid in self.kept:
            return
        # Slots of jobs keep their nodes anyway.
        of_job = claim.gang in self.admissions.slots.of or self.admissions.stops(claim.gang)
        if not of_job and self.releases.keeps_room(claim.gang):
            book = self.kept if self._is_missed(claim.gang) else self.seats.maybe
            book[uid] = Claim(claim.gang, claim.node, claim.requests, self._now + self._grace_s)

    def _is_missed(self, key: GroupKey) -> bool:
        """Whether too few have a node, or room that is kept: none is kept for others."""
        sight = self._shown.sight(key)
        if sight is None:
            return False
        kept = sum(claim.gang == key for claim in self.kept.values())
        return sight.count(self._with_node(sight)) + kept < (sight.needed or 0)

    def _with_node(self, sight: Sight) -> list[Pod]:
        """Return the members that are on a node, or are promised one."""
        waiting = (pod for pod in sight.waiting if pod.uid in self.promised or pod.uid in self.posting)
        return [*sight.bound, *waiting]

    def _settle(self, uid: str) -> None:
        """Record a bound pod: its promise is kept, and its outcome is known."""
        self.promised.pop(uid, None)
        self.doubts.end(uid)

    def _end_doubt(self, uid: str) -> None:
        if self.doubts.end(uid):
            self.freed_at = self._now

    def _lapse(self, event: Event) -> None:
        """End what has lasted for long enough. The extender ends its doubts in a ``Tick``.

        When it has stood still, the events of that time come before that.
        """
        for uid in [uid for uid, claim in self.kept.items() if self._now >= claim.until]:
            self._end(self.kept, uid)
        if self.seats.lapse(self._now):
            self.freed_at = self._now
        for uid, claim in self.doubts.lapse(self._now) if isinstance(event, Tick) else ():
            if claim.gang is None:
                self.freed_at = self._now
            else:
                self.promised.setdefault(uid, claim)
                self.releases.end(claim.gang)

    def _end_release(self, key: GroupKey) -> None:
        """Record that the gang is whole, or that none of it is bound.

        A whole gang that lacks a member may have its room kept, and so may one that its owner makes again.
        """
        sight = self._shown.sight(key)
        may_be_kept = sight.partial if sight is not None and sight.bound else self.seats.outlasts_its_pods(key)
        self._keep_no_longer(key, *((self.kept,) if may_be_kept else (self.kept, self.seats.maybe)))

    def _keep_no_longer(self, key: GroupKey, *books: dict[str, Claim]) -> None:
        """End the kept room of the gang. ``books``: only in these books, if given."""
        for book in books or (self.kept, self.seats.maybe):
            for uid in [uid for uid, claim in book.items() if claim.gang == key]:
                self._end(book, uid)

    def _end(self, book: dict[str, Claim], uid: str) -> None:
        if book.pop(uid, None) is not None:
            self.freed_at = self._now
