"""A run of a seed: submit, strike, heal, settle, and be judged all along."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from extender.core.effects import Effect
from extender.core.events import Event, Tick
from extender.runtime.compare import Difference
from extender.runtime.quarantine import Source
from policies.model import Pod
from policies.model.queues import QueueObject
from tests.core.remembered import outdated
from tests.simulation.batch_plan import JOB_MOMENTS
from tests.simulation.broken import BrokenPromiseError, complain
from tests.simulation.checkpoints import save
from tests.simulation.claim_faults import CLAIM_FAULTS
from tests.simulation.curious import CuriousExtender
from tests.simulation.drawing import draw
from tests.simulation.fairness import PATIENCE_S
from tests.simulation.fault_plan import MOMENTS, REFUSED_MOMENTS, Fault
from tests.simulation.faults import FAULTS, SHARP_FAULTS
from tests.simulation.job_faults import JOB_FAULTS, WORK_FAULTS
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.provisioning import Provisioning
from tests.simulation.model.world import BEGIN_S, World
from tests.simulation.owner_plan import OWNER_FAULTS
from tests.simulation.past import PastKeeper
from tests.simulation.plan import Plan
from tests.simulation.platform_plan import PLATFORM_FAULTS, PlatformPlan
from tests.simulation.referee import Referee
from tests.simulation.relation_plan import RELATION_FAULTS
from tests.simulation.rest import judge_rest
from tests.simulation.rounds import NodeMarks, Rounds
from tests.simulation.siege import Siege, is_besieged
from tests.simulation.story import Entry, told
from tests.simulation.trouble import Trouble
from tests.simulation.verifying import SelfChecks

_STRIKES_END_S = 100.0
_LOOK_EVERY_S = 100.0
"""If nothing has happened for this long, nothing will."""
_REFUSED_S = 310.0
"""The same where kube-scheduler refuses nodes for reasons of its own.

Such nodes are planned around for up to 300 s, and only then may the rest be enough. The same holds where nodes are
made: an unsuccessful capacity request is not repeated for minutes.
"""
_LOOKS, _PATIENT_LOOKS = 20, 60
"""The second applies where nodes are made: some workloads request them again and again without success, and pause for
up to half an hour."""
_SHOWN_S = 2.0
"""The watches show a write within this time."""
_GLANCE_S = 1.0
"""How often the referee looks for gangs that wait although they could start."""
_QUIET_S = PATIENCE_S + 0.5
"""If nothing happens for this long, the referee looks at the beginning and at the end."""
_MOST_AT_ONCE = 20_000
"""Steps at one instant; even the end of a long suspension takes hundreds only."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The counts of a run."""

    steps: int
    events: int
    faults: int


