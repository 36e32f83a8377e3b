"""A workload: what is admitted as one. Its members are its gang, of which all start or none.

The workload also remembers failed tries and refusals, which decide when it may be tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from extender.core.causes import NameTaken, Share
from extender.core.instants import pause_s
from extender.core.workload.job import JobRecord, JobWrite
from extender.core.workload.members import Members
from extender.core.workload.release import Release
from extender.core.workload.shape import Demand, Flavoring, PodSetKey, podset_key
from extender.core.workload.slots import QuorumShortfall, Stage, by_role, lacking_roles, short_podset, short_role, total
from extender.core.workload.status import ReasonState, Status, StatusRecord
from policies.api import SortKey
from policies.model import CLIQUE, GroupKey, Job, Minima, Pod, PodGroup, PodSets, RunTerms, SlotKey
from policies.model.duration import longest
from policies.model.topology import SILENT
from policies.placement.request import Cap, MemberShape
from policies.words import count_gpus

_FREE_TRIES = 3
"""Nodes that may refuse a gang before the gang pauses between tries."""
_REMEMBERED = 10
"""A refusing node is remembered at most this many times as long as a gang pauses. Meanwhile other nodes are tried."""


@dataclass(slots=True)
class Retries:
    """Failures and refusals of a workload, and when it may be tried again.

    ``not_before``: the workload is not planned before this instant.
    ``failures``: failed tries in a row.
    ``nodes``: by node and shape, how many members kube-scheduler would accept, and until when that counts.
    ``refusals``: refusals by kube-scheduler in a row, until the workload starts.
    ``singly``: whether the members of a node are tried one by one.
    ``words``: what kube-scheduler said last.
    ``version``: grows with every change that a plan depends on.
    """

    not_before: float = 0.0
    failures: int = 0
    nodes: dict[tuple[str, MemberShape], tuple[int, float]] = field(default_factory=dict)
    refusals: int = 0
    singly: bool = False
    words: str = ""
    version: int = 0

    @property
    def resting(self) -> bool:
        """Whether refusals have come so often that the workload pauses after each further one."""
        return self.refusals > _FREE_TRIES

    def rests_again(self, now: float) -> bool:
        """Whether the workload pauses, and not for the first time: others may use the resources that it was given."""
        return (self.failures > 1 or self.resting) and now < self.not_before

    def fail(self, now: float, most_s: float) -> None:
        """Record a failure that a try right away would not fix, and pause: longer after each, for at most ``most_s``.

        Trying the members of a node one by one ends, since it may take longer than there is time. The count of refusals
        stays. Refusals must be remembered for longer than this pause, or each try would go to a refusing node.
        """
        self.failures += 1
        self.singly = False
        self.pause(now + pause_s(self.failures, 1.0, most_s))

    def rest_long(self, now: float, most_s: float) -> None:
        """Extend the pause after a failure whose repetition is expensive: ten times ``most_s`` at most."""
        self.pause(now + pause_s(self.failures, 1.0, _REMEMBERED * most_s))

    def pause(self, until: float) -> None:
        """Keep the workload from being planned until then."""
        self.not_before = max(self.not_before, until)

    @property
    def caps(self) -> tuple[Cap, ...]:
        """The refusals that plans have to respect."""
        return tuple(cap for cap, _ in self.remembered())

    def remembered(self) -> Iterator[tuple[Cap, float]]:
        """The refusals, each with the instant until which it counts."""
        return ((Cap(node, shape, most), until) for (node, shape), (most, until) in self.nodes.items())

    def refuse(self, caps: Iterable[Cap], now: float, most_s: float, first_s: float, *, related: bool = False) -> None:
        """Record that kube-scheduler accepts no more members on these nodes than the caps say.

        A node that accepts none is avoided for a pause that starts at ``first_s`` and doubles. A cap above 0 counts for
        ten times ``most_s``; for less if it depends on other pods (``related``), whose changes may lift it.
        """
        self.refusals += 1
        self.singly = True
        until = now + pause_s(self.refusals, first_s, _REMEMBERED * most_s)
        lasting = max(until, now + most_s) if related else now + _REMEMBERED * most_s
        self.nodes |= {(cap.node, cap.shape): (cap.most, lasting if cap.most else until) for cap in caps}
        self.version += 1

    def insist(self) -> None:
        """Make the workload pause after its next refusal, since no other workload can have caused it."""
        self.refusals = max(self.refusals, _FREE_TRIES)

    def hear(self, words: str) -> bool:
        """Add kube-scheduler's words to a refusal that was noticed without them. Returns whether they are the first."""
        first = bool(words) and not self.words
        self.words = words or self.words
        return first

    def rest(self, words: str, now: float, most_s: float) -> bool:
        """Pause the planning of a workload that is refused again and again. Returns whether it pauses."""
        self.hear(words)
        if self.resting:
            self.not_before = max(self.not_before, now + pause_s(self.refusals - _FREE_TRIES, 1.0, most_s))
        return self.resting

    def forgive(self, node: str, *, at_once: bool = False) -> None:
        """Allow the node to be tried again. ``at_once``: end the pause of the workload, too."""
        if left := [known for known in self.nodes if known[0] == node]:
            for known in left:
                del self.nodes[known]
            self.version += 1
        if at_once and self.refusals:
            self.not_before = 0.0
            self.version += 1

    def expire(self, now: float) -> None:
        """Forget refusals that have lasted long enough, and a pause that is over."""
        if over := [known for known, (_, until) in self.nodes.items() if now >= until]:
            for known in over:
                del self.nodes[known]
            self.version += 1
        if self.not_before and now >= self.not_before:
            self.not_before = 0.0

    def start(self) -> None:
        """Forget failures and refusals in a row, because the workload has started."""
        self.failures, self.refusals, self.singly, self.words = 0, 0, False, ""

    def forget(self) -> None:
        """Forget every failure, refusal and pause, because a client wants another try at once."""
        self.start()
        self.nodes.clear()
        self.not_before = 0.0
        self.version += 1

    def next_end(self) -> float:
        """The first instant at which a refusal or the pause ends; ``inf`` without one."""
        return min([self.not_before or inf, *(until for _, until in self.nodes.values())])


