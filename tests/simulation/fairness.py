"""The turns of workloads: half-released gangs first, then by priority. A workload that could start does not wait.

Single pods wait in the same order: which of them could be bound, and which may be left aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from itertools import islice
from math import inf

from extender.core.effects import AnswerFilter, Effect, Milestone, Reached
from extender.core.events import Event, FilterCalled, GroupGone, GroupSeen, PodGone, PodSeen, PreemptCalled
from policies.model import GANG_GATE, GroupKey, Pod
from tests.simulation import relations
from tests.simulation.claims import Claims
from tests.simulation.company import Company
from tests.simulation.doubts import Claim
from tests.simulation.queue_turns import LastTaken
from tests.simulation.seating import agree, seats
from tests.simulation.shown import Shown
from tests.simulation.sight import Room, Sight, beside, fits, kept_nodes, lets_in, nominated
from tests.simulation.terms import Terms
from tests.simulation.untold import Untold
from tests.simulation.waves import Waves

OURS = "muster"
_SINGLE_S, _KEPT_S = 15.0, 25.0
"""A single pod that has had room for this long may be, or has to be, left aside: kube-scheduler does not try it."""
_PLAN_S = 20.0
"""How long after kube-scheduler tried a new pod other pods may have room kept for them again."""


class SingleTurns:
    """The turns of single pods in one life of the extender.

    A pod that was left aside waits in the line again when kube-scheduler shows that it would try it. kube-scheduler
    shows this by refusing it a node, or by asking to preempt wherever the pod had room.
    """

    def __init__(self, shown: Shown, claims: Claims) -> None:
        self._shown = shown
        self._claims = claims
        self._come: dict[str, float] = {}
        """The time at which each pod was seen first."""
        self._roomy: dict[str, float] = {}
        """The pods that could be bound, and since when."""
        self._where: dict[str, set[str]] = {}
        """On which nodes, in all that time."""
        self._aside: dict[str, set[str]] = {}
        """The nodes of the pods that could have been bound for long."""
        self._taken = LastTaken(shown)

    def pardon(self) -> None:
        """The extender stands still."""
        for uid in self._come:
            self._roomy[uid] = 0.0

    def hear(self, event: Event, now: float) -> None:
        """Before ``shown`` knows of it."""
        self._taken.hear(event, now)
        match event:
            case PodSeen(pod):
                self._come.setdefault(pod.uid, now)
            case PreemptCalled(_, pod, victims) if pod.uid in self._aside and self._aside[pod.uid] <= victims.keys():
                del self._aside[pod.uid]
            case _:
                pass

    def judge(self, effect: Effect, event: Event) -> None:
        if isinstance(effect, AnswerFilter) and effect.refused and isinstance(event, FilterCalled):
            self._aside.pop(event.pod.uid, None)

    def waiting(self) -> list[Pod]:
        """The pods that kube-scheduler could bind if there is room."""
        busy = self._claims.on_their_way
        return [
            pod
            for uid, pod in self._shown.pods.items()
            if pod.group_key is None and pod.live and not pod.node and not pod.gates and pod.scheduler == OURS
            if uid not in busy
        ]

    def look(self, room: Room, could_start: Callable[[Pod], bool], now: float) -> list[Pod]:
        """The pods that could be bound. To be called every second or so."""
        able = [pod for pod in self.waiting() if could_start(pod)]
        self._roomy = {pod.uid: self._roomy.get(pod.uid, now) for pod in able}
        self._where = {pod.uid: self._where.get(pod.uid, set()) | self._open_to(pod, room) for pod in able}
        self._aside |= {uid: self._where[uid] for uid, since in self._roomy.items() if now - since >= _SINGLE_S}
        return able

    def keeps_room(self, pod: Pod, since: float, now: float) -> bool:
        """Whether room may be kept for the pod before workloads that could start since then."""
        queued = -inf if pod.refusal else self._taken.at + _PLAN_S
        return now - max(self._roomy[pod.uid], since, queued) < _KEPT_S

    def stands_in_line(self, pod: Pod, now: float) -> bool:
        known, roomy = self._come[pod.uid], self._roomy.get(pod.uid, now)
        return known < now and pod.uid not in self._aside and now - roomy < _SINGLE_S

    def _open_to(self, pod: Pod, room: Room) -> set[str]:
        nodes = self._shown.nodes
        return {name for name, left in room.items() if fits(left, pod.requests) and lets_in(nodes[name], pod.selection)}


PATIENCE_S = 5.0
"""How long a gang may wait for a plan that there is room for: the queue rests 2 s at most."""
_BACKOFF_S = 31.0
"""How long a gang may be left alone after its plan failed, or after a node was refused."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A gang that waits and could be planned: ``needed`` of ``waiting`` members have to find room at once."""

    needed: int
    waiting: tuple[Pod, ...]
    bound: tuple[Pod, ...]
    broken: bool
    priority: int