class Run:
    """A run of ``plan`` on a virtual cluster. ``log``: called with everything that happens."""

    def __init__(self, plan: Plan, log: Callable[[str], None] | None = None, every: int = 1) -> None:
        self.plan = plan
        self.recent: deque[Entry] = deque(maxlen=60)
        self._log = log
        self._steps = self._begun = self._looked = self._reworded = 0
        self._pods: dict[str, Pod] = {}
        self._instant = self._look_at = 0.0
        self._struck = 0
        self._healed = False
        self._seen: dict[type, int] = {}
        self._waiting: dict[type, list[Fault]] = {}
        for fault in plan.faults:
            if fault.moment:
                self._waiting.setdefault((MOMENTS | JOB_MOMENTS | REFUSED_MOMENTS)[fault.moment], []).append(fault)
        self.referee = Referee(plan.terms, every=every)
        self.world = World(
            plan.seed,
            plan.nodes,
            plan.core,
            profile=plan.profile,
            weather=plan.weather,
            bars=plan.bars,
            watcher=self._watch,
            process=partial(CuriousExtender, self.referee),
            writes_at_once=plan.writes_at_once,
            slice_s=0.0 if plan.slices is None else plan.slices.pause_s,
            pod_rate=plan.batch.pod_rate,
            polices=plan.batch.polices,
            kinds=plan.kinds,
            queues=plan.queues.things,
            budgets=plan.budgets,
            started=plan.batch.started,
            pool=None if plan.elastic is None else plan.elastic.pool,
            late_s=plan.late_s,
            platform=None if plan.platform is None else plan.platform.platform,
            storage=() if plan.storage is None else plan.storage.things,
            things=() if plan.claims is None else plan.claims.things,
            prepare_s=0.0 if plan.claims is None else plan.claims.prepare_s,
        )
        self.referee.attach(self.world)
        self.marks = NodeMarks(self.world.api, self.world.network)
        if self.world.autoscaler is not None:
            self.world.autoscaler.stays = self.marks.stays
            self.world.autoscaler.removed.append(self.referee.node_taken_away)
            provisioning = Provisioning(self.world.api, self.world.clock, self.world.autoscaler) if plan.asks else None
            if provisioning is not None and plan.elastic is not None:
                for at, served in plan.elastic.served:
                    self.world.clock.at(BEGIN_S + at, partial(provisioning.serve, served=served))
            Rounds(self.marks, self.world.clock, lambda: self.world.extender, provisioning)
        self._past = PastKeeper(self.world, plan.queues.past, exact=plan.queues.exact)
        self.checks = SelfChecks(self.world, plan.core, self.world.chance.stream("self-checks"))
        self.trouble = Trouble(self.world, self.world.chance.stream("faults"), self.referee)
        self.world.ended = self._ended
        for kind in Kind:
            self.world.api.listeners[kind].append(self._changed)

    def _ended(self, source: Source) -> None:
        """The core has failed on an object: its process ends by itself, and is started again by the kubelet."""
        self._note("the core fails on", source)
        complain(self.referee.judge_end(source))
        self.world.kill_extender()
        self.referee.extender_killed()
        self.world.clock.after(0.5, self.world.start_extender)

    def play(self) -> Tally:
        """Play the seed. Raises BrokenPromiseError, or whatever the core itself raises."""
        self._submit()
        if self.plan.platform is not None:
            self._begin_platform(self.plan.platform)
        for fault in self.plan.faults:
            if not fault.moment:
                self.world.clock.at(BEGIN_S + fault.at, partial(self._strike, fault.what))
        self._run(BEGIN_S + _STRIKES_END_S)
        self._note("heal", None)
        self._healed = True
        self.trouble.heal()
        self._come_to_rest()
        # All running workloads end now, round by round, until every workload has had a turn.
        while self._end_what_runs():
            self._come_to_rest()
        return Tally(self._steps, self.referee.events, self._struck)

    def _submit(self) -> None:
        """Let all that the plan has come in time."""
        clock = self.world.clock
        for at, spec in self.plan.jobs:
            clock.at(BEGIN_S + at, partial(self.world.jobs.submit, spec))
        for at, job in self.plan.batch.jobs:
            clock.at(BEGIN_S + at, partial(self.world.api.set_job, job))
        for at, thing, gone in self.plan.queues.changes:
            clock.at(BEGIN_S + at, partial(self._change_queue, thing, gone=gone))
        for at, claim in () if self.plan.claims is None else self.plan.claims.shared:
            clock.at(BEGIN_S + at, partial(self.world.api.set_claim, claim))
        for at, owner in self.plan.owners:
            clock.at(BEGIN_S + at, partial(self.world.api.set_owner, owner))
        savers = self.world.chance.stream("who writes a checkpoint")
        for planned_save in self.plan.saves:
            clock.at(BEGIN_S + planned_save.at, partial(save, self.world, savers, planned_save))

    def _begin_platform(self, plan: PlatformPlan) -> None:
        """Let device plugins register that do so late, and nodes be opened that are cordoned at first."""
        clock = self.world.clock
        for at, name in plan.registered:
            clock.at(BEGIN_S + at, partial(self.world.plugins.start, name))
        for at, name in plan.uncordoned:
            clock.at(BEGIN_S + at, partial(self._uncordon, name))

    def _end_what_runs(self) -> bool:
        world = self.world
        running = [job for job in world.jobs.jobs.values() if job.productive_since is not None]
        for job in running:
            if not job.ended:
                world.jobs.finish(job)
        batch = world.controller.running
        for ended_job in batch:
            world.controller.finish(ended_job)
        owners = world.owners.running
        for owner in owners:
            world.owners.delete(owner)
        return bool(running or batch or owners)

    def _come_to_rest(self) -> None:
        """Run until nothing is written or tried any more; then everything must be in order."""
        for _ in range(_LOOKS if self.plan.elastic is None else _PATIENT_LOOKS):
            before = self._activity()
            self._run(self.world.clock.now + (_REFUSED_S if self.plan.barred or self.plan.elastic else _LOOK_EVERY_S))
            if self._activity() == before and not self._awaits_trial():
                break
        else:
            # A gang that kube-scheduler refuses everywhere is planned again and again, and so is any pod without nodes.
            if not self.plan.barred and self.world.api.nodes:
                raise BrokenPromiseError("something goes on for ever, although nothing is left to be done")
            self._let_watches_show()
        judge_rest(self.world, self.referee, self.plan)
        self.referee.judge_kept(self.marks.kept)
        self.referee.judge_taken_in()

    def _let_watches_show(self) -> None:
        """Run until nothing is written any more, and until the extender knows all that was."""
        for _ in range(_LOOKS):
            before = self._activity()
            self._run(self.world.clock.now + _SHOWN_S)
            if self._activity() == before:
                return

    def _awaits_trial(self) -> bool:
        """An object that has failed the core again and again, and has changed, is to be taken in later."""
        extender = self.world.extender
        return extender is not None and extender.quarantine.next_trial_s is not None

    def _activity(self) -> tuple[int, int, int]:
        """How much was written, how often kube-scheduler has tried a pod, and how many objects the core knows in part.

        An object that the core takes in late is as new to it as one that was written then.
        A kube-scheduler that samples the nodes counts other nodes each time, and its new words make it try again.
        """
        api, scheduler, extender = self.world.api, self.world.scheduler, self.world.extender
        left_out = len(extender.quarantine.left_out()) if extender is not None else 0
        if not self.plan.profile.sees_all(len(api.nodes)):
            return api.version - self._past.written - self._reworded, 0, left_out
        return api.version - self._past.written, scheduler.cycles if scheduler else 0, left_out

    def _run(self, until: float) -> None:
        clock = self.world.clock
        while self._step(until):
            self._steps += 1
            if clock.now >= self._look_at:
                self._look()
            if clock.now > self._instant:
                self._instant, self._begun = clock.now, self._steps
            elif self._steps - self._begun > _MOST_AT_ONCE:
                raise BrokenPromiseError(f"something goes on and on: {_MOST_AT_ONCE:,} steps at one instant")
        clock.now = until

    def _look(self) -> None:
        self._look_at, self._looked = self.world.clock.now + _GLANCE_S, self._steps
        self.referee.look()
        if complaint := self._past.look():
            raise BrokenPromiseError(complaint)
        if drift := self.checks.look():
            self._drifted(drift)
        if self.world.extender is not None:
            for complaint in outdated(self.world.extender.core, self.world.clock.now):
                raise BrokenPromiseError(complaint)

    def _drifted(self, drift: list[Difference]) -> None:
        raise BrokenPromiseError(f"the self-check finds drift: {'; '.join(map(str, drift))}")

    def _step(self, until: float) -> bool:
        """Run the next step.

        The referee looks at what has happened within a second, even if nothing else does. If nothing happens for a
        while, it looks as well, because a workload may wait for nothing.
        """
        clock = self.world.clock
        if self._looked < self._steps and clock.now < self._look_at < until:
            if clock.step(self._look_at):
                return True
            clock.now = self._look_at
            self._look()
        quiet = clock.now + _QUIET_S
        if quiet < until:
            if clock.step(quiet):
                return True
            self.referee.look()
            clock.now = quiet
            self.referee.look()
        return clock.step(until)

    def _change_queue(self, thing: QueueObject, *, gone: bool) -> None:
        uid = f"{type(thing).__name__}/{thing.name}"
        if not gone:
            self.world.api.set_queue(thing)
        elif uid in self.world.api.queues:
            self.world.api.remove_queue(uid)

    def _uncordon(self, name: str) -> None:
        if (there := self.world.api.nodes.get(name)) is not None:
            self.world.api.set_node(replace(there, unschedulable=False))

    def _strike(self, what: str) -> None:
        self._note("FAULT", what)
        self._struck += 1
        known = (
            FAULTS
            | SHARP_FAULTS
            | JOB_FAULTS
            | WORK_FAULTS
            | RELATION_FAULTS
            | OWNER_FAULTS
            | PLATFORM_FAULTS
            | CLAIM_FAULTS
        )
        known[what](self.trouble)

    def _watch(self, event: Event, effects: list[Effect]) -> None:
        if effects or not isinstance(event, Tick):
            self._note("core", (event, effects))
        for moment in (event, *effects):
            self._pass(type(moment))
        self.referee.watch(event, effects)

    def _pass(self, kind: type) -> None:
        """Strike if a fault has waited for this moment."""
        self._seen[kind] = self._seen.get(kind, 0) + 1
        for fault in self._waiting.get(kind, ()):
            if fault.nth == self._seen[kind] and not self._healed:
                self.world.clock.after(fault.at, partial(self._strike, fault.what))

    def _changed(self, change: Change) -> None:
        if isinstance(pod := change.value, Pod) and not change.gone:
            before = self._pods.get(change.uid)
            self._pods[change.uid] = pod
            self._reworded += before is not None and replace(before, refusal=pod.refusal) == pod
        self._note("gone" if change.gone else "api", change.value)

    def _note(self, who: str, what: object) -> None:
        entry = (self.world.clock.now - BEGIN_S, who, what)
        self.recent.append(entry)
        if self._log is not None:
            self._log(told(entry))


