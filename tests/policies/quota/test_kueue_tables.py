"""The decisions in Kueue's own tests, and those of Muster where they differ on purpose."""

from __future__ import annotations

from math import ceil

import pytest

from policies.model.queues import ClusterQueue, FairStrategy, FlavorResource, Usage
from policies.quota.flavors import Assignment, Fit, Flavors
from policies.quota.history import History, Sampling
from policies.quota.shares import Head, share_of
from policies.quota.tree import QuotaTree
from policies.steps import Steps, quickly
from tests.conformance import preemption as eviction
from tests.conformance.offers import offers
from tests.conformance.quota import Admitted, Decision, World, by_age, decide
from tests.policies.tables import Case, candidates, cases, incoming, podsets, usage_of


@pytest.mark.parametrize("case", cases("quota.txt"), ids=lambda case: case.where)
def test_a_pass(case: Case) -> None:
    fair = case.parts[0] == "fair"
    runs, waits, decided, *others = case.parts[fair:]
    running = candidates(runs)
    evicting = eviction.World(running, case.queues, case.cohorts, (*FairStrategy,) if fair else ())
    admitted = [Admitted(candidate.queue, candidate.usage) for candidate in running]
    world = World(case.queues, case.cohorts, case.flavors, admitted, fair=fair, evictions=offers(evicting))
    assert "; ".join(map(said, decide(world, incoming(waits)))) == decided
    assert decided not in others


def said(one: Decision) -> str:
    """``UID FIT PODSET*COUNT:RESOURCE=FLAVOR > VICTIM WHY``; the count where it is not that of all."""
    assignment = one.assignment
    if assignment.fit < Fit.PREEMPT:
        return f"{one.workload.uid} WAITS"
    victims = [">", *(f"{name} {why}" for name, why in one.victims.items())] if one.victims else []
    return " ".join((one.workload.uid, assignment.fit.name, *flavors_of(assignment), *victims))


def flavors_of(found: Assignment) -> list[str]:
    return [
        f"{name}{f'*{found.counts[name]}' if name in found.counts else ''}:"
        + ",".join(f"{resource}={flavor}" for resource, flavor in by_resource.items())
        for name, by_resource in found.flavors.items()
    ]


@pytest.mark.parametrize("case", cases("flavors.txt"), ids=lambda case: case.where)
def test_flavors(case: Case) -> None:
    """``QUEUE AMOUNTS`` of the present usage; podsets; the gains of preempting; the result, and its level."""
    fair = case.parts[0] == "fair"
    used, wanted, gives, expected = case.parts[fair:]
    tree, given = tree_of(case, used), {}
    for text in gives.split():
        what, _, fit = text.partition("=")
        flavor, _, resource = what.partition("/")
        given[flavor, resource] = Fit[fit[:-1]], int(fit[-1])

    def preempts(_queue: ClusterQueue, what: FlavorResource, _amount: int) -> Steps[tuple[Fit, int]]:
        return quickly(given.get(what, (Fit.PREEMPT, 0)))

    flavors = Flavors(tree, case.flavors, preempts=preempts, fair=fair)
    assignment = flavors.assign(case.queues[0], podsets(wanted))
    text = " ".join((f"{assignment.fit.name}{assignment.level}", *flavors_of(assignment)))
    assert (assignment.fit.name if assignment.fit is Fit.NONE else text) == expected


@pytest.mark.parametrize("case", cases("tree.txt"), ids=lambda case: case.where)
def test_what_is_left(case: Case) -> None:
    used, left, could = case.parts
    for text, name, whats in ((text, *named(text)) for text in left.split(";")):
        node = tree_of(case, used).queues[name]
        assert {what: max(0, node.left(what)) for what in whats} == whats, text
    for text, name, whats in ((text, *named(text)) for text in could.split(";")):
        assert {what: tree_of(case, used).queues[name].potential(what) for what in whats} == whats, text
        assert {what: tree_of(case, "").queues[name].left(what) for what in whats} == whats, text


@pytest.mark.parametrize("case", cases("shares.txt"), ids=lambda case: case.where)
def test_shares(case: Case) -> None:
    used, shares = case.parts
    tree = tree_of(case, used)
    nodes = {**tree.cohorts, **tree.queues}
    computed = {name: share_of(nodes[name]) for name in (text.partition("=")[0] for text in shares.split())}
    texts = (f"{name}={'endless' if share.endless else ceil(share.value)}" for name, share in computed.items())
    assert " ".join(texts) == shares


def tree_of(case: Case, used: str) -> QuotaTree:
    """``QUEUE AMOUNTS``, with ``;`` between them."""
    tree = QuotaTree(case.queues, case.cohorts)
    for name, usage in (named(text) for text in used.split(";") if text):
        tree.use(name, usage)
    return tree


def named(text: str) -> tuple[str, Usage]:
    name, *amounts = text.split()
    return name, usage_of(amounts)


@pytest.mark.parametrize("case", cases("past.txt"), ids=lambda case: case.where)
def test_past_usage(case: Case) -> None:
    """Half of it is forgotten in 10 s, and it is sampled each second."""
    pasts, waits, starts = case.parts
    used = dict(map(named, pasts.split(";") if pasts else ()))
    weights = {resource: float(weight) for (_, resource), weight in used.pop("weights", {}).items()}
    histories = {}
    for (name, _, weight), usage in ((label.partition("*"), usage) for label, usage in used.items()):
        consumed = {resource: float(amount) for (_, resource), amount in usage.items()}
        histories[name] = History(Sampling(10.0, 1.0, weights), float(weight), consumed=consumed)
    decided = decide(World(case.queues, flavors=case.flavors, histories=histories), incoming(waits))
    assert " ".join(decision.workload.uid for decision in decided if decision.assignment.fit is Fit.FITS) == starts


@pytest.mark.parametrize("case", cases("order.txt"), ids=lambda case: case.where)
def test_the_order_of_queues(case: Case) -> None:
    first, order, *others = case.parts
    heads = {}
    for name, priority, since, level in map(str.split, first.split(";")):
        heads[name] = Head(name, {}, int(priority), float(since), name, int(level))
    assert " ".join(head.uid for head in by_age(heads)) == order
    assert order not in others