class Fairness:
    """The turns in one life of the extender."""

    def __init__(self, shown: Shown, claims: Claims, company: Company, terms: Terms) -> None:
        self._shown = shown
        self._claims = claims
        self._company = company
        self._terms = terms
        self._patience_s = PATIENCE_S if not terms.sliced else 4 * PATIENCE_S
        self._waves = Waves(shown)
        self._untold = Untold(shown, claims) if terms.pins else None
        self._excused: dict[GroupKey, float] = {}
        self._changed: dict[GroupKey, float] = {}
        self._since: dict[GroupKey, float] = {}
        self._singles = SingleTurns(shown, claims)
        self._fitting: dict[GroupKey, float] = {}
        """Gangs that there is room for, and since when."""
        self._answers: dict[str, tuple[object, bool]] = {}
        """The last answers on whether there was room for a workload beside others: mostly nothing has changed since."""

    def pardon(self, until: float) -> None:
        """The extender stands still."""
        self._since.clear()
        self._singles.pardon()
        for key in self._shown.members:
            self._excused[key] = max(until, self._excused.get(key, 0.0))

    def hear(self, event: Event, now: float) -> None:
        """Before ``shown`` knows of it."""
        self._company.hear(event)
        self._singles.hear(event, now)
        if self._untold is not None:
            self._untold.hear(event)
        match event:
            case PodSeen(pod):
                before = self._shown.pods.get(pod.uid)
                for seen in (pod, before):
                    if seen is not None and seen.group_key is not None:
                        self._changed[seen.group_key] = now
                if before is not None and pod.refusal != before.refusal and pod.uid in self._claims.promised:
                    self._excuse(pod.group_key, now)
            case PodGone(uid) if uid in self._shown.pods:
                if (key := self._shown.pods[uid].group_key) is not None:
                    self._changed[key] = now
            case GroupSeen(group):
                self._changed[group.key] = now
            case GroupGone(key):
                self._changed[key] = now
            case _:
                pass

    def apply(self, effect: Effect) -> None:
        """Record each effect of an event, before the first of them is judged."""
        self._waves.apply(effect)
        if self._untold is not None:
            self._untold.apply(effect)

    def judge(self, effect: Effect, event: Event, now: float) -> str | None:
        """The fault of a request of the core, after ``claims`` knows all effects of the event.

        A pinned member gets its node with its gate's removal, after all gangs that are planned in that event.
        """
        self._singles.judge(effect, event)
        match effect:
            case Reached(key, Milestone.FORGOTTEN):
                self._excuse(key, now)
                return self._company.given_up(effect, calm=self._terms.calm)
            case AnswerFilter(passed=()) if isinstance(event, FilterCalled) and event.pod.uid in self._claims.promised:
                self._excuse(event.pod.group_key, now)
            case Reached(key, Milestone.PLANNED):
                return self._company.planned(key) or self._judge_order(key, now) or self._judge_waves(key)
            case _:
                return self._waves.judge(effect)
        return None

    @property
    def unsure(self) -> bool:
        """Whether there may be unreported promises, so that the free room is unknown."""
        untold = self._untold is not None and self._untold.any
        crowded = self._claims.admissions.slots.crowded(self._claims.on_their_way)
        return untold or crowded or self._company.in_rounds or self._waves.any

    def look(self, now: float) -> str | None:
        """The complaint about a workload that could have been planned for too long. To be called now and then."""
        since, self._since = self._since, {}
        if self._terms.calm and (late := self._waves.late(now)) is not None:
            return late
        if self.unsure:
            return None
        wanted = self._all_wanted(now) + self._wanted_jobs(now)
        room = self._claims.left(self._shown.nodes)
        singles = self._singles.look(room, lambda pod: self._could_start(room, _alone(pod), ()), now)
        wanted = [(key, demand) for key, demand in wanted if not self._company.stands_back(demand.waiting)]
        fitting = {key: demand for key, demand in wanted if self._could_start(room, demand, self._claims.kept_for(key))}
        self._fitting = {key: self._fitting.get(key, now) for key in fitting}
        in_doubt = list(self._claims.seats.maybe.values())
        perhaps = [
            pod
            for pod in (self._singles.waiting() if in_doubt else ())
            if pod not in singles and self._could_start(room, _alone(pod), in_doubt)
        ]
        for key, demand in fitting.items():
            if any(pod.priority >= demand.priority for pod in perhaps):
                continue  # room may be kept for those, instead of for lost members
            ahead = (pod for pod in singles if pod.priority >= demand.priority)
            if any(self._singles.keeps_room(pod, self._fitting[key], now) for pod in ahead):
                continue  # room may be kept for those, from when a workload waited behind them
            self._since[key] = since.get(key, now)
            if now - self._since[key] > self._patience_s:
                return f"{key} could have been planned for {now - self._since[key]:.1f} s, and was not"
        return None

    def _judge_order(self, planned: GroupKey, now: float) -> str | None:
        """Check that the planned gang does not use room in which an earlier workload could have started."""
        if self._terms.sliced or self._claims.freed_at >= now or self._claims.admissions.slots.ending:
            # a pass that was under way continues with the later workloads, whatever room comes free meanwhile
            return None
        if self.unsure:
            return None
        mine = self._shown.sight(planned)
        if mine is None or not mine.live or self._claims.releases.broken(planned):
            return None
        if mine.partial and not self._claims.releases.began(planned):
            return None  # an earlier life has left it half-released, as its stamps say
        priority = max(pod.priority for pod in mine.live)
        if (crowded := self._crowded(planned, priority)) is not None:
            return crowded
        ahead = [
            (key, wanted)
            for key, wanted in self._all_wanted(now)
            if (wanted.broken or wanted.priority > priority) and key != planned and self._changed.get(key, 0.0) < now
        ]
        singles = [pod for pod in self._singles.waiting() if pod.priority > priority]
        in_line = (pod for pod in singles if self._singles.stands_in_line(pod, now))
        ahead += [(GroupKey(pod.namespace, pod.name), _alone(pod)) for pod in in_line]
        room = self._claims.left(self._shown.nodes) if ahead else {}
        most = self._claims.left(self._shown.nodes, surely=True) if ahead else {}  # room may be kept for a lost member
        there = self._company.bound()
        for key, wanted in ahead:
            if relations.related(wanted.waiting, there) or self._company.stands_back(wanted.waiting):
                continue  # it may be others than those in its room that it waits for
            kept = self._claims.kept_for(key)
            free = self._claims.new(free=True)
            taken = [claim for claim in free if claim.gang and self._is_behind(claim.gang, wanted)]
            others = [pod for pod in singles if pod.priority >= wanted.priority and pod not in wanted.waiting]
            if any(self._could_start(room, _alone(pod), taken) for pod in others):
                continue  # room may be kept for those
            if not self._could_start(most, wanted, kept) and self._could_start(room, wanted, kept + taken):
                why = "half-released" if wanted.broken else f"of priority {wanted.priority}"
                return f"{planned} is planned where {key}, {why}, could have started"
        return None

    def _judge_waves(self, planned: GroupKey) -> str | None:
        """Check that a first wave starts only if the later pods of its owner find room, too."""
        sight = self._shown.sight(planned)
        if sight is None or sight.bound or not sight.coming or self._claims.doubts.minded:
            return None
        own = [claim for claim in self._claims.promised.values() if claim.gang == planned]
        own += [claim for claim in self._claims.seats.sure.values() if claim.gang == planned]
        room = self._claims.left(self._shown.nodes, surely=True)
        # The pods are seated largest first: in each wave, or in all waves, where that uses the room better.
        for least in (sight.least, tuple(replace(pod, wave=0) for pod in sight.least)):
            if self._could_start(room, Wanted(sight.lacking, least, (), broken=False, priority=0), own):
                return None
        return f"{planned} is planned, and {sight.lacking} of its pods, of which some come later, find no room"

    def _crowded(self, planned: GroupKey, priority: int) -> str | None:
        """The complaint about a plan without room beside a nominated single pod.

        kube-scheduler accepts no member that leaves too little room for a pod of no lower priority that waits for
        its victims there.
        """
        waiting = [pod for pod in self._singles.waiting() if pod.nominated_node and pod.priority >= priority]
        room = beside(self._claims.left(self._shown.nodes, surely=True), waiting, priority) if waiting else {}
        for claim in self._claims.new() if waiting else ():
            there = [pod for pod in waiting if pod.nominated_node == claim.node]
            short = {name for name, amount in claim.requests if amount and room.get(claim.node, {}).get(name, 0) < 0}
            for pod in there if claim.gang == planned else ():
                if any(name in short and amount for name, amount in pod.requests):
                    return f"{planned} is planned on {claim.node}, where {pod.namespace}/{pod.name} is nominated"
        return None

    def _is_behind(self, gang: GroupKey, wanted: Wanted) -> bool:
        """Whether it comes after that one in the order."""
        sight = self._shown.sight(gang)
        if sight is None or sight.partial:
            return False
        return wanted.broken or max(pod.priority for pod in sight.live) < wanted.priority

    def _all_wanted(self, now: float) -> list[tuple[GroupKey, Wanted]]:
        """The waiting gangs, except in a namespace with more of them than are looked at."""
        awaited, pairs = self._shown.awaited, []
        crowd = Counter(key.namespace for key in awaited)
        for key in self._shown.members:
            sight = self._shown.sight(key)
            if sight is None or not sight.waiting or key in self._claims.admissions.jobs:
                continue
            crowd[key.namespace] += key not in awaited
            if now >= self._excused.get(key, 0.0) and (wanted := self._wanted(key, sight)) is not None:
                pairs.append((key, wanted))
        return [(key, wanted) for key, wanted in pairs if crowd[key.namespace] <= self._terms.waiting]

    def _wanted_jobs(self, now: float) -> list[tuple[GroupKey, Wanted]]:
        """Suspended jobs that wait for room and for nothing else."""
        admissions, pairs = self._claims.admissions, []
        for key, job in admissions.jobs.items():
            if key.name in self._terms.restless or not admissions.waits(key, now):
                continue
            podsets = admissions.as_known(job.podsets).podsets
            pods = [pod for podset in podsets for pod in islice(podset.pods(), podset.minimum)]
            pairs.append((key, Wanted(len(pods), tuple(pods), (), broken=False, priority=pods[0].priority)))
        return pairs

    def _wanted(self, key: GroupKey, sight: Sight) -> Wanted | None:
        """None for a gang that does not wait, or has to for a reason that is not room."""
        group = self._shown.groups.get(key)
        if key.name in self._terms.restless or sight.needed is None or sight.needed < 1:
            return None
        broken = self._claims.releases.broken(key)
        if (sight.bound and not broken) or not sight.complete or (group and group.deleting):
            return None
        if any(pod.uid in book for pod in sight.live for book in (self._claims.promised, self._claims.doubts.minded)):
            return None
        if self._claims.admissions.slots.left_behind(key, self._claims.on_their_way):
            return None  # its job is gone, and its pods are led to their nodes
        if any(binding.group == key for binding in self._claims.posting.values()):
            return None
        if any(pod.scheduler != OURS or set(pod.gates) - {GANG_GATE} for pod in sight.live):
            return None
        if not agree(pod for pod in sight.live if not pod.node):
            return None  # a bound one may be of an older revision
        needed = sight.lacking
        return Wanted(needed, sight.least, sight.bound, broken, sight.live[0].priority) if needed > 0 else None

    def _could_start(self, room: Room, wanted: Wanted, back: Iterable[Claim]) -> bool:
        """Whether there is room for it when these claims are given back."""
        waiting = {pod.uid for pod in wanted.waiting}
        others = [pod for pod in nominated(self._shown.pods.values()) if pod.uid not in waiting]
        left = beside(room, others, wanted.priority)
        for claim in back:
            _give(left, claim)
        bound, sides = self._company.bound(), [list[tuple[Pod, str]]()]
        in_the_end = [*bound, *self._company.promised(surely=False)]
        kept = kept_nodes(others, wanted.priority)
        if relations.related(wanted.waiting, [*in_the_end, *kept]):
            # Pods that are being bound, promised or nominated may or may not count already.
            sides = [self._company.on_nodes(), bound, in_the_end, [*in_the_end, *kept]]
        for pod, node in kept:
            if any(relations.counts_for(member, (pod,)) for member in wanted.waiting):
                left.pop(node, None)  # how many members fit beside it depends on where the others go
        nodes, who = dict(self._shown.nodes), wanted.waiting[0].uid if wanted.waiting else ""
        before, answer = self._answers.get(who, (None, False))
        if before != (question := (nodes, left, wanted, sides)):
            answer = all(
                seats(nodes, left, wanted.waiting, wanted.bound, wanted.needed, there) >= wanted.needed
                for there in sides
            )
            self._answers[who] = question, answer
        return answer

    def _excuse(self, key: GroupKey | None, now: float) -> None:
        if key is not None:
            self._excused[key] = now + _BACKOFF_S


def _alone(pod: Pod) -> Wanted:
    """A single pod, as a gang of its own."""
    return Wanted(1, (pod,), (), broken=False, priority=pod.priority)


def _give(room: Room, claim: Claim) -> None:
    if (left := room.get(claim.node)) is not None:
        for name, amount in claim.requests:
            left[name] = left.get(name, 0) + amount
