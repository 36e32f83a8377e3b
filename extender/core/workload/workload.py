"""A workload: what is admitted as one. Its members are its gang, which starts all or none.

It remembers what it has failed at, and so when it may be tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from extender.core.causes import NameTaken, Share
from extender.core.instants import pause_s
from extender.core.workload.job import JobRecord, JobWrite
from extender.core.workload.members import Members
from extender.core.workload.release import Release
from extender.core.workload.shape import Demand, Flavoring, PartKey, part_of
from extender.core.workload.slots import Part, Stage, by_role, lacking_roles, short_podset, short_role, total
from extender.core.workload.status import Status, StatusRecord, Telling
from policies.model import CLIQUE, GroupKey, Job, Minima, Pod, PodGroup, PodSets, RunTerms, SlotKey
from policies.model.duration import longest
from policies.model.topology import SILENT
from policies.placement.request import Cap, MemberShape
from policies.words import count_gpus

_FREE_TRIES = 3
"""Nodes that may refuse a gang before it rests between one try and the next."""
_REMEMBERED = 10
"""A node that refuses is remembered so much longer, at most, than a gang rests: meanwhile others are tried."""


@dataclass(slots=True)
class Retries:
    """``not_before``: the instant before which it is not planned. ``nodes``: by node and shape, how many members
    kube-scheduler would let in, and the instant from which more may be tried again. ``refusals``: in a row, until it
    starts. ``singly``: the members of a node are tried one by one. ``words``: what kube-scheduler said last.
    ``version`` grows with every change that a plan depends on.
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
        """It is refused again and again, and rests between one try and the next."""
        return self.refusals > _FREE_TRIES

    def rests_again(self, now: float) -> bool:
        """Return whether it is not its turn, after more than one failure: what it was given may be of use to others."""
        return (self.failures > 1 or self.resting) and now < self.not_before

    def fail(self, now: float, most_s: float) -> None:
        """It failed in a way that trying again at once would not mend.

        Members that share a node are tried one by one after a refusal, which may take longer than there is time. But
        the row of refusals goes on: what is remembered of the nodes has to last longer than this pause, or each try
        at once would be spent on a node that refuses.
        """
        self.failures += 1
        self.singly = False
        self.pause(now + pause_s(self.failures, 1.0, most_s))

    def rest_long(self, now: float, most_s: float) -> None:
        """It failed like that, and each try is dear."""
        self.pause(now + pause_s(self.failures, 1.0, _REMEMBERED * most_s))

    def pause(self, until: float) -> None:
        """It is not its turn."""
        self.not_before = max(self.not_before, until)

    @property
    def caps(self) -> tuple[Cap, ...]:
        """What is not to be planned again."""
        return tuple(cap for cap, _ in self.remembered())

    def remembered(self) -> Iterator[tuple[Cap, float]]:
        """What was refused, and until when that counts."""
        return ((Cap(node, shape, most), until) for (node, shape), (most, until) in self.nodes.items())

    def refuse(self, caps: Iterable[Cap], now: float, most_s: float, first_s: float, *, related: bool = False) -> None:
        """kube-scheduler would not have so many members on these nodes: that is planned around for a while, and for
        long where it has let some in; not so long where how many it lets in may change with other pods (``related``).
        """
        self.refusals += 1
        self.singly = True
        until = now + pause_s(self.refusals, first_s, _REMEMBERED * most_s)
        lasting = max(until, now + most_s) if related else now + _REMEMBERED * most_s
        self.nodes |= {(cap.node, cap.shape): (cap.most, lasting if cap.most else until) for cap in caps}
        self.version += 1

    def insist(self) -> None:
        """Nobody else is to be blamed: it rests after the next refusal."""
        self.refusals = max(self.refusals, _FREE_TRIES)

    def hear(self, words: str) -> bool:
        """What kube-scheduler says of a refusal that was noticed before. Returns whether it had said nothing yet."""
        first = bool(words) and not self.words
        self.words = words or self.words
        return first

    def rest(self, words: str, now: float, most_s: float) -> bool:
        """One that is refused again and again holds no room for a while. Returns whether it rests."""
        self.hear(words)
        if self.resting:
            self.not_before = max(self.not_before, now + pause_s(self.refusals - _FREE_TRIES, 1.0, most_s))
        return self.resting

    def forgive(self, node: str, *, at_once: bool = False) -> None:
        """The node may be tried again; ``at_once``: so may the workload."""
        if left := [known for known in self.nodes if known[0] == node]:
            for known in left:
                del self.nodes[known]
            self.version += 1
        if at_once and self.refusals:
            self.not_before = 0.0
            self.version += 1

    def expire(self, now: float) -> None:
        """What has lasted long enough is over."""
        if over := [known for known, (_, until) in self.nodes.items() if now >= until]:
            for known in over:
                del self.nodes[known]
            self.version += 1
        if self.not_before and now >= self.not_before:
            self.not_before = 0.0

    def start(self) -> None:
        """It has started: the past is forgotten."""
        self.failures, self.refusals, self.singly, self.words = 0, 0, False, ""

    def forget(self) -> None:
        """Forget every failure and refusal: somebody wants it tried anew, at once."""
        self.start()
        self.nodes.clear()
        self.not_before = 0.0
        self.version += 1

    def next_end(self) -> float:
        """The first instant at which something lapses."""
        return min([self.not_before or inf, *(until for _, until in self.nodes.values())])


