"""The status of a workload: one explicit value, the table of legal steps between values, and each step by name.

Muster decides four steps, and each act records its own step:

    PENDING --plan--> PLANNED --start--> STARTING --hold--> HOLDING --release--> RELEASING
                         |                                     ^                     ^
                         +----------------hold-----------------+                  release
                                                                                  PARTIAL

A gang without a job needs no start. A pod that is moved to a gang while its Binding is being written makes the gang
PLANNED, even one that has ENDED. All other steps are found when the workload is settled. They follow from what the
API server shows, or from promises and held binds that were revoked since.

    complete    any status      ->  RUNNING
    break_off   any status      ->  PARTIAL
    stop        any status      ->  STOPPING
    end         any status      ->  ENDED
    fall_back   a later status  ->  PENDING, PLANNED, STARTING or HOLDING
    adopt       PENDING, ENDED  ->  STARTING: Muster before a restart, or another client, has started the job
    come_again  ENDED           ->  PENDING

The status is a shadow: no decision rests on it yet. ``Workload.status_by_facts`` computes the status from the members,
the release and the job, and both are equal between two events.

``ReasonState`` has the one current cause of a workload. It says when a report is due: once the cause has lasted, and
more rarely each time only its numbers change.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import inf

from extender.core.causes import PASSING, Cause, New, is_quiet
from extender.core.instants import pause_s
from extender.core.workload.members import IllegalTransitionError
from policies.model import PodGroup

_REMEMBERED = 16
"""Steps that a record keeps, for people who ask for the history."""


class Status(StrEnum):
    """The status of a workload, in the order of a life. Names and values are public: docs/waiting.md."""

    PENDING = "PENDING"
    """The workload waits: for members, quota, nodes, its turn, or its author."""
    PLANNED = "PLANNED"
    """Members are promised their nodes, and no member has reached bind."""
    STARTING = "STARTING"
    """The job was started, and its pods, or nodes for them, do not exist yet."""
    HOLDING = "HOLDING"
    """Bind requests of members are held until enough members have arrived."""
    RELEASING = "RELEASING"
    """The Bindings of the start are being written."""
    PARTIAL = "PARTIAL"
    """Members are on nodes, but fewer than have to run together: the start broke off, or members were lost."""
    RUNNING = "RUNNING"
    """Enough members to run together are on nodes, or have finished."""
    STOPPING = "STOPPING"
    """The job is being suspended, or all pods are being deleted, and some are still there."""
    ENDED = "ENDED"
    """No member waits or runs any more."""


_S = Status
_EVERY = tuple(Status)
_BEFORE_RELEASE = (_S.PENDING, _S.PLANNED, _S.STARTING, _S.HOLDING)

LEGAL: Mapping[str, Mapping[Status, tuple[Status, ...]]] = {
    "plan": {_S.PLANNED: (_S.PENDING, _S.ENDED)},
    "start": {_S.STARTING: (_S.PENDING, _S.PLANNED)},
    "hold": {_S.HOLDING: (_S.PLANNED, _S.STARTING)},
    "release": {_S.RELEASING: (_S.HOLDING, _S.PARTIAL)},
    "complete": {_S.RUNNING: _EVERY},
    "break_off": {_S.PARTIAL: _EVERY},
    "stop": {_S.STOPPING: _EVERY},
    "end": {_S.ENDED: _EVERY},
    "fall_back": {to: _EVERY[at + 1 : -1] for at, to in enumerate(_BEFORE_RELEASE)},
    "adopt": {_S.STARTING: (_S.PENDING, _S.ENDED)},
    "come_again": {_S.PENDING: (_S.ENDED,)},
}
"""The status that each step leads to, by the name of the step, and from which statuses."""


@dataclass(slots=True)
class StatusRecord:
    """The status of one workload, and its last steps.

    ``since``: the instant of the last step.
    ``steps``: the last steps, with their instants. The first status counts as a step.
    ``unrecorded``: the last status that was found although no act had recorded it; empty unless Muster has a bug.
    """

    value: Status = Status.PENDING
    since: float = 0.0
    steps: deque[tuple[float, Status]] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    unrecorded: str = ""

    # Steps that Muster decides. A step of one member changes nothing in a workload that is further along.

    def plan(self, now: float) -> None:
        """Record that members, or slots of a job, were promised nodes."""
        if self.value in (Status.PENDING, Status.ENDED):
            self._step("plan", Status.PLANNED, now)

    def start(self, now: float) -> None:
        """Record that the job is being started."""
        if self.value in (Status.PENDING, Status.PLANNED, Status.ENDED):
            self._step("start", Status.STARTING, now)

    def hold(self, now: float) -> None:
        """Record that a bind request of a member is held."""
        if self.value in (Status.PENDING, Status.PLANNED, Status.STARTING, Status.ENDED):
            self._step("hold", Status.HOLDING, now)

    def release(self, now: float) -> None:
        """Record that the workload's Bindings are being posted."""
        if self.value not in (Status.RELEASING, Status.RUNNING, Status.STOPPING):
            self._step("release", Status.RELEASING, now)

    # Steps that follow from facts.

    def complete(self, now: float) -> None:
        """Record that enough members are on nodes."""
        self._step("complete", Status.RUNNING, now)

    def break_off(self, now: float) -> None:
        """Record that some members are on nodes, but too few."""
        self._step("break_off", Status.PARTIAL, now)

    def stop(self, now: float) -> None:
        """Record that the pods are being deleted, or are about to be."""
        self._step("stop", Status.STOPPING, now)

    def end(self, now: float) -> None:
        """Record that no member waits or runs."""
        self._step("end", Status.ENDED, now)

    def fall_back(self, to: Status, now: float) -> None:
        """Record that promises or held binds were revoked, or that the pods have left their nodes."""
        self._step("fall_back", to, now)

    def adopt(self, now: float) -> None:
        """Record that the job was found started."""
        self._step("adopt", Status.STARTING, now)

    def come_again(self, now: float) -> None:
        """Record that members have appeared after the workload had ended."""
        self._step("come_again", Status.PENDING, now)

    def follow(self, status: Status, now: float) -> None:
        """Change to the status that the facts show. Called at the end of ``settle``, when every act has been recorded.

        A status that only an act leads to, and that no act has recorded, is entered too and remembered as unrecorded.
        """
        if status is self.value:
            if not self.steps:
                self._enter(status, now)
            return
        match status:
            case Status.RUNNING:
                self.complete(now)
            case Status.PARTIAL:
                self.break_off(now)
            case Status.STOPPING:
                self.stop(now)
            case Status.ENDED:
                self.end(now)
            case Status.STARTING if self.value in LEGAL["adopt"][status]:
                self.adopt(now)
            case Status.PENDING if self.value is Status.ENDED:
                self.come_again(now)
            case _ if self.value in LEGAL["fall_back"].get(status, ()):
                self.fall_back(status, now)
            case _:
                self.unrecorded = f"no act has led its status from {self.value} to {status}, at {now:.3f}"
                self._enter(status, now)

    def drift(self, facts: Status) -> str:
        """A text that says how the record differs from the facts; empty while they agree."""
        return f"its status is recorded as {self.value}, and is {facts}" if self.value is not facts else self.unrecorded

    def _step(self, name: str, to: Status, now: float) -> None:
        if self.value not in LEGAL[name].get(to, ()):
            raise IllegalTransitionError(f"a workload cannot {name} from {self.value} to {to}")
        self._enter(to, now)

    def _enter(self, to: Status, now: float) -> None:
        self.value, self.since = to, now
        self.steps.append((now, to))


