"""Several workloads in one decision by quota, some of which evict others: each keeps the quota that it will use, and no
workload is evicted twice.

The tables are those of Kueue v0.16.2 (``TestSchedule`` and ``TestResourcesToReserve``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from policies.model.queues import ClusterQueue, Evicts, FairStrategy, Preemption, Quota, ResourceFlavor, ResourceGroup
from policies.preemption.candidates import Candidate, Limits, Unit
from policies.quota.flavors import Fit
from policies.quota.parts import PodSetRequest
from policies.quota.tree import QuotaTree
from tests.conformance import preemption as eviction
from tests.conformance.offers import offers
from tests.conformance.quota import Admitted, Decision, Incoming, World, decide
from tests.policies.quota.worlds import GPU, tree

CPU = "cpu"
NOBODY = Preemption()
WITHIN = Preemption(within=Evicts.LOWER)
BORROWS = Preemption(within=Evicts.LOWER, borrow=Evicts.LOWER)
LOWER = Preemption(within=Evicts.LOWER, reclaim=Evicts.LOWER)
RECLAIMS = Preemption(within=Evicts.LOWER, reclaim=Evicts.ANY)
BOTH = (FairStrategy.FINAL, FairStrategy.INITIAL)


def queue(name: str, rules: Preemption = NOBODY, **quotas: Quota | int) -> ClusterQueue:
    by_resource = {name: Quota(amount) if isinstance(amount, int) else amount for name, amount in quotas.items()}
    return ClusterQueue(
        name, (ResourceGroup(tuple(by_resource), (("default", by_resource),)),), "other", preemption=rules
    )


def has(name: str, queue: str, priority: int = 0, **usage: int) -> Candidate:
    amounts = {("default", resource): amount for resource, amount in usage.items()}
    return Candidate(name, Unit.WORKLOAD, priority, queue=queue, usage=amounts)


def wants(name: str, queue: str, priority: int, since: float = 0, **requests: int) -> Incoming:
    return Incoming(name, queue, [PodSetRequest("main", 1, requests)], priority, since)


def decided(
    queues: Sequence[ClusterQueue],
    running: Sequence[Candidate],
    incoming: Sequence[Incoming],
    fair: tuple[FairStrategy, ...] = (),
    budgets: Mapping[str, int] | None = None,
) -> dict[str, Decision]:
    world = World(
        queues,
        flavors={"default": ResourceFlavor("default")},
        admitted=[Admitted(candidate.queue, candidate.usage) for candidate in running],
        fair=bool(fair),
        evictions=offers(eviction.World(running, queues, fair=fair, limits=Limits(budgets=budgets or {}))),
    )
    return {decision.workload.uid: decision for decision in decide(world, incoming)}


def outcome(found: Mapping[str, Decision]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: (decision.assignment.fit.name, tuple(decision.victims)) for name, decision in found.items()}


def test_several_queues_evict_of_their_own_at_once() -> None:
    queues = [queue("alpha", WITHIN, cpu=2), queue("beta", WITHIN, cpu=2)]
    running = [has("a1", "alpha", cpu=2), has("b1", "beta", cpu=2)]
    decisions = decided(queues, running, [wants("a", "alpha", 100, cpu=2), wants("b", "beta", 100, cpu=2)])
    assert outcome(decisions) == {"a": ("PREEMPT", ("a1",)), "b": ("PREEMPT", ("b1",))}
    assert decisions["a"].victims == {"a1": "InClusterQueue"}


def test_who_fits_and_comes_first_does_not_keep_others_from_evicting() -> None:
    queues = [queue("alpha", WITHIN, cpu=1), queue("beta", WITHIN, cpu=2)]
    line = [wants("fit", "alpha", 100, cpu=1), wants("preemptor", "beta", 99, cpu=2)]
    decisions = decided(queues, [has("b1", "beta", cpu=2)], line)
    assert outcome(decisions) == {"fit": ("FITS", ()), "preemptor": ("PREEMPT", ("b1",))}


def test_nobody_is_evicted_for_the_second_one_if_the_first_one_has_the_rest() -> None:
    """The preemptors want 6 in all. 5 exist, and 2 of these become free with the two candidates."""
    queues = [queue("alpha", BORROWS, cpu=2), queue("beta", BORROWS, cpu=2), queue("bank", cpu=1)]
    running = [has("a1", "alpha", cpu=2), has("b1", "beta", cpu=2)]
    decisions = decided(queues, running, [wants("a", "alpha", 100, cpu=3), wants("b", "beta", 99, cpu=3)])
    assert outcome(decisions) == {"a": ("PREEMPT", ("a1",)), "b": ("NO_CANDIDATES", ())}


def test_with_fair_sharing_several_queues_evict_of_their_own_at_once() -> None:
    names = ("alpha", "beta", "gamma")
    queues = [*(queue(name, LOWER, cpu=2) for name in names), queue("bank", cpu=3)]
    running = [has(f"of-{name}", name, cpu=3) for name in names]
    decisions = decided(queues, running, [wants(name, name, 100, cpu=3) for name in names], BOTH)
    assert outcome(decisions) == {name: ("PREEMPT", (f"of-{name}",)) for name in names}


def test_with_fair_sharing_nobody_goes_only_to_make_the_share_of_its_own_queue_smaller() -> None:
    """Queue a uses nothing of the resource that is short. No other queue borrows with such a large share."""
    queues = [queue("a", RECLAIMS, gpu=1, cpu=0), queue("b", gpu=4), queue("bank", gpu=3, cpu=10)]
    first, second = (has(name, "b", gpu=4) for name in ("first", "second"))
    for cpu, victims in ((8, set()), (0, {"first"})):
        running = [has("own", "a", cpu=cpu), first, second]
        decisions = decided(queues, running, [wants("new", "a", 1, gpu=2)], BOTH)
        assert decisions["new"].victims.keys() == victims


def test_nobody_is_evicted_twice_and_what_a_victim_leaves_is_for_the_next() -> None:
    """Kueue lets the second one wait, and decides again when the first victim has gone (v0.17)."""
    queues = [
        queue("alpha", RECLAIMS, cpu=0, alpha=1),
        queue("beta", RECLAIMS, cpu=0, beta=1),
        queue("gamma", RECLAIMS, cpu=0, gamma=1),
        queue("bank", cpu=9),
    ]
    running = [has("a1", "alpha", alpha=1), has("b1", "beta", beta=1), has("c1", "gamma", cpu=9)]
    line = [wants("a", "alpha", 100, cpu=3, alpha=1), wants("b", "beta", 99, cpu=3, beta=1)]
    decisions = decided(queues, running, line, BOTH)
    assert outcome(decisions) == {"a": ("PREEMPT", ("a1", "c1")), "b": ("PREEMPT", ("b1",))}


def test_who_takes_back_its_own_comes_before_who_would_borrow() -> None:
    """WL1 of Kueue's #3405 came first, but has no candidates."""
    queues = [queue("one", cpu=10), queue("two", RECLAIMS, cpu=10), queue("three", cpu=0)]
    running = [has("one-1", "one", cpu=5), has("three-1", "three", cpu=5), has("three-2", "three", 1, cpu=5)]
    decisions = decided(queues, running, [wants("borrows", "one", 0, 0, cpu=10), wants("own", "two", 0, 1, cpu=10)])
    assert outcome(decisions) == {"borrows": ("NO_CANDIDATES", ()), "own": ("RECLAIM", ("three-1",))}


