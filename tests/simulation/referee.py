"""Watches the core's effects and the API objects while a run goes on, and says which promise was broken.

What the core believes counts only in ``validate``; the rest is judged by objects and by what the watches have shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from extender.core.answers import BindingPosted
from extender.core.effects import (
    AnswerBind,
    AnswerFilter,
    AnswerPreempt,
    Confirm,
    Effect,
    Evict,
    Nominate,
    PostBinding,
    Reached,
    Report,
    SuspendJob,
    Ungate,
    Wake,
)
from extender.core.events import BindArrived, Event, FilterCalled, JobSeen, PreemptCalled
from extender.core.gang.milestones import Milestone
from extender.core.invariants import validate
from extender.core.quota.asking import CapacityAsk
from policies.model import CLIQUE, GroupKey, Pod
from tests.simulation.admissions import Admissions
from tests.simulation.asked_nodes import AskedNodes
from tests.simulation.broken import BrokenPromiseError, complain
from tests.simulation.claims import Claims
from tests.simulation.company import Company
from tests.simulation.evictions import Evictions
from tests.simulation.fairness import Fairness
from tests.simulation.losses import Losses
from tests.simulation.made_nodes import MadeNodes
from tests.simulation.manners import Manners, judge_victims
from tests.simulation.model.process import Extender
from tests.simulation.model.world import World
from tests.simulation.queue_turns import QueueTurns
from tests.simulation.quota import QuotaJudge
from tests.simulation.reclaims import Reclaims
from tests.simulation.room import judge_room
from tests.simulation.sends import Sends, to_be_forgotten
from tests.simulation.shown import GANG_UID, Shown
from tests.simulation.sight import lets_in, slot, take
from tests.simulation.single_turns import OURS
from tests.simulation.stamps import could_know, judge_confirmation, judge_stamp
from tests.simulation.terms import Terms
from tests.simulation.unsent import UnsentWrites
from tests.simulation.wholeness import PATIENCE_S, Wholeness


class Referee:
    """``validate`` runs at each n-th event. With 0 it never does: then nothing but what the outside sees is judged."""

    def __init__(self, terms: Terms, *, every: int = 1) -> None:
        self.events = 0
        self._terms = terms
        self._every = every
        self.wholeness = Wholeness(terms, lambda uid: self._claims.doubts.waive(uid))
        self._calls: dict[int, BindArrived] = {}
        self.orphans: dict[str, None] = {}
        """Pods whose node was removed: what is planned while it is gone reckons without them."""
        self.gave_way: dict[GroupKey, None] = {}
        """Who was evicted for others, and for whom others were in vain, in whichever life."""
        self._begin_life()

    def _begin_life(self) -> None:
        self._manners = Manners()
        self._shown = Shown()
        self._admissions = Admissions(self._shown, self._terms.calm, self._terms.creation_s)
        self._claims = Claims(self._shown, self._terms.grace_s, self._admissions)
        self._quota = QuotaJudge(self._shown, self._claims, self._terms.within_s, self._asks)
        self.said: dict[GroupKey, str] = {}
        """The code of the reason that was reported of each gang last."""
        self.sends = Sends(self._terms.writes_at_once)
        self._company = Company(self._shown, self._claims)
        self._unsent = UnsentWrites(self._admissions, self._company.may_be_spoiled)
        self._asked = AskedNodes(self._terms.within_s)
        self._made = MadeNodes(self._shown, self._claims, self._admissions, self._quota, self._company)
        self._turns = QueueTurns(self._shown)
        reclaims = Reclaims(self._shown, self._quota, fair=self._terms.fair, saturation=self._terms.saturation)
        self._fairness = Fairness(self._shown, self._claims, self._company, self._terms)
        self._losses = Losses(self._shown, self._claims, self._quota, self._terms, lambda: self._fairness.unsure)
        self._evictions = Evictions(self._shown, self._admissions, reclaims, self._losses, self._terms)

    def attach(self, world: World) -> None:
        self._world = world
        self._first_scheduler = world.scheduler
        self.wholeness.attach(world)

    def extender_killed(self) -> None:
        """What it had under way is nobody's any more."""
        self._calls.clear()
        self._begin_life()

    def extender_suspended(self, until: float) -> None:
        self._manners.excused_until = until
        self.sends.pardon(until)
        self._fairness.pardon(until)
        self._admissions.pardon(until)

    def look(self) -> None:
        """To be called every second or so: who could have been planned by now?"""
        if self._world.extender is not None and self._judges_order:
            complain(self._fairness.look(self._world.clock.now))
        complain(self._evictions.look(self._world.clock.now))
        complain(self._made.look(self._world, calm=self._terms.calm))
        complain(self._asked.look(self._asks(), self._world.clock.now))

    def node_taken_away(self, name: str) -> None:
        """By whoever makes nodes, because it is empty."""
        complain(self._made.taken_away(name, self._world.clock.now))

    def judge_kept(self, kept: Iterable[str]) -> None:
        """At rest: ``kept`` are the nodes that say that they are to stay."""
        complain(self._made.judge_kept(kept, self._world.clock.now))

    def _asks(self) -> Sequence[CapacityAsk]:
        """For which jobs nodes are asked for just now."""
        extender = self._world.extender
        return () if extender is None else extender.core.capacity_asks()

    @property
    def _judges_order(self) -> bool:
        """Whether it can be told who is next, and who could start."""
        return not (self._terms.vague or self._terms.queued or self._terms.preempts)

    # What the core does.

    def watch(self, event: Event, effects: list[Effect]) -> None:
        self.events += 1
        now, shown = self._world.clock.now, self._shown
        if isinstance(event, BindArrived):
            self._calls[event.call] = event
        if isinstance(event, BindingPosted) and (binding := self._claims.posting.get(event.uid)) is not None:
            complain(self.sends.judge_outcome(event, binding, self._world.api.pods.get(event.uid)))
        self._fairness.hear(event, now)
        complain(self.sends.judge_end(event, now))
        self.sends.hear(event)
        self._turns.hear(event, now)
        shown.watch(event)
        self._claims.hear(event, now)
        self._unsent.hear(event)
        self._admissions.hear(event, now)
        self._quota.hear(event, now)
        self._asked.hear(event, now)
        if isinstance(event, FilterCalled):
            self._admissions.ask(event, self._claims.on_their_way)
        if isinstance(event, JobSeen):
            self._admissions.compare(self._claims.left, unsure=self._terms.vague or self._fairness.unsure)
        self._losses.hear(event, now)
        self._evictions.hear(event, effects, self._world.api)
        complain(self._evictions.judge(effects, now))
        forgotten = to_be_forgotten(effects, self._claims, shown)
        for effect in effects:
            self._judge(effect, event)
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
        complain(self._quota.judge_gangs(effects, now))
        complain(self._unsent.judge(effects))
        for effect in effects if self._judges_order else ():
            complain(self._fairness.judge(effect, event, now))
        complain(self.sends.judge_forgotten(uid for uid in forgotten if uid not in self._claims.promised))
        complain(self._manners.watch(event, effects, self._world.api.pods, shown.pods, now))
        if self._every and self.events % self._every == 0:
            validate(self._extender.core.state)

    @property
    def _extender(self) -> Extender:
        assert self._world.extender is not None
        return self._world.extender

    def _judge(self, effect: Effect, event: Event) -> None:
        match effect:
            case PostBinding():
                self._judge_posting(effect, event)
            case AnswerBind(call, error):
                self._judge_answer(call, error)
            case AnswerFilter(_, passed, refused) if isinstance(event, FilterCalled):
                # Nodes that passed over without a word were refused by nobody: kube-scheduler gives no reason then.
                if not dict.fromkeys(event.candidates).keys() >= {*passed, *refused} or not (passed or refused):
                    raise BrokenPromiseError(f"filter was asked about {event.candidates}, and answered {effect}")
            case AnswerPreempt(_, victims) if isinstance(event, PreemptCalled):
                complain(judge_victims(event, victims, self._world.api.pods))
            case Confirm():
                complain(judge_confirmation(effect, self._shown, self._claims))
            case Evict(uid, reason=reason) if not reason.startswith("preempted by"):
                self._judge_eviction(uid)
            case _:
                pass
        if isinstance(effect, PostBinding | Evict | Nominate | Ungate | Wake | Confirm):
            pod = self._world.api.pods.get(effect.uid)
            if pod is not None and pod.scheduler != OURS:
                raise BrokenPromiseError(f"{effect} writes to a pod of {pod.scheduler}")

    def _judge_posting(self, effect: PostBinding, event: Event) -> None:
        uid, open_calls = effect.uid, [call for call in effect.calls if call in self._extender.calls]
        if uid in self._claims.posting:
            raise BrokenPromiseError(f"{uid} is being bound twice at once")
        if not open_calls:
            raise BrokenPromiseError(f"{uid} is to be bound, and nobody waits for it")
        for asked in (self._calls[call] for call in open_calls):
            if (asked.uid, asked.node) != (uid, effect.node) or effect.deadline > asked.expires:
                raise BrokenPromiseError(f"{effect} is not what was asked for: {asked}")
        self.wholeness.asked_for[uid] = effect.group
        pods = self._shown.pods
        if uid not in pods:
            raise BrokenPromiseError(f"{uid} is to be bound, and is gone")
        if pods[uid].group_key is not None:
            started = self._judge_quorum(effect, pods)
            # Of a release that is under way, whoever writes the Bindings leaves out those that are too late.
            if not started and self._world.clock.now > effect.deadline:
                raise BrokenPromiseError(f"{uid} is the first to be bound, after its deadline")
            self._judge_node(effect, started=started)
            if not started:
                asking = self._asking(effect)
                complain(self._company.released(effect, asking, self._gone_unseen(asking, event)))
            self._judge_topology(effect)
            complain(judge_stamp(effect, self._shown, self._claims))

    def _judge_quorum(self, effect: PostBinding, pods: Mapping[str, Pod]) -> bool:
        """A release begins when minMember members ask for their Binding. True if it has begun before."""
        uid, key = effect.uid, pods[effect.uid].group_key
        assert key is not None
        sight = self._shown.sight(key, former=True)
        assert sight is not None
        if sight.bound or self._claims.goes_on(effect):
            return True
        open_calls = self._calls.keys() & self._extender.calls  # the same event may have answered others
        asking = {uid, *self._claims.posting, *(self._calls[call].uid for call in open_calls)}
        there = [pod for pod in sight.live if pod.uid in asking]
        job, now = self._claims.admissions.of.get(key), self._shown.jobs.get(key)
        larger = job is not None and (job.podsets != now or job.quorum < job.podsets.first_wave)
        if job is not None and larger and sight.count(there) >= job.quorum:
            return False  # it was made larger since it was started: what comes beside its plan is planned one by one
        if sight.needed is None or not sight.enough(there):
            count = f"{sight.count(there)} of {sight.needed} members"
            short = sight.lacks({slot(pod): pod for pod in (*there, *sight.finished)}.values())
            raise BrokenPromiseError(f"{uid} is to be bound when {count} of {key} are there{short and f', {short}'}")
        self.wholeness.least[key] = sight.needed
        return False

    def _asking(self, effect: PostBinding) -> list[tuple[Pod, str]]:
        """The members of its gang whose Bindings are asked for, and where; none that has ended meanwhile, or is bound
        by what the watch shows while the answer to its Binding is yet to come: it stands beside the others."""
        pods, open_calls = self._shown.pods, self._calls.keys() & self._extender.calls
        where = {self._calls[call].uid: self._calls[call].node for call in sorted(open_calls)}
        where[effect.uid] = effect.node
        fellows = [(pods[uid], node) for uid, node in where.items() if uid in pods]
        return [(pod, at) for pod, at in fellows if pod.group_key == effect.group and not (pod.node or pod.terminal)]

    def _gone_unseen(self, asking: Sequence[tuple[Pod, str]], event: Event) -> set[str]:
        """Pods that are gone or have ended, as the watch has yet to show. They are in nobody's way who comes alone
        to members that have succeeded: kube-scheduler has looked just now, and the start was looked at as a whole."""
        alone = isinstance(event, BindArrived) and [pod.uid for pod, _ in asking] == [event.uid]
        key = asking[0][0].group_key if alone else None
        sight = None if key is None else self._shown.sight(key)
        if sight is None or not sight.finished:
            return set()
        return self._shown.pods.keys() - {uid for uid, pod in self._world.api.pods.items() if not pod.terminal}

    def _judge_node(self, effect: PostBinding, *, started: bool) -> None:
        shown, asking, posting = self._shown, self._shown.pods[effect.uid], self._claims.posting
        node = shown.nodes.get(effect.node)
        if not started and (node is None or not lets_in(node, asking.selection)):
            raise BrokenPromiseError(f"{effect.uid} is the first to be bound, to {effect.node}, which is closed to it")
        if node is None or (started and self._claims.doubts.get(effect.uid) is not None):
            return  # it may be bound there by now
        room = shown.free(effect.node)
        beside = [shown.pods[uid] for uid, one in posting.items() if one.node == effect.node and uid in shown.pods]
        for requests in (asking.requests, *(pod.requests for pod in beside if not pod.node)):
            take(room, requests)
        if short := [name for name, _ in asking.requests if room.get(name, 0) < 0]:
            raise BrokenPromiseError(
                f"{effect.uid} is to be bound to {effect.node}, where {', '.join(short)} is short: {room}"
            )

    def _judge_topology(self, effect: PostBinding) -> None:
        """Members that require a level share one domain of it, those among them that this gang's release has bound.

        Others of the gang may be anywhere: one that requires nothing, or that its annotations have brought in later.
        """
        asked = self._shown.pods[effect.uid]
        if asked.topology.required is None or asked.group_key is None:
            return
        fellows = [one for one in self._shown.members[asked.group_key].values() if one.topology == asked.topology]
        # What goes has left, even if its Binding is yet to be answered.
        fellows = [one for one in fellows if one.live and one.uid not in self.orphans]
        fellows = [one for one in fellows if self.wholeness.asked_for.get(one.uid) == effect.group]
        gang, posting, nodes = effect.annotations[GANG_UID], self._claims.posting, self._shown.nodes
        places = {pod.node for pod in fellows if pod.node and pod.stamp and pod.stamp.gang == gang}
        places |= {effect.node, *(posting[pod.uid].node for pod in fellows if pod.uid in posting)}
        domains = {nodes[place].labels.get(CLIQUE) for place in places if place in nodes}
        if len(domains) > 1 or None in domains:
            raise BrokenPromiseError(f"{effect.uid} goes to {effect.node}: its gang would be in cliques {domains}")

    def _judge_answer(self, call: int, error: str) -> None:
        asked = self._calls.pop(call, None)
        if asked is None:
            raise BrokenPromiseError(f"call {call} is answered, but is not open")
        pod = self._world.api.pods.get(asked.uid)
        if not error and pod is not None and pod.node != asked.node:
            raise BrokenPromiseError(f"{asked} was called a success, but the pod is on {pod.node}")

    def _judge_eviction(self, uid: str) -> None:
        key = self.wholeness.gang_of.get(uid)
        # The stamp of one that was moved while it was being bound says nothing of its gang, after a restart.
        ours = self.wholeness.asked_for.get(uid, key) == key
        if ours and key in self.wholeness.whole and could_know(uid, self._shown, self._claims):
            raise BrokenPromiseError(f"{uid} is evicted, although its gang {key} was whole")

    def _judge_job(self, effect: Effect, now: float) -> None:
        """A job that has been bound in part for so long is suspended. How long, is told from the stamps, too, which are
        a little older than the Bindings."""
        since = self.wholeness.partial.get(effect.job.key) if isinstance(effect, SuspendJob) else None
        if isinstance(effect, SuspendJob) and since is not None and now >= since + self._terms.grace_s - PATIENCE_S:
            self._admissions.break_off(effect.job.key)
        held = list(self._claims.calls.values())
        if self._world.scheduler is self._first_scheduler:  # the next one lines all pods up anew
            complain(self._turns.judge(effect, held, self._world))
        complain(self._admissions.judge(effect, held, now))

    def _note_eviction(self, effect: Effect) -> None:
        match effect:
            case Evict(uid, reason=reason) if uid in self.wholeness.gang_of and reason.startswith("preempted by"):
                self.gave_way[self.wholeness.gang_of[uid]] = None
            case SuspendJob(job):
                self.gave_way[job.key] = None
            case Reached(key, Milestone.UNRESERVED):
                self.gave_way[key] = None
            case _:
                pass
