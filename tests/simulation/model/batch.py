"""Suspended jobs as API objects: their users' specs, the writes that start them, and their status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from extender.core.effects import CleanJob, Reserve, StartJob, SuspendJob
from policies.model import (
    GANG_GATE,
    HOSTNAME,
    Controller,
    Dialect,
    EvictionTerms,
    GroupKey,
    GroupRef,
    InVain,
    Job,
    Labels,
    NodeWait,
    PlannedNodes,
    Pod,
    PodSet,
    PodSets,
    Requirement,
    Reservation,
    RunTerms,
    SlotKey,
    Spread,
    Toleration,
)
from tests.simulation.model.additions import as_created
from tests.simulation.model.devices import podsets_as_shown

MOST_TERMS = 8
"""With no more nodes than these a plan is node affinity in the template; with more its pods are pinned by index."""

Write = StartJob | SuspendJob | CleanJob | Reserve


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A job object.

    ``podsets``: as its user wrote them; the owner of their templates is this object.
    ``pins``: whether its kind takes no node affinity in its template.
    ``remakes``: when a pod fails, all are created again.
    ``run_s``: how long it runs once enough of its pods do.
    ``ttl_s``: how long it stays then.
    ``by_pod``: each of its pods has to succeed, and where its podset has completions also the pods after them.
    ``closes``: after one success no more pods are made, and the job is complete when no pod runs any more. Otherwise
      one success completes the job.
    ``same_names``: its pods have the same names in each start, and failed ones are deleted before others come.
    ``run``: how long it says that it runs.
    ``elsewhere``: where another scheduler has put its pods, which run; only while it has no plan.

    The writes of the extender:

    ``plan``: the annotation on the job.
    ``led``: the nodes in its templates.
    ``minimum``: the minMember in its templates.
    ``node_wait``: the annotation in place of a plan, when nodes are awaited; ``led`` is empty then.
    ``labels``: the node labels in the templates then.
    ``tolerations``: those of the templates beside their own.

    The controller writes the rest:

    ``began``: the start time.
    ``idle``: the condition Suspended.
    ``active``, ``failed`` and ``succeeded``: counts of pods.
    ``ran``: whether a pod runs or has run.
    ``done``: slots whose pods have succeeded.
    ``ended``: how the job has ended.
    """

    key: GroupKey
    uid: str
    podsets: tuple[PodSet, ...]
    suspended: bool = True
    managed: bool = True
    held: bool = False
    pins: bool = False
    remakes: bool = False
    by_pod: bool = False
    closes: bool = False
    same_names: bool = False
    backoff_limit: int = 6
    run_s: float = float("inf")
    ttl_s: float = float("inf")
    elsewhere: PlannedNodes | None = None
    plan: PlannedNodes | None = None
    node_wait: NodeWait | None = None
    in_vain: InVain | None = None
    labels: Mapping[str, Labels] = field(default_factory=dict, hash=False)
    tolerations: Mapping[str, tuple[Toleration, ...]] = field(default_factory=dict, hash=False)
    led: PlannedNodes | None = None
    minimum: int = 0
    began: bool = False
    idle: bool = False
    active: int = 0
    failed: int = 0
    succeeded: int = 0
    ran: bool = False
    done: frozenset[SlotKey] = frozenset()
    ended: str = ""
    queue: str = ""
    flavors: Mapping[str, Mapping[str, str]] | None = field(default=None, hash=False)
    evicted: tuple[float, ...] = ()
    reservation: Reservation | None = None
    backfill: Reservation | None = None
    eviction: EvictionTerms = field(default_factory=EvictionTerms)
    run: RunTerms = field(default_factory=RunTerms)
    hint: str | None = None
    of_class: int | None = None

    @property
    def stopped(self) -> bool:
        """Whether the job is suspended, its controller knows that or never started it, and its podsets may change."""
        return self.suspended and (self.idle or not self.began) and not self.active

    @property
    def marked(self) -> bool:
        """Whether Muster's marks are on the job. Fields that are immutable now do not count."""
        if self.plan is not None or self.node_wait is not None:
            return True
        return self.led is not None and (self.suspended or not self.ended)

    @property
    def size(self) -> int:
        return sum(podset.count for podset in self.podsets)

    @property
    def completions(self) -> int:
        """The completions as in PodSet; only jobs of one podset have them."""
        return self.podsets[0].completions

    @property
    def least(self) -> int:
        return sum(podset.minimum for podset in self.podsets)

    @property
    def slots(self) -> dict[SlotKey, tuple[PodSet, int]]:
        return {podset.slot(index): (podset, index) for podset in self.podsets for index in range(podset.count)}

    def shown(self) -> Job:
        """The job as the extender's watch reads it."""
        unnumbered = [podset.prefix for podset in self.podsets if not podset.indexed]
        return Job(
            PodSets(self.key, tuple(map(self._to_come, self.podsets))),
            Controller("batch/v1", "Job", self.key.name, self.uid),
            managed=self.managed,
            suspended=self.suspended,
            stopped=self.stopped,
            finished=bool(self.ended),
            running=self.ran,
            held=self.held,
            marked=self.marked,
            plan=self.plan,
            node_wait=self.node_wait,
            in_vain=self.in_vain,
            done=frozenset(slot for slot in self.done if slot[0] not in unnumbered),
            closed=sum(map(self._closed, self.podsets)),
            queue=self.queue,
            flavors=self.flavors,
            reservation=self.reservation,
            backfill=self.backfill,
            evicted=self.evicted,
            eviction=self.eviction,
            run=self.run,
            hint=self.hint,
            same_names=self.same_names,
            of_class=self.of_class,
        )

    def read(self) -> Job:
        """The same as its object says it: devices stand in the claims of its pods."""
        job = self.shown()
        return replace(job, podsets=podsets_as_shown(job.podsets))

    def _to_come(self, podset: PodSet) -> PodSet:
        """The podset without its done slots.

        A slot with a node in the plan keeps it, even if its pod finishes while the job runs. Without indexes the
        finished slot is unknown.
        """
        nodes = (self.plan or {}).get(podset.name, ())
        if not podset.indexed:
            count = min(podset.count, max(self._left(podset), len(nodes)))
            return replace(podset, count=count, minimum=min(podset.minimum, count))
        over = (
            at for at in range(podset.count) if podset.slot(at) in self.done and not (at < len(nodes) and nodes[at])
        )
        return replace(podset, left_out=frozenset(over))

    def _left(self, podset: PodSet) -> int:
        """How many of its pods have yet to succeed, as far as this is known."""
        if podset.completions:
            return podset.completions - self.succeeded
        over = 0 if self.closes else sum(podset.slot(at) in self.done for at in range(podset.count))
        return podset.count - over

    def _closed(self, podset: PodSet) -> int:
        if podset.indexed or not (self.done or self.succeeded):
            return 0
        planned = sum(map(bool, (self.plan or {}).get(podset.name, ())))
        return planned if self.closes else max(0, planned - self._left(podset))

    def pod(self, podset: PodSet, index: int, name: str, created: float) -> Pod:
        """The pod that the controller creates for a slot, with the nodes of its template or of the pinning policy."""
        made = as_created(podset, replace(podset.template, uid=name, name=name, created=created))
        made = replace(made, index=index if podset.indexed else None, group=None)
        if self.led is None and self.elsewhere is not None:
            there = self.elsewhere.get(podset.name, ())[index : index + 1]
            return replace(made, scheduler="default-scheduler", node=there[0], phase="Running") if there else made
        if self.led is None:
            return made
        nodes = self.led.get(podset.name, ())
        asks = dict(made.selection.node_selector) | dict(self.labels.get(podset.name, ()))
        tolerated = (*made.selection.tolerations, *self.tolerations.get(podset.name, ()))
        selection = replace(made.selection, node_selector=tuple(sorted(asks.items())), tolerations=tolerated)
        made = replace(made, selection=selection)
        names = tuple(dict.fromkeys(nodes))
        planned = nodes[index] if index < len(nodes) and podset.indexed else ""
        made = replace(made, group=GroupRef(self.key.name, Dialect.ANNOTATION, self.minimum))
        if not self.led or any(_needs_all_nodes(spread) for spread in made.constraints.spread):
            return replace(made, gates=(GANG_GATE,))  # with an affinity only its nodes would count
        if not self.pins and len(names) <= MOST_TERMS and "" not in names:
            return _led(made, names)
        if planned:
            return _led(made, (planned,))
        return replace(made, gates=(GANG_GATE,))


