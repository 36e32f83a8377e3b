"""Small worlds with queues at random, and what each of two readings makes of them: one pass of the core, and the pure
decision by quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from extender.core.effects import Effect, Reserve, Turned
from extender.core.events import NamespaceSeen, PodGone, PodSeen, QueueSeen
from extender.core.limits import Limits, Preempts
from extender.core.turns import Turn
from policies.model import Node, Pod, Selection, Stamp
from policies.model.node import ANY_NODE, Taint, Toleration
from policies.model.queues import (
    ClusterQueue,
    Cohort,
    Evicts,
    FairStrategy,
    Fungibility,
    LocalQueue,
    Preemption,
    QueueObject,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Search,
    Strategy,
    Usage,
)
from policies.preemption import decide as eviction
from policies.preemption.candidates import Candidate, Held, Unit
from policies.preemption.candidates import Limits as Protection
from policies.preemption.offers import offers
from policies.quota.decide import Admitted, Incoming, World, decide, no_evictions
from policies.quota.flavors import Fit, PodSetRequest
from policies.quota.tree import QuotaTree
from tests.builders import GPU, gang, node, requests
from tests.core.preempting import Cluster
from tests.core.queues import FLAVOR
from tests.policies.quota.worlds import WEIGHTS

NOW = 1000.0
_TAINT = Taint("tainted", "yes", "NoSchedule")
_TOLERATES = Toleration("tainted", "Exists", "", "")
_FAIR = (FairStrategy.FINAL, FairStrategy.INITIAL)


@dataclass(frozen=True)
class Gang:
    """``sizes``: the GPUs of its pods. ``flavor``: where it runs, since ``at``; empty if it waits."""

    name: str
    queue: str
    sizes: tuple[int, ...]
    priority: int
    created: float
    selection: Selection = ANY_NODE
    flavor: str = ""
    at: float = 0.0

    def pods(self) -> list[Pod]:
        some = gang(self.name, len(self.sizes), priority=self.priority, created=self.created, queue=self.queue)
        some = [
            replace(pod, requests=requests(gpus, 0), selection=self.selection)
            for pod, gpus in zip(some, self.sizes, strict=True)
        ]
        if not self.flavor:
            return some
        count = len(some)
        stamp = Stamp(self.name, "first", complete=True, quorum=count, size=count, at=self.at, name=self.name)
        return [replace(pod, node=self.flavor, stamp=stamp) for pod in some]

    @property
    def usage(self) -> Usage:
        return {(self.flavor, GPU): sum(self.sizes)}

    def podsets(self) -> list[PodSetRequest]:
        """Pods of one shape get their flavors together."""
        shapes = dict.fromkeys(self.sizes)
        return [
            PodSetRequest(str(at), self.sizes.count(gpus), {GPU: gpus}, self.selection)
            for at, gpus in enumerate(shapes)
        ]


@dataclass(frozen=True)
class Case:
    """``without``: flavors that have no nodes."""

    flavors: list[ResourceFlavor]
    queues: list[ClusterQueue]
    cohorts: list[Cohort]
    running: list[Gang]
    waiting: list[Gang]
    fair: bool
    preempts: bool
    without: frozenset[str] = field(default=frozenset())


@dataclass
class Outcome:
    """By name, in the order of the decisions: who is admitted, with the flavor of each podset; and who has whom
    evicted. ``apart``: the core goes on where the decision by quota ends, on purpose (docs/queues.md): somebody counts
    on what the victims of others leave, or has podsets of which one has no victims with the flavor of the other."""

    admitted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    evicts: dict[str, frozenset[str]] = field(default_factory=dict)
    apart: bool = False


def case(seed: int) -> Case:
    chance = Random(seed)  # noqa: S311 - it is a test
    names = ["fast", "slow", "spot"][: chance.randint(1, 3)]
    tainted = [chance.random() < 0.2 for _ in names]
    flavors = [
        ResourceFlavor(name, {FLAVOR: name}, (_TAINT,) if taint else ())
        for name, taint in zip(names, tainted, strict=True)
    ]
    above = [f"c{at}" for at in range(chance.randrange(4))]
    cohorts = [
        Cohort(
            name,
            chance.choice(["", *above[:at]]),
            _groups(chance, names) if chance.random() < 0.3 else (),
            chance.choice(WEIGHTS),
        )
        for at, name in enumerate(above)
    ]
    queues = [_queue(chance, f"q{at}", names, above) for at in range(chance.randint(1, 5))]
    running: list[Gang] = []
    tree = QuotaTree(queues, cohorts)
    for at in range(chance.choice((3, 10, 20, 30))):
        one = replace(
            _gang(chance, f"r{at}", queues), flavor=chance.choice(names), at=float(chance.randrange(int(NOW)))
        )
        one = replace(one, selection=Selection(tolerations=(_TOLERATES,)))
        if has(tree, one) and not tree.lacks(one.queue, one.usage):
            tree.use(one.queue, one.usage)
            running.append(one)
    waiting = [_gang(chance, f"w{at}", queues) for at in range(chance.randint(1, 6))]
    used = {one.flavor for one in running}
    without = frozenset(name for name in names if chance.random() < 0.2 and name not in used)
    return Case(flavors, queues, cohorts, running, waiting, chance.random() < 0.4, chance.random() < 0.8, without)


def has(tree: QuotaTree, one: Gang) -> bool:
    return all(what in tree.queues[one.queue].quotas for what in one.usage)


def _queue(chance: Random, name: str, names: list[str], above: list[str]) -> ClusterQueue:
    some = chance.sample(names, chance.randint(1, len(names)))
    low = chance.choice
    fungibility = Fungibility(low([*Search]))
    return ClusterQueue(
        name,
        _groups(chance, some),
        low(["", *above * 3]),
        low((Strategy.BEST_EFFORT, Strategy.STRICT)),
        fungibility,
        low(WEIGHTS),
        (),
        preemption=Preemption(
            low([Evicts.NEVER, Evicts.LOWER, Evicts.LOWER, Evicts.LOWER_OR_NEWER]),
            low([Evicts.NEVER, Evicts.LOWER, Evicts.ANY, Evicts.ANY]),
            low([Evicts.NEVER, Evicts.NEVER, Evicts.LOWER]),
            low([None, 1]),
        ),
    )


def _groups(chance: Random, names: list[str]) -> tuple[ResourceGroup, ...]:
    limits = [None, None, 0, *range(8)]
    quotas = {name: Quota(chance.randrange(9), chance.choice(limits), chance.choice(limits)) for name in names}
    return (ResourceGroup((GPU,), tuple((name, {GPU: quota}) for name, quota in quotas.items())),)


def _gang(chance: Random, name: str, queues: list[ClusterQueue]) -> Gang:
    sizes = (chance.randint(1, 4),) * chance.randint(1, 3)
    if chance.random() < 0.2:
        sizes += (chance.randint(1, 4),)
    asks = tuple((FLAVOR, one) for one in [chance.choice(("fast", "slow"))] if chance.random() < 0.15)
    tolerates = (_TOLERATES,) if chance.random() < 0.6 else ()
    return Gang(
        name,
        chance.choice(queues).name,
        sizes,
        chance.randrange(3),
        float(chance.randrange(900)),
        Selection(asks, tolerations=tolerates),
    )


def nodes(case: Case) -> list[Node]:
    """One for each flavor, large enough for everybody."""
    return [
        node(one.name, 10_000, labels={FLAVOR: one.name}, taints=one.taints)
        for one in case.flavors
        if one.name not in case.without
    ]


def by_core(case: Case) -> Outcome:
    """All who wait have come when the first pass begins."""
    script, found = begun(case), Outcome()
    gangs = {one.name: one for one in case.waiting}
    for effect in script.effects:
        _note(found, effect, gangs, script)
    return found


def begun(case: Case) -> Cluster:
    """After the first pass."""
    limits = Limits(
        preemption=Preempts.ON if case.preempts else Preempts.OFF,
        preemption_s=600.0,
        fair_sharing=case.fair,
        evictions_per_hour=0,
    )
    script = _Pass(case, limits)
    script.see(*nodes(case))
    things: list[QueueObject] = [*case.flavors, *case.cohorts, *case.queues]
    for thing in things:
        script.feed(QueueSeen(thing))
        if isinstance(thing, ClusterQueue):
            script.feed(QueueSeen(LocalQueue("default", thing.name, thing.name)))
    script.feed(NamespaceSeen("default", (("kubernetes.io/metadata.name", "default"),)))
    for one in (*case.running, *case.waiting):
        _come(script, one)
    script.feed_synced()
    return script


def _come(script: Cluster, one: Gang) -> None:
    for pod in one.pods():
        script.pods[pod.uid] = pod
        script.feed(PodSeen(pod))


class _Pass(Cluster):
    def __init__(self, case: Case, limits: Limits) -> None:
        self.case = case
        super().__init__(limits=limits)
        self._checked = 1_000

    def feed_synced(self) -> None:
        if self.pods:
            super().feed_synced()


def _note(found: Outcome, effect: Effect, gangs: Mapping[str, Gang], script: Cluster) -> None:
    match effect:
        case Turned(key, Turn.PLANNED):
            one = gangs[key.name]
            found.admitted[one.name] = tuple({pod.requests: script.planned(pod) for pod in one.pods()}.values())
        case Reserve(key, reservation=kept) if kept is not None:
            found.evicts[key.name] = frozenset(str(one) for one in kept.victims)


def by_entry(case: Case) -> Outcome:
    fair = _FAIR if case.fair else ()
    running = [
        Candidate(
            f"default/{one.name}",
            Unit.WORKLOAD,
            one.priority,
            one.created,
            tuple(Held(one.flavor, requests(gpus, 0)) for gpus in one.sizes),
            one.at or one.created,
            queue=one.queue,
            usage=one.usage,
        )
        for one in case.running
    ]
    there = eviction.World(running, case.queues, case.cohorts, fair, limits=Protection(NOW))
    world = _world(case, [Admitted(one.queue, one.usage) for one in case.running])
    world = replace(world, evictions=offers(there) if case.preempts else no_evictions)
    found = Outcome()
    for one in decide(world, map(_incoming, case.waiting)):
        name = one.workload.uid.removeprefix("default/")
        if one.assignment.fit is Fit.FITS:
            found.admitted[name] = tuple(some[GPU] for some in one.assignment.flavors.values())
        elif one.victims:
            found.evicts[name] = frozenset(one.victims)
        counts = one.assignment.fit in (Fit.PREEMPT, Fit.RECLAIM) and not one.victims
        found.apart |= counts or (one.assignment.fit is Fit.NO_CANDIDATES and len(one.workload.podsets) > 1)
    return found


def _world(case: Case, admitted: Iterable[Admitted]) -> World:
    flavors = {one.name: one for one in case.flavors}
    return World(
        case.queues,
        case.cohorts,
        flavors,
        admitted,
        lambda _, flavor: "no nodes" if flavor.name in case.without else "",
        case.fair,
    )


def _incoming(one: Gang) -> Incoming:
    return Incoming(f"default/{one.name}", one.queue, one.podsets(), one.priority, one.created)


def in_passes(seed: int, count: int) -> Iterator[tuple[Outcome, Outcome]]:
    """What both make of one world pass by pass, with nobody evicted: after each pass some end, and others come."""
    some, chance = replace(case(seed), preempts=False), Random(seed)  # noqa: S311 - it is a test
    gangs = {one.name: one for one in (*some.running, *some.waiting)}
    used = {one.name: Admitted(one.queue, one.usage) for one in some.running}
    waiting, script, seen = list(some.waiting), begun(some), 0
    for number in range(count):
        found, wanted = Outcome(), Outcome()
        for effect in script.effects[seen:]:
            _note(found, effect, gangs, script)
        seen = len(script.effects)
        for one in decide(_world(some, used.values()), [_incoming(one) for one in waiting]):
            if one.assignment.fit is Fit.FITS:
                name = one.workload.uid.removeprefix("default/")
                wanted.admitted[name] = tuple(flavors[GPU] for flavors in one.assignment.flavors.values())
                used[name] = Admitted(one.workload.queue, one.assignment.usage)
        yield found, wanted
        waiting = [one for one in waiting if one.name not in used]
        for name in [name for name in used if chance.random() < 0.3]:
            del used[name]
            for pod in gangs[name].pods():
                script.feed(PodGone(pod.uid))
        for at in range(chance.randrange(3)):
            waiting.append(_gang(chance, f"n{number}-{at}", some.queues))
            gangs[waiting[-1].name] = waiting[-1]
            _come(script, waiting[-1])
        script.advance(0.1)