class Run(NamedTuple):
    """A run that is under way. ``began``: in seconds since the epoch. ``queue``: the LocalQueue, or empty."""

    began: float
    queue: str
    gpus: int


@dataclass(slots=True, eq=False)
class Workload:
    """``job``: where its pods come from, if it is planned before they exist; ``podsets``: what will come of it, while
    it is planned or admitted. ``former``, ``left_in``: UID of its last PodGroup, queue of its last job, if it is gone.

    ``reserved``: lost members whose room is kept for their replacements, by UID. ``unsettled``: nodes that changed
    while it was being released, which are looked at again afterwards. ``bumps``: how often something around it changed
    that its plan depends on. ``plan_deadline``: by then kube-scheduler has to have taken its placement up, or by
    ``storage_deadline`` while it waits for volumes to be provisioned. ``filling``:
    its slots are being given their nodes, some at a time. ``advised``: nodes that were found in advisory mode, by pod
    UID. ``flavoring``: what the flavors that it was admitted with demand of the nodes of each part.
    """

    key: GroupKey
    members: Members = field(default_factory=Members)
    release: Release = field(default_factory=Release)
    status: StatusRecord = field(default_factory=StatusRecord)
    retries: Retries = field(default_factory=Retries)
    telling: Telling = field(default_factory=Telling)
    group: PodGroup | None = None
    job: JobRecord | None = None
    podsets: PodSets | None = None
    former: str = ""
    left_in: str = ""
    reserved: dict[SlotKey, Pod] = field(default_factory=dict)
    unsettled: dict[str, None] = field(default_factory=dict)
    bumps: int = 0
    plan_deadline: float = 0.0
    storage_deadline: float = 0.0
    sweep_at: float = 0.0
    remade: int = 0
    """How many pods its owner makes anew when all of them are gone; 0 where that is not known."""
    filling: bool = False
    demand: Demand | None = None
    advised: dict[str, str] = field(default_factory=dict)
    flavoring: Mapping[PartKey, Flavoring] = field(default_factory=dict)
    seen_at: float | None = None
    """When the first member of a gang that is yet to start was seen."""
    run: Run | None = None
    """Its run, once it has started as a whole, and until it has ended or waits again."""

    def bump_version(self) -> None:
        """Something around it has changed that its plan depends on."""
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
        """A reservation beyond what is missing, if there is one: of a role that lacks nobody, else of a member whose
        replacement has a node, else the oldest."""
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
        """Whether no other workload keeps its missing members waiting: its start broke off, or their room is kept."""
        return self.release.partial_since is not None or bool(self.reserved)

    @property
    def incomplete(self) -> bool:
        """Whether it has started as a whole, and has too few members by now."""
        started = self.release.complete and bool(self.members.bound)
        return started and self.min_member is not None and not self.whole

    @property
    def grows(self) -> bool:
        """Whether as many run as it was last started with, and its size is larger now."""
        if not self.incomplete:
            return False
        quorums = [member.pod.stamp.quorum for member in self.members.bound.values() if member.pod.stamp is not None]
        return bool(quorums) and self.reached(Stage.BOUND) >= max(quorums) > 0

    def wait_until(self, plan_deadline: float) -> None:
        """Set when kube-scheduler has to have taken its placement up: later while volumes are provisioned."""
        self.plan_deadline = max(plan_deadline, self.storage_deadline)

    def await_storage(self, until: float, now: float) -> None:
        """Volumes of its members are being provisioned, which may take until then; 0 once none is."""
        if until and self.storage_deadline <= now:
            self.storage_deadline = until
        elif not until:
            self.storage_deadline = 0.0

    def follow_owner(self, *, remakes: bool) -> None:
        """Take over whether its owner makes its pods anew when they are gone."""
        self.remade = (self.planned_minimum or self.remade) if remakes else 0

    def follow_run(self, run: Run | None) -> None:
        """It has begun to run; None: it runs no longer."""
        self.run = run

    def sweep(self, at: float) -> None:
        """Have a look then whether nominations that were to be cleared are; 0: no need to."""
        self.sweep_at = at

    def begin(self, now: float | None) -> None:
        """The first member of a gang that is yet to start was seen; None: it has started."""
        self.seen_at = now

    @property
    def version(self) -> int:
        """Grows whenever something changes that its plan depends on."""
        return self.members.version + self.retries.version + self.bumps

    @property
    def asked(self) -> Demand | None:
        """What it asks for, unless something has changed since that was worked out."""
        return self.demand if self.demand is not None and self.demand.version == self.version else None

    @property
    def status_by_facts(self) -> Status:
        """The status that its members, its release and its job amount to. It is recorded in ``status`` step by step."""
        members, release, slots, job = self.members, self.release, self.members.slots, self.job
        if self._stops:
            return Status.STOPPING
        if not members.live and not slots.templates:
            return self._status_without_members
        if self.releasing and release.name and not release.complete:
            return Status.RELEASING
        if self.reached(Stage.BOUND):
            enough = self.whole or self.min_member is None or self.grows
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
        """No pod of it is there, and none is expected."""
        members, job = self.members, self.job
        if job is not None and not (job.seen.finished or job.over):
            started = job.plan is not None or not job.seen.suspended
            return Status.STARTING if started else Status.PENDING
        if len(members) and not any(members.is_ours(member.pod) for member in members):
            return Status.PENDING  # those of an earlier PodGroup of its name do not count
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
    def doubtful(self) -> bool:
        """Whether a Binding of it may have been written."""
        return bool(self.members.unknown)

    @property
    def whole(self) -> bool:
        """Enough members are bound (or have finished) by now."""
        return self.has_quorum(Stage.BOUND)

    @property
    def starting(self) -> bool:
        """Members are promised nodes that they are not on yet. Pods that a job need not have may never come."""
        return bool(self.members.placed) or (bool(self.members.slots.planned) and not self.whole)

    @property
    def seated(self) -> bool:
        """Enough members have a node or the promise of one: for the others there may be no room, it does not wait."""
        return self.has_quorum(Stage.PROMISED)

    @property
    def lacking(self) -> int:
        """How many slots have to be placed at once. What a gang that has its quorum lacks is placed one by one."""
        return 1 if self.release.complete else max(1, self.missing)

    @property
    def missing(self) -> int:
        """How many more slots need a node until enough have one."""
        of_roles = sum(count for _, count in lacking_roles(self.minima, self.members.slots))
        return max(0, of_roles, (self.planned_minimum or self.remade) - self.reached(Stage.PROMISED))

    @property
    def minima(self) -> Minima:
        """How many of each role have to start together, where its PodGroup or its members say so."""
        return self.group.minima if self.group is not None else by_role(self.members.size)

    @property
    def min_member(self) -> int | None:
        """From the PodGroup, else its podsets or its members; None while nobody says it or they disagree."""
        if self.group is not None:
            return self.group.min_member if self.group.min_member > 0 else None
        if self.podsets is None:
            return total(self.members.size)
        starting = self.job if not self.release.complete else None
        return self.podsets.first_wave if starting is None else max(self.podsets.first_wave, starting.quorum)

    @property
    def planned_minimum(self) -> int | None:
        """How many have to have a node before any may start: those of later waves as well, and what podsets need."""
        stated = self.group.min_member if self.group is not None else 0
        return self.min_member if self.podsets is None else max(self.podsets.minimum, stated)

    @property
    def priority(self) -> int:
        """The priority of its job, waiting and running; of a gang without a job the highest of its pods, those to come
        included. What its pods say in kube-scheduler's line is ``pods_priority``."""
        job = None if self.job is None else self.job.seen
        if job is not None and (job.podsets.podsets or job.of_class is not None):
            return job.priority
        known = [*self.members.said.priorities]
        if self.podsets is not None and self.podsets.podsets:
            known.append(self.podsets.priority)
        return max(known) if known else next((one.pod.priority for one in self.members), 0)

    @property
    def pods_priority(self) -> int:
        """The lowest priority of its pods: kube-scheduler keeps them out of room for which a pod of at least that is
        nominated."""
        known = self.members.said.of(self.maker).priorities
        first = None if known else self.members.slots.first or next((one.pod for one in self.members), None)
        return min(known) if known else 0 if first is None else first.priority

    @property
    def queue(self) -> str:
        """The LocalQueue that it names: its job, or its pods, which agree, with its PodGroup. Empty without one. While
        members are on nodes, it is the queue by which they came there, whatever was written since."""
        if used := next(iter(self.members.used), ""):
            return used
        if self.job is not None:
            return self.job.queue
        return self.members.said.queue(self.group.queue if self.group is not None else "") or self.left_in

    @property
    def run_terms(self) -> RunTerms:
        """What is said of how long it runs: by its job, else by its PodGroup and its members."""
        if self.job is not None:
            return self.job.seen.run
        podsets = () if self.podsets is None else self.podsets.podsets
        said = longest([*self.members.said.runs] or [one.template.run for one in podsets])
        return said if self.group is None else self.group.run.over(said)

    @property
    def began(self) -> float | None:
        """When its start began, in seconds since the epoch, by its job or by what is stamped on its pods; None while
        none is on a node."""
        if self.job is not None and not self.job.seen.suspended and self.job.seen.began is not None:
            return self.job.seen.began
        if self.run is not None:
            return self.run.began
        stamps = (member.pod.stamp for member in self.members)
        return min((stamp.at for stamp in stamps if stamp is not None and stamp.at), default=None)

    @property
    def gpus(self) -> int:
        """How many GPUs its pods ask for together, those that are yet to come included."""
        if self.run is not None:
            return self.run.gpus
        podsets = self.podsets if self.job is None else self.job.seen.podsets
        if podsets is not None and podsets.podsets:
            return sum(one.count * count_gpus(one.template.requests) for one in podsets.podsets)
        return sum(count_gpus(member.pod.requests) for member in self.members)

    @property
    def has_finished(self) -> bool:
        """Whether it has ended for good: its job says so or is over, or all of its pods have ended by themselves."""
        if self.job is not None:
            return self.job.seen.finished or self.job.over
        pods = [member.pod for member in self.members]
        return bool(pods) and all(pod.terminal and not pod.deleting for pod in pods)

    @property
    def created(self) -> float:
        """A job keeps its place when it starts again, whatever pods it has by then."""
        first = self.members.first or self.members.slots.first or next((one.pod for one in self.members), None)
        seen = self.group if self.job is None else self.job.seen
        return seen.created if seen is not None else first.created if first is not None else 0.0

    @property
    def seats(self) -> list[str]:
        """The nodes where its members are, or are planned to go."""
        advised = {uid: node for uid, node in self.advised.items() if uid in self.members.live}
        return list((advised | self.placement | {pod.uid: pod.node for pod in self.bound if pod.node}).values())

    def reached(self, stage: Stage) -> int:
        """How many of its slots have come at least so far; members that finished well count."""
        return self.members.slots.reached(stage)

    def has_quorum(self, stage: Stage, more: tuple[SlotKey, ...] = ()) -> bool:
        """Whether enough have come so far, ``more`` slots counted as well: of all, and of each podset or role."""
        needed = self.planned_minimum if stage is Stage.PROMISED else self.min_member
        enough = needed is not None and self.members.slots.reached(stage) + len(more) >= needed
        return enough and self.short(stage, more) is None

    def share(self, stage: Stage) -> Share:
        """How many have come so far; where they are enough, of the part that has too few."""
        there, needed = self.reached(stage), self.min_member
        short = self.short(stage) if needed is not None and there >= needed else None
        return Share(short.there, short.least, short.name) if short else Share(there, needed)

    def short(self, stage: Stage, more: tuple[SlotKey, ...] = ()) -> Part | None:
        """The podset of its job or the role of its pods that has too few so far, ``more`` slots counted as well."""
        if self.podsets is not None:
            return short_podset(self.podsets, self.members.slots, stage, more)
        return short_role(self.minima, self.members.slots, stage, more) if self.minima else None

    def asking(self, pod: Pod, made: Mapping[PartKey, Flavoring] | None = None) -> Pod:
        """The member, with what the PodGroup asks of the topology where it says nothing itself, held to the nodes of
        the flavors in ``made``; None: of those that it is admitted with."""
        made = self.flavoring if made is None else made
        if made and (known := made.get(part_of(pod, of_job=self.job is not None))) is not None:
            pod = known.confined(pod)
        if self.group is None or pod.group is None or (asked := self.group.asked_of(pod.group.role)) == SILENT:
            return pod
        if asked.required in (CLIQUE, "clique") and not pod.compute_domain and any(self.compute_domains):
            # A clique is required for those whose GPUs share memory. A launcher may be anywhere.
            asked = asked._replace(required=None)
        return replace(pod, topology=pod.topology.over(asked))

    @property
    def compute_domains(self) -> Iterator[str]:
        """The ComputeDomains that its members are in, or are to be in, by UID; empty for members in none."""
        yield from self.members.said.domains
        for one in () if self.podsets is None else self.podsets.podsets:
            yield one.template.compute_domain

    def members_of(self, domain: str) -> int:
        """How many of its pods have, or are to have, a channel of the ComputeDomain with that UID."""
        if self.podsets is not None:
            return sum(one.count for one in self.podsets.podsets if one.template.compute_domain == domain)
        return sum(pod.compute_domain == domain for pod in self.live)

    def follow(self, group: PodGroup | None) -> None:
        """Take over its PodGroup's facts; None when it is gone."""
        self.telling.follow(self.group, group)
        self.former = self.group.uid if group is None and self.group is not None else self.former
        self.group = group
        self.members.follow(group)

    def expect(self, podsets: PodSets | None) -> None:
        """Take over what pods will come; None: no others than those that are there."""
        self.podsets = podsets
        self.members.expect(podsets)
        self.bumps += 1

    def seated_as(self, pod: Pod, old: Pod | None) -> Pod:
        """A pod whose index is no slot's, or that has none, takes a slot of its podset that is free, and keeps it."""
        index = old.index if old is not None else None
        if index is None and self.podsets is not None and pod.live:
            plan = self.job.plan if self.job is not None else None
            index = self.members.slots.vacant(f"{pod.owner}{pod.series}", pod.node, plan or {})
        return pod if index == pod.index else replace(pod, index=index)

    @property
    def admitted(self) -> bool:
        """Its job was started with a plan, which is in force."""
        return self.job is not None and self.job.plan is not None

    @property
    def maker(self) -> str:
        """As in JobRecord."""
        return "" if self.job is None else self.job.maker(self.members.said.owners)

    @property
    def being_started(self) -> bool:
        """The watch has yet to show the start of its job, which is not suspended before that: no deadline takes its
        plan back meanwhile."""
        return self.job is not None and self.job.writing is JobWrite.START

    @property
    def paused(self) -> bool:
        """Its job is suspended and cannot be planned yet, or is being suspended: the pods that are there will go."""
        if (job := self.job) is None or job.plan is not None or job.seen.finished:
            return False
        return bool(job.stop) or (job.seen.suspended and self.podsets is None)

    def flavor(self, flavoring: Mapping[PartKey, Flavoring]) -> None:
        """Set the flavors that it is admitted with; an empty mapping: none."""
        self.flavoring = flavoring

    def follow_job(self, job: Job | None, taken: NameTaken | None = None, left_in: str = "") -> None:
        """Take over the job that its pods come from; another one starts from nothing. ``taken``: as in JobRecord."""
        self.left_in = left_in
        if job is None or self.job is None or self.job.seen.uid != job.uid:
            self.job = None if job is None else JobRecord(job)
            if job is not None:
                self.telling.forget_reports()
        else:
            self.job.see(job)
        if self.job is not None:
            self.job.part(taken)

    def advise(self, uid: str, node: str) -> None:
        """In advisory mode: where a plan would put the member."""
        self.advised[uid] = node

    def unadvise(self) -> None:
        """No plan was found: only those who have a node keep what they were advised, for the comparison."""
        self.advised = {uid: node for uid, node in self.advised.items() if uid in self.members.bound}