def test_who_needs_not_borrow_comes_before_a_preemptor_that_does() -> None:
    queues = [queue("alpha", BORROWS, cpu=2), queue("beta", cpu=4)]
    running = [has("a1", "alpha", cpu=4)]
    decisions = decided(queues, running, [wants("a", "alpha", 100, cpu=4), wants("b", "beta", 0, 9, cpu=2)])
    assert outcome(decisions) == {"b": ("FITS", ()), "a": ("PREEMPT", ("a1",))}


def test_a_budget_counts_for_all_of_them() -> None:
    queues = [queue("alpha", WITHIN, cpu=2), queue("beta", WITHIN, cpu=2)]
    running = [
        Candidate(name, Unit.WORKLOAD, queue=of, usage={("default", CPU): 2}, budgets=(("pdb", 1),))
        for name, of in (("a1", "alpha"), ("b1", "beta"))
    ]
    line = [wants("a", "alpha", 100, cpu=2), wants("b", "beta", 99, cpu=2)]
    decisions = decided(queues, running, line, budgets={"pdb": 1})
    assert outcome(decisions) == {"a": ("PREEMPT", ("a1",)), "b": ("NO_CANDIDATES", ())}


@pytest.mark.parametrize(
    ("quota", "used", "victim", "wanted", "reserved"),
    [
        pytest.param(Quota(100, 0), 60, 10, 50, 40, id="less than it asks for"),
        pytest.param(Quota(100, 0), 60, 20, 50, 30, id="the victim has more than is needed"),
        pytest.param(Quota(100, 0), 70, 70, 100, 30, id="all that is left"),
        pytest.param(Quota(0, 100), 60, 10, 50, 40, id="no more than its limit of borrowing"),
    ],
)
def test_what_is_reserved(quota: Quota, used: int, victim: int, wanted: int, reserved: int) -> None:
    """The reserved amount is not free for others of the cohort, which could borrow it."""
    queues = [queue("cq", BORROWS, cpu=quota), queue("others", cpu=0), queue("bank", cpu=120)]
    running = [has("victim", "cq", cpu=victim), has("stays", "cq", 900, cpu=used - victim)]
    free = quota.nominal + 120 - used - reserved
    for more in (0, 1):
        line = [wants("preemptor", "cq", 100, cpu=wanted), wants("follows", "others", 0, 9, cpu=free + more)]
        decisions = decided(queues, running, line)
        assert outcome(decisions)["preemptor"] == ("PREEMPT", ("victim",))
        assert (decisions["follows"].assignment.fit is Fit.FITS) == (not more)