_AGAIN_S, _AGAIN_MAX_S = 60.0, 900.0


@dataclass(frozen=True, slots=True)
class LastReport:
    """The cause of the last report, and how many reports of its kind came in a row. ``failed``: the write failed."""

    cause: Cause | None
    at: float
    times: int
    failed: bool = False

    def following(self, cause: Cause, now: float) -> LastReport:
        return LastReport(cause, now, self.times + 1 if type(cause) is type(self.cause) else 1)


NO_REPORT = LastReport(None, 0.0, 0)


@dataclass(slots=True)
class ReasonState:
    """The one current cause of a workload, the last report of it, and the history of the workload.

    ``since``: the instant from which a cause of this kind has held.
    ``surplus``: why members beyond the quorum of a running gang wait, as found last.
    ``last_report``: the last report.
    ``story``: the last turns of the workload's life, with their instants: a cause, or a text about an event.
    """

    cause: Cause = field(default_factory=New)
    since: float = 0.0
    surplus: Cause | None = None
    last_report: LastReport = NO_REPORT
    story: deque[tuple[float, str | Cause]] = field(default_factory=lambda: deque(maxlen=32))
    ends_with_cause: bool = False
    """Whether the last turn of the story is the present cause."""

    def note(self, now: float, text: str) -> None:
        self.story.append((now, text))
        self.ends_with_cause = False

    def explain(self, cause: Cause, now: float, *, noted: bool = False) -> bool:
        """Make this the cause. Returns whether it differs from the one before. ``noted``: the story has it already."""
        if cause == self.cause:
            return False
        renewed = type(cause) is type(self.cause)
        if renewed and self.ends_with_cause:
            # The same cause with other numbers: the story keeps only the present numbers.
            self.story[-1] = self.story[-1][0], cause
        elif not renewed:
            self.since = now
            if not noted:
                self.story.append((now, cause))
                self.ends_with_cause = True
        self.cause = cause
        return True

    def explain_surplus(self, cause: Cause | None) -> None:
        self.surplus = cause

    def reported(self, now: float) -> None:
        """Record that the cause was reported, or need not be because its readers know it."""
        self.last_report = self.last_report.following(self.cause, now)

    def follow(self, before: PodGroup | None, group: PodGroup | None) -> None:
        """Forget the reports if the workload has another PodGroup, or its PodGroup was pending until now.

        ``before``: its PodGroup until now. In both cases the present PodGroup carries no report.
        """
        if group is not None and (before is None or before.uid != group.uid or before.pending > group.pending):
            self.forget_reports()

    def forget_reports(self) -> None:
        """Forget the reports: the object that the workload has now carries none."""
        self.last_report = NO_REPORT

    def report_failed(self) -> None:
        """Record that the report could not be written, so that it is repeated with the usual pause."""
        self.last_report = replace(self.last_report, failed=True)

    def report_due(self, lasts_s: float) -> float:
        """The instant at which the cause is to be reported; ``inf`` when nothing is to be reported."""
        cause, last_report = self.cause, self.last_report
        if isinstance(cause, PASSING) or is_quiet(cause) or (cause == last_report.cause and not last_report.failed):
            return inf
        at = self.since + lasts_s
        if type(cause) is not type(last_report.cause):
            return at
        return max(at, last_report.at + pause_s(last_report.times, _AGAIN_S, _AGAIN_MAX_S))