class Run(NamedTuple):
    """A run that is under way.

    ``release``: the name of its release.
    ``began``: in seconds since the epoch.
    ``queue``: the LocalQueue, or empty.
    """

    release: str
    began: float
    queue: str
    gpus: int


@dataclass(slots=True, eq=False)
class Workload:
    """Everything that Muster knows of one workload.

    ``job``: the job that makes its pods, if the workload is planned before they exist.
    ``podsets``: the pods that the job will make, while it is planned or admitted.
    ``previous_group_uid``: UID of its last PodGroup, if that is gone.
    ``queue_of_deleted_job``: queue of its last job, if that is gone.
    ``reserved``: lost members whose room is kept for their replacements, by UID.
    ``unsettled``: nodes that changed during the release, which are checked again after it.
    ``bumps``: how often anything else changed that its plan depends on.
    ``plan_deadline``: kube-scheduler must have taken up the plan by this instant.
    ``storage_deadline``: the same while volumes are provisioned, 0 otherwise.
    ``sweep_at``: when to check that nominations were cleared, 0 for never.
    ``filling``: whether its slots are still being given their nodes, a few at a time.
    ``demand``: its last request to the planner, right as of its version.
    ``order``: its last place by the queue policy, with the version that it is right as of.
    ``advised``: the node that advisory mode chose, by pod UID.
    ``flavoring``: node demands of the flavors that it was admitted with, by part.
    """

    key: GroupKey
    members: Members = field(default_factory=Members)
    release: Release = field(default_factory=Release)
    status: StatusRecord = field(default_factory=StatusRecord)
    retries: Retries = field(default_factory=Retries)
    reason_state: ReasonState = field(default_factory=ReasonState)
    group: PodGroup | None = None
    job: JobRecord | None = None
    podsets: PodSets | None = None
    previous_group_uid: str = ""
    queue_of_deleted_job: str = ""
    reserved: dict[SlotKey, Pod] = field(default_factory=dict)
    unsettled: dict[str, None] = field(default_factory=dict)
    bumps: int = 0
    plan_deadline: float = 0.0
    storage_deadline: float = 0.0
    sweep_at: float = 0.0
    remade: int = 0
    """How many pods its owner makes again once all of them are gone; 0 if unknown."""
    filling: bool = False
    demand: Demand | None = None
    order: tuple[int, SortKey] | None = None
    advised: dict[str, str] = field(default_factory=dict)
    flavoring: Mapping[PodSetKey, Flavoring] = field(default_factory=dict)
    seen_at: float | None = None
    """When the first member was seen, of a gang that has not started."""
    run: Run | None = None
    """The run, from the start of the whole workload until it ends or waits again."""

    def bump_version(self) -> None:
        """Record that something other than its members and refusals changed that its plan depends on."""
        self.bumps += 1

    def reserve(self, lost: Pod) -> bool:
        """Keep the room of a lost member for its replacement. Returns whether that is new."""
        new = lost.uid not in self.reserved
        self.reserved[lost.uid] = lost
        self.bumps += new
        return new

    def unreserve(self, slot: SlotKey) -> None:
        del self.reserved[slot]
        self.bumps += 1

    @property
    def surplus_reserved(self) -> SlotKey | None:
        """A reservation beyond what is missing; None without one.

        First choice is one of a role that lacks no member, then of a member whose replacement has a node, then the
        oldest.
        """
        if len(self.reserved) <= self.missing:
            return None
        slots = self.members.slots
        short = {role for role, count in lacking_roles(self.minima, slots) if count}

        def is_needed(slot: SlotKey) -> tuple[bool, bool]:
            lost = self.reserved[slot]
            role = lost.group.role if lost.group is not None else ""
            return role in short, lost.identity not in slots or lost.identity in slots.lacking

        return min(self.reserved, key=is_needed)

    @property
    def resumes(self) -> bool:
        """Whether it completes a start of its own that broke off, or the room of its lost members is kept."""
        return self.release.partial_since is not None or bool(self.reserved)

    @property
    def incomplete(self) -> bool:
        """Whether it has started as a whole and has too few members now."""
        started = self.release.complete and bool(self.members.bound)
        return started and self.min_member is not None and not self.has_bound_quorum

    @property
    def grows(self) -> bool:
        """Whether as many members run as its last start needed, and its size was raised since."""
        if not self.incomplete:
            return False
        quorums = [member.pod.stamp.quorum for member in self.members.bound.values() if member.pod.stamp is not None]
        return bool(quorums) and self.reached(Stage.BOUND) >= max(quorums) > 0

    def wait_until(self, plan_deadline: float) -> None:
        """Set the deadline for kube-scheduler to take up the plan, later if volumes are being provisioned."""
        self.plan_deadline = max(plan_deadline, self.storage_deadline)

    def await_storage(self, until: float, now: float) -> None:
        """Set until when volumes of its members may take to be provisioned; 0: none is being provisioned any more."""
        if until and self.storage_deadline <= now:
            self.storage_deadline = until
        elif not until:
            self.storage_deadline = 0.0

    def follow_owner(self, *, remakes: bool) -> None:
        """Record whether its owner makes its pods again when they are gone."""
        self.remade = (self.planned_minimum or self.remade) if remakes else 0

    def follow_commit(self, *, fills: bool) -> None:
        """Record whether its slots are still being given their nodes."""
        self.filling = fills

    def follow_run(self, run: Run | None) -> None:
        """Set the run that is under way; None: it is over."""
        self.run = run

    def sweep(self, at: float) -> None:
        """Set when to check that nominations were cleared as asked; 0: never."""
        self.sweep_at = at

    def begin(self, now: float | None) -> None:
        """Set when the first member of a gang that has not started was seen; None: the gang has started."""
        self.seen_at = now

    @property
    def version(self) -> int:
        """Grows whenever something changes that its plan depends on."""
        return self.members.version + self.retries.version + self.bumps

    @property
    def current_demand(self) -> Demand | None:
        """The request to the planner; None if anything it depends on has changed since it was worked out."""
        return self.demand if self.demand is not None and self.demand.version == self.version else None

    def ordered_by(self, policy: Callable[[], SortKey]) -> SortKey:
        """The place by the queue policy, which is asked if anything has changed since the last time."""
        if (known := self.order) is None or known[0] != self.version:
            known = self.order = self.version, policy()
        return known[1]

    @property
    def status_by_facts(self) -> Status:
        """The status that its members, release and job show. ``status`` records the same step by step."""
        members, release, slots, job = self.members, self.release, self.members.slots, self.job
        if self._stops:
            return Status.STOPPING
        if not members.live and not slots.templates:
            return self._status_without_members
        if self.releasing and release.name and not release.complete:
            return Status.RELEASING
        if self.reached(Stage.BOUND):
            enough = self.has_bound_quorum or self.min_member is None or self.grows
            return Status.RUNNING if enough else Status.PARTIAL
        if members.holds:
            return Status.HOLDING
        if job is not None and (job.plan is not None or job.awaits_nodes):
            return Status.STARTING
        return Status.PLANNED if members.placed or slots.planned else Status.PENDING

    @property
    def _stops(self) -> bool:
        """Whether its job is being suspended, or all of its pods are being deleted, and some are still there."""
        members, job = self.members, self.job
        if job is not None and job.stop and not job.seen.finished:
            return True
        if self.admitted or (members.live and not (job is not None and job.seen.suspended)):
            return False
        return any(not member.pod.terminal and members.is_ours(member.pod) for member in members)

    @property
    def _status_without_members(self) -> Status:
        """The status of a workload without pods, of which none are expected either."""
        members, job = self.members, self.job
        if job is not None and not (job.seen.finished or job.over):
            started = job.plan is not None or not job.seen.suspended
            return Status.STARTING if started else Status.PENDING
        if len(members) and not any(members.is_ours(member.pod) for member in members):
            return Status.PENDING  # pods of an earlier PodGroup of the same name do not count
        return Status.ENDED

    @property
    def live(self) -> list[Pod]:
        return [member.pod for member in self.members.live.values()]

    @property
    def bound(self) -> list[Pod]:
        return [member.pod for member in self.members.bound.values()]

    @property
    def placement(self) -> dict[str, str]:
        """The nodes promised to members that are not bound: pod UID -> node."""
        return {uid: member.node for uid, member in self.members.placed.items()}

    @property
    def releasing(self) -> bool:
        return bool(self.members.binding) or self.release.last is not None

    @property
    def outcome_unknown(self) -> bool:
        """Whether a Binding of it may have been written."""
        return bool(self.members.unknown)

    @property
    def has_bound_quorum(self) -> bool:
        """Whether enough members are bound or have finished."""
        return self.has_quorum(Stage.BOUND)

    @property
    def starting(self) -> bool:
        """Whether members are promised nodes that they are not on yet.

        Once enough are bound, promises to pods that do not exist do not count: a job need not create those.
        """
        return bool(self.members.placed) or (bool(self.members.slots.planned) and not self.has_bound_quorum)

    @property
    def has_promised_quorum(self) -> bool:
        """Whether enough members have a node or the promise of one. Others may lack room without making it wait."""
        return self.has_quorum(Stage.PROMISED)

    @property
    def lacking(self) -> int:
        """How many slots have to be placed at once. A gang that has started places missing ones one by one."""
        return 1 if self.release.complete else max(1, self.missing)

    @property
    def missing(self) -> int:
        """How many more slots need a node until enough have one."""
        of_roles = sum(count for _, count in lacking_roles(self.minima, self.members.slots))
        return max(0, of_roles, (self.planned_minimum or self.remade) - self.reached(Stage.PROMISED))

    @property
    def minima(self) -> Minima:
        """How many members of each role have to start together, by its PodGroup or else its members."""
        return self.group.minima if self.group is not None else by_role(self.members.size)

    @property
    def min_member(self) -> int | None:
        """How many members have to start together: by its PodGroup, else by its podsets, else by its members.

        None while no one says it, or members disagree.
        """
        if self.group is not None:
            return self.group.min_member if self.group.min_member > 0 else None
        if self.podsets is None:
            return total(self.members.size)
        starting = self.job if not self.release.complete else None
        return self.podsets.first_wave if starting is None else max(self.podsets.first_wave, starting.quorum)

    @property
    def planned_minimum(self) -> int | None:
        """How many members need a node before any may start: all waves together.

        At least as many as the podsets need, and as have to start together.
        """
        together = self.min_member
        return together if self.podsets is None else max(self.podsets.minimum, together or 0)

    @property
    def priority(self) -> int:
        """The priority that decides order and preemption: that of its job.

        Without a job the highest of its pods, expected ones included. ``pods_priority`` is the one that kube-scheduler
        goes by.
        """
        job = None if self.job is None else self.job.seen
        if job is not None and (job.podsets.podsets or job.of_class is not None):
            return job.priority
        known = [*self.members.declared.priorities]
        if self.podsets is not None and self.podsets.podsets:
            known.append(self.podsets.priority)
        return max(known) if known else next((member.pod.priority for member in self.members), 0)

    @property
    def pods_priority(self) -> int:
        """The lowest priority of its pods.

        kube-scheduler keeps other pods of at most this priority out of the room that the pods are nominated to.
        """
        known = self.members.declared.of(self.owner_filter).priorities
        first = None if known else self.members.slots.first or next((member.pod for member in self.members), None)
        return min(known) if known else 0 if first is None else first.priority

    @property
    def queue(self) -> str:
        """The LocalQueue of the job, or else of the pods, which agree, and of the PodGroup. Empty without one.

        While members are on nodes, this is the queue whose quota they use, whatever was written since.
        """
        if used := min(self.members.used, default=""):
            return used
        if self.job is not None:
            return self.job.queue
        return (
            self.members.declared.queue(self.group.queue if self.group is not None else "") or self.queue_of_deleted_job
        )

    @property
    def run_terms(self) -> RunTerms:
        """The declared duration of its run: by its job, else by its PodGroup and its members."""
        if self.job is not None:
            return self.job.seen.run
        podsets = () if self.podsets is None else self.podsets.podsets
        run_terms = longest([*self.members.declared.runs] or [podset.template.run for podset in podsets])
        return run_terms if self.group is None else self.group.run.over(run_terms)

    @property
    def began(self) -> float | None:
        """When its start began, in seconds since the epoch, by its job or by the stamps of its release.

        None while no member is on a node.
        """
        if self.job is not None and not self.job.seen.suspended and self.job.seen.began is not None:
            return self.job.seen.began
        if self.run is not None and self.run.release == self.release.name:
            return self.run.began
        stamps = (stamp for member in self.members if (stamp := member.pod.stamp) is not None)
        return min((stamp.at for stamp in stamps if stamp.at and stamp.release == self.release.name), default=None)

    @property
    def gpus(self) -> int:
        """How many GPUs its pods ask for together, expected ones included."""
        if self.run is not None:
            return self.run.gpus
        podsets = self.podsets if self.job is None else self.job.seen.podsets
        if podsets is not None and podsets.podsets:
            return sum(podset.count * count_gpus(podset.template.requests) for podset in podsets.podsets)
        return sum(count_gpus(member.pod.requests) for member in self.members)

    @property
    def has_finished(self) -> bool:
        """Whether it has ended permanently: its job has ended, or all of its pods have ended by themselves."""
        if self.job is not None:
            return self.job.seen.finished or self.job.over
        pods = [member.pod for member in self.members]
        return bool(pods) and all(pod.terminal and not pod.deleting for pod in pods)

    @property
    def created(self) -> float:
        """When its job, else its PodGroup, else its first pod was created. A job that starts again keeps its place."""
        seen = self.group if self.job is None else self.job.seen
        if seen is not None:
            return seen.created
        first = self.members.first or self.members.slots.first or next((member.pod for member in self.members), None)
        return 0.0 if first is None else first.created

    @property
    def member_nodes(self) -> list[str]:
        """The nodes where its members are, or are planned to go."""
        advised = {uid: node for uid, node in self.advised.items() if uid in self.members.live}
        return list((advised | self.placement | {pod.uid: pod.node for pod in self.bound if pod.node}).values())

    def reached(self, stage: Stage) -> int:
        """How many of its slots have reached the stage; members that finished well count."""
        return self.members.slots.reached(stage)

    def has_quorum(self, stage: Stage, more: tuple[SlotKey, ...] = ()) -> bool:
        """Whether enough slots are at the stage: of all, and of each podset or role. ``more`` slots count as well."""
        needed = self.planned_minimum if stage is Stage.PROMISED else self.min_member
        enough = needed is not None and self.members.slots.reached(stage) + len(more) >= needed
        return enough and self.short(stage, more) is None

    def share(self, stage: Stage) -> Share:
        """How many slots are at the stage. If those are enough: the count of the podset or role that has too few."""
        there, needed = self.reached(stage), self.min_member
        short = self.short(stage) if needed is not None and there >= needed else None
        return Share(short.there, short.least, short.name) if short else Share(there, needed)

    def short(self, stage: Stage, more: tuple[SlotKey, ...] = ()) -> QuorumShortfall | None:
        """The podset of its job or role of its pods that has too few at the stage; ``more`` slots count as well."""
        if self.podsets is not None:
            return short_podset(self.podsets, self.members.slots, stage, more)
        return short_role(self.minima, self.members.slots, stage, more) if self.minima else None

    def constrained(self, pod: Pod, made: Mapping[PodSetKey, Flavoring] | None = None) -> Pod:
        """The member with the topology that the PodGroup asks for and with the nodes of its flavors.

        Where the member states a topology itself, that counts. ``made``: the flavorings; None: those of the admission.
        """
        made = self.flavoring if made is None else made
        if made and (known := made.get(podset_key(pod, of_job=self.job is not None))) is not None:
            pod = known.confined(pod)
        if self.group is None or pod.group is None or (topology := self.group.asked_of(pod.group.role)) == SILENT:
            return pod
        if topology.required in (CLIQUE, "clique") and not pod.compute_domain and any(self.compute_domains):
            # A clique is required of the pods whose GPUs share memory. A launcher may be anywhere.
            topology = topology._replace(required=None)
        return replace(pod, topology=pod.topology.over(topology))

    @property
    def compute_domains(self) -> Iterator[str]:
        """UIDs of the ComputeDomains of its present and expected members; empty for members in none."""
        yield from self.members.declared.domains
        for podset in () if self.podsets is None else self.podsets.podsets:
            yield podset.template.compute_domain

    def members_of(self, domain: str) -> int:
        """How many of its pods have, or will have, a channel of the ComputeDomain with that UID."""
        if self.podsets is not None:
            return sum(podset.count for podset in self.podsets.podsets if podset.template.compute_domain == domain)
        return sum(pod.compute_domain == domain for pod in self.live)

    def follow(self, group: PodGroup | None) -> None:
        """Set its PodGroup; None when that is gone."""
        self.reason_state.follow(self.group, group)
        self.previous_group_uid = (
            self.group.uid if group is None and self.group is not None else self.previous_group_uid
        )
        self.group = group
        self.members.follow(group)

    def expect(self, podsets: PodSets | None) -> None:
        """Set which pods its job will make; None: no pods are expected."""
        self.podsets = podsets
        self.members.expect(podsets)
        self.bumps += 1

    def with_slot(self, pod: Pod, old: Pod | None) -> Pod:
        """The pod with the index of its slot. A pod without one takes a free slot of its podset, and keeps it."""
        index = old.index if old is not None else None
        if index is None and self.podsets is not None and pod.live:
            plan = self.job.plan if self.job is not None else None
            index = self.members.slots.vacant_slot(f"{pod.owner}{pod.series}", pod.node, plan or {})
        return pod if index == pod.index else replace(pod, index=index)

    @property
    def admitted(self) -> bool:
        """Whether its job was started with a plan, which is in force."""
        return self.job is not None and self.job.plan is not None

    @property
    def owner_filter(self) -> str:
        """The owner of its job's own pods, as ``JobRecord.owner_filter`` says; empty without a job."""
        return "" if self.job is None else self.job.owner_filter(self.members.declared.owners)

    @property
    def being_started(self) -> bool:
        """Whether the start of its job was written and the watch has not shown it.

        The job is not suspended before that, so no deadline revokes its plan meanwhile.
        """
        return self.job is not None and self.job.writing is JobWrite.START

    @property
    def paused(self) -> bool:
        """Whether its job is being suspended, or is suspended and cannot be planned yet: its pods will go."""
        if (job := self.job) is None or job.plan is not None or job.seen.finished:
            return False
        return bool(job.stop) or (job.seen.suspended and self.podsets is None)

    def set_flavors(self, flavoring: Mapping[PodSetKey, Flavoring]) -> None:
        """Set the flavors that it is admitted with; an empty mapping: none."""
        self.flavoring = flavoring

    def follow_job(self, job: Job | None, taken: NameTaken | None = None, left_in: str = "") -> None:
        """Set the job that its pods come from; another job starts a record of its own.

        ``taken``: why the job's name is another's. ``left_in``: the queue of its last job, if that is gone.
        """
        self.queue_of_deleted_job = left_in
        self.order = None  # the workload was created with its job
        if job is None or self.job is None or self.job.seen.uid != job.uid:
            self.job = None if job is None else JobRecord(job)
            if job is not None:
                self.reason_state.forget_reports()
        else:
            self.job.update(job)
        if self.job is not None:
            self.job.set_name_conflict(taken)

    def advise(self, uid: str, node: str) -> None:
        """Record where a plan of advisory mode would put the member."""
        self.advised[uid] = node

    def unadvise(self) -> None:
        """Forget the advice after no plan was found, except for bound members, which are compared with it."""
        self.advised = {uid: node for uid, node in self.advised.items() if uid in self.members.bound}
