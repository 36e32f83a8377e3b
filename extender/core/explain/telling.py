"""Reports of workloads: the one current reason, the milestones, and hints.

Texts that leave the core are rendered for their readers: operators read all names, users of a namespace their own.
Hints are about annotations that nothing reads, and pods without their pin: their rate is limited.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from extender.core import causes
from extender.core.answers import ReportFailed
from extender.core.effects import AnswerBind, Effect, Evict, Hint, Milestone, Reached, Report, RevokedFor, SuspendJob
from extender.core.explain.reasons import expectation_text, reason_of, turn_text
from extender.core.ledger.expectations import Expectations, Foreseen
from extender.core.ledger.store import Counts, Outbox, Process, Store
from extender.core.limits import Limits
from extender.core.workload.workload import Workload
from policies.model import Dialect, GroupKey, Job, Pod
from policies.model.mentions import discreet, full
from policies.preemption.allowed import Why
from policies.steps import AT_ONCE, Steps

_WITH_STATUS = Dialect.COSCHEDULING, Dialect.KAI
"""The dialects whose PodGroups have a status that Muster writes, since no other controller does."""


@dataclass(eq=False)
class Reporter:
    """Keeps the one current reason of each workload, and reports it."""

    _limits: Limits
    _process: Process
    _store: Store
    _expectations: Expectations
    _outbox: Outbox

    def explain(self, workload: Workload, cause: causes.Cause, now: float, *, noted: bool = False) -> None:
        """Set the workload's current reason. It is reported once it has lasted. ``noted``: whether its story has it
        already."""
        if workload.reason_state.explain(cause, now, noted=noted):
            if not isinstance(cause, Foreseen):
                self._expectations.forget(workload.key)
            self.report_if_due(workload, now)
            self._store.mark_dirty(workload)

    def report_if_due(self, workload: Workload, now: float) -> None:
        """Report the reason if it is due."""
        if now >= workload.reason_state.report_due(self._limits.report_s):
            self.report(workload, now)

    def report(self, workload: Workload, now: float) -> None:
        """Report the reason now."""
        telling, members = workload.reason_state, workload.members
        telling.reported(now)
        # A reason about waiting members is reported on one of them.
        about = (telling.surplus is not None and members.unplaced()) or workload.live
        first = min(about, key=lambda pod: pod.rank, default=None)
        member, owner = ((first.uid, first.name), first.controller) if first else (None, None)
        if first is None and workload.group is not None:
            owner = workload.group.job
        if workload.job is not None:
            # Users look at the job, and an Event costs the API server half as much as a Binding.
            member, owner = None, workload.job.seen.owner
        reason = reason_of(telling.cause)
        if (expected := self._expectations.of.get(workload.key)) is not None:
            reason = reason._replace(
                message=f"{reason.message}; {expectation_text(expected, self._process.wall_offset)}"
            )
        counts = len(members.live), len(members.bound)
        if (group := workload.group) is not None and (group.dialect in _WITH_STATUS or group.job is not None):
            report = Report(workload.key, group.uid, member, *reason, *counts, owner, group.dialect, group.pending)
        else:
            report = Report(workload.key, None, member, *reason, *counts, owner)
        self._outbox.append(report)

    def report_failed(self, event: ReportFailed, _now: float) -> None:
        """Note that a report was not written, so that it is repeated."""
        if (workload := self._store.workloads.get(event.key)) is not None:
            workload.reason_state.report_failed()
            self._store.mark_dirty(workload)

    def reached(
        self, workload: Workload, milestone: Milestone, now: float, *, since: float | None = None,
        cause: RevokedFor | None = None, detail: str = "", rules: tuple[Why, ...] = (),
    ) -> None:  # fmt: skip
        """Report a milestone. ``since``: the instant that its time counts from; None for when the workload was first
        seen."""
        began = workload.seen_at if since is None else since
        size = workload.min_member or len(workload.members.live)
        after_s = 0.0 if began is None else now - began
        self._outbox.append(Reached(workload.key, milestone, size, after_s, cause, detail, rules=rules))


def story_of(workload: Workload) -> str:
    """The story of a workload, for the text of an internal error."""
    members, release = workload.members, workload.release
    states = {member.uid: f"{member.state.value} {member.node} {member.step.value}" for member in members}
    head = (
        f"workload {workload.key}: minMember {workload.min_member}, {states}, "
        f"status {workload.status.value} by {[step.value for _, step in workload.status.steps]}, "
        f"holds {sorted(members.holds)}, reserved {sorted(map(str, workload.reserved))}, {release}, "
        f"reason {reason_of(workload.reason_state.cause)}"
    )
    return full("\n".join([head, *(f"  {at:.3f} {turn_text(turn)}" for at, turn in workload.reason_state.story)]))


WITH_TEXT = frozenset((AnswerBind, Evict, Reached, Report, SuspendJob))
"""The effects whose texts may name workloads."""


def for_namespace(text: str, namespace: str, limits: Limits) -> str:
    """Render a text for users of a namespace, who may see its Events and statuses."""
    return full(text, namespace) if limits.names_others else discreet(text, namespace)


def readable(effect: Effect, limits: Limits) -> Effect:
    """Render the text of an effect for its readers."""
    match effect:
        case Report(key=key, message=text):
            return replace(effect, message=for_namespace(text, key.namespace, limits), full=full(text, key.namespace))
        case SuspendJob(job=job, reason=text):
            return replace(effect, reason=for_namespace(text, job.key.namespace, limits))
        case Evict(namespace=namespace, reason=text):
            return replace(effect, reason=for_namespace(text, namespace, limits))
        case AnswerBind(error=text):
            # kube-scheduler writes it into an Event of the pod.
            return replace(effect, error=for_namespace(text, "", limits)) if text else effect
        case Reached(detail=text):
            return replace(effect, detail=full(text))  # for the log
    return effect


UNPINNED = (
    "it was created without the node that its job is planned on: the admission policy muster-job-pods is not "
    "installed, or has failed on it. {}"
)
_LED = "Muster's filter leads it to that node"
_NOT_LED = "its scheduler {} does not ask Muster where it may go"
_REMEMBERED = 1024
_AT_ONCE, _EACH_S = 20.0, 3.0
"""Hints at once, and the seconds for each further one. `muster doctor` finds all annotations that nothing reads."""


@dataclass(eq=False)
class Hints:
    """Writes hints on waiting pods of Muster's schedulers.

    Running pods get one only when their annotations change: they had theirs before, or started without Muster.
    """

    _schedulers: tuple[str, ...]
    _process: Process
    _counts: Counts
    _pods: Mapping[str, Pod]
    _workloads: Mapping[GroupKey, Workload]
    _outbox: Outbox

    def __post_init__(self) -> None:
        self._given: dict[tuple[str, str], None] = {}
        self._left, self._as_of = _AT_ONCE, 0.0

    def consider(self, pod: Pod, now: float, *, changed: bool = False) -> None:
        """Handle a new pod, or one whose annotations have ``changed``."""
        if pod.unpinned and not changed:
            self._report_unpinned(pod, now)
        if pod.hint is None or not pod.live or not self._process.synced or pod.scheduler not in self._schedulers:
            return
        if pod.node and not changed:
            return
        template = pod.owner or pod.uid, pod.hint
        self._give(template, Hint(pod.uid, pod.namespace, pod.name, pod.hint, pod.controller), now)

    def _report_unpinned(self, pod: Pod, now: float) -> None:
        """Count a new pod that lacks its pin, and report it by an Event on the pod."""
        if not (pod.live and self._process.synced):
            return
        self._counts.unpinned += 1
        if self._may(now):
            led = _LED if pod.scheduler in self._schedulers else _NOT_LED.format(pod.scheduler)
            text = UNPINNED.format(led)
            self._outbox.append(Hint(pod.uid, pod.namespace, pod.name, text, None, "Unpinned", once=True))

    def consider_job(self, job: Job, now: float) -> None:
        """Handle a job that is new or has changed: its pods do not exist yet, or do not repeat its annotations."""
        if job.hint is not None and job.suspended and self._process.synced:
            self._give((job.uid, job.hint), Hint("", job.key.namespace, job.owner.name, job.hint, job.owner), now)

    def _give(self, template: tuple[str, str], hint: Hint, now: float) -> None:
        if template in self._given or not self._may(now):
            return
        self._given[template] = None
        if len(self._given) > _REMEMBERED:
            del self._given[next(iter(self._given))]
        self._outbox.append(hint)

    def recover(self, now: float) -> Steps[None]:
        """Give hints once every pod is known after a restart. Bound pods had theirs before the restart."""
        pods = list(self._pods)
        for at in range(0, len(pods), AT_ONCE):
            for uid in pods[at : at + AT_ONCE]:
                if (pod := self._pods.get(uid)) is not None and not pod.node:
                    self.consider(pod, now)
            yield AT_ONCE // 8
        for workload in list(self._workloads.values()):
            if workload.job is not None:
                self.consider_job(workload.job.seen, now)

    def _may(self, now: float) -> bool:
        self._left, self._as_of = min(_AT_ONCE, self._left + (now - self._as_of) / _EACH_S), now
        if self._left < 1:
            return False
        self._left -= 1
        return True
