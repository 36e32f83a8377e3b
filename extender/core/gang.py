"""One gang: its members, what is promised to them, who is held, and what the core remembers of its life."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, ValuesView
from dataclasses import dataclass, field, replace

from extender.core.holds import Hold, Holds
from extender.core.reasons import NEW, NOTHING, Reason, Told
from extender.core.roster import Roster, Stage
from extender.core.shape import Shape
from policies.model import GroupKey, Placement, Pod, PodGroup, Requests, Topology
from policies.placement.request import Sibling


@dataclass(frozen=True, slots=True)
class Kept:
    """Room that a half-released gang keeps for the replacement of a lost member."""

    node: str
    requests: Requests
    until: float


def kept_for(uid: str) -> str:
    """Under which name the ledger charges the room that is kept for the replacement of that member."""
    return f"kept:{uid}"


@dataclass(frozen=True, slots=True)
class Demand:
    """What the gang asks of the planner: nodes for ``members``, without a ``shape`` nothing.

    ``trouble`` is what keeps it from being planned at all.
    """

    trouble: Reason | None = None
    members: tuple[str, ...] = ()
    shape: Shape | None = None


@dataclass(slots=True)
class Gang:
    """A gang and everything that the core remembers of it. What is counted changes only by methods."""

    key: GroupKey
    group: PodGroup | None = None
    former: str = ""
    """The UID of the PodGroup that it had last, when that is gone."""
    roster: Roster = field(default_factory=Roster)
    nominated: dict[str, str] = field(default_factory=dict)
    unconfirmed: dict[str, str] = field(default_factory=dict)
    """Nominations asked for and not known to be written yet: pod UID -> node."""
    unshown: dict[str, None] = field(default_factory=dict)
    """Gated members whose nomination is written, and that the watch has yet to show so."""
    ungating: dict[str, bool] = field(default_factory=dict)
    """Members whose gate was asked to come off -> whether that is known to be written."""
    unled: dict[str, str] = field(default_factory=dict)
    """Members that kube-scheduler could not be told of while it was being released -> why: looked at afterwards."""
    confirming: dict[str, None] = field(default_factory=dict)
    """Bound members on which it was asked to be written that their release is whole."""
    promising: bool = False
    """Its members are being promised their nodes, some at a time: no gate comes off before all of them are."""
    doubtful: dict[str, None] = field(default_factory=dict)
    """Members whose Binding may have been written: their room stays promised until the watch tells."""
    release: str = ""
    """The name of its release: the UID of the member that was to be bound last, which no other release can have."""
    released_at: float | None = None
    """The instant at which that release began."""
    final: str | None = None
    """The held member whose Binding is posted after all others of its release, and says that it is whole."""
    kept: dict[str, Kept] = field(default_factory=dict)
    complete: bool = False
    """It has been whole once: a replacement needs no new quorum."""
    partial_since: float | None = None
    unsettled: dict[str, None] = field(default_factory=dict)
    """Nodes that changed while it was being released or in doubt: its promises there are looked at again afterwards."""
    demand: Demand | None = None
    """None when something has changed since the planner last worked it out."""
    plan_deadline: float = 0.0
    hold_timer: float = 0.0
    """The instant of the timer that watches what is held; 0 while none does."""
    plan_timer: float = 0.0
    """The same for its placement."""
    sweep_timer: float = 0.0
    """The same for nominations that are to be cleared, and may not be."""
    not_before: float = 0.0
    failures: int = 0
    refused: dict[str, float] = field(default_factory=dict)
    """Nodes that kube-scheduler refused for a member -> the instant from which they may be tried again."""
    refusals: int = 0
    """In a row, until it starts."""
    words: str = ""
    """What kube-scheduler said of them last."""
    seen_at: float | None = None
    """The instant at which the first member of a gang that is yet to start was seen."""
    reason: Reason = NEW
    surplus: Reason | None = None
    """Why members beyond the quorum of a running gang wait, as found last."""
    reason_since: float = 0.0
    told: Told = NOTHING
    tell_timer: float = 0.0
    """The instant of the timer that reports the reason; 0 when there was none."""
    story: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=32))
    advised: Placement = field(default_factory=dict)
    """Nodes that were found for members in advisory mode; nobody has been promised them."""
    _placement: dict[str, str] = field(default_factory=dict)
    _posting: dict[str, str] = field(default_factory=dict)
    _holds: Holds = field(default_factory=Holds)

    @property
    def members(self) -> Mapping[str, Pod]:
        return self.roster.members

    @property
    def live(self) -> ValuesView[Pod]:
        return self.roster.live.values()

    @property
    def bound(self) -> ValuesView[Pod]:
        return self.roster.bound.values()

    @property
    def placement(self) -> Mapping[str, str]:
        """Assumed room of unbound members: pod UID -> node."""
        return self._placement

    @property
    def posting(self) -> Mapping[str, str]:
        """Bindings under way: pod UID -> node."""
        return self._posting

    @property
    def seats(self) -> list[str]:
        """The nodes where its members are, or are planned to go."""
        advised = {uid: node for uid, node in self.advised.items() if uid in self.roster.live}
        bound = {pod.uid: pod.node for pod in self.bound if pod.node}
        return list((advised | self._placement | bound).values())

    @property
    def siblings(self) -> list[Sibling]:
        """The members that have a node or the promise of one, with what they ask for."""
        placed = [
            (self.asking(self.members[uid]), node) for uid, node in self._placement.items() if uid in self.members
        ]
        return placed + [(self.asking(pod), pod.node) for pod in self.bound if pod.node]

    @property
    def lacking(self) -> int:
        """How many members have to be placed at once. What a gang that has its quorum lacks is placed one by one."""
        return 1 if self.complete else max(1, (self.min_member or 0) - self.reached(Stage.PROMISED))

    @property
    def holds(self) -> Holds:
        """To be read; ``hold`` and ``let_go`` change it."""
        return self._holds

    @property
    def min_member(self) -> int | None:
        """From the PodGroup, else from the members; None while nobody says it or they disagree."""
        if self.group is not None:
            return self.group.min_member
        return self.roster.size

    @property
    def priority(self) -> int:
        return max(self.roster.said.priorities, default=0)

    @property
    def created(self) -> float:
        if self.group is not None:
            return self.group.created
        return self.roster.first.created if self.roster.first is not None else 0.0

    @property
    def uid(self) -> str:
        """What Bindings are stamped with: the PodGroup's UID, else that of the controller of its first member."""
        if self.group is not None:
            return self.group.uid
        first = self.roster.first
        return "" if first is None else first.owner or first.uid

    @property
    def carrying_out(self) -> bool:
        """Something that kube-scheduler needs before it can take the placement up is still to be written."""
        return bool(self.unconfirmed) or not all(self.ungating.values())

    @property
    def releasing(self) -> bool:
        return bool(self._posting) or self.final is not None

    @property
    def whole(self) -> bool:
        """Enough members are bound (or have finished) by now."""
        needed = self.min_member
        return needed is not None and self.reached(Stage.BOUND) >= needed

    @property
    def seated(self) -> bool:
        """Enough members have a node or the promise of one: for the others there may be no room, it does not wait."""
        needed = self.min_member
        return needed is not None and self.reached(Stage.PROMISED) >= needed

    def reached(self, stage: Stage) -> int:
        """How many of its identities have come at least so far; members that finished well count."""
        return self.roster.reached(stage)

    def asking(self, pod: Pod) -> Pod:
        """The member, with what the PodGroup asks of the topology where it says nothing itself."""
        if self.group is None or self.group.topology == Topology():
            return pod
        return replace(pod, topology=pod.topology.over(self.group.topology))

    def enrol(self, pod: Pod) -> None:
        """A member is new, or has changed."""
        if self.roster.put(pod):
            self.demand = None
        self._advance(pod.uid)

    def dismiss(self, uid: str) -> None:
        """A member is gone. A Binding of it that is under way stays so."""
        self.roster.drop(uid)
        self.demand = None
        for index in (self.nominated, self.unconfirmed, self.unshown, self.ungating, self.confirming):
            index.pop(uid, None)

    def follow(self, group: PodGroup | None) -> None:
        """Take over its PodGroup's facts; None when it is gone."""
        self.group = group
        self.roster.follow(group)
        self.demand = None

    def promise(self, uid: str, node: str) -> None:
        self._placement[uid] = node
        self._advance(uid)

    def unpromise(self, uid: str) -> str | None:
        node = self._placement.pop(uid, None)
        self.unled.pop(uid, None)
        self._advance(uid)
        return node

    def hold(self, uid: str, hold: Hold) -> None:
        self._holds.put(uid, hold)
        self._advance(uid)

    def let_go(self, uid: str) -> Hold | None:
        hold = self._holds.pop(uid)
        self._advance(uid)
        return hold

    def start_binding(self, uid: str, node: str) -> None:
        self._posting[uid] = node
        self._advance(uid)

    def end_binding(self, uid: str) -> None:
        self._posting.pop(uid, None)
        self._advance(uid)

    def refuse(self, node: str, until: float) -> None:
        self.refused[node] = until
        self.demand = None

    def forgive(self, node: str) -> None:
        """The node may be tried again."""
        if self.refused.pop(node, None) is not None:
            self.demand = None

    def note(self, now: float, text: str) -> None:
        self.story.append((now, text))

    def _advance(self, uid: str) -> None:
        if uid in self._holds or uid in self._posting:
            stage = Stage.ARRIVED
        else:
            stage = Stage.PROMISED if uid in self._placement else Stage.THERE
        if self.roster.advance(uid, stage):
            self.demand = None
