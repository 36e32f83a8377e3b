"""One gang: its members, what is promised to them, who is held, and how a quorum is counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from policies.model import GroupKey, Pod, PodGroup, Requests


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the gang is where it is: a CamelCase code that is stable, and a sentence with the current numbers."""

    code: str
    message: str
    warning: bool = True


@dataclass(frozen=True, slots=True)
class Hold:
    """A bind request that waits for the rest of the gang."""

    call: int
    node: str
    arrived: float
    expires: float


@dataclass(frozen=True, slots=True)
class Kept:
    """Room that a half-released gang keeps for the replacement of a lost member."""

    node: str
    requests: Requests
    until: float


@dataclass(slots=True)
class Gang:
    """A gang and everything that the core remembers of it. Only the watch and the gate change it."""

    key: GroupKey
    group: PodGroup | None = None
    members: dict[str, Pod] = field(default_factory=dict)
    placement: dict[str, str] = field(default_factory=dict)
    """Assumed room of unbound members: pod UID -> node."""
    nominated: dict[str, str] = field(default_factory=dict)
    unconfirmed: dict[str, str] = field(default_factory=dict)
    """Nominations asked for and not known to be written yet: pod UID -> node."""
    ungating: dict[str, None] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    posting: dict[str, str] = field(default_factory=dict)
    """Bindings under way: pod UID -> node."""
    doubtful: dict[str, None] = field(default_factory=dict)
    """Members whose Binding may have been written: their room stays promised until the watch tells."""
    release: str = ""
    """The name of its release: the UID of one of the first members bound, which no other release can have."""
    final: str | None = None
    """The held member whose Binding is posted after all others of its release, and says that it is whole."""
    kept: dict[str, Kept] = field(default_factory=dict)
    complete: bool = False
    """It has been whole once: a replacement needs no new quorum."""
    partial_since: float | None = None
    plan_deadline: float = 0.0
    not_before: float = 0.0
    failures: int = 0
    refused: dict[str, float] = field(default_factory=dict)
    """Nodes that kube-scheduler refused for a member -> the instant from which they may be tried again."""
    refusals: int = 0
    kept_out: dict[str, None] = field(default_factory=dict)
    """Singles that were refused for the sake of this gang's assumed room."""
    reason: Reason = Reason("New", "the gang has just been seen", warning=False)
    reason_since: float = 0.0
    reported: tuple[str, float] = ("", 0.0)
    """The code and the instant of the last report."""
    story: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=32))

    @property
    def live(self) -> list[Pod]:
        return [pod for pod in self.members.values() if pod.live and self._is_ours(pod)]

    @property
    def bound(self) -> list[Pod]:
        return [pod for pod in self.live if pod.node]

    @property
    def min_member(self) -> int | None:
        """From the PodGroup, else from the members; None while nobody says it or they disagree."""
        if self.group is not None:
            return self.group.min_member
        stated = {pod.group.min_member: None for pod in self.live if pod.group is not None}
        return next(iter(stated)) if len(stated) == 1 else None

    @property
    def priority(self) -> int:
        return max((pod.priority for pod in self.live), default=0)

    @property
    def created(self) -> float:
        if self.group is not None:
            return self.group.created
        return min((pod.created for pod in self.live), default=0.0)

    @property
    def uid(self) -> str:
        """What Bindings are stamped with: the PodGroup's UID, else that of the controller of its first member."""
        if self.group is not None:
            return self.group.uid
        first = min(self.live, key=lambda pod: (pod.created, pod.uid), default=None)
        return "" if first is None else first.owner or first.uid

    @property
    def releasing(self) -> bool:
        return bool(self.posting) or self.final is not None

    @property
    def whole(self) -> bool:
        """Enough members are bound (or have finished) by now."""
        needed = self.min_member
        return needed is not None and len(self.present(self.bound)) >= needed

    def unplaced(self) -> list[Pod]:
        """Live members that have neither a node nor the promise of one, in rank order, one per completion index."""
        taken = self.secured()
        chosen: list[Pod] = []
        for pod in sorted(self.live, key=lambda pod: pod.rank):
            if pod.node or pod.uid in self.placement or pod.uid in self.posting or pod.identity in taken:
                continue
            taken.add(pod.identity)
            chosen.append(pod)
        return chosen

    def secured(self) -> set[tuple[str, int] | str]:
        """Identities that have a node or the promise of one."""
        return self.present(
            pod for pod in self.live if pod.node or pod.uid in self.placement or pod.uid in self.posting
        )

    def quorum(self) -> set[tuple[str, int] | str]:
        """Identities that are bound, held, or being bound: the gang is released when they are minMember."""
        return self.present(pod for pod in self.live if pod.node or pod.uid in self.holds or pod.uid in self.posting)

    def present(self, pods: Iterable[Pod]) -> set[tuple[str, int] | str]:
        """Identities of these pods and of the members that finished well in the same life of the gang."""
        return {pod.identity for pod in pods} | {pod.identity for pod in self._finished()}

    def note(self, now: float, text: str) -> None:
        self.story.append((now, text))

    def _finished(self) -> list[Pod]:
        """Succeeded members of a release that is still this gang's: same PodGroup, same controller, or same release."""
        done = [pod for pod in self.members.values() if pod.phase == "Succeeded" and pod.stamp is not None]
        if not done:
            return []
        live = self.live
        owners = {pod.owner for pod in live if pod.owner}
        releases = {pod.stamp.release for pod in live if pod.stamp is not None}
        return [
            pod
            for pod in done
            if pod.stamp is not None
            and self._is_ours(pod)
            and (self.group is not None or pod.owner in owners or pod.stamp.release in releases)
        ]

    def _is_ours(self, pod: Pod) -> bool:
        """A PodGroup made anew under the same name is another gang: pods stamped by the old one do not count."""
        return self.group is None or pod.stamp is None or pod.stamp.gang == self.group.uid
