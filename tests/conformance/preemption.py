"""A decision on preemption as a pure function: the victims of a workload and by which rule, or why there are none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from policies.model.queues import ClusterQueue, Cohort, FairStrategy
from policies.placement.snapshot import Snapshot
from policies.preemption.allowed import Why
from policies.preemption.candidates import Candidate, Limits, Request, Unit
from policies.preemption.reclaim import Queues
from policies.preemption.victims import Choice, search
from policies.quota.tree import QuotaTree
from policies.statement import Statement
from tests.conformance.checks import (
    check_amount,
    check_kind,
    check_name,
    check_number,
    check_once,
    check_priority,
    check_queues,
    check_usage,
)
from tests.conformance.usable import Usable

_MOST = (1 << 63) - 1
"""The largest amount of a resource on a node."""


@dataclass(frozen=True, slots=True)
class World:
    """The facts of a decision on preemption.

    ``running``: all workloads with room or quota, except victims of earlier decisions.
    ``snapshot``: the nodes; None where quota alone decides.
    ``fair`` and ``saturation``: as in ``policies.preemption.reclaim.Queues``.
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
    """The result.

    ``victims``: by name, each with its reason; None where no eviction lets it start, and ``text`` says why.
    """

    victims: Mapping[str, Why] | None
    text: str


def decide(world: World, preemptor: Request) -> Decision:
    """Decide which workloads the preemptor evicts; an empty mapping if it can start as it is.

    Raises a ValueError for input that makes no sense: a negative amount, two candidates of one name.
    """
    usable = Usable(world.queues, world.cohorts)
    world = replace(world, queues=usable.queues, cohorts=usable.cohorts, running=sheltered(world.running, usable))
    _check(world, preemptor)
    tree = QuotaTree(world.queues, world.cohorts)
    if preemptor.queue and (text := usable.why_closed(tree, preemptor.queue)):
        return Decision(None, text)
    for candidate in world.running:
        if candidate.queue in tree.queues:
            tree.use(candidate.queue, candidate.usage)
    queues = Queues({queue.name: queue for queue in world.queues}, world.fair, world.saturation)
    statement = Statement(world.snapshot, tree)
    result = search(preemptor, statement, world.running, world.limits, queues=queues)
    return Decision(result.why if isinstance(result, Choice) else None, result.text)


def sheltered(running: Sequence[Candidate], usable: Usable) -> list[Candidate]:
    """Protect the candidates of self-contradicting queues, because what such a queue borrows is unknown."""
    return [
        replace(candidate, protected=candidate.protected or text)
        if (text := usable.troubles.get(candidate.queue))
        else candidate
        for candidate in running
    ]


def _check(world: World, preemptor: Request) -> None:
    """Check the input of the decision on preemption. Raises a ValueError that says what to do."""
    check_queues(world.queues, world.cohorts)
    for strategy in world.fair:
        check_kind("a strategy of fair sharing", strategy, FairStrategy)
    if world.saturation is not None:
        check_number("the saturation", world.saturation, least=0)
    _check_limits(world.limits)
    for candidate in world.running:
        _check_candidate(candidate)
    check_once("candidate", (candidate.name for candidate in world.running))
    what = f"of preemptor {preemptor.name}"
    check_name("the name of the preemptor", preemptor.name)
    check_priority(f"the priority {what}", preemptor.priority)
    check_number(f"since {what}", preemptor.since)
    check_usage(f"the usage {what}", preemptor.usage)
    check_amount(f"needed {what}", preemptor.needed)
    if preemptor.needed > len(preemptor.pods):
        raise ValueError(f"needed {what} is {preemptor.needed}: give no more than its {len(preemptor.pods)} pods")
    for pod in preemptor.pods:
        for name, amount in pod.requests:
            _check_room(f"{name} of pod {pod.name} {what}", amount)


def _check_candidate(one: Candidate) -> None:
    """Check the candidates that run."""
    check_name("the name of a candidate", one.name)
    what = f"of candidate {one.name}"
    check_kind(f"unit {what}", one.unit, Unit)
    check_priority(f"the priority {what}", one.priority)
    check_priority(f"queue_priority {what}", one.queue_priority)
    check_usage(f"the usage {what}", one.usage)
    for name in ("created", "past"):
        check_number(f"{name} {what}", getattr(one, name))
    for name in ("started", "checkpointed", "min_runtime_s"):
        if (number := getattr(one, name)) is not None:
            check_number(f"{name} {what}", number)
    check_amount(f"evictions {what}", one.evictions)
    for name, count in one.budgets:
        check_amount(f"budget {name} {what}", count)
    for held in one.claims:
        check_amount(f"pods {what} on node {held.node}", held.pods)
        for name, amount in held.requests:
            _check_room(f"{name} {what} on node {held.node}", amount)


def _check_limits(limits: Limits) -> None:
    check_number("now", limits.now)
    check_number("min_runtime_s", limits.min_runtime_s)
    if limits.evictions_per_hour is not None:
        check_amount("evictions_per_hour", limits.evictions_per_hour)
    for name, count in limits.budgets.items():
        check_amount(f"what budget {name} lets go", count)


def _check_room(what: str, amount: object) -> None:
    check_amount(what, amount)
    if isinstance(amount, int) and amount > _MOST:
        raise ValueError(f"{what} is {amount}: give no more than {_MOST}")
