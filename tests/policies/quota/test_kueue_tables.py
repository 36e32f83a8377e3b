"""What Kueue's own tests say is decided, and what is decided here where that is otherwise on purpose."""

from __future__ import annotations

import pytest

from policies.model.queues import ClusterQueue, FairStrategy, FlavorResource, ResourceFlavor
from policies.preemption import decide as eviction
from policies.preemption.offers import offers
from policies.quota.decide import Admitted, Decision, World, decide
from policies.quota.flavors import Assignment, Fit, Flavors
from policies.quota.tree import QuotaTree
from tests.policies.tables import Case, candidates, cases, incoming, podsets, usage_of


def existing(case: Case) -> dict[str, ResourceFlavor]:
    names = (name for queue in case.queues for group in queue.groups for name, _ in group.flavors)
    return {name: ResourceFlavor(name) for name in names}


@pytest.mark.parametrize("case", cases("quota.txt"), ids=lambda case: case.where)
def test_a_pass(case: Case) -> None:
    fair = case.parts[0] == "fair"
    runs, waits, decided, *others = case.parts[fair:]
    running = candidates(runs)
    evicting = eviction.World(running, case.queues, case.cohorts, (*FairStrategy,) if fair else ())
    admitted = [Admitted(one.queue, one.usage) for one in running]
    world = World(case.queues, case.cohorts, existing(case), admitted, fair=fair, evictions=offers(evicting))
    assert "; ".join(map(said, decide(world, incoming(waits)))) == decided
    assert decided not in others


def said(one: Decision) -> str:
    """``UID FIT PODSET*COUNT:RESOURCE=FLAVOR > VICTIM WHY``; the count where it is not that of all."""
    found = one.assignment
    if found.fit < Fit.PREEMPT:
        return f"{one.workload.uid} WAITS"
    victims = [">", *(f"{name} {why}" for name, why in one.victims.items())] if one.victims else []
    return " ".join((one.workload.uid, found.fit.name, *flavors_of(found), *victims))


def flavors_of(found: Assignment) -> list[str]:
    return [
        f"{name}{f'*{found.counts[name]}' if name in found.counts else ''}:"
        + ",".join(f"{resource}={flavor}" for resource, flavor in some.items())
        for name, some in found.flavors.items()
    ]


@pytest.mark.parametrize("case", cases("flavors.txt"), ids=lambda case: case.where)
def test_flavors(case: Case) -> None:
    """``QUEUE AMOUNTS`` of who uses what; podsets; what preempting gives; what is found, and its level."""
    fair = case.parts[0] == "fair"
    used, asked, gives, found = case.parts[fair:]
    tree, given = QuotaTree(case.queues, case.cohorts), {}
    for name, *amounts in (one.split() for one in used.split(";") if one):
        tree.use(name, usage_of(amounts))
    for text in gives.split():
        what, _, fit = text.partition("=")
        flavor, _, resource = what.partition("/")
        given[flavor, resource] = Fit[fit[:-1]], int(fit[-1])

    def preempts(_queue: ClusterQueue, what: FlavorResource, _amount: int) -> tuple[Fit, int]:
        return given.get(what, (Fit.PREEMPT, 0))

    flavors = Flavors(tree, existing(case), preempts=preempts, fair=fair)
    one = flavors.assign(case.queues[0], podsets(asked))
    text = " ".join((f"{one.fit.name}{one.level}", *flavors_of(one)))
    assert (one.fit.name if one.fit is Fit.NONE else text) == found
