"""Answers: the events that report how an effect (``extender.core.effects``) has ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from extender.core.effects import Confirm, Deallocate, Hint, Nominate, Wake
from policies.model import GroupKey, Job, Pod, Reservation


class Outcome(Enum):
    """How a write to the API server ended."""

    DONE = auto()
    REFUSED = auto()
    """The API server said no, or the call was given up before anything was sent: nothing was written."""
    UNKNOWN = auto()
    """It may have been written: the watch will tell."""
    UNSENT = auto()
    """Of a job: the API server did not answer when it was to be read first, so nothing was written."""


@dataclass(frozen=True, slots=True)
class BindingPosted:
    """A Binding asked for by ``PostBinding`` has ended; ``detail`` says why it failed."""

    uid: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Nominated:
    """A nomination has ended; ``detail`` says why it could not be written although it was retried."""

    uid: str
    node: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ungated:
    """A member's gate is off, or it could not be taken off although it was retried: then ``detail`` says why."""

    uid: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class JobWritten:
    """A write to a job has ended: ``StartJob``, ``SuspendJob`` or ``CleanJob``; ``detail`` says why it failed."""

    key: GroupKey
    uid: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Reserved:
    """``Reserve`` has ended; ``detail`` says why it could not be carried out although it was retried."""

    key: GroupKey
    pod: Pod | None
    job: Job | None
    reservation: Reservation | None
    detail: str = ""
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class Enqueued:
    """``Enqueue`` has ended; ``detail`` says why it could not be carried out although it was retried."""

    key: GroupKey
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Deallocated:
    """``Deallocate`` has ended; ``detail`` says why it could not be carried out although it was retried."""

    effect: Deallocate
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A write that nothing waits for could not be carried out although it was retried."""

    effect: Wake | Confirm | Hint | Nominate


@dataclass(frozen=True, slots=True)
class Untold:
    """The newest ``Report`` of a gang could not be written."""

    key: GroupKey


@dataclass(frozen=True, slots=True)
class CapacityAnswered:
    """What has become of the nodes that were asked for, in that attempt; ``detail`` says why there are none."""

    key: GroupKey
    attempt: int
    granted: bool
    detail: str = ""


class Verdict(Enum):
    """Answer of the API server to the dry-run creation of a pod."""

    PASSED = auto()
    REFUSED = auto()
    """The API server refuses every pod of that shape, as far as is known."""
    NOT_NOW = auto()
    """A ResourceQuota has no room for it, or an admission webhook does not answer: that may pass at any moment."""
    UNANSWERED = auto()
    """No answer came that says anything of the pod."""
    UNAVAILABLE = auto()
    """No pod may be tried: the component pod-trials is not installed as it should be."""


@dataclass(frozen=True, slots=True)
class PodTried:
    """``TryPod`` has ended. ``pod``: what the API server would have made; ``detail``: why it would make none."""

    key: GroupKey
    shape: str
    verdict: Verdict
    pod: Pod | None = None
    detail: str = ""


Answer = (
    BindingPosted
    | Nominated
    | Ungated
    | JobWritten
    | Reserved
    | Enqueued
    | Deallocated
    | Unwritten
    | Untold
    | CapacityAnswered
    | PodTried
)
"""How something that the core has asked for ended."""
