"""Watches the core's effects and the API objects while a run goes on, and says which promise was broken.

The core's beliefs count only in ``validate``; the rest is judged by objects and by what the watches have shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from extender.core.answers import BindingPosted
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    Confirm,
    Effect,
    Evict,
    Milestone,
    Nominate,
    PostBinding,
    Reached,
    Report,
    SuspendJob,
    Ungate,
    Wake,
)
from extender.core.events import (
    BindArrived,
    Event,
    FilterCalled,
    JobSeen,
    NodeSeen,
    PodSeen,
    PodsSeen,
    PreemptCalled,
)
from extender.core.jobs.elastic import CapacityAsk
from extender.runtime.quarantine import Source
from policies.model import GroupKey, Job, PodSets
from tests.core.invariants import validate
from tests.simulation.admissions import Admissions
from tests.simulation.broken import BrokenPromiseError, complain
from tests.simulation.claims import Claims
from tests.simulation.company import Company
from tests.simulation.device_sight import DeviceSight
from tests.simulation.evictions import FOR_OTHERS, Evictions
from tests.simulation.fairness import OURS, Fairness
from tests.simulation.job_orders import judge_job
from tests.simulation.losses import Losses
from tests.simulation.made_nodes import AskedNodes, MadeNodes
from tests.simulation.manners import Manners, judge_victims
from tests.simulation.model.batch import BatchJob
from tests.simulation.model.changes import Kind
from tests.simulation.model.facts import shown_in
from tests.simulation.model.process import Extender
from tests.simulation.model.storage import known_of
from tests.simulation.model.world import World
from tests.simulation.postings import Postings
from tests.simulation.queue_turns import QueueTurns
from tests.simulation.quota import QuotaJudge
from tests.simulation.reclaims import Reclaims
from tests.simulation.reservations import Reservations
from tests.simulation.room import judge_kept_in_vain, judge_room
from tests.simulation.sends import Sends, to_be_forgotten
from tests.simulation.shown import Shown, events_of
from tests.simulation.stamps import could_know, judge_confirmation
from tests.simulation.storage_sight import judge_volumes
from tests.simulation.terms import Terms
from tests.simulation.unsent import UnsentWrites
from tests.simulation.wholeness import PATIENCE_S, Wholeness

_MOST_ENDS = 2


class Referee:
    """The referee. ``every``: ``validate`` runs at each n-th event; 0: never, so that only the outside is judged."""

    def __init__(self, terms: Terms, *, every: int = 1) -> None:
        self.events = 0
        self._terms = terms
        self._every = every
        self.wholeness = Wholeness(terms, lambda uid: self._claims.doubts.waive(uid))
        self._calls: dict[int, BindArrived] = {}
        self.orphans: dict[str, None] = {}
        """Pods whose node was removed: plans of that time ignore them."""
        self.gave_way: dict[GroupKey, None] = {}
        """The workloads that were evicted for others, and the preemptors of unsuccessful evictions, in all lives."""
        self._ends: Counter[Source] = Counter()
        self.reservations = Reservations(terms)
        self.devices: DeviceSight | None = None
        self._begin_life()

    def _begin_life(self) -> None:
        self._manners = Manners()
        self._shown = Shown()
        self._admissions = Admissions(self._shown, self._terms.calm, self._terms.creation_s)
        self._claims = Claims(self._shown, self._terms.grace_s, self._admissions, self._terms.seat_s)
        self._quota = QuotaJudge(self._shown, self._claims, self._terms.within_s, self._asks)
        self.said: dict[GroupKey, str] = {}
        """The code of the reason that was reported of each gang last."""
        self.sends = Sends(self._terms.writes_at_once)
        self._company = Company(self._shown, self._claims)
        self._unsent = UnsentWrites(self._admissions, self._company.may_be_spoiled)
        self._asked = AskedNodes(self._terms.within_s)
        self._made = MadeNodes(self._shown, self._claims, self._admissions, self._quota, self._company)
        self.postings = Postings(
            lambda: self._world, self._shown, self._claims, self._company, self.wholeness, self._calls, self.orphans
        )
        self._turns = QueueTurns(self._shown)
        reclaims = Reclaims(self._shown, self._quota, fair=self._terms.fair, saturation=self._terms.saturation)
        self._fairness = Fairness(self._shown, self._claims, self._company, self._terms)
        self._losses = Losses(self._shown, self._claims, self._quota, self._terms, lambda: self._fairness.unsure)
        self._evictions = Evictions(self._shown, self._admissions, reclaims, self._losses, self._terms)
        self.reservations.begin_life(self._shown, self._claims)

    def attach(self, world: World) -> None:
        self._world = world
        self._first_scheduler = world.scheduler
        self.wholeness.attach(world)
        self.devices = DeviceSight(world.api) if self._terms.claims else None

    def extender_killed(self) -> None:
        """Begin a new life: the calls under way have ended."""
        self._calls.clear()
        self.reservations.end_life(self._world.api)
        self._begin_life()
        if self.devices is not None:
            self.devices.begin_life()

    def judge_end(self, source: Source) -> str | None:
        """The complaint about an object that ends the process too often.

        A version of an object may end it twice: once among others, once alone.
        """
        self._ends[source] += 1
        return (
            f"{source} has ended the extender {self._ends[source]} times" if self._ends[source] > _MOST_ENDS else None
        )

    def another_pod_leads(self) -> None:
        """Begin the record of the other pod, whose file does not know yet what the core fails on."""
        self._ends.clear()

    def extender_suspended(self, until: float) -> None:
        self._manners.excused_until = until
        self.sends.pardon(until)
        self._fairness.pardon(until)
        self._admissions.pardon(until)
        self._asked.pardon(until)

    def as_known(self, podsets: PodSets) -> PodSets:
        """The podsets with the requests of their pods, as far as the extender can know them."""
        return self._admissions.as_known(podsets)

    def may_evict(self, job: BatchJob) -> bool:
        """Whether the job may be evicted: not after its pods did not come."""
        return job.uid not in self._admissions.uncreated

    def look(self) -> None:
        """Look for workloads that could have been planned already. To be called every second or so."""
        if self._world.extender is not None and self._judges_order:
            complain(self._fairness.look(self._world.clock.now))
        complain(self._evictions.look(self._world.clock.now))
        complain(self._made.look(self._world, calm=self._terms.calm))
        complain(self._asked.look(self._asks(), self._world.clock.now))
        for complaint in self.reservations.look(self._world.api, self._world.clock.now) if self._terms.reserves else ():
            complain(complaint)
        for complaint in () if self.devices is None else self.devices.look():
            complain(complaint)

    def node_taken_away(self, name: str) -> None:
        """Judge an empty node that the autoscaler takes away."""
        complain(self._made.taken_away(name, self._world.clock.now))

    def judge_kept(self, kept: Iterable[str]) -> None:
        """Judge the nodes that are marked to stay, once all is settled. ``kept``: these nodes."""
        complain(self._made.judge_kept(kept, self._world.clock.now))

    def judge_taken_in(self) -> None:
        """Check, once all is settled, that each object that failed the core has changed, and is known in full."""
        if left_out := self._extender.quarantine.left_out():
            raise BrokenPromiseError(f"at rest: {left_out[0]} is left out, although it has changed")

    def _asks(self) -> Sequence[CapacityAsk]:
        """The current capacity requests."""
        extender = self._world.extender
        return () if extender is None else extender.core.capacity_asks()

    @property
    def _judges_order(self) -> bool:
        """Whether the turn, and the workloads that could start, are known."""
        terms = self._terms
        return not (terms.vague or terms.queued or terms.preempts or terms.storage or terms.claims or terms.reserves)

    # The core's effects

    def watch(self, event: Event, effects: list[Effect]) -> None:
        self.events += 1
        event = self._as_meant(event)
        now, shown = self._world.clock.now, self._shown
        if self.devices is not None:
            if (node := self.devices.given_to_others(event, self._claims, shown.pods)) is not None:
                self._admissions.crowd(node)
            event, effects = self.devices.meant(event), list(map(self.devices.effect_as_meant, effects))
        for heard in (*events_of(event), *(self.devices.inherited(event) if self.devices is not None else ())):
            self._hear(heard, now)
        self._evictions.follow(effects, self._world.api)
        complain(self._evictions.judge(effects, now))
        forgotten = to_be_forgotten(effects, self._claims, shown)
        for effect in effects:
            self._judge(effect, event)
            self._judge_devices(effect)
            self.sends.ask(effect)
            if isinstance(effect, Report):
                self.said[effect.key] = effect.code
            self._note_eviction(effect)
            if not self._terms.vague:
                complain(judge_room(effect, event, shown, self._claims))
            complain(self._company.started(effect))
            complain(self._quota.judge(effect, now))
            self._judge_job(effect, now)
            self._claims.apply(effect, event)
            self._fairness.apply(effect)
        if self._terms.storage:
            known = known_of(self._extender.shown(Kind.STORAGE))
            complain(judge_volumes(effects, known, shown.pods, self._claims.promised))
        complain(judge_kept_in_vain(event, shown, self._claims))
        complain(self._quota.judge_gangs(effects, now))
        complain(self._unsent.judge(effects))
        self._judge_reservations(event, effects, now)
        for effect in effects if self._judges_order else ():
            complain(self._fairness.judge(effect, event, now))
        complain(self.sends.judge_forgotten(uid for uid in forgotten if uid not in self._claims.promised))
        complain(self._manners.watch(event, effects, self._world.api.pods, shown.pods, now))
        if self._every and self.events % self._every == 0:
            validate(self._extender.core.state)

    def _judge_reservations(self, event: Event, effects: list[Effect], now: float) -> None:
        for complaint in self.reservations.judge(event, effects, self._world.api, now) if self._terms.reserves else ():
            complain(complaint)

    def _as_meant(self, event: Event) -> Event:
        """Return the event as the objects have it that were shown, where the extender has read something else."""
        misread = self._extender.misread
        if not misread:
            return event
        if isinstance(event, PodsSeen):
            alone = [self._as_meant(PodSeen(pod)) for pod in event.pods]
            return PodsSeen(tuple(event.pod for event in alone if isinstance(event, PodSeen)))
        pair = misread.get(id(shown_in(event))) if isinstance(event, PodSeen | NodeSeen) else None
        return event if pair is None else pair[1]

    def _hear(self, event: Event, now: float) -> None:
        if isinstance(event, BindArrived):
            self._calls[event.call] = event
        if isinstance(event, BindingPosted) and (binding := self._claims.posting.get(event.uid)) is not None:
            complain(self.sends.judge_outcome(event, binding, self._world.api.pods.get(event.uid)))
        self._fairness.hear(event, now)
        complain(self.sends.judge_end(event, now))
        self.sends.hear(event)
        self._turns.hear(event, now)
        self._shown.watch(event)
        self._claims.hear(event, now)
        self._unsent.hear(event)
        self._admissions.hear(event, now)
        self._quota.hear(event, now)
        self._asked.hear(event, now)
        if isinstance(event, FilterCalled):
            self._admissions.ask(event, self._claims.on_their_way)
        if isinstance(event, JobSeen):
            self._admissions.compare(self._claims.left, unsure=self._terms.vague or self._fairness.unsure)
        if isinstance(event, PodSeen) and event.pod.node and self._claims.short_of_room(event.pod.node):
            self._admissions.crowd(event.pod.node)
        self._losses.hear(event, now)
        self._evictions.hear(event)

    @property
    def _extender(self) -> Extender:
        assert self._world.extender is not None
        return self._world.extender

    def _judge(self, effect: Effect, event: Event) -> None:
        match effect:
            case PostBinding():
                self.postings.judge(effect, event)
            case AnswerBind(call, error):
                self._judge_answer(call, error)
            case AnswerFilter(_, passed, refused) if isinstance(event, FilterCalled):
                # Nodes that are neither passed nor refused had no refuser: kube-scheduler gives no reason then.
                if not dict.fromkeys(event.candidates).keys() >= {*passed, *refused} or not (passed or refused):
                    raise BrokenPromiseError(f"filter was asked about {event.candidates}, and answered {effect}")
            case AnswerPreempt(_, victims) if isinstance(event, PreemptCalled):
                complain(judge_victims(event, victims, self._world.api.pods))
            case Confirm():
                complain(judge_confirmation(effect, self._shown, self._claims))
            case Evict(uid, reason=reason) if not reason.startswith(FOR_OTHERS):
                self._judge_eviction(uid)
            case _:
                pass
        complain(self._judge_left_out(effect, event))
        if isinstance(effect, PostBinding | Evict | Nominate | Ungate | Wake | Confirm):
            pod = self._world.api.pods.get(effect.uid)
            if pod is not None and pod.scheduler != OURS:
                raise BrokenPromiseError(f"{effect} writes to a pod of {pod.scheduler}")

    def _judge_devices(self, effect: Effect) -> None:
        if self.devices is not None:
            complain(self.devices.judge(effect, self._claims, self._extender.shown(Kind.CLAIMS)))

    def _judge_left_out(self, effect: Effect, event: Event) -> str | None:
        """The complaint about a running workload that is stopped because the core knows only a part of an object.

        An object that this event shows counts as known.
        """
        left_out = self._extender.quarantine.left_out()
        names = {left.object.name for left in left_out if left.object.kind == "Node"}
        uids = {left.object.uid for left in left_out}
        match effect:
            case SuspendJob(job, reason) if "on which pods of it run" in reason and reason.split(",")[0][5:] in names:
                return f"{job.key} is suspended because of a node that is left out: {reason}"
            case SuspendJob(job, reason) if job.uid in uids and not (isinstance(event, JobSeen) and event.job == job):
                return f"{job.key} is left out, and is suspended: {reason}"
            case Evict(uid) if (pod := self._world.api.pods.get(uid)) is not None and pod.owner in uids:
                return f"{uid} is evicted, and its job is left out"
            case _:
                return None

    def _judge_answer(self, call: int, error: str) -> None:
        bind_call = self._calls.pop(call, None)
        if bind_call is None:
            raise BrokenPromiseError(f"call {call} is answered, but is not open")
        pod = self._world.api.pods.get(bind_call.uid)
        if not error and pod is not None and pod.node != bind_call.node:
            raise BrokenPromiseError(f"{bind_call} was called a success, but the pod is on {pod.node}")

    def _judge_eviction(self, uid: str) -> None:
        key = self.wholeness.gang_of.get(uid)
        # The stamp of one that was moved while it was being bound says nothing of its gang, after a restart.
        ours = self.wholeness.asked_for.get(uid, key) == key
        if ours and key in self.wholeness.whole and could_know(uid, self._shown, self._claims):
            raise BrokenPromiseError(f"{uid} is evicted, although its gang {key} was whole")

    def _judge_job(self, effect: Effect, now: float) -> None:
        """Judge a write on a job. A job that has been bound in part for the grace period is suspended.

        The stamps tell that time, too. They are a little older than the Bindings.
        """
        since = self._partial_since(effect.job) if isinstance(effect, SuspendJob) else None
        if isinstance(effect, SuspendJob) and since is not None and now >= since + self._terms.grace_s - PATIENCE_S:
            self._admissions.break_off(effect.job.key)
        if isinstance(effect, SuspendJob) and not self._quota.bears_out(effect.job, now):
            self._admissions.disprove(effect)
        held = list(self._claims.calls.values())
        if self._world.scheduler is self._first_scheduler:  # the next one queues all pods again
            complain(self._turns.judge(effect, held, self._world))
        complain(judge_job(effect, self._admissions, held, now))

    def _partial_since(self, job: Job) -> float | None:
        """Since when the job is bound in part.

        If the member with the last Binding is lost before another one is stamped, the job was whole, and a new
        leader cannot know that. For a job without a plan the time in the stamps is right, too.
        """
        since = self.wholeness.partial.get(job.key)
        if since is None and job.plan is None:
            pods = self._shown.members.get(job.key, {}).values()
            stamps = [pod.stamp for pod in pods if pod.live and pod.node and pod.owner == job.uid and pod.stamp]
            if not any(stamp.complete for stamp in stamps):
                since = min((stamp.at for stamp in stamps), default=None)
        return since

    def _note_eviction(self, effect: Effect) -> None:
        match effect:
            case Evict(uid, reason=reason) if uid in self.wholeness.gang_of and reason.startswith(FOR_OTHERS):
                self.gave_way[self.wholeness.gang_of[uid]] = None
            case SuspendJob(job):
                self.gave_way[job.key] = None
            case Reached(key, Milestone.UNRESERVED):
                self.gave_way[key] = None
            case _:
                pass
