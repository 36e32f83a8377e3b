"""Answers: the events that report the outcome of an effect (``extender.core.effects``)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from extender.core.effects import Confirm, Deallocate, Hint, Nominate, Wake
from policies.model import GroupKey, Job, Pod, Reservation


class Outcome(Enum):
    """How a write to the API server ended."""

    DONE = auto()
    REFUSED = auto()
    """The API server refused the write, or the call was given up before it was sent: nothing was written."""
    UNKNOWN = auto()
    """The write may have been carried out: the watch shows it then."""
    UNSENT = auto()
    """The API server did not answer the read of a job before the write, so nothing was written."""


@dataclass(frozen=True, slots=True)
class BindingPosted:
    """A Binding asked for by ``PostBinding`` has ended; ``detail`` says why it failed."""

    uid: str
    outcome: Outcome
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Nominated:
    """A nomination has ended; ``detail`` says why it could not be written, retries included."""

    uid: str
    node: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Ungated:
    """The gate of a member was removed; ``detail`` says why it could not be, retries included."""

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
    """``Reserve`` has ended; ``detail`` says why it could not be carried out, retries included."""

    key: GroupKey
    pod: Pod | None
    job: Job | None
    reservation: Reservation | None
    detail: str = ""
    backfill: bool = False


@dataclass(frozen=True, slots=True)
class Enqueued:
    """``Enqueue`` has ended; ``detail`` says why it could not be carried out, retries included."""

    key: GroupKey
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Deallocated:
    """``Deallocate`` has ended; ``detail`` says why it could not be carried out, retries included."""

    effect: Deallocate
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A write that nothing waits for could not be carried out, retries included."""

    effect: Wake | Confirm | Hint | Nominate


@dataclass(frozen=True, slots=True)
class ReportFailed:
    """The newest ``Report`` of a gang could not be written."""

    key: GroupKey


@dataclass(frozen=True, slots=True)
class CapacityAnswered:
    """The outcome of a request for nodes. ``attempt``: which request of the job; ``detail``: why there are no nodes."""

    key: GroupKey
    attempt: int
    granted: bool
    detail: str = ""


class Verdict(Enum):
    """The answer of the API server to the dry-run creation of a pod."""

    PASSED = auto()
    REFUSED = auto()
    """The API server refuses every pod of that shape, as far as is known."""
    NOT_NOW = auto()
    """A ResourceQuota has no room for it, or an admission webhook does not answer: that may change at any moment."""
    UNANSWERED = auto()
    """No answer came, or none that concerns the pod."""
    UNAVAILABLE = auto()
    """No pod can be tried: the component pod-trials is not installed correctly."""


@dataclass(frozen=True, slots=True)
class PodTried:
    """``TryPod`` has ended. ``pod``: the pod that the API server would create; ``detail``: why it would create none."""

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
    | ReportFailed
    | CapacityAnswered
    | PodTried
)
"""The outcome of something that the core has asked for."""
