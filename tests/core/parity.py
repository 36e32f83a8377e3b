"""Two readings of a small world with queues: the passes of the core, and the pure decision by quota."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from extender.core.effects import Effect, Milestone, Reached, Reserve
from extender.core.events import NamespaceSeen, PodGone, PodSeen, QueueSeen
from extender.core.limits import Limits, Preempts
from policies.model.queues import (
    ClusterQueue,
    FairStrategy,
    LocalQueue,
    QueueObject,
)
from policies.preemption.candidates import Candidate, Held, Unit
from policies.preemption.candidates import Limits as Protection
from policies.quota.flavors import Fit
from tests.builders import GPU, requests
from tests.conformance import preemption as eviction
from tests.conformance.offers import offers
from tests.conformance.quota import Admitted, Incoming, World, decide, no_evictions
from tests.core.preempting import Cluster
from tests.core.queue_worlds import NOW, Case, Gang, case, nodes, waiting_gang

_FAIR = (FairStrategy.FINAL, FairStrategy.INITIAL)


@dataclass
class Outcome:
    """The outcome by name, in the order of the decisions.

    ``admitted``: the flavor of each podset.
    ``evicts``: the victims of each workload.
    ``apart``: whether the core goes on where the decision by quota ends, on purpose (docs/kueue.md). Then a
      workload counts on what the victims of others leave, or one of its podsets has no victims with the flavor of
      another.
    """

    admitted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    evicts: dict[str, frozenset[str]] = field(default_factory=dict)
    apart: bool = False


def by_core(case: Case) -> Outcome:
    """The outcome of the core. All waiting workloads exist when the first pass begins."""
    script, outcome = begun(case), Outcome()
    gangs = {waiting.name: waiting for waiting in case.waiting}
    for effect in script.effects:
        _note(outcome, effect, gangs, script)
    return outcome


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
    for gang in (*case.running, *case.waiting):
        _come(script, gang)
    script.feed_synced()
    return script


def _come(script: Cluster, gang: Gang) -> None:
    for pod in gang.pods():
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


def _note(outcome: Outcome, effect: Effect, gangs: Mapping[str, Gang], script: Cluster) -> None:
    match effect:
        case Reached(key, Milestone.PLANNED):
            gang = gangs[key.name]
            outcome.admitted[gang.name] = tuple({pod.requests: script.planned(pod) for pod in gang.pods()}.values())
        case Reserve(key, reservation=kept) if kept is not None:
            outcome.evicts[key.name] = frozenset(str(victim) for victim in kept.victims)


def by_entry(case: Case) -> Outcome:
    fair = _FAIR if case.fair else ()
    running = [
        Candidate(
            f"default/{gang.name}",
            Unit.WORKLOAD,
            gang.priority,
            gang.created,
            tuple(Held(gang.flavor, requests(gpus, 0)) for gpus in gang.sizes),
            gang.at or gang.created,
            queue=gang.queue,
            usage=gang.usage,
        )
        for gang in case.running
    ]
    there = eviction.World(running, case.queues, case.cohorts, fair, limits=Protection(NOW))
    world = _world(case, [Admitted(gang.queue, gang.usage) for gang in case.running])
    world = replace(world, evictions=offers(there) if case.preempts else no_evictions)
    outcome = Outcome()
    for decision in decide(world, map(_incoming, case.waiting)):
        name = decision.workload.uid.removeprefix("default/")
        if decision.assignment.fit is Fit.FITS:
            outcome.admitted[name] = tuple(by_resource[GPU] for by_resource in decision.assignment.flavors.values())
        elif decision.victims:
            outcome.evicts[name] = frozenset(decision.victims)
        counts = decision.assignment.fit in (Fit.PREEMPT, Fit.RECLAIM) and not decision.victims
        outcome.apart |= counts or (decision.assignment.fit is Fit.NO_CANDIDATES and len(decision.workload.podsets) > 1)
    return outcome


def _world(case: Case, admitted: Iterable[Admitted]) -> World:
    flavors = {flavor.name: flavor for flavor in case.flavors}
    return World(
        case.queues,
        case.cohorts,
        flavors,
        admitted,
        lambda _, flavor: "no nodes" if flavor.name in case.without else "",
        case.fair,
    )


def _incoming(gang: Gang) -> Incoming:
    return Incoming(f"default/{gang.name}", gang.queue, gang.podsets(), gang.priority, gang.created)


def in_passes(seed: int, count: int) -> Iterator[tuple[Outcome, Outcome]]:
    """The outcomes of both for one world, pass by pass, without evictions: in between some end, others come."""
    world_case, chance = replace(case(seed), preempts=False), Random(seed)  # noqa: S311 - it is a test
    gangs = {gang.name: gang for gang in (*world_case.running, *world_case.waiting)}
    used = {gang.name: Admitted(gang.queue, gang.usage) for gang in world_case.running}
    waiting, script, seen = list(world_case.waiting), begun(world_case), 0
    for number in range(count):
        by_core_outcome, wanted = Outcome(), Outcome()
        for effect in script.effects[seen:]:
            _note(by_core_outcome, effect, gangs, script)
        seen = len(script.effects)
        for decision in decide(_world(world_case, used.values()), [_incoming(gang) for gang in waiting]):
            if decision.assignment.fit is Fit.FITS:
                name = decision.workload.uid.removeprefix("default/")
                wanted.admitted[name] = tuple(flavors[GPU] for flavors in decision.assignment.flavors.values())
                used[name] = Admitted(decision.workload.queue, decision.assignment.usage)
        yield by_core_outcome, wanted
        waiting = [gang for gang in waiting if gang.name not in used]
        for name in [name for name in used if chance.random() < 0.3]:
            del used[name]
            for pod in gangs[name].pods():
                script.feed(PodGone(pod.uid))
        for at in range(chance.randrange(3)):
            waiting.append(waiting_gang(chance, f"n{number}-{at}", world_case.queues))
            gangs[waiting[-1].name] = waiting[-1]
            _come(script, waiting[-1])
        script.advance(0.1)
