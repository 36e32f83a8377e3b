"""The referee's own book of admitted jobs: where their slots are, and what it sees that one may be stopped for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from extender.core.answers import BindingPosted, JobWritten, Outcome
from extender.core.effects import CleanJob, Effect, StartJob, SuspendJob
from extender.core.events import Event, FilterCalled, JobGone, JobSeen, NodeGone, NodeSeen, PodGone, PodSeen, Synced
from policies.model import GroupKey, Job, Node, PlannedNodes, Pod, Requests
from tests.simulation.admitted import Admission
from tests.simulation.job_plans import judge_plan
from tests.simulation.let_go import LetGoJobs, Tolerated
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, lets_in, take, tolerating

OURS = "muster"
SLOW_S = 4.0
"""A pod that has no node for so long may be why a start is given up."""
_WRITES = {StartJob: "started", SuspendJob: "suspended", CleanJob: "cleaned"}


@dataclass(slots=True)
class Admissions:
    """One life of the extender. ``calm``: nothing goes wrong. ``creation_s``: so long may the next pod take to come."""

    known: Shown
    calm: bool
    creation_s: float
    jobs: dict[GroupKey, Job] = field(default_factory=dict)
    of: dict[GroupKey, Admission] = field(default_factory=dict)
    departed: dict[GroupKey, Admission] = field(default_factory=dict)
    """Jobs that are gone or over: their pods that wait keep their nodes until these are said to be forgotten."""
    writing: dict[GroupKey, StartJob | SuspendJob | CleanJob] = field(default_factory=dict)
    excused: dict[GroupKey, float] = field(default_factory=dict)
    """Until when a job may be left alone after something went wrong with it."""
    awaiting: LetGoJobs = field(default_factory=LetGoJobs)
    stopping: dict[GroupKey, str] = field(default_factory=dict)
    """UIDs of jobs that were to be suspended, until the watch shows that they are: they may be told so again."""
    _resumed: GroupKey | None = None
    """The job that the last event has shown to run by a plan, after others had stopped it."""
    _seen_at: dict[str, float] = field(default_factory=dict)
    _size: dict[str, Requests] = field(default_factory=dict)

    # What happens: ``known`` knows of it already.

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
            case _:
                self._hear_more(event)

    def _hear_more(self, event: Event) -> None:
        match event:
            case Synced():
                for key, admission in self.of.items():
                    admission.adopt(self._pods(key))
            case PodGone(uid):
                self._seen_at.pop(uid, None)
            case BindingPosted(uid, outcome) if outcome is not Outcome.DONE and uid in self.known.pods:
                failed = self._admitted(self.known.pods[uid])
                if failed is not None:
                    failed.note(f"{uid} could not be bound")
            case _:
                pass

    def ask(self, call: FilterCalled, on_their_way: Mapping[str, str]) -> None:
        """``on_their_way``: pods that have room of their own by now, there."""
        pod, admission = call.pod, self._admitted(call.pod)
        if admission is None or pod.group_key is None:
            return
        if admission.refuses(pod, call.candidates, self._pods(pod.group_key), on_their_way):
            admission.note(f"kube-scheduler refuses {pod.uid} its nodes")

    def compare(self, left: Callable[[Iterable[str]], Room], *, unsure: bool) -> None:
        """Whether others were promised the room of a job while it was stopped. To be called after ``hear``.

        It may be started again by the plan that is still on it. ``left``: what there is beside all promises;
        ``unsure``: there may be some that nobody was told of.
        """
        admission = self.of.get(self._resumed) if self._resumed is not None else None
        if admission is None:
            return
        room = left([node for _, node, _ in admission.slots()])
        if unsure or any(amount < 0 for amounts in room.values() for amount in amounts.values()):
            admission.note("its room was promised to others while it was stopped")

    def break_off(self, key: GroupKey) -> None:
        """Its start broke off, and it was bound in part for as long as it may be."""
        if (admission := self.of.get(key)) is not None:
            admission.note("its start broke off")

    def pardon(self, until: float) -> None:
        """The extender stands still."""
        for admission in self.of.values():
            admission.note("the extender stood still")
        for key in self.jobs:
            self.excused[key] = max(until, self.excused.get(key, 0.0))

    def _shrunk(self, node: Node) -> bool:
        before, self._size[node.name] = self._size.get(node.name, node.allocatable), node.allocatable
        return any(amount < dict(before).get(name, 0) for name, amount in node.allocatable)

    def _is_being_led(self, job: Job) -> bool:
        """It was let go, and the plan that it has by now is yet to be shown."""
        admission = self.of.get(job.key)
        on_its_way = admission is not None and admission.uid == job.uid and not admission.shown
        return on_its_way and job.key in self.writing and job.let_go is not None and not (job.suspended or job.finished)

    def _job_gone(self, key: GroupKey, uid: str) -> None:
        if key in self.jobs and self.jobs[key].uid == uid:
            del self.jobs[key]
            self._depart(key)

    def _job_seen(self, job: Job, now: float) -> None:
        key = job.key
        before, self.jobs[key] = self.jobs.get(key), job
        admission = self.of.get(key)
        if before is not None and before != job:
            self.excused[key] = max(self.excused.get(key, 0.0), now)
        if admission is not None and (admission.uid != job.uid or job.finished or not job.managed):
            return self._depart(key)
        if job.suspended or self.stopping.get(key) != job.uid:
            self.stopping.pop(key, None)
        if job.suspended:
            # A start that somebody has taken back before the watch showed it leaves its mark on the templates. Without
            # one its room is held until the write is answered.
            over = job.marked or (admission is not None and admission.shown and key not in self.writing)
            return self._end(key) if over else None
        if admission is None:
            self._resumed = key if before is not None else None
            return self._adopt(job, now, late=before is not None and before.plan is None)
        if not admission.shown and job.plan not in (None, admission.plan):
            self._end(key)
            return self._adopt(job, now, late=True)
        if not admission.shown and key in self.writing and self.writing[key].job.suspended:
            # Its controller knows of it, whenever the answer to the write comes. Of one that is let go it has known.
            admission.came_at = now
        admission.shown = True
        if job.plan != admission.plan:
            admission.note("its plan was taken off it")
        if job.podsets != admission.podsets:
            admission.note("it asks for other pods")
            admission.want(job.podsets)
        admission.end(job.done)
        return None

    def _adopt(self, job: Job, now: float, *, late: bool) -> None:
        """An earlier life has started it, or others have, again. ``late``: an earlier life did when this one had read
        the cluster, so that the room of its plan may be another's by then."""
        if job.key in self.stopping or job.plan is None or job.finished:
            return
        self._admit(job, job.plan, now, self.awaiting.tolerated(job), shown=True)
        nodes = [node for _, node, _ in self.of[job.key].slots()]
        self._look_at_nodes(*nodes)
        self._look_for_others(*nodes)
        for pod in filter(self._admitted, self._pods(job.key)):
            self._look_at_pod(self.of[job.key], pod)
        if len(nodes) < job.podsets.minimum:
            self.of[job.key].note("nobody can tell its plan from one that was never whole")
        if late:
            self.of[job.key].note("an earlier life has started it late")

    def _written(self, key: GroupKey, uid: str, outcome: Outcome, now: float) -> None:
        write = self.writing.get(key)
        if write is None or write.job.uid != uid:
            return
        del self.writing[key]
        if outcome is not Outcome.DONE:
            self.excused[key] = now + 61.0
        if isinstance(write, StartJob) and key in self.of and self.of[key].plan != write.plan:
            return  # it runs by the plan of an earlier life, whatever becomes of this one
        if isinstance(write, StartJob) and outcome in (Outcome.REFUSED, Outcome.UNSENT):
            self._end(key)
        elif isinstance(write, StartJob) and key in self.of:
            if not self.of[key].shown:
                self.of[key].came_at = now
            if outcome is Outcome.UNKNOWN:
                self.of[key].note("nobody knows whether it was started")

    def _pod_seen(self, pod: Pod, now: float) -> None:
        new = pod.uid not in self._seen_at
        self._seen_at.setdefault(pod.uid, now)
        admission = self._admitted(pod)
        for key, one in self.of.items():
            if one.uid == pod.owner and pod.group_key != key:
                one.note(f"{pod.uid} was given to another gang")
        if admission is not None:
            admission.finish(pod)
            if new:
                admission.came_at = now
            self._look_at_pod(admission, pod)
        if pod.node:
            # One of a job, too: when nobody knew any more whether it was bound, its room was free for others.
            self._look_at_nodes(pod.node, taken=pod.scheduler != OURS)

    def _look_at_pod(self, admission: Admission, pod: Pod) -> None:
        """Whether it goes where the plan wants it: one of an earlier start, which the watch is late to show, is led
        elsewhere."""
        open_to = [name for name, node in self.known.nodes.items() if lets_in(node, pod.selection)]
        led_away = pod.live and not pod.node and admission.refuses(pod, open_to, self._pods(admission.podsets.key), {})
        if pod.refusal is not None or led_away:
            admission.note(f"kube-scheduler refuses {pod.uid}")

    def _look_at_nodes(self, *names: str, taken: bool = False) -> None:
        """Whether those who have slots there can still have them. ``taken``: not all of what they were promised."""
        for key, admission in self.of.items():
            if admission.trouble:
                continue
            mine = Counter(self.unfilled(key, {}))
            for name in names:
                for podset in admission.wants(name):
                    node, room = self.known.nodes.get(name), self.known.free(name)
                    for (_, where, requests), count in mine.items():
                        for _ in range(count if where == name else 0):
                            take(room, requests)
                    short = any(left < 0 for left in room.values())
                    asked = tolerating(podset.template.selection, admission.tolerations.get(podset.name, ()))
                    if taken or node is None or short or not lets_in(node, asked):
                        admission.note(f"node {name} is gone, closed or full")

    def _look_for_others(self, *names: str) -> None:
        """An earlier life may have started a job in the room of another one whose suspension was never written."""
        room = {name: self.known.free(name) for name in names}
        self.take_slots(room, {}, surely=False)
        full = {name for name, left in room.items() if any(amount < 0 for amount in left.values())}
        for admission in self.of.values():
            if any(node in full for _, node, _ in admission.slots()):
                admission.note("an earlier life has given its room to two jobs")

    def _admit(self, job: Job, plan: PlannedNodes, now: float, tolerated: Tolerated, *, shown: bool) -> None:
        self.of[job.key] = admission = Admission(job.uid, job.podsets, plan, now, shown=shown, tolerations=tolerated)
        admission.adopt(self._pods(job.key))
        for pod in self._pods(job.key):
            admission.finish(pod)
        admission.end(job.done)

    def _end(self, key: GroupKey) -> None:
        self.of.pop(key, None)

    def _depart(self, key: GroupKey) -> None:
        if (admission := self.of.pop(key, None)) is not None:
            self.departed[key] = admission

    def _admitted(self, pod: Pod) -> Admission | None:
        found = self.of.get(pod.group_key) if pod.group_key is not None else None
        return found if found is not None and found.uid == pod.owner else None

    # Room.

    def unfilled(self, key: GroupKey, on_their_way: Mapping[str, str]) -> Iterator[tuple[str, str, Requests]]:
        """Slots that have a node and no pod there. ``on_their_way``: pods that have room of their own by now, there."""
        return self.of[key].unfilled(self._pods(key), on_their_way)

    def left_behind(self, key: GroupKey, on_their_way: Mapping[str, str]) -> list[tuple[str, str, Requests]]:
        """Slots that pods of a job may stand in which is gone, or over."""
        one = self.departed.get(key)
        return one.left_behind(self._pods(key), on_their_way) if one is not None else []

    def let_go(self, key: GroupKey, on_their_way: Mapping[str, str]) -> None:
        """The nodes of its pods that wait are given up."""
        self.departed.pop(key, None)
        if (admission := self.of.get(key)) is not None:
            admission.let_go(self._pods(key), on_their_way)

    def take_slots(self, room: Room, on_their_way: Mapping[str, str], *, surely: bool) -> None:
        """What slots without pods take. ``surely``: nothing of jobs that may be stopped, or are gone."""
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
        if key is None or self._admitted(pod) is None:
            return False
        return any(slot[:2] == (pod.series, node) for slot in self.unfilled(key, on_their_way))

    def nodes(self, on_their_way: Mapping[str, str]) -> set[str]:
        """Where jobs that have no cause to be stopped have slots that wait for their pods."""
        of = [key for key, one in self.of.items() if not one.trouble]
        return {slot[1] for key in of for slot in self.unfilled(key, on_their_way)}

    @property
    def awaited(self) -> bool:
        """Whether pods of some job are yet to be made."""
        return any(self._missing(key) for key in self.of)

    @property
    def ending(self) -> bool:
        """Whether some job is about to be over, or to make pods again, or is over while pods of it wait."""
        return any(one.is_ending(self._pods(key)) for book in (self.of, self.departed) for key, one in book.items())

    def crowded(self, on_their_way: Mapping[str, str]) -> bool:
        """Whether some job has pods beyond its plan, so that nobody can say which room is kept for others of it."""
        return any(one.is_crowded(self._pods(key), on_their_way) for key, one in self.of.items())

    def _missing(self, key: GroupKey) -> int:
        return self.of[key].missing(self._pods(key))

    def _pods(self, key: GroupKey) -> Collection[Pod]:
        return self.known.members.get(key, {}).values()

    # What the core asks for.

    def judge(self, effect: Effect, calls: Collection[str], now: float) -> str | None:
        """What is wrong with it. ``calls``: pods whose bind is asked for."""
        if not isinstance(effect, StartJob | SuspendJob | CleanJob):
            return None
        key, how = effect.job.key, _WRITES[type(effect)]
        job = self.jobs.get(key)
        if job is None or job.uid != effect.job.uid:
            return f"{key} is to be {how}, and is gone"
        self.writing[key] = effect
        match effect:
            case StartJob():
                return self._judge_start(effect, job, now)
            case SuspendJob():
                return self._judge_suspension(key, job, calls, now)
            case _:
                return None if job.finished or (job.suspended and job.stopped) else f"{key} is cleaned while it runs"

    def _judge_start(self, effect: StartJob, job: Job, now: float) -> str | None:
        key, runs = effect.job.key, job.let_go is not None and not job.suspended
        complaint = self.awaiting.start(effect, now)
        if runs and effect.let_go is None and job.managed and not job.finished:
            if effect.job.podsets != job.podsets:
                return f"{key} is to be started with a plan for other pods"
            self._admit(job, effect.plan, now, effect.tolerations, shown=False)
            return complaint or judge_plan(effect, self.known)
        if not (job.managed and job.suspended and job.stopped) or job.marked or job.held or job.finished:
            return f"{key} is to be started as it is: {job}"
        if effect.job.podsets != job.podsets:
            return f"{key} is to be started with a plan for other pods"
        if left := [pod.uid for pod in self.known.left_over(key)]:
            return f"{key} is to be started while {left} of its last start are there"
        if effect.let_go is not None:
            self._end(key)
            return complaint
        self._admit(job, effect.plan, now, effect.tolerations, shown=False)
        return judge_plan(effect, self.known)

    def _judge_suspension(self, key: GroupKey, job: Job, calls: Collection[str], now: float) -> str | None:
        admission, again = self.of.pop(key, None), self.stopping.get(key) == job.uid
        self.stopping[key] = job.uid
        self.excused[key] = now + (301.0 if admission and "refuses" in admission.trouble else 61.0)
        if job.suspended:
            return None if admission is not None else f"{key} is to be suspended, and is already"
        if again:
            return None  # nobody knows what became of the last attempt
        if admission is None and job.let_go is not None:
            return self.awaiting.judge_suspension(key, job, now)
        if admission is None:
            pods = [pod for pod in self._pods(key) if pod.live and pod.owner == job.uid]
            misled = job.marked and bool(pods) and not any(pod.node for pod in pods)
            lost = job.plan is None and (misled or not job.running)
            return None if lost else f"{key} is to be suspended, and its start was none of ours to end"
        self.of[key] = admission
        late = self._missing(key) > 0 and now >= admission.came_at + self.creation_s
        del self.of[key]
        waiting = [pod for pod in self._pods(key) if pod.live and not pod.node]
        slow = any(
            now - self._seen_at.get(pod.uid, now) >= SLOW_S and (not self.calm or pod.uid not in calls)
            for pod in waiting
        )
        return None if admission.trouble or late or slow else f"{key} is to be suspended without a cause"

    def left_alone(self) -> dict[GroupKey, float]:
        """Jobs that are let go and have no plan, and of which nothing is asked for; until when each may be so."""
        idle = (key for key in self.awaiting.of if not (key in self.writing or key in self.of or self.stops(key)))
        return {key: self.excused.get(key, 0.0) for key in idle}

    def stops(self, key: GroupKey) -> bool:
        """It is suspended, or is to be: its controller replaces no pod."""
        job = self.jobs.get(key)
        return job is not None and (job.suspended or self.stopping.get(key) == job.uid)

    def waits(self, key: GroupKey, now: float) -> bool:
        """Whether it could be planned as soon as there is room."""
        job = self.jobs[key]
        ready = job.managed and job.suspended and job.stopped and not (job.marked or job.held or job.finished)
        idle = key not in self.writing and key not in self.of and now >= self.excused.get(key, 0.0)
        return ready and idle and not self.known.left_over(key) and not self.awaited
