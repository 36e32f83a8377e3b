"""Whether what the decision on preemption is asked about makes sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import (
    check_amount,
    check_kind,
    check_name,
    check_number,
    check_once,
    check_priority,
    check_queues,
    check_usage,
)
from policies.model.queues import FairStrategy
from policies.preemption.candidates import Candidate, Limits, Request, Unit

if TYPE_CHECKING:
    from policies.preemption.decide import World

_MOST = (1 << 63) - 1
"""Of a resource on a node."""


def check(world: World, preemptor: Request) -> None:
    """Raises a ValueError that says what to do."""
    check_queues(world.queues, world.cohorts)
    for strategy in world.fair:
        check_kind("a strategy of fair sharing", strategy, FairStrategy)
    if world.saturation is not None:
        check_number("the saturation", world.saturation, least=0)
    _check_limits(world.limits)
    for one in world.running:
        check_candidate(one)
    check_once("candidate", (one.name for one in world.running))
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


def check_candidate(one: Candidate) -> None:
    """Of those who run."""
    check_name("the name of a candidate", one.name)
    what = f"of candidate {one.name}"
    check_kind(f"unit {what}", one.unit, Unit)
    check_priority(f"the priority {what}", one.priority)
    check_priority(f"queue_priority {what}", one.queue_priority)
    check_usage(f"the usage {what}", one.usage)
    for field in ("created", "past"):
        check_number(f"{field} {what}", getattr(one, field))
    for field in ("started", "checkpointed", "min_runtime_s"):
        if (number := getattr(one, field)) is not None:
            check_number(f"{field} {what}", number)
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
