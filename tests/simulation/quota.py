"""The referee's own count of quota: the usage of each queue's workloads, and whether it is allowed.

A node is of one flavor at most. Cohorts of its seeds are in no other cohort. Queues of Volcano have a capability and
a guarantee; only where some have a guarantee are all nodes a limit, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from extender.core.answers import BindingPosted, JobWritten, Outcome
from extender.core.effects import Effect, Milestone, Nominate, PostBinding, Reached, StartJob, SuspendJob, Ungate
from extender.core.events import Event, JobGone, JobSeen, NodeGone, NodeSeen, QueueGone, QueueSeen, Synced
from extender.core.jobs.elastic import CapacityAsk
from policies.model import GroupKey, Job, Node, Pod, Requests
from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    LocalQueue,
    QueueObject,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Strategy,
    VolcanoQueue,
)
from tests.builders import GPU
from tests.simulation.awaited_nodes import GangsAwaitingNodes
from tests.simulation.claims import Claims
from tests.simulation.queue_plan import FLAVOR, MADE
from tests.simulation.shown import Shown
from tests.simulation.sight import tolerates

Used = Counter[tuple[str, str]]
"""GPUs by queue and flavor."""
ALL_NODES = "nodes"
"""The flavor of all nodes, where there are Queues of Volcano."""
_ENDLESS = 1 << 40
_ROOT = f"{VOLCANO}root"


class Book:
    """The facts of the queue objects, with these nodes."""

    def __init__(self, things: Iterable[QueueObject], nodes: Iterable[Node] = ()) -> None:
        objects = list(things)
        volcanos = [thing for thing in objects if isinstance(thing, VolcanoQueue)]
        known: list[QueueObject] = [thing for thing in objects if not isinstance(thing, VolcanoQueue)]
        self.counts_nodes = any(queue.guarantee for queue in volcanos)
        known += _drawn(volcanos, sum(dict(node.allocatable).get(GPU, 0) for node in nodes))
        self.queues = {thing.name: thing for thing in known if isinstance(thing, ClusterQueue)}
        self._cohorts = {thing.name: thing for thing in known if isinstance(thing, Cohort)}
        self._locals = {thing.name: thing for thing in known if isinstance(thing, LocalQueue)}
        self.flavors = {thing.name for thing in known if isinstance(thing, ResourceFlavor)}

    def queue_of(self, name: str) -> ClusterQueue | None:
        """The ClusterQueue that a LocalQueue leads to."""
        local = self._locals.get(name)
        return None if local is None else self.queues.get(local.queue)

    @property
    def there(self) -> bool:
        return bool(self.queues or self._locals)

    def over(self, queue: ClusterQueue, flavor: str, used: Used) -> str:
        """The limit of that flavor that the queue, or its cohort, exceeds; empty if there is none."""
        quota, mine = _quota(queue, flavor), used[queue.name, flavor]
        if not queue.cohort:
            return _said(queue.name, mine, quota.nominal) if mine > quota.nominal else ""
        if quota.borrowing is not None and mine > quota.nominal + quota.borrowing:
            return _said(queue.name, mine, quota.nominal + quota.borrowing)
        taken, there = self._shared(queue, flavor, used)
        beyond = max(0, mine - _kept(quota))
        return _said(f"cohort {queue.cohort}", taken, there) if beyond and taken > there else ""

    def left(self, queue: ClusterQueue, flavor: str, used: Used, wanted: int) -> bool:
        """Whether the queue could use ``wanted`` more.

        As in Kueue: if quota was made smaller and its cohort uses more than all that is shared, each of its queues
        lacks that excess.
        """
        if self.over(queue, flavor, used + Counter({(queue.name, flavor): wanted})):
            return False
        taken, there = self._shared(queue, flavor, used) if queue.cohort else (0, 0)
        kept = max(0, _kept(_quota(queue, flavor)) - used[queue.name, flavor])
        return taken <= there or kept - (taken - there) >= wanted

    def _shared(self, queue: ClusterQueue, flavor: str, used: Used) -> tuple[int, int]:
        """The used amount and the whole amount of the quota that its cohort shares."""
        own = self._cohorts.get(queue.cohort)
        there = 0 if own is None else _quota(own, flavor).nominal
        taken = 0
        for other in (other for other in self.queues.values() if other.cohort == queue.cohort):
            kept = _kept(_quota(other, flavor))
            there += _quota(other, flavor).nominal - kept
            taken += max(0, used[other.name, flavor] - kept)
        return taken, there


def left_for(book: Book, queue: ClusterQueue, flavor: str, used: Used, wanted: int) -> bool:
    """Whether the queue could use ``wanted`` more GPUs of the flavor."""
    return not wanted or book.left(queue, flavor, used, wanted)


def is_strict(queue: ClusterQueue) -> bool:
    return queue.strategy is Strategy.STRICT


def _drawn(queues: Sequence[VolcanoQueue], total: int) -> Iterator[QueueObject]:
    """Queues of Volcano as queues with their guarantee that may borrow, up to their capability, from the rest of all
    GPUs.

    Yields also the flavor, the cohort and the LocalQueues that they need.
    """
    if not queues:
        return
    guaranteed = sum(queue.guarantee.get(GPU, 0) for queue in queues)
    yield ResourceFlavor(ALL_NODES)
    yield Cohort(_ROOT, groups=_of_all(Quota(total - guaranteed if guaranteed else _ENDLESS)))
    for queue in queues:
        name, own, most = f"{VOLCANO}{queue.name}", queue.guarantee.get(GPU, 0), queue.capability.get(GPU)
        quota = Quota(own, borrowing=None if most is None else most - own, lending=0)
        yield ClusterQueue(name, _of_all(quota), cohort=_ROOT)
        yield LocalQueue("", name, name)


def _of_all(quota: Quota) -> tuple[ResourceGroup, ...]:
    return (ResourceGroup((GPU,), ((ALL_NODES, {GPU: quota}),)),)


def _quota(queue: ClusterQueue | Cohort, flavor: str) -> Quota:
    quota = next((quotas[GPU] for group in queue.groups for name, quotas in group.flavors if name == flavor), None)
    return quota or Quota(0)


def _kept(quota: Quota) -> int:
    """The part of the quota that no other queue may use."""
    return 0 if quota.lending is None else max(0, quota.nominal - quota.lending)


def _said(who: str, used: int, there: int) -> str:
    return f"{who} would use {used} GPUs of {there}"


def used_by(
    pods: Iterable[tuple[Pod, str]],
    nodes: Mapping[str, Node],
    jobs: Mapping[GroupKey, Job],
    book: Book,
    starts: Mapping[GroupKey, StartJob],
    ended: Mapping[GroupKey, Collection[Hashable]],
    unplanned: Iterable[GroupKey],
) -> Used:
    """The usage of pods with their nodes, and of slots of started jobs whose pods are not bound yet.

    ``ended``: the slots of the jobs whose pods have succeeded, by series and index.
    ``unplanned``: jobs that others started.
    """
    used: Used = Counter()
    there: dict[GroupKey, set[object]] = {}
    for pod, node in pods:
        if pod.group_key is None:
            continue
        there.setdefault(pod.group_key, set()).add(pod.identity)
        if pod.terminal:
            continue
        job = jobs.get(pod.group_key)
        _use(used, book, pod.queue if job is None else job.queue, node, pod.requests, nodes)
    for key, start in starts.items():
        job = jobs.get(key, start.job)
        for podset in job.podsets.podsets if podsets_are_indexed(job) else ():
            for at, node in enumerate(start.plan.get(podset.name, ())[: podset.count]):
                slot = podset.slot(at)
                over = slot in job.done or (podset.name, at) in ended.get(key, ())
                if node and slot not in there.get(key, ()) and not over:
                    _use(used, book, start.job.queue, node, podset.template.requests, nodes)
    for key in unplanned:
        _use_unseen(used, book, jobs[key], there.get(key, ()))
    return used


def is_unplanned(job: Job) -> bool:
    """Whether the job runs, without a plan of Muster."""
    return job.plan is None and not (job.suspended or job.finished)


def _use_unseen(used: Used, book: Book, job: Job, there: Collection[object]) -> None:
    """Count the pods of a job that name no gang, and whose places are unknown.

    They count in the first flavor of its queue, or in that which the job states.
    """
    queue = book.queue_of(job.queue)
    if queue is None or not podsets_are_indexed(job):
        return
    for podset in job.podsets.podsets:
        chosen = (job.flavors or {}).get(podset.name, {}).get(GPU) or next(iter(flavors_of(queue)), None)
        slots = [podset.slot(at) for at in range(podset.count) if at not in podset.left_out]
        count = sum(slot not in there and slot not in job.done for slot in slots)
        if chosen is not None:
            used[queue.name, chosen] += count * dict(podset.template.requests).get(GPU, 0)


def use_awaited(used: Used, book: Book, job: Job, there: Collection[object]) -> None:
    """Count the quota of a job without a plan: its flavors, for all of its pods.

    ``there``: pods that count themselves.
    """
    if (queue := book.queue_of(job.queue)) is None:
        return
    bound = Counter(slot[0] for slot in there if isinstance(slot, tuple))
    for podset in job.podsets.podsets:
        chosen = (job.flavors or {}).get(podset.name, {}).get(GPU)
        if chosen is not None:
            count = max(0, podset.size - bound[podset.prefix])
            used[queue.name, chosen] += count * dict(podset.template.requests).get(GPU, 0)


def podsets_are_indexed(job: Job) -> bool:
    """Whether the indexes tell which pod is in which slot: otherwise only Muster knows it."""
    return all(podset.indexed for podset in job.podsets.podsets)


def _use(
    used: Used, book: Book, name: str, node: str, requests: Iterable[tuple[str, int]], nodes: Mapping[str, Node]
) -> None:
    queue, known = book.queue_of(name), nodes.get(node)
    if queue is None or known is None:
        return
    # A node that comes later says nothing, and counts for Volcano's Queues all the same.
    flavor = ALL_NODES if queue.name.startswith(VOLCANO) else known.labels.get(FLAVOR)
    if flavor is not None:
        used[queue.name, flavor] += dict(requests).get(GPU, 0)


def flavors_of(queue: ClusterQueue) -> list[str]:
    return [name for group in queue.groups for name, _ in group.flavors]


_LATE_S = 120.0
"""The longest time since the plan of an effect was made: the queue objects of that time count."""


class QuotaJudge:
    """The usage in one life of the extender, and what it was shown."""

    def __init__(
        self,
        shown: Shown,
        claims: Claims,
        within_s: float = 0.0,
        asks: Callable[[], Iterable[CapacityAsk]] = tuple,
    ) -> None:
        """Make the judge. ``asks``: returns the current capacity requests, whose quota is closed to all others."""
        self._shown = shown
        self._asks = asks
        self.gangs = GangsAwaitingNodes(shown, within_s)
        self._claims = claims
        self._things: dict[str, QueueObject] = {}
        self._books: list[tuple[float, Book]] = [(0.0, Book(()))]
        self.jobs: dict[GroupKey, Job] = {}
        self._starts: dict[GroupKey, StartJob] = {}
        self._broken: dict[GroupKey, tuple[str, ...]] = {}
        """Half-released gangs, with the pods that were bound at that time.

        Their flavors complete the gang, whatever quota there is now.
        """
        self._beyond: dict[str, float] = {}
        """The time at which such a gang was completed with that pod: earlier plans could not know of it."""
        self._unplanned: dict[GroupKey, float] = {}
        """Jobs that run without a plan, and since when this life knows it."""
        self._ours: dict[str, str] = {}
        """Pods that were bound when everything was read, or that are being bound since, and their nodes.

        Empty: the outcome of the Binding is unknown.
        """
        self._left: dict[str, str] = {}
        """The queues of jobs (by UID) that this life has seen vanish."""

    def hear(self, event: Event, now: float) -> None:
        self.gangs.hear(event)
        if isinstance(event, JobSeen | JobGone):
            self._hear_job(event, now)
        match event:
            case QueueSeen(thing):
                self._things[f"{type(thing).__name__}/{thing.name}"] = thing
                self._turn_page(now)
            case QueueGone(thing):
                self._things.pop(f"{type(thing).__name__}/{thing.name}", None)
                self._turn_page(now)
            case NodeSeen() | NodeGone() if self._books[-1][1].counts_nodes:
                self._turn_page(now)
            case JobWritten(key, outcome=Outcome.REFUSED):
                self._starts.pop(key, None)
            case BindingPosted(uid, Outcome.REFUSED):
                self._ours.pop(uid, None)
            case BindingPosted(uid, Outcome.UNKNOWN) if uid in self._ours:
                self._ours[uid] = ""
            case Synced():
                self._books = [(now, self._book())]
                self._ours = {uid: pod.node for uid, pod in self._shown.pods.items() if pod.node}
                running = (job for job in self.jobs.values() if job.plan and not (job.suspended or job.finished))
                self._starts = {job.key: StartJob(job, job.plan or {}, 0) for job in running}
                self._unplanned = dict.fromkeys(self._unplanned, float("-inf"))
            case _:
                pass

    def _hear_job(self, event: JobSeen | JobGone, now: float) -> None:
        job = event.job if isinstance(event, JobSeen) else None
        key = event.key if isinstance(event, JobGone) else event.job.key
        if job is not None:
            self.jobs[key] = job
        elif (gone := self.jobs.pop(key, None)) is not None:
            self._left[gone.uid] = gone.queue
        if job is None or job.suspended or job.finished:
            self._starts.pop(key, None)
        if job is None or not is_unplanned(job):
            self._unplanned.pop(key, None)
        else:
            self._unplanned.setdefault(key, now)

    def judge(self, effect: Effect, now: float) -> str | None:
        """The complaint about an effect that uses too much of a flavor, as known when its plan may have been made."""
        match effect:
            case StartJob(job):
                self._starts.pop(job.key, None)
                if effect.node_wait is not None:
                    return self._judge_node_wait(effect, now)
                self._starts[job.key] = effect
                if job.node_wait is not None and self._is_bound(effect):
                    return None  # an earlier plan is written once more, when the outcome of its write is unknown
                asking = [podset.name for podset in job.podsets.podsets if dict(podset.template.requests).get(GPU)]
                flavors = self._flavors_of({node for name in asking for node in effect.plan.get(name, ())})
                return self._judge(job.queue, f"{job.key} is to be started", flavors, now) if asking else None
            case Reached(key, Milestone.BROKEN):
                there = self._shown.members.get(key, {}).values()
                self._broken[key] = tuple(pod.uid for pod in there if pod.live and pod.node)
            case Reached(key, Milestone.STARTED):
                self._broken.pop(key, None)
            case SuspendJob(job):
                self._starts.pop(job.key, None)
            case Nominate(uid, node=str(node), renew=False) | Ungate(uid, pin=(node,)) if uid in self._shown.pods:
                return self._judge_flavor(self._shown.pods[uid], node, now)
            case PostBinding(uid, node=node):
                self._ours[uid] = node
                return self._judge_posting(uid, node, now)
        return None

    def _in_its_queue(self, pod: Pod) -> Pod:
        """The pods of a job that is gone name no queue."""
        return replace(pod, queue=pod.queue or self._left.get(pod.owner, ""))

    def _is_bound(self, effect: StartJob) -> bool:
        """Whether its pods are where it is planned: they use no more by that."""
        pods = self._shown.members.get(effect.job.key, {}).values()
        there = Counter(pod.node for pod in pods if pod.node and pod.live and pod.owner == effect.job.uid)
        return not Counter(node for names in effect.plan.values() for node in names if node) - there

    def judge_gangs(self, effects: Iterable[Effect], now: float) -> str | None:
        """Check that gangs without a plan have quota for all of their pods, which go to nodes that are made."""
        for key in self.gangs.watch(effects, self.jobs, now):
            made = self._things.get(f"{ResourceFlavor.__name__}/{MADE}")
            taints = made.taints if isinstance(made, ResourceFlavor) else ()
            for pod in self._shown.members.get(key, {}).values():
                if dict(pod.selection.node_selector).get(FLAVOR) == MADE and not tolerates(pod.selection, taints):
                    return f"{key} is to be let go, and no autoscaler would make nodes of {MADE} for {pod.uid}"
            if complaint := self._judge(self.local_of(key), f"{key} is to be let go", {MADE}, now):
                return complaint
        return None

    def _judge_node_wait(self, effect: StartJob, now: float) -> str | None:
        """Check that all of its pods have quota, whether they exist or not."""
        job = replace(effect.job, flavors=effect.flavors)
        self._claims.admissions.awaiting.of.pop(job.key, None)  # its earlier start without a plan has ended
        flavors = {name for by_resource in effect.flavors.values() for name in by_resource.values()}
        return self._judge(job.queue, f"{job.key} is to be let go", flavors, now, job)

    def _judge_posting(self, uid: str, node: str, now: float) -> str | None:
        pod = self._shown.pods.get(uid)
        if pod is None or pod.group_key is None or pod.group_key in self.jobs:
            return None
        if pod.group_key in self._broken:
            self._beyond[uid] = now
            return None  # it is judged when it gets its node
        gpus = dict(pod.requests).get(GPU)
        return self._judge(pod.queue, f"{uid} is to be bound", self._flavors_of({node}), now) if gpus else None

    def _judge_flavor(self, pod: Pod, node: str, now: float) -> str | None:
        """Whether it completes a gang with another flavor than those of its pods that ask for the same."""
        since, book = self._books[-1]
        unsure = book.queue_of(pod.queue) is None or (len(self._books) > 1 and since >= now - _LATE_S)
        uses_none = not dict(pod.requests).get(GPU)
        if uses_none or unsure or pod.group_key not in self._broken or pod.group_key in self.jobs:
            return None
        bound = [
            bound_pod for uid in self._broken[pod.group_key] if (bound_pod := self._shown.pods.get(uid)) is not None
        ]
        flavors = self._flavors_of(
            [member.node for member in bound if member.live and member.node and member.requests == pod.requests]
        )
        if not flavors.issubset(book.flavors) or not flavors or self._flavors_of([node]) <= flavors:
            return None
        return (
            f"{pod.uid} is to be bound to {node}, and the others of its gang have flavor {', '.join(sorted(flavors))}"
        )

    def _flavors_of(self, nodes: Iterable[str]) -> set[str]:
        known = (self._shown.nodes.get(node) for node in nodes)
        return {node.labels[FLAVOR] for node in known if node is not None and FLAVOR in node.labels}

    def _judge(self, name: str, what: str, flavors: set[str], now: float, *more: Job) -> str | None:
        """The complaint about the usage of these flavors. ``more``: jobs that this decision starts without a plan."""
        books = self.books(now - _LATE_S)
        complaint = ""
        for book in books:
            queue = book.queue_of(name)
            if not name or not book.there:
                return None
            if queue is None:
                complaint = complaint or f"{what}, and its queue {name} does not exist"
                continue
            late = [uid for uid, at in self._beyond.items() if at >= now - _LATE_S]
            used = self.used(book, late, now - _LATE_S, now)
            for job in more:
                use_awaited(used, book, job, ())
            own_flavors = (flavor for flavor in flavors_of(queue) if flavor in flavors)
            problem = next((text for flavor in own_flavors if (text := book.over(queue, flavor, used))), "")
            if not problem:
                return None
            complaint = f"{what}, and {problem}"
        return complaint or None

    def books(self, since: float) -> list[Book]:
        """The versions of the queue objects since then, the present last."""
        books = [book for at, book in self._books if at >= since]
        return books if len(books) == len(self._books) else [self._books[-len(books) - 1][1], *books]

    def local_of(self, key: GroupKey) -> str:
        """The LocalQueue that a gang or job names."""
        if (job := self.jobs.get(key)) is not None:
            return job.queue
        return next((pod.queue for pod in self._shown.members.get(key, {}).values() if pod.queue), "")

    def bears_out(self, job: Job, now: float) -> bool:
        """Whether the queue of the job can have it running: it exists, with its flavors, and does not exceed its quota.

        ``job``: a started job without bound pods. A queue within its own quota does not exceed it, whatever its cohort
        lacks.
        """
        return not job.queue or all(self._bears(job, book, now) for book in self.books(now - _LATE_S))

    def _bears(self, job: Job, book: Book, now: float) -> bool:
        queue, nodes = book.queue_of(job.queue), self._shown.nodes
        if queue is None or not book.flavors.issuperset(flavors_of(queue)):
            return False
        used, slots = self.used(book, now=now), self._claims.admissions.slots
        for key in (key for key in slots.of if key in self.jobs):
            # ``used`` counts the job no more, which is to be suspended, and no slots without an index.
            if key == job.key or not podsets_are_indexed(self.jobs[key]):
                for _, node, requests in slots.unfilled(key, {}):
                    _use(used, book, self.jobs[key].queue, node, requests, nodes)
        own = self._flavors_of({node for names in (job.plan or {}).values() for node in names})
        beyond = (name for name in flavors_of(queue) if used[queue.name, name] > _quota(queue, name).nominal)
        return not any(name in own and book.over(queue, name, used) for name in beyond)

    def awaited(self) -> Iterator[tuple[GroupKey, Requests]]:
        """Slots of jobs without indexes that wait for their pods: these are not counted in ``used``."""
        slots, busy = self._claims.admissions.slots, self._claims.on_their_way
        for key in (key for key in slots.of if key in self.jobs and not podsets_are_indexed(self.jobs[key])):
            yield from ((key, requests) for _, _, requests in slots.unfilled(key, busy))

    def used(
        self, book: Book, but: Collection[str] = (), unplanned_before: float = float("inf"), now: float = float("inf")
    ) -> Used:
        """The usage of bound pods, of those being bound, and of started jobs.

        A Binding with an unknown outcome counts while its node is promised to the pod. A job that runs without a
        plan counts if this life has read it at its beginning, or has known it since then.

        ``but``: pods that are left out.
        """
        pods, promised = self._shown.pods, self._claims.on_their_way
        ours = [(uid, node) for uid, node in self._ours.items() if uid in pods and uid not in but]
        where = {uid: node or pods[uid].node or promised.get(uid) for uid, node in ours}
        there = [(self._in_its_queue(pods[uid]), node) for uid, node in where.items() if node]
        ended = {key: admission.done for key, admission in self._claims.admissions.slots.of.items()}
        awaiting = self._claims.admissions.awaiting.of
        unplanned = [key for key, at in self._unplanned.items() if at < unplanned_before and key not in self._starts]
        unplanned = [key for key in unplanned if key not in awaiting]
        admitted = self._claims.admissions.slots.of  # the room of one that is to be stopped is for others, too
        starts = {key: start for key, start in self._starts.items() if key not in admitted or not admitted[key].trouble}
        used = used_by(there, self._shown.nodes, self.jobs, book, starts, ended, unplanned)
        stops = self._claims.admissions.stops
        for key, awaiting_job in awaiting.items():
            known = awaiting_job.sure or awaiting_job.since < unplanned_before
            if known and key not in self._starts and not (awaiting_job.shown and stops(key)):
                use_awaited(used, book, awaiting_job.job, [pod.identity for pod, _ in there if pod.group_key == key])
        for ask in self._asks():
            self._use_asked(used, book, ask)
        for pod in self.gangs.pods(now):
            if pod.uid not in where and (queue := book.queue_of(pod.queue)) is not None:
                used[queue.name, MADE] += dict(pod.requests).get(GPU, 0)
        return used

    def _use_asked(self, used: Used, book: Book, ask: CapacityAsk) -> None:
        """Count the quota of the flavors of the nodes that a job requests."""
        job = self.jobs.get(ask.key)
        queue = None if job is None else book.queue_of(job.queue)
        if job is None or queue is None or not job.suspended:
            return
        gpus = {podset.name: dict(podset.template.requests).get(GPU, 0) for podset in job.podsets.podsets}
        for requested in ask.pods:
            if (flavor := dict(requested.labels).get(FLAVOR)) is not None:
                used[queue.name, flavor] += requested.count * gpus.get(requested.podset, 0)

    def _turn_page(self, now: float) -> None:
        self._books.append((now, self._book()))

    def _book(self) -> Book:
        return Book(self._things.values(), self._shown.nodes.values())
