"""One decision on preemption as a pure function: whom a workload evicts and by which rule, or why nobody. This is the
entry for conformance tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from policies.checks import check_preemption
from policies.model.queues import ClusterQueue, Cohort, FairStrategy
from policies.placement.columns import Column
from policies.placement.snapshot import Others, Snapshot
from policies.placement.tenants import Tenants
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Limits, Request
from policies.preemption.reclaim import Queues
from policies.preemption.victims import Choice, search
from policies.quota.tree import QuotaTree
from policies.quota.usable import Usable
from policies.steps import quickly


@dataclass(frozen=True, slots=True)
class World:
    """What there is. ``running``: everybody who has room or quota, but for those who give way already. ``snapshot``:
    the nodes; None where quota alone decides. ``fair`` and ``saturation`` as in ``policies.preemption.reclaim.Queues``.
    """

    running: Sequence[Candidate] = ()
    queues: Sequence[ClusterQueue] = ()
    cohorts: Sequence[Cohort] = ()
    fair: tuple[FairStrategy, ...] = ()
    saturation: Fraction | None = None
    snapshot: Snapshot | None = None
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Decision:
    """``victims`` by name, each with its reason. None where it cannot start whoever is evicted; ``text`` says why."""

    victims: Mapping[str, Why] | None
    text: str


def decide(world: World, preemptor: Request) -> Decision:
    """Whom it evicts; an empty mapping if it can start as it is.

    Raises a ValueError for what makes no sense: a negative amount, two candidates of one name.
    """
    usable = Usable(world.queues, world.cohorts)
    world = replace(world, queues=usable.queues, cohorts=usable.cohorts, running=sheltered(world.running, usable))
    check_preemption(world, preemptor)
    tree = QuotaTree(world.queues, world.cohorts)
    if preemptor.queue and (text := usable.why_closed(tree, preemptor.queue)):
        return Decision(None, text)
    for one in world.running:
        if one.queue in tree.queues:
            tree.use(one.queue, one.usage)
    queues = Queues(tree, {one.name: one for one in world.queues}, world.fair, world.saturation)
    snapshot = no_nodes() if world.snapshot is None else world.snapshot
    found = search(preemptor, snapshot, world.running, world.limits, queues=queues)
    return Decision(found.why if isinstance(found, Choice) else None, found.text)


def sheltered(running: Sequence[Candidate], usable: Usable) -> list[Candidate]:
    """Of a queue that contradicts itself nobody can tell what it has borrowed: nobody in it gives way."""
    return [
        replace(one, protected=one.protected or text) if (text := usable.troubles.get(one.queue)) else one
        for one in running
    ]


def no_nodes() -> Snapshot:
    """Where quota alone decides."""
    none = np.zeros(0, dtype=np.intp)
    amounts = np.zeros((0, 0), dtype=np.int64)
    others = Others(Tenants(), lambda _: none, lambda _: quickly(none > 0), lambda fact: Column(fact, ()))
    return Snapshot((), {}, none, {}, amounts, amounts, (), lambda _: none > 0, lambda _: quickly(None), others)
