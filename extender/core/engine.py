"""handle(): the one way into the core, in three steps: apply the event, conclude what follows, schedule the cycle.

An event and the time go in, effects come out, and nothing else ever changes the core. The event is applied to its
member or workload. What follows is concluded for each dirty workload, then for what depends on all of them. The cycle
decides whether it has to run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from extender.core.answers import (
    CapacityAnswered,
    Deallocated,
    Enqueued,
    JobWritten,
    PodTried,
    ReportFailed,
    Reserved,
    Unwritten,
)
from extender.core.apply import Apply, MemberFacts, PodFacts, SteeringAnswers
from extender.core.calls import Calls
from extender.core.cycle.admission import QueueAdmission
from extender.core.cycle.backfill import Backfilling
from extender.core.cycle.commit import Books, Commit
from extender.core.cycle.cycle import Cycle
from extender.core.cycle.flavors import QuotaPlans
from extender.core.effects import Effect
from extender.core.events import (
    BindArrived,
    BindDisconnected,
    CapacityServed,
    Event,
    FilterCalled,
    Handlers,
    Paused,
    PreemptCalled,
    Synced,
    Tick,
)
from extender.core.explain.facts import Facts
from extender.core.explain.problems import Problems
from extender.core.explain.reports import QueueReports, WorkloadReport, workload_report
from extender.core.explain.telling import WITH_TEXT, Hints, Reporter, readable, story_of
from extender.core.gate.advisory import Advisory, Mode
from extender.core.gate.allocations import Allocations
from extender.core.gate.binding import Bindings
from extender.core.gate.refusals import Refusals
from extender.core.gate.revocations import Revocations
from extender.core.gate.steering import Repeats, Steering, SteeringMode
from extender.core.jobs.acts import JobActs
from extender.core.jobs.elastic import CapacityAsk, Elastic, Unplanned
from extender.core.jobs.jobs import JobNaming, Jobs
from extender.core.jobs.makers import Enqueues, Owners, PodMakers
from extender.core.jobs.upkeep import Upkeep
from extender.core.ledger.expected import ExpectedPods
from extender.core.ledger.pending import Time
from extender.core.ledger.queues import ObjectKey
from extender.core.ledger.state import State
from extender.core.lifecycle import Lifecycle, Recovery
from extender.core.limits import Limits
from extender.core.preemption.candidates import Candidates
from extender.core.preemption.defrag import Defragmentation, Moves, NoMoves
from extender.core.preemption.kube_preemption import KubePreemption
from extender.core.preemption.preempt import Preempting
from extender.core.preemption.preview import PreemptionPreview, Preview
from extender.core.preemption.reservations import Reservations, VictimEviction
from extender.core.preemption.search import VictimSearch
from extender.core.queue.demands import Demands
from extender.core.queue.endings import Endings
from extender.core.queue.forecast import Forecast
from extender.core.queue.line import SinglePodReservations, Singles
from extender.core.queue.planner import Planner, Statements
from extender.core.queue.shortfalls import Shortfalls
from extender.core.workload.members import IllegalTransitionError
from extender.core.workload.workload import Workload
from policies.api import PolicyError, ScorePolicy
from policies.chosen import OURS, Policies
from policies.model import GroupKey, InVain, Pod
from policies.model.levels import LevelKey
from policies.model.queues import QueueReport
from policies.placement.request import rows_of
from policies.steps import Steps
from policies.strategies.scoring import marks
from policies.strategies.together import Together


class Engine:
    """The core. ``handle`` changes ``state``, and returns the effects to carry out, in order."""

    def __init__(
        self,
        schedulers: tuple[str, ...] = ("muster",),
        limits: Limits | None = None,
        policies: Policies = OURS,
        steering: SteeringMode = SteeringMode.NOMINATE,
        levels: tuple[LevelKey, ...] = (),
        mode: Mode = Mode.ENFORCE,
    ) -> None:
        advising, limits, policies = mode is Mode.ADVISE, limits or Limits(), policies.guarded()
        if advising:
            limits = limits.for_advice()
        self.state = state = State(schedulers, limits, levels)
        make = state.make
        # Parts that the others decide and report with.
        reporter, problems, facts = make(Reporter), make(Problems), make(Facts)
        expected, candidates = make(ExpectedPods), make(Candidates)
        books = make(Books, candidates=candidates)
        # Steering, and what ends it.
        steers = make(Steering, mode=steering, advises=advising)
        revocations = make(Revocations, reporter=reporter, steering=steers)
        advisory = make(Advisory, revocations=revocations) if advising else None
        bindings = make(Bindings, reporter=reporter, steering=steers, revocations=revocations)
        refusals = make(Refusals, reporter=reporter, facts=facts, revocations=revocations)
        # Jobs, and the nodes that are requested for them.
        acts = make(JobActs, expected=expected)
        self._elastic = elastic = make(Elastic, reporter=reporter, acts=acts)
        unplanned = make(Unplanned, reporter=reporter, expected=expected, elastic=elastic)
        upkeep = make(Upkeep, expected=expected, steering=steers, revocations=revocations)
        naming = make(JobNaming, expected=expected)
        jobs = make(
            Jobs,
            reporter=reporter,
            expected=expected,
            revocations=revocations,
            acts=acts,
            elastic=elastic,
            unplanned=unplanned,
            upkeep=upkeep,
            naming=naming,
        )
        owners = make(Owners, steering=steers)
        self._enqueues = enqueues = make(Enqueues, expected=expected, advising=advising)
        makers = PodMakers(expected, owners, enqueues)
        state.device_users.to_come = makers.to_come
        self._repeats = repeats = make(
            Repeats,
            steering=steers,
            awaits_nodes=lambda key, uid: advising or elastic.ungates_unplanned(key, uid),
            frees=lambda effect, now: self._allocations.wants(effect, now),
        )
        allocations = make(Allocations, repeats=repeats, advising=advising)
        self._allocations: Allocations = allocations
        # Preemption.
        victim_eviction = make(VictimEviction, candidates=candidates, revocations=revocations)
        self._reservations = reservations = make(
            Reservations, reporter=reporter, candidates=candidates, victim_eviction=victim_eviction, repeats=repeats
        )
        self._single_pods = single_pods = make(Singles)
        self._kube_preemption = kube_preemption = make(
            KubePreemption,
            candidates=candidates,
            single_pods=single_pods,
            reservations=reservations,
            victim_eviction=victim_eviction,
        )
        # The cycle.
        statements, demands = make(Statements), make(Demands, problems=problems)
        planner = make(Planner, facts=facts, statements=statements, policies=policies)
        shortfalls = Shortfalls(state.pending.wake)
        plans = make(QuotaPlans, shortfalls=shortfalls, facts=facts, planner=planner, demands=demands)
        searches = {"candidates": candidates, "statements": statements, "planner": planner, "demands": demands}
        victims, preview = make(VictimSearch, **searches), make(VictimSearch, **searches, tells=True)
        self._foresight = make(PreemptionPreview, victims=preview)
        admission = make(QueueAdmission, shortfalls=shortfalls, planner=planner, plans=plans, policies=policies)
        endings = make(Endings, statements=statements, planner=planner, demands=demands)
        self._defragmentation = make(
            Defragmentation, candidates=candidates, statements=statements, planner=planner, endings=endings
        )
        self._backfilling = backfilling = make(
            Backfilling, reporter=reporter, admission=admission, endings=endings, repeats=repeats
        )
        self._cycle = make(
            Cycle,
            reporter=reporter,
            facts=facts,
            planner=planner,
            demands=demands,
            single_reservations=make(SinglePodReservations, planner=planner),
            admission=admission,
            shortfalls=shortfalls,
            preempting=make(Preempting, reporter=reporter, victims=victims, reservations=reservations),
            commit=make(Commit, reporter=reporter, books=books, steering=steers, revocations=revocations),
            reservations=reservations,
            backfilling=backfilling,
            forecast=make(Forecast, endings=endings, turns=admission.turns),
            elastic=elastic,
            allocations=allocations,
        )
        # Events.
        self._lifecycle = lifecycle = make(
            Lifecycle,
            reporter=reporter,
            facts=facts,
            expected=expected,
            books=books,
            steering=steers,
            revocations=revocations,
            bindings=bindings,
            refusals=refusals,
            jobs=jobs,
            makers=makers,
            allocations=allocations,
            victim_eviction=victim_eviction,
        )
        hints = make(Hints)
        self._calls = calls = make(
            Calls,
            bindings=bindings,
            refusals=refusals,
            single_pods=single_pods,
            kube_preemption=kube_preemption,
            advisory=advisory,
        )
        self._recovery = recovery = make(
            Recovery,
            lifecycle=lifecycle,
            steering=steers,
            calls=calls,
            hints=hints,
            kube_preemption=kube_preemption,
        )
        members = make(
            MemberFacts,
            steering=steers,
            revocations=revocations,
            bindings=bindings,
            refusals=refusals,
            lifecycle=lifecycle,
            jobs=jobs,
            enqueues=enqueues,
        )
        pods = make(
            PodFacts,
            revocations=revocations,
            bindings=bindings,
            calls=calls,
            hints=hints,
            owners=owners,
            recovery=recovery,
            members=members,
        )
        answers = make(SteeringAnswers, steering=steers, revocations=revocations, repeats=repeats, pods_seen=pods)
        self._apply = apply = make(
            Apply,
            allocations=allocations,
            revocations=revocations,
            hints=hints,
            steering=steers,
            enqueues=enqueues,
            jobs=jobs,
            owners=owners,
            recovery=recovery,
            pods_seen=pods,
        )
        self._handlers: Handlers = {
            **pods.handlers,
            **apply.handlers,
            **answers.handlers,
            FilterCalled: calls.filter,
            PreemptCalled: calls.preempt,
            BindArrived: calls.bind,
            BindDisconnected: calls.disconnected,
            JobWritten: jobs.written,
            PodTried: jobs.tried,
            Enqueued: enqueues.ended,
            Deallocated: allocations.answered,
            Unwritten: repeats.unwritten,
            ReportFailed: reporter.report_failed,
            Reserved: lambda event, now: (backfilling if event.backfill else reservations).written(event, now),
            CapacityServed: elastic.served,
            CapacityAnswered: elastic.answered,
            Paused: self._paused,
            Synced: self._synced,
            Tick: self._tick,
        }
        self._conclusions = (
            # Promised room may have gone with devices.
            apply.follow_devices,
            # The last pods that kept a node in its last clique may have left it.
            apply.follow_cliques,
            # A start may have ended: a PodGroup that has gone or was created again meanwhile is followed.
            apply.follow_groups,
            # The effects of this event on victims are known now: which have gone, and which may be evicted.
            self._follow_preemptions,
            # For workloads that have room now no nodes are requested, and their kept quota is given back.
            elastic.follow,
            # Any of those may have ended what a pod is to be tried for.
            jobs.follow_trials,
            # Last, when each workload has its plan, or waits for one.
            allocations.follow,
        )
        self._scoring: ScorePolicy = policies.scoring
        self._reports = make(QueueReports, policy=policies.queue)

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Apply one event at ``now`` (seconds, monotonic). Never raises for input from outside."""
        try:
            self._handlers[type(event)](event, now)
            self._conclude(now)
        except IllegalTransitionError as error:
            self._add_stories(error)
            raise
        self._cycle.listen(now)
        return self._drain()

    def _conclude(self, now: float) -> None:
        """Settle all dirty workloads, then draw the conclusions that depend on them, in order.

        Each conclusion may make workloads dirty: these are settled before the next one.
        """
        self._settle(now)
        dirty = self.state.store.dirty
        for conclude in self._conclusions:
            conclude(now)
            if dirty:
                self._settle(now)

    def _settle(self, now: float) -> None:
        """Settle each dirty workload."""
        while dirty := self.state.store.dirty:
            key = next(iter(dirty))
            self._recovery.recover_workload(key, now)
            if (workload := self.state.workloads.get(key)) is not None:
                self.state.process.subject = key
                self._lifecycle.settle(workload, now)
                self.state.process.subject = None
            self.state.store.settled(key)

    def _follow_preemptions(self, now: float) -> None:
        """Search victims for single pods that kube-scheduler found none for, then follow all reservations."""
        self._kube_preemption.review(now)
        self._reservations.follow(now)
        self._backfilling.follow(now)
        self.state.expectations.follow(now)

    def _add_stories(self, error: IllegalTransitionError) -> None:
        """Add the stories of the dirty workloads to the error."""
        for dirty in (self.state.workloads[key] for key in self.state.store.dirty if key in self.state.workloads):
            error.add_note(story_of(dirty))

    def _drain(self) -> list[Effect]:
        """Return the effects, with texts rendered for their readers."""
        if not (effects := self.state.outbox.drain()):
            return effects
        limits = self.state.limits
        return [readable(effect, limits) if type(effect) in WITH_TEXT else effect for effect in effects]

    def prioritize(self, pod: Pod, candidates: Sequence[str]) -> list[int]:
        """Return how good each candidate is for a pod that no plan has placed: 0..10. A question, not an event."""
        state = self.state
        pod, view = state.pods.get(pod.uid, pod), state.claims.snapshot()
        workload = state.store.workload_of(pod)
        beside = rows_of([] if workload is None else workload.member_nodes, view)
        scoring = self._scoring
        if pod.native_group:
            count, nodes = state.singles.natives.placed(pod)
            scoring, beside = Together(count), rows_of(nodes, view)
        try:
            return marks(pod, candidates, view, scoring, beside)
        except PolicyError as error:
            state.counts.blame(error.policy)
            return [0] * len(candidates)

    @property
    def passes(self) -> tuple[int, bool]:
        """How many admission cycles have ended, and whether one is under way."""
        return self._cycle.passes, self._cycle.walking

    def next_cycle(self) -> float | None:
        """Return the instant of the next admission cycle, a past one while one is under way; None for none."""
        return self._cycle.wake()

    @property
    def shortfalls_outdated(self) -> bool:
        """Whether a pending workload may lack something else now than its cause says, until the next refresh."""
        return self._cycle.shortfalls_outdated

    @property
    def queue_version(self) -> int:
        """A number that changes whenever a report of ``queue_reports`` may have changed."""
        return self.state.quotas.version + self.state.durations.version

    def queue_reports(self, _now: float) -> Mapping[ObjectKey, QueueReport]:
        """The report of each queue object, by its kind, namespace and name."""
        return self._reports.all()

    @property
    def capacity_served(self) -> bool | None:
        """Whether nodes can be requested; None until that is known."""
        return self._elastic.can_be_asked

    @property
    def asks_for_nodes(self) -> Collection[GroupKey]:
        """Return the workloads for which nodes are requested, or whose pods are exposed to an autoscaler."""
        return self._elastic.asking

    def capacity_asks(self) -> Sequence[CapacityAsk]:
        """The jobs for which nodes are requested now."""
        return self._elastic.asks

    def capacity_rest(self, key: GroupKey) -> InVain | None:
        """The rest of a job after unsuccessful requests for nodes; None if it does not rest."""
        return self._elastic.rest(key)

    def queued(self) -> Sequence[GroupKey]:
        """The workloads that name a queue or have one by default."""
        return [*self.state.quotas.members.names]

    def workload_report(self, key: GroupKey) -> WorkloadReport | None:
        """The report of the workload; None if it is no job."""
        state = self.state
        return workload_report(state.limits, state.process, state.workloads, state.quotas, state.expectations, key)

    def outlook(self, workload: Workload, now: float) -> Steps[Preview | None]:
        """The victims that are or would be evicted for it. A question, not an event."""
        return self._foresight.of(workload, now)

    def moves_for(self, workload: Workload, now: float) -> Moves | NoMoves:
        """Return the running workloads that would have to move for it, or why there are none. A question, not an event.

        Only operators may read the names.
        """
        return self._defragmentation.of(workload, now)

    def next_wake(self) -> float | None:
        """The instant by which a Tick is due; None while nothing is pending."""
        instants = [
            self._cycle.wake(),
            self.state.pending.next_time(),
            self.state.timers.first(),
            self.state.singles.next_end(),
        ]
        instants += self._repeats.next(), self._kube_preemption.next_look(), self._allocations.next_look()
        instants += self._enqueues.next_retry(), self._reservations.next_end()
        instants += self.state.quotas.past.next_sample(), self.state.durations.next_store()
        instants += self._elastic.next_end(), *self.state.binds.instants()
        if (trial := self.state.trials.next_end()) is not None:
            instants.append(max(trial, self.state.process.paused_until))
        return min((instant for instant in instants if instant is not None), default=None)

    def _synced(self, event: Synced, now: float) -> None:
        self._enqueues.begin(now)
        self.state.process.sync(now - event.wall, now)
        self._cycle.recover(now, self._recovery)

    def _paused(self, event: Paused, _: float) -> None:
        self.state.process.paused_until = event.until

    def _tick(self, _: Tick, now: float) -> None:
        state = self.state
        self._calls.expire(now)
        self._enqueues.retry(now)
        self._repeats.repeat(now)
        state.quotas.past.sample(now)
        state.durations.store(now)
        state.pending.wake(Time(now))
        for key in state.timers.due(now):
            self._recovery.recover_workload(key, now)
            if (workload := state.workloads.get(key)) is not None:
                self._lifecycle.expire(workload, now)
        self._settle(now)  # before the cycle has its turn
        if self._cycle.tick(now):
            self._single_pods.wake()
