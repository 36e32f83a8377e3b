"""The victims of workloads in queues beside the best choice of all, by rules that are written down here once more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain, combinations, permutations
from random import Random

import pytest

from policies.model import Topology
from policies.model.queues import ClusterQueue, Evicts, FairStrategy, Preemption
from policies.preemption.candidates import Candidate, Held, Limits, Request, Unit
from policies.preemption.reclaim import Queues, Reclaim
from policies.quota.tree import QuotaTree
from policies.statement import Statement
from tests.builders import cluster, gang, requests, single, snapshot
from tests.conformance.preemption import World, decide
from tests.policies.preemption.brute import HOUR, NOW, Best, price
from tests.policies.quota.worlds import GPU, quota

SEEDS, PARTS = 3_000, 6


@dataclass(frozen=True)
class Case:
    """``shape``: how many members of the request ask for how many GPUs each. Each candidate has a node of its own. Each
    node is a clique; ``together``: the request requires one."""

    world: World
    request: Request
    shape: tuple[int, int]
    together: bool

    @property
    def own(self) -> ClusterQueue:
        return self.queue(self.request.queue)

    def queue(self, name: str) -> ClusterQueue:
        return next(queue for queue in self.world.queues if queue.name == name)

    def has(self, name: str) -> int:
        return self.queue(name).groups[0].flavors[0][1][GPU[1]].nominal

    def uses(self, name: str, gone: tuple[Candidate, ...] = ()) -> int:
        return sum(
            candidate.usage[GPU]
            for candidate in self.world.running
            if candidate.queue == name and candidate not in gone
        )

    @property
    def wants(self) -> int:
        return self.request.usage[GPU]


def case(seed: int) -> Case:
    chance = Random(seed)
    names = [f"q{at}" for at in range(chance.randint(1, 4))]
    # a queue without workloads, whose quota the others may borrow
    idle = ClusterQueue("idle", quota(chance.randrange(12)), "all")
    queues = [*(_queue(chance, name) for name in names), idle, replace(_queue(chance, "far"), cohort="far")]
    running = []
    for at in range(chance.randint(2, 6)):
        gpus, age = chance.randint(1, 4), chance.randint(1, 9) * HOUR
        facts = {"queue": chance.choice([*names * 3, "far"]), "usage": {GPU: gpus}}
        held = (Held(f"{at}-0", requests(gpus, 0)),)
        priority = chance.randint(0, 3)
        running.append(Candidate(f"v{at}", Unit.WORKLOAD, priority, NOW - age, held, NOW - age, **facts))  # type: ignore[arg-type]
    # Some nodes besides, so that at times there are nodes and no quota.
    sizes = [candidate.usage[GPU] for candidate in running] + [chance.choice([1, 2, 8])] * chance.randint(0, 2)
    nodes = cluster(*(f"{at}: 1x{size}" for at, size in enumerate(sizes)))
    bound = [
        single(candidate.name, gpus=candidate.usage[GPU], cpu=0, node=f"{at}-0") for at, candidate in enumerate(running)
    ]
    shape = chance.randint(1, 4), chance.choice([1, 1, 2, 4])
    together = Random(f"together {seed}").random() < 0.4
    topology = Topology(required="clique") if together else Topology()
    pods = gang("new", shape[0], gpus=shape[1], cpu=0, topology=topology)
    request = Request("new", pods, len(pods), chance.randint(0, 4), since=NOW - chance.randint(1, 9) * HOUR)
    request = replace(request, queue=names[0], usage={GPU: shape[0] * shape[1]})
    fair = chance.choice([(), (), (FairStrategy.FINAL,), (FairStrategy.INITIAL,), tuple(FairStrategy)])
    world = World(running, queues, (), fair, None, snapshot(nodes, *bound), Limits(NOW))
    return Case(world, request, shape, together)


def _queue(chance: Random, name: str) -> ClusterQueue:
    rules = Preemption(
        chance.choice([Evicts.NEVER, Evicts.LOWER, Evicts.LOWER_OR_NEWER]),
        chance.choice([Evicts.NEVER, Evicts.LOWER, *[Evicts.ANY] * 4]),
        chance.choice([Evicts.NEVER, Evicts.LOWER, Evicts.LOWER]),
        chance.choice([None, 1]),
    )
    limit = chance.choice([None, None, chance.randrange(8)])
    weight = chance.choice([Fraction(1), Fraction(1), Fraction(2)])
    reclaimable = chance.random() < 0.9
    groups = quota(chance.choice([0, 1, 2, 4, 8]), limit)
    return ClusterQueue(name, groups, "all", weight=weight, preemption=rules, reclaimable=reclaimable)


def best(of: Case) -> tuple[Best, list[set[str]]] | None:
    """The least price, and the sets of victims that have it; by the first strategies of fair sharing that find any."""
    strategies = [of.world.fair[: at + 1] for at in range(len(of.world.fair))] or [()]
    for fair in strategies:
        choices = [(price(list(gone)), {victim.name for victim in gone}) for gone in _choices(of, fair)]
        if choices:
            least = min(cost for cost, _ in choices)
            return least, [names for cost, names in choices if cost == least]
    return None


def _choices(of: Case, fair: tuple[FairStrategy, ...]) -> Iterator[tuple[Candidate, ...]]:
    may = [candidate for candidate in of.world.running if _may_go(candidate, of)]
    for gone in chain.from_iterable(combinations(may, size) for size in range(len(may) + 1)):
        if _quota_fits(of, gone) and _nodes_fit(of, gone):
            together = any(_one_by_one(of, order, fair) for order in permutations(gone)) if fair else _classic(of, gone)
            if together:
                yield gone


def _may_go(one: Candidate, of: Case) -> bool:
    ours = of.own.preemption
    if of.queue(one.queue).cohort != "all":
        return False
    lower = one.priority < of.request.priority
    if one.queue == of.own.name:
        newer = one.priority == of.request.priority and one.created > of.request.since
        return {Evicts.NEVER: False, Evicts.LOWER: lower}.get(ours.within, lower or newer)
    if not of.queue(one.queue).reclaimable:
        return False
    return {Evicts.NEVER: False, Evicts.LOWER: lower, Evicts.ANY: True}[ours.reclaim]


def _quota_fits(of: Case, gone: tuple[Candidate, ...]) -> bool:
    near = [queue.name for queue in of.world.queues if queue.cohort == "all"]
    used = sum(of.uses(name, gone) for name in near) + of.wants
    limit = of.own.groups[0].flavors[0][1][GPU[1]].borrowing
    borrows = max(0, of.uses(of.own.name, gone) + of.wants - of.has(of.own.name))
    return used <= sum(map(of.has, near)) and (limit is None or borrows <= limit)


def _nodes_fit(of: Case, gone: tuple[Candidate, ...]) -> bool:
    count, gpus = of.shape
    snapshot = of.world.snapshot
    assert snapshot is not None
    free = {name: int(snapshot.free[snapshot.resources[GPU[1]], row]) for name, row in snapshot.rows.items()}
    for victim in gone:
        free[victim.claims[0].node] += victim.usage[GPU]
    rooms = [much // gpus for much in free.values()]
    return (max(rooms) if of.together else sum(rooms)) >= count


def _classic(of: Case, gone: tuple[Candidate, ...]) -> bool:
    """Whether these victims obey the classic rules.

    The largest victim of each other queue may go last, because the queue still borrows then. A queue that has to
    borrow for the request has two ways. Either it does not borrow in the end, or it may evict the priorities of all
    others to borrow.
    """
    ours, others = of.own.preemption, [victim for victim in gone if victim.queue != of.own.name]
    for name in {victim.queue for victim in others}:
        amounts = sorted(victim.usage[GPU] for victim in others if victim.queue == name)
        if of.uses(name) - sum(amounts[:-1]) <= of.has(name):
            return False
    has = of.has(of.own.name)
    if of.uses(of.own.name) + of.wants <= has or of.uses(of.own.name, gone) + of.wants <= has:
        return True
    highest = of.request.priority if ours.threshold is None else min(of.request.priority, ours.threshold + 1)
    return all(ours.borrow is not Evicts.NEVER and victim.priority < highest for victim in others)


def _one_by_one(of: Case, order: tuple[Candidate, ...], fair: tuple[FairStrategy, ...]) -> bool:
    for at, victim in enumerate(order):
        before, after = order[:at], order[: at + 1]
        if victim.queue == of.own.name:
            continue
        if of.uses(victim.queue, before) <= of.has(victim.queue):
            return False
        if of.uses(of.own.name, before) + of.wants <= of.has(of.own.name):
            continue
        ours = _share(of, of.own, before, of.wants)
        theirs = of.queue(victim.queue)
        final = FairStrategy.FINAL in fair and ours <= _share(of, theirs, after)
        if not final and not (FairStrategy.INITIAL in fair and ours < _share(of, theirs, before)):
            return False
    return True


def _share(of: Case, queue: ClusterQueue, gone: tuple[Candidate, ...], more: int = 0) -> Fraction:
    """The queue's share. All queues borrow from the same cohort, so its lendable amount matters to none."""
    return Fraction(max(0, of.uses(queue.name, gone) + more - of.has(queue.name))) / queue.weight