class SeedError(Exception):
    """A seed that broke a promise, with its story."""


def play(seed: int, log: Callable[[str], None] | None = None, every: int = 1) -> Tally:
    """Raises SeedError."""
    if is_besieged(seed):
        return _play_siege(seed, log)
    run = Run(draw(seed), log, every)
    try:
        return run.play()
    except Exception as error:
        story = "\n".join(told(entry) for entry in run.recent)
        faults = "\n".join(f"  {fault}" for fault in run.plan.faults)
        raise SeedError(
            f"seed {seed}, at {run.world.clock.now - BEGIN_S:.4f} s: {type(error).__name__}: {error}\n"
            f"faults:\n{faults}\nthe last of what happened:\n{story}\n"
            f"again: make soak ARGS='--seed {seed}'    # with --verbose: everything that happens"
        ) from error


def _play_siege(seed: int, log: Callable[[str], None] | None) -> Tally:
    siege = Siege(seed, log=log)
    try:
        return Tally(*siege.play())
    except Exception as error:
        tricks = "\n".join(f"  {trick}" for trick in siege.tenant.played)
        raise SeedError(
            f"seed {seed}, at {siege.world.clock.now - BEGIN_S:.4f} s: {type(error).__name__}: {error}\n"
            f"tricks:\n{tricks}\nagain: make soak ARGS='--seed {seed}'    # with --verbose: everything that happens"
        ) from error
