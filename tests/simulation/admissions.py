"""The referee's own book of admitted jobs: where their slots are, and the causes for which a job may be stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from extender.core.answers import BindingPosted, JobWritten, Outcome, PodTried, Verdict
from extender.core.effects import CleanJob, PostBinding, StartJob, SuspendJob
from extender.core.events import Event, FilterCalled, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from policies.model import GroupKey, Job, Node, PlannedNodes, Pod, PodSet, PodSets, Requests, SlotKey, Toleration
from tests.simulation.awaited_nodes import JobsAwaitingNodes, Tolerated
from tests.simulation.model.additions import real
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, fits, lets_in, take, tolerating


@dataclass(slots=True)
class Admission:
    """An admitted job.

    ``came_at``: when its last pod came, or when it was started.
    ``trouble``: the event for which it may be suspended.
    ``shown``: whether the watch shows it.
    ``done``: slots that want no other pod, whether their pods exist or not. The key is the series and index, or a
      UID; the value is the series and node of the succeeded pod.
    ``over``: the slots that are done by the status of the job, so that no life of the extender can miss them.
    """

    uid: str
    podsets: PodSets
    plan: PlannedNodes
    came_at: float
    trouble: str = ""
    shown: bool = False
    done: dict[Hashable, tuple[str, str]] = field(default_factory=dict)
    over: frozenset[tuple[str, int]] = frozenset()
    tolerations: Mapping[str, tuple[Toleration, ...]] = field(default_factory=dict)
    """The tolerations that its pods have for its flavors, by series."""
    nodes: PlannedNodes = field(init=False)
    """The nodes of the plan that slots have."""
    wanted: Mapping[str, int] = field(init=False)
    """How many pods the job wants now, by series."""
    quorum: int = 0
    """The quorum of its start: how many pods start together at least. The job may have been made larger since."""
    earlier: frozenset[str] = frozenset()
    """UIDs of pods of an earlier start. On a silent node they may be shown indefinitely."""
    ended_well: dict[str, set[str]] = field(default_factory=dict)
    """UIDs of succeeded pods, by series.

    A podset with completions gets another pod for each, until enough have succeeded.
    """
    closed: bool = False
    """Whether the status of the job rules out that it makes any more pods."""
    inherited: bool = False
    """Whether an earlier life, or another client, has started it."""
    forgotten: bool = False
    """Whether its plan was revoked: then waiting pods bind only after the job has been started again."""

    def __post_init__(self) -> None:
        self.want(self.podsets)
        self.adopt(())

    def want(self, podsets: PodSets) -> None:
        """The job may be made smaller or larger while it runs."""
        self.wanted = {podset.name: podset.count for podset in podsets.podsets}

    def adopt(self, pods: Iterable[Pod]) -> None:
        """Record the pods that exist when the job is admitted. ``pods``: those of its gang.

        A pod that was terminating at the start fills no slot: another pod comes for it. The same holds for a succeeded
        pod without an index. Of an inherited job, such a pod where there is a slot may have come after the start.

        An earlier life may have planned more pods than the job wants now. Without indexes the controller may have kept
        any of them: their nodes are dropped first.
        """
        pods = list(pods)
        ending = [pod for pod in pods if pod.deleting and pod.node]
        ending += [pod for pod in pods if pod.phase == "Succeeded" and pod.index is None]
        came_after = self.plan if self.inherited else {}
        self.earlier = frozenset(pod.uid for pod in ending if pod.node not in came_after.get(pod.series, ()))
        # The watches list jobs before their pods: such a pod was recorded as finished when it was shown.
        self.done = {slot: where for slot, where in self.done.items() if slot not in self.earlier}
        own, nodes = [pod for pod in self._own(pods) if pod.live], {}
        stamps = (pod.stamp for pod in own if pod.node)
        quorums = (stamp.quorum for stamp in stamps if stamp is not None and stamp.quorum)
        self.quorum = min([self.podsets.first_wave, *quorums])
        for podset in self.podsets.podsets:
            names = self.plan.get(podset.name, ())
            if not podset.indexed:
                names = _kept_first(names, Counter(pod.node for pod in own if pod.series == podset.name))
            nodes[podset.name] = names[: podset.count]
        self.nodes = nodes

    def finish(self, pod: Pod) -> None:
        """Record a succeeded pod, whose slot gets no other pod. Slots that were done before the start do not count."""
        if pod.owner != self.uid or pod.phase != "Succeeded":
            return
        self.ended_well.setdefault(pod.series, set()).add(pod.uid)
        if pod.uid in self.earlier or self._is_beyond(pod):
            return
        slots, ended = sum(series == pod.series for series, *_ in self.slots()), len(self.ended_well[pod.series])
        own = [podset for podset in self.podsets.podsets if podset.name == pod.series]
        if not any(pod.index in podset.left_out or ended + slots <= podset.completions for podset in own):
            slot_key = pod.uid if pod.index is None else (pod.series, pod.index)
            self.done[slot_key] = pod.series, pod.node or ""

    def end(self, done: Collection[SlotKey], closed: int) -> None:
        """Record which slots are done by the status of the job, and how many pods without an index get no successor."""
        self.closed = closed >= sum(1 for _ in self.slots()) > 0
        slots = (
            (podset, at) for podset in self.podsets.podsets for at in range(podset.count) if podset.slot(at) in done
        )
        self.over = frozenset((podset.name, at) for podset, at in slots if any(self.nodes[podset.name][at : at + 1]))
        for series, at in sorted(self.over):
            self.done.setdefault((series, at), (series, self.nodes[series][at]))

    def wants(self, node: str) -> Iterator[PodSet]:
        """The podsets that have slots there which are not over."""
        for podset in self.podsets.podsets:
            names = enumerate(self.plan.get(podset.name, ()))
            if any(name == node and (podset.name, at) not in self.over for at, name in names):
                yield podset

    def note(self, trouble: str) -> None:
        """The first one stays."""
        self.trouble = self.trouble or trouble

    def slots(self) -> Iterator[tuple[str, str, Requests]]:
        """Series, node and requests of each that has a node."""
        for podset in self.podsets.podsets:
            for node in self.nodes[podset.name]:
                if node:
                    yield podset.name, node, podset.template.requests

    def missing(self, pods: Iterable[Pod]) -> int:
        """How many slots have a node and no pod. ``pods``: those of its gang."""
        if self.closed:
            return 0
        live = sum(pod.live and (pod.series, pod.index) not in self.done for pod in self._own(pods))
        return sum(1 for _ in self.slots()) - live - len(self.done)

    def unfilled(self, pods: Iterable[Pod], on_their_way: Mapping[str, str]) -> Iterator[tuple[str, str, Requests]]:
        """Slots that have a node and no pod there. ``on_their_way``: unbound pods that have room of their own now, with
        its node.

        A pod that the job can do without may have gone elsewhere: its slot keeps no room.
        """
        if self.closed:
            return
        own = [pod for pod in self._own(pods) if not pod.terminal]
        there = Counter((pod.series, pod.node or on_their_way.get(pod.uid)) for pod in own)
        # The watch may be late to show that a pod has ended.
        indexes = {(pod.series, pod.index) for pod in own}
        there.update(where for slot, where in self.done.items() if slot not in indexes)
        filled, free = there.copy(), []
        for slot in self.slots():
            if there[slot[:2]] > 0:
                there[slot[:2]] -= 1
            else:
                free.append(slot)
        elsewhere = Counter(series for series, node in there.elements() if node)
        left = Counter(self.wanted)
        left.subtract(series for series, node in filled.elements() if node)
        for slot in free:
            if elsewhere[slot[0]] > 0:
                elsewhere[slot[0]] -= 1
            elif left[slot[0]] > 0:
                left[slot[0]] -= 1
                yield slot

    def left_behind(self, pods: Collection[Pod], on_their_way: Mapping[str, str]) -> list[tuple[str, str, Requests]]:
        """The slots that waiting pods of the job may take, when the job makes no more pods."""
        own = [pod for pod in self._own(pods) if pod.live and not pod.node and pod.uid not in on_their_way]
        waiting = {pod.series for pod in own}
        return [slot for slot in self.unfilled(pods, on_their_way) if slot[0] in waiting]

    def drop_waiting(self, pods: Iterable[Pod], on_their_way: Mapping[str, str]) -> None:
        """Drop the room that was planned for waiting pods.

        A job that can do without these pods goes on, and they are planned one by one afterwards.
        """
        own = [pod for pod in self._own(pods) if pod.live and (pod.node or pod.uid in on_their_way)]
        there = Counter(pod.series for pod in own)
        self.forgotten = any(there[podset.name] < podset.least for podset in self.podsets.podsets)
        if self.forgotten:
            return
        for series, node, _ in list(self.unfilled(pods, on_their_way)):
            taken = {pod.index for pod in own if pod.series == series}
            names = list(self.nodes[series])
            at = next((at for at, name in enumerate(names) if name == node and at not in taken), names.index(node))
            names[at] = ""
            self.nodes = {**self.nodes, series: tuple(names)}

    def is_ending(self, pods: Iterable[Pod]) -> bool:
        """Whether pods of the job have succeeded, others wait, and none runs.

        Its controller then decides about a free slot: it reports the job as over, or makes another pod.
        """
        live = [pod for pod in self._own(pods) if pod.live]
        return bool(self.done and live) and not any(pod.node for pod in live)

    def is_crowded(self, pods: Iterable[Pod], on_their_way: Mapping[str, str]) -> bool:
        """Whether there are more pods without an index than slots, and some wait without room of their own.

        The referee cannot tell whether room is kept for those, if other pods have room, or if slots of succeeded
        pods are free.
        """
        live = [pod for pod in self._own(pods) if pod.live and pod.index is None]
        many = Counter(pod.series for pod in live)
        ended = Counter(series for series, _ in self.done.values())
        slots = Counter(series for series, _, _ in self.slots())
        waiting = {pod.series for pod in live if not pod.node and pod.uid not in on_their_way}
        others = {pod.series for pod in live if not pod.node and pod.uid in on_their_way}
        return any(
            (slot in others and many[slot] > slots[slot]) or (ended[slot] and many[slot] + ended[slot] > slots[slot])
            for slot in waiting
        )

    def refuses(
        self, pod: Pod, candidates: Sequence[str], pods: Iterable[Pod], on_their_way: Mapping[str, str]
    ) -> bool:
        """Whether kube-scheduler leaves out a node that the pod may go to.

        A pod with an index goes to its own node, another one to any unfilled slot of its podset.
        """
        if pod.index is not None:
            wanted = set(self.plan.get(pod.series, ())[pod.index : pod.index + 1])
        else:
            others = {uid: node for uid, node in on_their_way.items() if uid != pod.uid}
            wanted = {node for series, node, _ in self.unfilled(pods, others) if series == pod.series}
        return bool(wanted - {"", *candidates})

    def _own(self, pods: Iterable[Pod]) -> list[Pod]:
        """The pods that fill slots.

        A pod whose index has no node in the plan fills no other slot, wherever it is. A pod of an earlier start
        fills none.
        """
        own = (pod for pod in pods if pod.owner == self.uid and pod.uid not in self.earlier)
        return [pod for pod in own if not self._is_beyond(pod)]

    def _is_beyond(self, pod: Pod) -> bool:
        return pod.index is not None and not any(self.nodes.get(pod.series, ())[pod.index : pod.index + 1])


def _kept_first(names: Sequence[str], kept: Counter[str | None]) -> tuple[str, ...]:
    first: list[str] = []
    others: list[str] = []
    for name in names:
        (first if kept[name] > 0 else others).append(name)
        kept[name] -= 1
    return (*first, *others)


@dataclass(slots=True)
class Slots:
    """The slots of all jobs.

    ``of``: the admitted jobs.
    ``departed``: jobs that are gone or over: their waiting pods keep their nodes until the core reports them as
      forgotten.
    """

    known: Shown
    of: dict[GroupKey, Admission] = field(default_factory=dict)
    departed: dict[GroupKey, Admission] = field(default_factory=dict)

    def admitted(self, pod: Pod) -> Admission | None:
        admission = self.of.get(pod.group_key) if pod.group_key is not None else None
        return admission if admission is not None and admission.uid == pod.owner else None

    def unfilled(self, key: GroupKey, on_their_way: Mapping[str, str]) -> Iterator[tuple[str, str, Requests]]:
        """Slots that have a node and no pod there.

        ``on_their_way``: unbound pods that have room of their own now, with its node.
        """
        return self.of[key].unfilled(self.pods(key), on_their_way)

    def left_behind(self, key: GroupKey, on_their_way: Mapping[str, str]) -> list[tuple[str, str, Requests]]:
        """Slots that pods of a job may stand in which is gone, or over."""
        admission = self.departed.get(key)
        return admission.left_behind(self.pods(key), on_their_way) if admission is not None else []

    def drop_waiting(self, key: GroupKey, on_their_way: Mapping[str, str]) -> None:
        """The nodes of its pods that wait are given up."""
        self.departed.pop(key, None)
        if (admission := self.of.get(key)) is not None:
            admission.drop_waiting(self.pods(key), on_their_way)

    def take(self, room: Room, on_their_way: Mapping[str, str], *, surely: bool) -> None:
        """Subtract the room of slots without pods. ``surely``: leave out jobs that may be stopped, or are gone."""
        for slot in [slot for key in self.departed for slot in self.left_behind(key, on_their_way)]:
            if slot[1] in room and not surely:
                take(room[slot[1]], slot[2])
        for key, admission in self.of.items():
            if surely and admission.trouble:
                continue
            for _, node, requests in self.unfilled(key, on_their_way):
                if node in room:
                    take(room[node], requests)

    def has_slot(self, pod: Pod, node: str, on_their_way: Mapping[str, str]) -> bool:
        """Whether the pod can fill a slot of its job there."""
        key = pod.group_key
        if key is None or self.admitted(pod) is None:
            return False
        return any(slot[:2] == (pod.series, node) for slot in self.unfilled(key, on_their_way))

    def nodes(self, on_their_way: Mapping[str, str]) -> set[str]:
        """The nodes on which slots wait for their pods, for jobs that there is no cause to stop."""
        of = [key for key, admission in self.of.items() if not admission.trouble]
        return {slot[1] for key in of for slot in self.unfilled(key, on_their_way)}

    @property
    def awaited(self) -> bool:
        """Whether pods of some job are yet to be made."""
        return any(self.missing(key) for key in self.of)

    @property
    def ending(self) -> bool:
        """Whether a job is about to be over, or to make pods again, or is over while pods of it wait."""
        return any(
            admission.is_ending(self.pods(key)) for book in (self.of, self.departed) for key, admission in book.items()
        )

    def crowded(self, on_their_way: Mapping[str, str]) -> bool:
        """Whether a job has pods beyond its plan, so that the room kept for its other pods is unknown."""
        return any(admission.is_crowded(self.pods(key), on_their_way) for key, admission in self.of.items())

    def missing(self, key: GroupKey) -> int:
        return self.of[key].missing(self.pods(key))

    def pods(self, key: GroupKey) -> Collection[Pod]:
        return self.known.members.get(key, {}).values()


OURS = "muster"
_UNFOUNDED = "the start that is written on it does not hold"
_TRIED_AGAIN_S = 30.0
"""15 s, and the time of dry runs before it, and of requests without an answer."""


@dataclass(slots=True)
class Admissions:
    """The admitted jobs in one life of the extender.

    ``calm``: nothing goes wrong.
    ``creation_s``: how long the next pod may take to come.
    """

    known: Shown
    calm: bool
    creation_s: float
    jobs: dict[GroupKey, Job] = field(default_factory=dict)
    writing: dict[GroupKey, StartJob | SuspendJob | CleanJob] = field(default_factory=dict)
    excused: dict[GroupKey, float] = field(default_factory=dict)
    """The time until which a job may be left alone after something went wrong with it."""
    awaiting: JobsAwaitingNodes = field(default_factory=JobsAwaitingNodes)
    stopping: dict[GroupKey, str] = field(default_factory=dict)
    """UIDs of jobs that were to be suspended, until the watch shows the suspension: the write may be repeated."""
    _resumed: GroupKey | None = None
    """The job that the last event has shown to run by a plan, after others had stopped it."""
    broken: dict[GroupKey, str] = field(default_factory=dict)
    """UIDs of jobs that were bound in part for as long as they may be, until the watch shows that they are stopped."""
    seen_at: dict[str, float] = field(default_factory=dict)
    """The time at which each pod was seen first."""
    refused: dict[str, None] = field(default_factory=dict)
    """Namespaces of jobs that were suspended because their pods had not come: others need not wait for these again."""
    uncreated: dict[str, None] = field(default_factory=dict)
    """UIDs of jobs that were suspended because pods of them did not come, until one does."""
    learnt: dict[str, None] = field(default_factory=dict)
    """Shapes of which a pod was seen, or tried, that asks for something else than its template."""
    without_quota: dict[str, float] = field(default_factory=dict)
    """Shapes of which the API server has refused the last dry run for now, and until when it may be left at that."""
    slots: Slots = field(init=False)
    _size: dict[str, Requests] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.slots = Slots(self.known)

    # Events: ``known`` has handled each of them already.

    def hear(self, event: Event, now: float) -> None:
        self._resumed = None
        self.awaiting.hear(event, now)
        match event:
            case JobSeen(job) if self._is_being_led(job):
                self.jobs[job.key] = job
            case JobSeen(job):
                self._job_seen(job, now)
            case JobGone(key, uid):
                self._job_gone(key, uid)
            case JobWritten(key, uid, outcome):
                self._written(key, uid, outcome, now)
            case NodeSeen(node):
                self._look_at_nodes(node.name, taken=self._shrunk(node))
            case NodeGone(name):
                self._look_at_nodes(name)
            case PodSeen(pod):
                self._pod_seen(pod, now)
            case PodTried():
                self._tried(event, now)
            case _:
                self._hear_more(event)

    def _hear_more(self, event: Event) -> None:
        match event:
            case Synced():
                for key, admission in self.slots.of.items():
                    pods = self.slots.pods(key)
                    admission.adopt(pods)
                    if not self.jobs[key].closed and any(pod.uid in admission.done for pod in pods):
                        admission.note("nobody can tell whether its pods succeeded before its start")
            case PodGone(uid):
                self.seen_at.pop(uid, None)
            case BindingPosted(uid, outcome) if outcome is not Outcome.DONE and uid in self.known.pods:
                failed = self.slots.admitted(self.known.pods[uid])
                if failed is not None:
                    failed.note(f"{uid} could not be bound")
            case _:
                pass

    def _tried(self, event: PodTried, now: float) -> None:
        self.without_quota.pop(event.shape, None)
        if event.pod is not None:
            self.learnt[event.shape] = None
            if not any(pod.node for pod in self.slots.pods(event.key)):  # else its own pods tell what they ask for
                self._correct(event.pod)
        if event.verdict is Verdict.NOT_NOW:
            self.without_quota[event.shape] = now + _TRIED_AGAIN_S

    def refused_for_now(self, job: Job) -> list[float]:
        """Return until when Muster may leave alone each podset whose last dry run was refused for now."""
        known = (self.without_quota.get(podset.shape) for podset in job.podsets.podsets)
        return [until for until in known if until is not None]

    def ask(self, call: FilterCalled, on_their_way: Mapping[str, str]) -> None:
        """Handle a filter call. ``on_their_way``: unbound pods that have room of their own now, with its node.

        The pod belongs to the gang that the watch shows: kube-scheduler may know earlier of a move to another gang.
        """
        pod = self.known.pods.get(call.pod.uid, call.pod)
        admission = self.slots.admitted(pod)
        if admission is None or pod.group_key is None:
            return
        if admission.refuses(pod, call.candidates, self.slots.pods(pod.group_key), on_their_way):
            admission.note(f"kube-scheduler refuses {pod.uid} its nodes")

    def compare(self, left: Callable[[Iterable[str]], Room], *, unsure: bool) -> None:
        """Note if others were promised the room of a job while it was stopped. To be called after ``hear``.

        The job may be started again by the plan that is still on it.

        ``left``: the room beside all promises.
        ``unsure``: whether there may be unreported promises.
        """
        admission = self.slots.of.get(self._resumed) if self._resumed is not None else None
        if admission is None:
            return
        room = left([node for _, node, _ in admission.slots()])
        if unsure or any(amount < 0 for amounts in room.values() for amount in amounts.values()):
            admission.note("its room was promised to others while it was stopped")

    def crowd(self, node: str) -> None:
        """Record a pod on the node that takes promised room: any job with slots there may lose its plan."""
        for key, admission in self.slots.of.items():
            if any(where == node for _, where, _ in self.slots.unfilled(key, {})):
                admission.note(f"others take more of node {node} than was left")

    def post(self, binding: PostBinding) -> None:
        """Note if a single pod takes the room of a slot.

        A single pod may be bound where the watch shows no room: kube-scheduler knows earlier that a pod has ended.
        The ended pod may have had a slot that another pod of its job is to fill.
        """
        pod, node = self.known.pods.get(binding.uid), binding.node
        if binding.group is not None or pod is None or fits(self.known.free(node), pod.requests):
            return
        for admission in self.slots.of.values():
            if any(admission.wants(node)):
                admission.note(f"the room of a pod of it on {node} was another's before the watch showed its end")

    def break_off(self, key: GroupKey) -> None:
        """Record that the start of a job broke off, and that it was bound in part for the longest allowed time.

        Other clients may have started it again since, without a plan.
        """
        if (admission := self.slots.of.get(key)) is not None:
            admission.note("its start broke off")
        if (job := self.jobs.get(key)) is not None:
            self.broken[key] = job.uid

    def disprove(self, effect: SuspendJob) -> None:
        """Record that a start which this life has not written is not believed: the queue does not bear it out.

        Any client may write one. Pods that are bound prove it.
        """
        key = effect.job.key
        bound = any(pod.node for pod in self.slots.pods(key) if pod.owner == effect.job.uid)
        doubted = _UNFOUNDED in effect.reason and not bound
        if doubted and (admission := self.slots.of.get(key)) is not None and admission.inherited:
            admission.note("its queue does not bear its start out, and nothing else proves it")

    def pardon(self, until: float) -> None:
        """The extender stands still."""
        for admission in self.slots.of.values():
            admission.note("the extender stood still")
        for key in self.jobs:
            self.excused[key] = max(until, self.excused.get(key, 0.0))

    def _shrunk(self, node: Node) -> bool:
        before, self._size[node.name] = self._size.get(node.name, node.allocatable), node.allocatable
        return any(amount < dict(before).get(name, 0) for name, amount in node.allocatable)

    def _is_being_led(self, job: Job) -> bool:
        """Whether the job was started without a plan, and the watch does not show its new plan yet."""
        admission = self.slots.of.get(job.key)
        on_its_way = admission is not None and admission.uid == job.uid and not admission.shown
        awaits = job.node_wait is not None and not (job.suspended or job.finished)
        return on_its_way and job.key in self.writing and awaits

    def _job_gone(self, key: GroupKey, uid: str) -> None:
        if key in self.jobs and self.jobs[key].uid == uid:
            del self.jobs[key]
            self._depart(key)

    def _job_seen(self, job: Job, now: float) -> None:
        key = job.key
        before, self.jobs[key] = self.jobs.get(key), job
        admission = self.slots.of.get(key)
        if before is not None and before != job:
            self.excused[key] = max(self.excused.get(key, 0.0), now)
        if admission is not None and (admission.uid != job.uid or job.finished or not job.managed):
            return self._depart(key)
        if job.suspended or self.stopping.get(key) != job.uid:
            self.stopping.pop(key, None)
            self.broken.pop(key, None)
        if job.suspended:
            # If a client reverts a start before the watch shows it, the start leaves its mark on the templates. Without
            # a mark the room is held until the write is answered.
            over = job.marked or (admission is not None and admission.shown and key not in self.writing)
            return self.end(key) if over else None
        if admission is None:
            self._resumed = key if before is not None else None
            return self._adopt(job, now, late=before is not None and before.plan is None)
        if not admission.shown and job.plan not in (None, admission.plan):
            self.end(key)
            return self._adopt(job, now, late=True)
        if not admission.shown and key in self.writing and self.writing[key].job.suspended:
            # The job controller sees the job now, whenever the write is answered. A job started without a plan it has
            # seen already.
            admission.came_at = now
        admission.shown = True
        if job.plan != admission.plan:
            admission.note("its plan was taken off it")
        if (podsets := self.as_known(job.podsets)) != admission.podsets:
            admission.note("it asks for other pods")
            admission.want(podsets)
        admission.end(job.done, job.closed)
        return None

    def _adopt(self, job: Job, now: float, *, late: bool) -> None:
        """Adopt a job that an earlier life, or another client, has started. ``late``: after this life had read the
        cluster.

        Then the room of its plan may be promised to others already.
        """
        if job.key in self.stopping or job.plan is None or job.finished:
            return
        self.admit(job, job.plan, now, self.awaiting.tolerated(job), inherited=True)
        nodes = [node for _, node, _ in self.slots.of[job.key].slots()]
        self._look_at_nodes(*nodes)
        self._look_for_others(*nodes)
        for pod in filter(self.slots.admitted, self.slots.pods(job.key)):
            self._look_at_pod(self.slots.of[job.key], pod)
        if len(nodes) < job.podsets.minimum:
            self.slots.of[job.key].note("nobody can tell its plan from one that was never whole")
        if late:
            self.slots.of[job.key].note("an earlier life has started it late")

    def _written(self, key: GroupKey, uid: str, outcome: Outcome, now: float) -> None:
        write = self.writing.get(key)
        if write is None or write.job.uid != uid:
            return
        del self.writing[key]
        if outcome is not Outcome.DONE:
            self.excused[key] = now + 61.0
        if isinstance(write, StartJob) and key in self.slots.of and self.slots.of[key].plan != write.plan:
            return  # it runs by the plan of an earlier life, whatever happens to this one
        if isinstance(write, StartJob) and outcome in (Outcome.REFUSED, Outcome.UNSENT):
            self.end(key)
        elif isinstance(write, StartJob) and key in self.slots.of:
            if not self.slots.of[key].shown:
                self.slots.of[key].came_at = now
            if outcome is Outcome.UNKNOWN:
                self.slots.of[key].note("nobody knows whether it was started")

    def _pod_seen(self, pod: Pod, now: float) -> None:
        new = pod.uid not in self.seen_at
        self.seen_at.setdefault(pod.uid, now)
        if new:
            self.uncreated.pop(pod.owner, None)
            self._compare(pod)
        admission = self.slots.admitted(pod)
        for key, other in self.slots.of.items():
            if other.uid == pod.owner and pod.group_key != key:
                other.note(f"{pod.uid} was given to another gang")
        if admission is not None:
            admission.finish(pod)
            if new:
                admission.came_at = now
            self._look_at_pod(admission, pod)
        if pod.node:
            # This includes pods of jobs: when the outcome of a Binding was unknown for long enough, its room was free
            # for others.
            self._look_at_nodes(pod.node, taken=pod.scheduler != OURS)

    def _compare(self, pod: Pod) -> None:
        """Compare a new pod with its template. What else it asks for is to be planned with from then on.

        That holds for pods of a job that is being stopped, too, which has no admission any more.
        """
        job = self.jobs.get(pod.group_key) if pod.group_key is not None else None
        if job is not None and not pod.node and pod.live:
            self.learnt |= dict.fromkeys(_unlike(job.podsets, pod))
        self._correct(pod)

    def _correct(self, pod: Pod) -> None:
        """Note a start that was planned by a template from which its pods differ as this one does."""
        admission = self.slots.admitted(pod)
        if admission is not None and _unlike(admission.podsets, pod):
            admission.note("its pods ask for something else than their template")
            admission.podsets = self.as_known(admission.podsets)

    def as_known(self, podsets: PodSets) -> PodSets:
        """The podsets with the known requests of their pods."""
        made = (real(podset) if podset.shape in self.learnt else podset for podset in podsets.podsets)
        return replace(podsets, podsets=tuple(made)) if self.learnt else podsets

    def _look_at_pod(self, admission: Admission, pod: Pod) -> None:
        """Note a pod that does not go where the plan wants it.

        The watch may be late to show a pod of an earlier start, which is steered elsewhere.
        """
        open_to = [name for name, node in self.known.nodes.items() if lets_in(node, pod.selection)]
        fellows = self.slots.pods(admission.podsets.key)
        led_away = pod.live and not pod.node and admission.refuses(pod, open_to, fellows, {})
        if pod.refusal is not None or led_away:
            admission.note(f"kube-scheduler refuses {pod.uid}")

    def _look_at_nodes(self, *names: str, taken: bool = False) -> None:
        """Note the jobs whose slots there do not fit any more.

        ``taken``: other pods have taken some of the promised room.
        """
        for key, admission in self.slots.of.items():
            if admission.trouble:
                continue
            mine = Counter(self.slots.unfilled(key, {}))
            for name in names:
                for podset in admission.wants(name):
                    node, room = self.known.nodes.get(name), self.known.free(name)
                    for (_, where, requests), count in mine.items():
                        for _ in range(count if where == name else 0):
                            take(room, requests)
                    short = any(left < 0 for left in room.values())
                    selection = tolerating(podset.template.selection, admission.tolerations.get(podset.name, ()))
                    if taken or node is None or short or not lets_in(node, selection):
                        admission.note(f"node {name} is gone, closed or full")

    def _look_for_others(self, *names: str) -> None:
        """An earlier life may have started a job in the room of another one whose suspension was never written."""
        room = {name: self.known.free(name) for name in names}
        self.slots.take(room, {}, surely=False)
        full = {name for name, left in room.items() if any(amount < 0 for amount in left.values())}
        for admission in self.slots.of.values():
            if any(node in full for _, node, _ in admission.slots()):
                admission.note("an earlier life has given its room to two jobs")

    def admit(self, job: Job, plan: PlannedNodes, now: float, tolerated: Tolerated, *, inherited: bool) -> None:
        admission = Admission(
            job.uid,
            self.as_known(job.podsets),
            plan,
            now,
            shown=inherited,
            inherited=inherited,
            tolerations=tolerated,
        )
        self.slots.of[job.key] = admission
        admission.adopt(self.slots.pods(job.key))
        for pod in self.slots.pods(job.key):
            admission.finish(pod)
        admission.end(job.done, job.closed)

    def end(self, key: GroupKey) -> None:
        self.slots.of.pop(key, None)

    def _depart(self, key: GroupKey) -> None:
        if (admission := self.slots.of.pop(key, None)) is not None:
            self.slots.departed[key] = admission

    # Questions

    def left_alone(self) -> dict[GroupKey, float]:
        """Jobs without a plan for which no write is under way, each with the time until which this is allowed."""
        idle = (key for key in self.awaiting.of if not (key in self.writing or key in self.slots.of or self.stops(key)))
        return {key: self.excused.get(key, 0.0) for key in idle}

    def stops(self, key: GroupKey) -> bool:
        """Whether the job is or will be suspended: then its controller replaces no pod."""
        job = self.jobs.get(key)
        return job is not None and (job.suspended or self.stopping.get(key) == job.uid)

    def waits(self, key: GroupKey, now: float) -> bool:
        """Whether it could be planned as soon as there is room."""
        job = self.jobs[key]
        ready = job.managed and job.suspended and job.stopped and not (job.marked or job.held or job.finished)
        idle = key not in self.writing and key not in self.slots.of and now >= self.excused.get(key, 0.0)
        ready &= all(now >= until for until in self.refused_for_now(job))
        return ready and idle and not self.known.left_over(key) and not self.slots.awaited


def _unlike(podsets: PodSets, pod: Pod) -> list[str]:
    """The shape of the podset that the pod is of, if the pod asks for something else than the podset's template."""
    made_of = (podset for podset in podsets.podsets if podset.prefix == f"{pod.owner}{pod.series}")
    return [podset.shape for podset in made_of if real(podset).template != podset.template]
