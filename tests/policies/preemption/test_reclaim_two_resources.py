"""Victims where quota lacks one resource and nodes lack another, beside the best choice of all.

Queues are in one cohort or in nested ones. The rules are written down here once more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Cohort, Evicts, FairStrategy, Preemption, Quota, ResourceGroup
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from tests.builders import GPU, gang, node, requests, single, snapshot
from tests.conformance.preemption import World, decide
from tests.policies.preemption.brute import HOUR, NOW, Best, price

SEEDS, PARTS = 2_400, 6
RESOURCES = ("cpu", GPU)
ANY = Preemption(Evicts.LOWER, Evicts.ANY)


def queue(
    name: str, cpu: int, gpus: int, rules: Preemption = ANY, cohort: str = "all", **facts: object
) -> ClusterQueue:
    """``cpu`` in cores."""
    nominal = {"cpu": Quota(cpu * 1000), GPU: Quota(gpus)}
    groups = (ResourceGroup(RESOURCES, (("f", nominal),)),)
    return ClusterQueue(name, groups, cohort, preemption=rules, **facts)  # type: ignore[arg-type]


def runs(name: str, of: str, where: str, gpus: int, cpu: int, priority: int = 0, hours: int = 1) -> Candidate:
    amounts = {("f", "cpu"): cpu * 1000, ("f", GPU): gpus}
    usage = {what: amount for what, amount in amounts.items() if amount}
    since = NOW - hours * HOUR
    held = (Held(where, requests(gpus, cpu)),)
    return Candidate(name, Unit.WORKLOAD, priority, since, held, since, queue=of, usage=usage)


def wants(of: str, count: int, gpus: int, cpu: int, priority: int = 0, since: float = NOW) -> Request:
    usage = {("f", "cpu"): count * cpu * 1000, ("f", GPU): count * gpus}
    pods = gang("new", count, gpus=gpus, cpu=cpu)
    return Request("new", pods, count, priority, since=since, queue=of, usage=usage)


def world(
    nodes: dict[str, tuple[int, int]], running: Sequence[Candidate], queues: list[ClusterQueue], **facts: object
) -> World:
    """``nodes``: GPUs and cores by name."""
    there = [node(name, gpus, cpu=cpu) for name, (gpus, cpu) in nodes.items()]
    bound = [
        replace(single(candidate.name, node=held.node), requests=held.requests)
        for candidate in running
        for held in candidate.claims
    ]
    return World(running, queues, snapshot=snapshot(there, *bound), limits=Limits(NOW), **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize("fair", [(), (FairStrategy.FINAL, FairStrategy.INITIAL)])
@pytest.mark.parametrize(("cpu", "gpus"), [(16, 8), (16, 16), (8, 8)])
def test_borrowers_of_what_quota_lacks_and_of_what_nodes_lack_go(
    cpu: int, gpus: int, fair: tuple[FairStrategy, ...]
) -> None:
    running = [runs("low-cpu", "a", "n", 0, 6), runs("low-gpu", "a", "n", 8, 0)]
    there = world({"n": (8, 8)}, running, [queue("a", 0, 0), queue("b", cpu, gpus)], fair=fair)
    assert decide(there, wants("b", 1, 8, 4)).victims == {"low-cpu": Why.RECLAIM, "low-gpu": Why.RECLAIM}


def test_nobody_goes_for_what_nodes_lack_whose_queue_has_borrowed_only_what_they_do_not() -> None:
    """Queue a has borrowed GPUs; the cores that nodes lack are its own."""
    running = [runs("low-cpu", "a", "n", 0, 6), runs("low-gpu", "a", "m", 8, 0)]
    queues = [queue("a", 6, 0), queue("b", 16, 8)]
    there = world({"n": (8, 8), "m": (8, 8)}, running, queues)
    assert decide(there, wants("b", 1, 8, 4)).victims == {"low-gpu": Why.RECLAIM}
    tight = world({"n": (8, 8), "m": (8, 3)}, running, queues)
    assert decide(tight, wants("b", 1, 8, 4)).victims is None


def test_who_has_borrowed_gpus_goes_and_not_who_has_borrowed_cores_that_nodes_have() -> None:
    """This holds even if the cores would cost less."""
    running = [runs("own", "a", "n", 8, 1, hours=1), runs("borrowed", "d", "m", 8, 1, hours=9)]
    queues = [queue("a", 0, 8), queue("d", 64, 0), queue("b", 64, 8)]
    there = world({"n": (8, 64), "m": (8, 64)}, running, queues)
    assert decide(there, wants("b", 1, 8, 1)).victims == {"borrowed": Why.RECLAIM}


def test_who_has_borrowed_of_another_flavor_keeps_it() -> None:
    running = [runs("low-cpu", "a", "n", 0, 6), runs("low-gpu", "a", "n", 8, 0)]
    running[0] = replace(running[0], usage={("other", "cpu"): 6000})
    there = world({"n": (8, 8)}, running, [queue("a", 0, 0), queue("b", 16, 8)])
    assert decide(there, wants("b", 1, 8, 4)).victims is None


@dataclass(frozen=True)
class Case:
    """``sizes``: GPUs and cores of each node."""

    world: World
    request: Request
    sizes: dict[str, tuple[int, int]]
    shape: tuple[int, int, int]

    def path(self, name: str) -> list[str]:
        """The queue and the cohorts around it."""
        parents = {cohort.name: cohort.parent for cohort in self.world.cohorts}
        places = [name, next(cluster_queue.cohort for cluster_queue in self.world.queues if cluster_queue.name == name)]
        while parents.get(places[-1]):
            places.append(parents[places[-1]])
        return places

    def has(self, place: str, resource: str) -> int:
        return sum(
            cluster_queue.groups[0].flavors[0][1][resource].nominal
            for cluster_queue in self.world.queues
            if place in self.path(cluster_queue.name)
        )

    def uses(self, place: str, resource: str, gone: Sequence[Candidate] = ()) -> int:
        return sum(
            candidate.usage.get(("f", resource), 0)
            for candidate in self.world.running
            if candidate not in gone and place in self.path(candidate.queue)
        )

    def wants(self, resource: str) -> int:
        return self.request.usage["f", resource]

    def borrows(self, place: str, resource: str, gone: Sequence[Candidate] = (), more: int = 0) -> bool:
        return self.uses(place, resource, gone) + more > self.has(place, resource)


def case(seed: int) -> Case:
    chance = Random(seed)
    nested = chance.random() < 0.4
    names = [f"q{at}" for at in range(chance.randint(2, 4))]
    cohorts = [Cohort("left", "all"), Cohort("right", "all")] if nested else []
    queues = [_queue(chance, name, chance.choice(["left", "right", "all"]) if nested else "all") for name in names]
    queues.append(queue("idle", chance.randrange(16), chance.randrange(12)))
    sizes = {f"n{at}": (chance.choice([4, 8]), chance.choice([4, 8, 16])) for at in range(chance.randint(1, 3))}
    left = {name: list(size) for name, size in sizes.items()}
    running = []
    for at in range(chance.randint(2, 6)):
        where = chance.choice(sorted(sizes))
        gpus, cpu = (min(much, chance.choice([0, 1, 2, 4, 8])) for much in left[where])
        if gpus or cpu:
            left[where][0] -= gpus
            left[where][1] -= cpu
            running.append(
                runs(f"v{at}", chance.choice(names), where, gpus, cpu, chance.randint(0, 3), chance.randint(1, 9))
            )
    shape = chance.randint(1, 3), chance.choice([1, 2, 4, 8]), chance.choice([1, 2, 4])
    request = wants(names[0], *shape, chance.randint(0, 4), NOW - chance.randint(1, 9) * HOUR)
    fair = chance.choice([(), (), (FairStrategy.FINAL,), (FairStrategy.INITIAL,), tuple(FairStrategy)])
    there = world(sizes, running, queues, fair=fair, cohorts=cohorts)
    return Case(there, request, sizes, shape)


def _queue(chance: Random, name: str, cohort: str) -> ClusterQueue:
    rules = Preemption(
        chance.choice([Evicts.NEVER, Evicts.LOWER]),
        chance.choice([Evicts.LOWER, *[Evicts.ANY] * 4]),
        chance.choice([Evicts.NEVER, Evicts.LOWER]),
        chance.choice([None, 1]),
    )
    return queue(
        name,
        chance.choice([0, 2, 8, 16]),
        chance.choice([0, 2, 4, 8]),
        rules,
        cohort,
        weight=chance.choice([Fraction(1), Fraction(2)]),
    )


def best(of: Case) -> tuple[Best, list[set[str]]] | None:
    """The least price, and the sets of victims that have it; by the first strategies of fair sharing that find any."""
    for fair in [of.world.fair[: at + 1] for at in range(len(of.world.fair))] or [()]:
        choices = [(price(list(gone)), {victim.name for victim in gone}) for gone in _choices(of, fair)]
        if choices:
            least = min(cost for cost, _ in choices)
            return least, [names for cost, names in choices if cost == least]
    return None


def _choices(of: Case, fair: tuple[FairStrategy, ...]) -> Iterator[tuple[Candidate, ...]]:
    """Yield each choice that makes room for quota and nodes, if its victims may be evicted one after the other."""
    candidates = [candidate for candidate in of.world.running if _may_go(candidate, of)]
    nodes = {candidate.name: _lacking(candidate, of, candidates) for candidate in candidates}
    quota = {name for name in RESOURCES if of.wants(name) > of.has("all", name) - of.uses("all", name)}
    reach: dict[bool, set[tuple[str, ...]]] = {borrowing: {()} for borrowing in (True, False)}
    for gone in chain.from_iterable(combinations(candidates, size) for size in range(len(candidates) + 1)):
        for borrowing in (True, False):
            for at, last in enumerate(gone):
                before = (*gone[:at], *gone[at + 1 :])
                contested = quota | nodes[last.name]
                if _names(before) in reach[borrowing] and _goes(of, last, before, contested, fair, borrowing=borrowing):
                    reach[borrowing].add(_names(gone))
                    break
        within = not any(of.borrows(of.request.queue, name, gone, of.wants(name)) for name in RESOURCES)
        may = _names(gone) in reach[True] or (not fair and within and _names(gone) in reach[False])
        if may and _quota_fits(of, gone) and _nodes_fit(of, gone):
            yield gone


def _names(gone: Sequence[Candidate]) -> tuple[str, ...]:
    return tuple(victim.name for victim in gone)


def _may_go(one: Candidate, of: Case) -> bool:
    rules = next(queue.preemption for queue in of.world.queues if queue.name == of.request.queue)
    policy = rules.within if one.queue == of.request.queue else rules.reclaim
    return {Evicts.NEVER: False, Evicts.LOWER: one.priority < of.request.priority, Evicts.ANY: True}[policy]


def _free(of: Case, gone: Sequence[Candidate]) -> dict[str, dict[str, int]]:
    free = {name: {GPU: gpus, "cpu": cpu * 1000} for name, (gpus, cpu) in of.sizes.items()}
    for candidate in of.world.running:
        for (_, resource), amount in candidate.usage.items():
            free[candidate.claims[0].node][resource] -= 0 if candidate in gone else amount
    return free


def _slots(of: Case, free: dict[str, int]) -> int:
    _, gpus, cpu = of.shape
    return min(free[GPU] // gpus, free["cpu"] // (cpu * 1000))


def _nodes_fit(of: Case, gone: Sequence[Candidate]) -> bool:
    return sum(_slots(of, free) for free in _free(of, gone).values()) >= of.shape[0]


def _quota_fits(of: Case, gone: Sequence[Candidate]) -> bool:
    return all(of.uses("all", name, gone) + of.wants(name) <= of.has("all", name) for name in RESOURCES)


def _lacking(one: Candidate, of: Case, candidates: Sequence[Candidate]) -> set[str]:
    """The resources that it has, and of which its node has too little for as many members as it would hold empty."""
    where, (count, gpus, cpu) = one.claims[0].node, of.shape
    most = min(count, _slots(of, _free(of, candidates)[where]))
    free = _free(of, ())[where]
    return {
        name
        for name, each in ((GPU, gpus), ("cpu", cpu * 1000))
        if free[name] < most * each and one.usage.get(("f", name))
    }


def _goes(
    of: Case,
    one: Candidate,
    before: Sequence[Candidate],
    contested: set[str],
    fair: tuple[FairStrategy, ...],
    *,
    borrowing: bool,
) -> bool:
    """Whether it may be evicted after those."""
    own = of.request.queue
    if one.queue == own:
        return True
    ours, theirs = of.path(own), of.path(one.queue)
    shared = next(place for place in theirs if place in ours)
    near, far = ours[ours.index(shared) - 1], theirs[theirs.index(shared) - 1]
    sides = theirs[: theirs.index(shared)]
    used = [name for name in contested if one.usage.get(("f", name))]
    if not any(all(of.borrows(place, name, before) for place in sides) for name in used):
        return False
    if fair:
        if not any(of.borrows(own, name, before, of.wants(name)) for name in contested):
            return True
        mine = _share(of, near, before, wanted=True)
        final, initial = mine <= _share(of, far, (*before, one)), mine < _share(of, far, before)
        return (FairStrategy.FINAL in fair and final) or (FairStrategy.INITIAL in fair and initial)
    around = ours[: ours.index(near) + 1]
    advantaged = any(not any(of.borrows(place, name, (), of.wants(name)) for name in RESOURCES) for place in around)
    if advantaged or not borrowing:
        return True
    rules = next(queue.preemption for queue in of.world.queues if queue.name == own)
    below = rules.threshold is None or one.priority <= rules.threshold
    return rules.borrow is Evicts.LOWER and one.priority < of.request.priority and below


def _share(of: Case, place: str, gone: Sequence[Candidate], *, wanted: bool = False) -> Fraction:
    share = Fraction(0)
    for name in RESOURCES:
        more = of.wants(name) if wanted else 0
        if lendable := of.has("all", name):
            share = max(share, Fraction(max(0, of.uses(place, name, gone) + more - of.has(place, name)), lendable))
    weights = {cluster_queue.name: cluster_queue.weight for cluster_queue in of.world.queues}
    return share / weights.get(place, Fraction(1))


@pytest.mark.parametrize("part", range(PARTS))
def test_the_victims_are_those_that_cost_least_of_all_choices(part: int) -> None:
    seen: Counter[bool] = Counter()
    for seed in range(part, SEEDS, PARTS):
        of = case(seed)
        decision, wanted = decide(of.world, of.request), best(of)
        if wanted is None:
            assert decision.victims is None, (
                f"seed {seed} evicts {decision.victims}, which is not allowed or does not help"
            )
            continue
        seen[bool(decision.victims)] += 1
        assert decision.victims is not None, f"seed {seed} does not evict any of {wanted[1]}: {decision.text}"
        assert set(decision.victims) in wanted[1], (
            f"seed {seed} evicts {dict(decision.victims)}, and not one of {wanted[1]}"
        )
    assert min(seen.values()) > 20