def _needs_all_nodes(spread: Spread) -> bool:
    """Whether a node affinity can break the spread: it may leave too few domains, or domains that lose some pods."""
    return spread.honors_affinity and (spread.min_domains > 1 or spread.key != HOSTNAME)


def written(job: BatchJob, write: Write) -> BatchJob | str:
    """The job after the extender's PATCH, or why nothing is written."""
    match write:
        case StartJob(planned, plan, minimum, flavors):
            is_done = job.plan == dict(plan) if write.node_wait is None else job.node_wait == write.node_wait
            if not job.suspended and is_done:
                return job
            if write.node_wait is None and job.node_wait is not None and not job.suspended:
                return _lead(job, write)
            if not job.managed or job.held or job.ended or not job.stopped or job.read().podsets != planned.podsets:
                return "the job is not as it was when it was planned"
            led = replace(job, led=dict(plan), labels=dict(write.labels), minimum=minimum, flavors=flavors)
            led = replace(led, tolerations=dict(write.tolerations))
            led = replace(led, plan=dict(plan) if write.node_wait is None else None, node_wait=write.node_wait)
            return replace(led, suspended=False, reservation=None, backfill=None, in_vain=None)
        case Reserve():
            return replace(job, **write.fields)
        case SuspendJob(evicted=evicted, in_vain=rest):
            stopped = replace(
                job, suspended=True, plan=None, node_wait=None, flavors=None, evicted=evicted or job.evicted
            )
            return job if job.ended else replace(stopped, in_vain=rest or job.in_vain)
        case CleanJob():
            if job.ended and not job.suspended:
                return replace(job, plan=None, node_wait=None)  # its template cannot be written any more
            clean = replace(job, plan=None, node_wait=None, led=None, labels={}, tolerations={}, minimum=0)
            return clean if job.ended or job.stopped else "it has not stopped"
        case _:
            assert_never(write)


def _lead(job: BatchJob, write: StartJob) -> BatchJob | str:
    """Write the plan of a job that was started without one. Its templates stay as they are."""
    if not job.managed or job.ended or job.read().podsets != write.job.podsets:
        return "the job is not as it was when it was planned"
    return replace(job, plan=dict(write.plan), node_wait=None)


def suspend(job: BatchJob, *, polices: bool) -> BatchJob:
    """Suspend the job, as another client does."""
    stopped = replace(job, suspended=True)
    return replace(stopped, plan=None, node_wait=None) if polices else stopped


def resume(job: BatchJob, *, polices: bool) -> BatchJob:
    """Unsuspend the job, as another client does: the policy keeps a managed job suspended that has no plan."""
    return (
        job if polices and job.managed and job.plan is None and job.node_wait is None else replace(job, suspended=False)
    )


def _led(pod: Pod, names: tuple[str, ...]) -> Pod:
    """Node affinity with a term for each of these nodes."""
    terms = tuple((Requirement("metadata.name", "In", (name,), is_field=True),) for name in names)
    return replace(pod, selection=replace(pod.selection, affinity=terms))