@pytest.mark.parametrize("block", range(4))
def test_no_limit_is_exceeded_now_nor_when_the_victims_have_gone(block: int) -> None:
    """On random trees with any rules no workload is evicted twice, and each preemptor gets its promised quota."""
    preempted = 0
    for seed in range(block * 100, block * 100 + 100):
        chance, fair = Random(seed), BOTH if seed % 2 else ()
        queues, cohorts = tree(chance)
        queues = [
            replace(cluster_queue, preemption=Preemption(chance.choice([*Evicts]), chance.choice([*Evicts])))
            for cluster_queue in queues
        ]
        now, later, known = QuotaTree(queues, cohorts), QuotaTree(queues, cohorts), dict[str, Candidate]()
        for at in range(12):
            name, usage = chance.choice(queues).name, {GPU: chance.randint(1, 5)}
            if not now.lacks(name, usage):
                now.use(name, usage)
                later.use(name, usage)
                known[f"r{at}"] = Candidate(f"r{at}", Unit.WORKLOAD, chance.randrange(3), at, queue=name, usage=usage)
        pods = [[PodSetRequest("main", chance.randint(1, 6), {GPU[1]: 1})] for _ in range(10)]
        line = [
            Incoming(f"w{at}", chance.choice(queues).name, podsets, chance.randrange(4), at)
            for at, podsets in enumerate(pods)
        ]
        running = [*known.values()]
        world = World(
            queues,
            cohorts,
            {GPU[0]: ResourceFlavor(GPU[0])},
            [Admitted(candidate.queue, candidate.usage) for candidate in running],
            fair=bool(fair),
            evictions=offers(eviction.World(running, queues, cohorts, fair)),
        )
        decisions = decide(world, line)
        gone = [name for verdict in decisions for name in verdict.victims]
        assert len(gone) == len(set(gone)), seed
        for name in gone:
            later.free(known[name].queue, known[name].usage)
        for decision in decisions:
            of, asks = decision.workload.queue, decision.assignment.usage
            for book in [now, later] if decision.assignment.fit is Fit.FITS else [later] if decision.victims else []:
                assert not book.lacks(of, asks), (seed, decision)
                book.use(of, asks)
        preempted += sum(bool(verdict.victims) for verdict in decisions)
    assert preempted > 50