@pytest.mark.parametrize("part", range(PARTS))
def test_the_victims_are_those_that_cost_least_of_all_choices(part: int) -> None:
    for seed in range(part, SEEDS, PARTS):
        of = case(seed)
        decision, wanted = decide(of.world, of.request), best(of)
        if wanted is None:
            assert decision.victims is None, (
                f"seed {seed} evicts {decision.victims}, which is not allowed or does not help"
            )
            continue
        assert decision.victims is not None, f"seed {seed} does not evict any of {wanted[1]}: {decision.text}"
        assert set(decision.victims) in wanted[1], (
            f"seed {seed} evicts {dict(decision.victims)}, and not one of {wanted[1]}"
        )


def test_nobody_goes_of_a_queue_that_is_out_of_reach() -> None:
    seeds, spared = range(0, SEEDS, PARTS), 0
    for seed in seeds:
        of = case(seed)
        tree = QuotaTree(of.world.queues)
        for workload in of.world.running:
            tree.use(workload.queue, workload.usage)
        queues = Queues({queue.name: queue for queue in of.world.queues}, of.world.fair)
        own = [candidate for candidate in of.world.running if candidate.queue == of.own.name]
        alone = not any(_may_go(candidate, of) for candidate in own)
        reclaim = Reclaim(of.request, Statement(tree=tree), queues, Limits(NOW), fair=of.world.fair)
        reach = {name for name in tree.below(tree.root_of(of.own.name)) if reclaim.reaches(name, alone=alone)}
        victims = decide(of.world, of.request).victims or ()
        assert {candidate.queue for candidate in of.world.running if candidate.name in victims} <= reach, f"seed {seed}"
        spared += any(
            _may_go(candidate, of) for candidate in of.world.running if candidate.queue not in {*reach, of.own.name}
        )
    assert spared > len(seeds) // 10
