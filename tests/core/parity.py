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
        case Reached(key, Milestone.PLANNED):
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
    """The outcomes of both for one world, pass by pass, without evictions: in between some end, others come."""
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
            waiting.append(waiting_gang(chance, f"n{number}-{at}", some.queues))
            gangs[waiting[-1].name] = waiting[-1]
            _come(script, waiting[-1])
        script.advance(0.1)
