"""Carry the core's effects out at once, and without failures: the API server and kube-scheduler, collapsed.

The full model of the cluster in the tests has more. Here writes and watches take no time, and nothing fails or is lost.
kube-scheduler agrees with Muster (no volumes, no affinity between pods, no preemption) and has no queue. So a member is
tried the moment it is ungated or nominated, in one cycle that asks filter and then bind. All pods of a started job are
created at once, those of later waves, too.

The core and its policies are the ones of production, unchanged, and see the same events in the same order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from extender.core.answers import BindingPosted, JobWritten, Nominated, Outcome, Reserved, Ungated
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    CleanJob,
    Confirm,
    Deallocate,
    Effect,
    Enqueue,
    Evict,
    Hint,
    JobEffect,
    Nominate,
    PostBinding,
    Report,
    Reserve,
    StartJob,
    SuspendJob,
    Ungate,
    Wake,
)
from extender.core.engine import Engine
from extender.core.events import (
    BindArrived,
    Event,
    FilterCalled,
    JobSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    QueueSeen,
    Synced,
    Tick,
)
from extender.core.gate.stamps import stamp_of
from extender.core.workload.shape import of_job
from extender.simulation.clock import Clock, Timer
from policies.model import GANG_GATE, GroupKey, Job, Node, Pod, PodSet
from policies.model.queues import ResourceFlavor

BIND_TIMEOUT_S = 30.0
"""Seconds that kube-scheduler waits for the answer to a bind, as in the manifests."""


class CollapsedControlPlane:
    """Everything around one core.

    ``pods``, ``jobs``: the API objects, by UID.
    ``bound``: called with each pod that gets a node.
    ``evict``: called with each pod to evict, possibly several times. None: nothing is evicted; such pods, and jobs with
    pods on nodes, stay as they are.
    """

    def __init__(
        self, core: Engine, clock: Clock, bound: Callable[[Pod], None], evict: Callable[[Pod], None] | None = None
    ) -> None:
        self.core = core
        self.pods: dict[str, Pod] = {}
        self.jobs: dict[str, Job] = {}
        self.suspended: list[SuspendJob] = []
        """The suspensions that the core asked for, of jobs that stay as they are."""
        self.evicted: list[Pod] = []
        """The pods that the core asked to evict, if nothing is evicted."""
        self.start_by: dict[GroupKey, float] = {}
        """The earliest instant by which a reservation of each workload said that it starts."""
        self._clock = clock
        self._bound = bound
        self._evict = evict or self.evicted.append
        self._preempts = evict is not None
        self._flavors: dict[str, ResourceFlavor] = {}
        self._calls = count(1)
        self._starts = count(1)
        self._tick: Timer | None = None
        self._tick_at = float("inf")
        self._todo: deque[Effect] = deque()
        self._busy = False

    def begin(self, nodes: Iterable[Node], facts: Iterable[Event] = (), wall: float = 0.0) -> None:
        """Show the core the cluster, and let it act. ``wall``: now, in seconds since the epoch."""
        facts = list(facts)
        seen = [fact.object for fact in facts if isinstance(fact, QueueSeen)]
        self._flavors = {flavor.name: flavor for flavor in seen if isinstance(flavor, ResourceFlavor)}
        for event in (*map(NodeSeen, nodes), *facts, *map(JobSeen, self.jobs.values()), Synced(wall)):
            self.feed(event)
        made: dict[str, list[Pod]] = {}
        for pod in self.pods.values():
            made.setdefault(pod.owner, []).append(pod)
        for job in [job for job in self.jobs.values() if not (job.suspended or job.finished)]:
            self._make_pods(job, made.get(job.uid, []))

    def see(self, pod: Pod) -> None:
        """Show a pod that was created or has changed."""
        self.pods[pod.uid] = pod
        self.feed(PodSeen(pod))

    def gone(self, uid: str) -> None:
        del self.pods[uid]
        self.feed(PodGone(uid))

    def feed(self, event: Event) -> None:
        """Hand an event to the core, and carry out its effects, and all that follow from them, before returning."""
        self._todo.extend(self.core.handle(event, self._clock.now))
        if self._busy:
            return
        self._busy = True
        while self._todo:
            self._carry_out(self._todo.popleft())
        self._busy = False
        self._set_tick()

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case PostBinding():
                self._bind(effect)
            case Nominate(uid, _, _, node) if uid in self.pods:
                self.see(replace(self.pods[uid], nominated_node=node))
                if node is not None:
                    self.feed(Nominated(uid, node))
                    self._try(uid)
            case Ungate(uid, pin=pin) if uid in self.pods:
                gates = tuple(gate for gate in self.pods[uid].gates if gate != GANG_GATE)
                self.see(replace(self.pods[uid], gates=gates))
                self.feed(Ungated(uid))
                self._try(uid, pin)
            case Confirm(uid) if uid in self.pods:
                stamp = self.pods[uid].stamp
                self.see(replace(self.pods[uid], stamp=replace(stamp, complete=True) if stamp else None))
            case Evict(uid) if uid in self.pods:
                self._evict(self.pods[uid])
            case Reserve():
                self._reserve(effect)
            case StartJob() | SuspendJob() | CleanJob():
                self._write_job(effect)
            case (AnswerFilter() | AnswerBind() | AnswerPreempt() | Nominate() | Ungate() | Evict() | Confirm()) | (
                Report() | Hint() | Enqueue() | Wake() | Deallocate()
            ):
                pass

    def _try(self, uid: str, pin: tuple[str, ...] = ()) -> None:
        """Run a cycle of kube-scheduler for the pod, on its nominated node, the nodes of the pin, or all nodes."""
        pod = self.pods[uid]
        if pod.gates or pod.node:
            return
        candidates = (pod.nominated_node,) if pod.nominated_node else pin or tuple(self.core.state.claims.nodes)
        now = self._clock.now
        answers = self.core.handle(FilterCalled(next(self._calls), pod, candidates), now)
        self._todo.extend(answers)
        passed = next(answer.passed for answer in answers if isinstance(answer, AnswerFilter))
        if passed:
            expires = now + BIND_TIMEOUT_S
            self.feed(BindArrived(next(self._calls), pod.uid, pod.namespace, pod.name, passed[0], expires))

    def _reserve(self, effect: Reserve) -> None:
        pod = effect.pod
        if not self._preempts and not effect.backfill:
            return
        if effect.backfill and effect.reservation is not None and (until := effect.reservation.until):
            self.start_by[effect.key] = min(until, self.start_by.get(effect.key, until))
        if pod is not None and pod.uid in self.pods:
            self.see(replace(self.pods[pod.uid], **effect.fields))
        self.feed(Reserved(effect.key, pod, effect.job, effect.reservation, backfill=effect.backfill))

    def _write_job(self, effect: JobEffect) -> None:
        uid, job = effect.job.uid, self.jobs[effect.job.uid]
        if isinstance(effect, SuspendJob):
            pods = [pod for pod in self.pods.values() if pod.owner == uid]
            if any(pod.node and pod.live for pod in pods):
                self.suspended.append(effect)
                return
            for pod in pods:
                self.gone(pod.uid)
        self.jobs[uid] = after = started(job, effect) if isinstance(effect, StartJob) else stopped(job)
        self.feed(JobWritten(effect.job.key, uid, Outcome.DONE))
        self.feed(JobSeen(after))
        if isinstance(effect, StartJob):
            self._make_pods(after)

    def _make_pods(self, job: Job, there: Sequence[Pod] = ()) -> None:
        for pod, nodes in pods_to_create(job, there, next(self._starts), self._flavors):
            if self.jobs[job.uid] is job:
                self.see(pod)
                self._try(pod.uid, nodes)

    def _bind(self, effect: PostBinding) -> None:
        stamp = stamp_of(effect.annotations)
        self.feed(BindingPosted(effect.uid, Outcome.DONE))
        self.see(replace(self.pods[effect.uid], node=effect.node, stamp=stamp, nominated_node=None))
        self._bound(self.pods[effect.uid])

    def _set_tick(self) -> None:
        """Schedule a Tick when the core wants one, and no other."""
        wake = self.core.next_wake()
        if wake is None or wake >= self._tick_at:
            return
        if self._tick is not None:
            self._tick.cancel()
        self._tick_at = max(wake, self._clock.now)
        self._tick = self._clock.at(wake, self._on_tick)

    def _on_tick(self) -> None:
        self._tick, self._tick_at = None, float("inf")
        self.feed(Tick())


def started(job: Job, effect: StartJob) -> Job:
    return replace(
        job,
        suspended=False,
        stopped=False,
        marked=True,
        plan=dict(effect.plan),
        flavors=effect.flavors or None,
        reservation=None,
        backfill=None,
    )


def stopped(job: Job) -> Job:
    """The job suspended, without pods, and without anything of Muster's on it."""
    return replace(
        job,
        suspended=True,
        stopped=True,
        running=False,
        marked=False,
        plan=None,
        flavors=None,
        reservation=None,
        backfill=None,
    )


