"""One pod of a workload: how far it has come, and which steps of ours are legal from there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from math import inf
from operator import attrgetter

from extender.core.workload.release import Hold
from policies.model import Pod


class MemberState(Enum):
    """What is decided about a member, or known of it. BOUND and DONE are what the API server shows."""

    WAITING = "waiting"
    """It has no node and no promise of one."""
    ASSUMED = "assumed"
    """It is promised a node; kube-scheduler has yet to ask for the Binding."""
    HELD = "held"
    """Its bind request waits for the rest of the gang."""
    BINDING = "binding"
    """Its Binding is being written."""
    UNKNOWN = "unknown"
    """Its Binding may have been written: the watch will tell. It may be held again meanwhile."""
    BOUND = "bound"
    DONE = "done"
    """It has ended, or is being deleted."""
    __hash__ = object.__hash__
    """Members are looked up by it all the time, and that of ``Enum`` is a function in Python."""


_S = MemberState
PLACED = (_S.ASSUMED, _S.HELD, _S.BINDING, _S.UNKNOWN)
"""The states in which it is promised a node."""

LEGAL: Mapping[MemberState, tuple[MemberState, ...]] = {
    _S.WAITING: (_S.ASSUMED, _S.BINDING, _S.UNKNOWN),
    _S.ASSUMED: (_S.WAITING, _S.HELD, _S.BINDING),
    _S.HELD: (_S.WAITING, _S.ASSUMED, _S.BINDING),
    _S.BINDING: (_S.WAITING, _S.ASSUMED, _S.UNKNOWN),
    _S.UNKNOWN: (_S.WAITING, _S.ASSUMED, _S.HELD, _S.BINDING),
    _S.BOUND: (),
    _S.DONE: (),
}
"""What we may decide. What the API server shows may take any state to any other."""


class IllegalTransitionError(Exception):
    """A step that the table does not have: a bug of ours. The message has the workload's story."""


class Stage(IntEnum):
    """How far a slot has come. Whoever has come further has come this far as well."""

    ABSENT = 0
    THERE = 1
    PROMISED = 2
    ARRIVED = 3
    """At bind: held, or being bound."""
    BOUND = 4
    """Or finished well, in the same start."""


_STAGES: Mapping[MemberState, Stage] = {
    _S.WAITING: Stage.THERE,
    _S.ASSUMED: Stage.PROMISED,
    _S.HELD: Stage.ARRIVED,
    _S.BINDING: Stage.ARRIVED,
    _S.UNKNOWN: Stage.PROMISED,
    _S.BOUND: Stage.BOUND,
    _S.DONE: Stage.ABSENT,
}


class Step(Enum):
    """How far kube-scheduler has been told of a member's node (``extender.core.gate.steering``)."""

    NONE = "none"
    LATER = "later"
    """Others of its gang have to be at bind first: kube-scheduler is told nothing of its node yet."""
    NOMINATING = "nominating"
    """The nomination is not known to be written."""
    WRITTEN = "written"
    """It is written, and the watch has yet to show it on the gated pod."""
    READY = "ready"
    """The gate may come off as soon as it may for every member."""
    UNGATING = "ungating"
    """The gate was asked to come off, which is not known to be written."""
    FAILED = "failed"
    """A write could not be made while others were bound: it is looked at when the release has ended."""
    LED = "led"
    """Everything is written."""
    CONFIRMING = "confirming"
    """It is bound, and was asked to say that its release is whole."""
    __hash__ = object.__hash__


facts_of = attrgetter(
    "node", "ended", "deleting", "gates", "scheduler", "priority", "created", "name", "owner", "index", "series",
    "group", "requests", "selection", "topology", "labels", "stamp", "device_claims", "claims", "queue",
    "podset_group",
)  # fmt: skip
"""What a decision about the workload can depend on; the rest of a pod is kube-scheduler's news about it."""


@dataclass(slots=True, eq=False)
class Member:
    """``node``: the one it is promised, until it is bound. ``nominated``: the nomination that was asked for last.

    ``turn``: the round in which kube-scheduler is told of its node, while that is LATER. ``clears``: whether that
    nomination is cleared once by us, which the watch has yet to show.
    ``doubt_ends``: until when its Binding may still show up as written, while it is UNKNOWN; never while one is sent.
    ``ended``: as how many-th of its podset it has finished well, 0 if it has not.
    """

    pod: Pod
    state: MemberState = MemberState.WAITING
    node: str = ""
    hold: Hold | None = None
    step: Step = Step.NONE
    nominated: str = ""
    turn: int = 0
    clears: bool = False
    doubt_ends: float = inf
    ended: int = 0
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.uid = self.pod.uid

    @property
    def placed(self) -> bool:
        return bool(self.node)

    @property
    def age(self) -> tuple[float, str]:
        """What comes first is the oldest."""
        return self.pod.created, self.uid

    @property
    def stage(self) -> Stage:
        """How far it has come by itself, whether or not it counts."""
        return _STAGES[self.state] if self.hold is None else Stage.ARRIVED