def pods_to_create(
    job: Job, there: Sequence[Pod], start: int, flavors: Mapping[str, ResourceFlavor]
) -> Iterator[tuple[Pod, tuple[str, ...]]]:
    """Yield the pods to create by the job's plan, each with the nodes that it is steered to.

    ``there``: existing pods, which are left out.
    ``start``: a number of this start alone.
    ``flavors``: all flavors; a pod tolerates what its own ones add.
    """
    for podset in job.podsets.podsets:
        nodes = (job.plan or {}).get(podset.name, ())[: podset.count]
        wanted = [at for at, node in enumerate(nodes) if node and podset.slot(at) not in job.done]
        here = [pod for pod in there if pod.series == podset.name]
        taken = {pod.index for pod in here}
        anywhere = tuple(dict.fromkeys(nodes[at] for at in wanted))
        template = _tolerant(podset.template, job, podset, flavors)
        for at in [at for at in wanted if at not in taken] if podset.indexed else wanted[len(here) :]:
            yield _pod(template, job, podset, at, start), (nodes[at],) if podset.indexed else anywhere


def _tolerant(template: Pod, job: Job, podset: PodSet, flavors: Mapping[str, ResourceFlavor]) -> Pod:
    """The template with what Muster writes on it: the tolerations of its flavors."""
    added = of_job(flavors, (job.flavors or {}).get(podset.name, {})).tolerations
    tolerations = tuple(dict.fromkeys((*template.selection.tolerations, *added)))
    return replace(template, selection=replace(template.selection, tolerations=tolerations))


def _pod(template: Pod, job: Job, podset: PodSet, at: int, start: int) -> Pod:
    name = "-".join(filter(None, (job.owner.name, podset.name, str(at))))
    index = at if podset.indexed else None
    return replace(template, uid=f"{job.uid}.{start}/{podset.name}/{at}", name=name, index=index)
