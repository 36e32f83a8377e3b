"""What is handed to the entries for conformance (``policies.quota.decide``, ``policies.preemption.decide``) has to make
sense: what does not is a ValueError that says what to do, never a silent answer.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import isfinite
from numbers import Rational, Real
from typing import TYPE_CHECKING

from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    Evicts,
    FairStrategy,
    Preference,
    Quota,
    ResourceGroup,
    Search,
    Stop,
    Strategy,
    Usage,
)
from policies.preemption.candidates import Candidate, Limits, Request, Unit
from policies.words import twice

if TYPE_CHECKING:
    from policies.preemption.decide import World as PreemptionWorld
    from policies.quota.decide import Incoming
    from policies.quota.decide import World as QuotaWorld

_PRIORITY = 1 << 31
_MOST = (1 << 63) - 1
"""Of a resource on a node."""


def check_amount(what: str, amount: object, *, least: int = 0) -> None:
    if isinstance(amount, bool) or not isinstance(amount, Rational) or amount.denominator != 1:
        raise ValueError(f"{what} is {amount!r}: give a whole number, cpu in thousandths")
    if amount < least:
        raise ValueError(f"{what} is {amount}: give {least} or more")


def check_number(what: str, number: object, *, least: float | None = None) -> None:
    """One that can be compared."""
    if isinstance(number, bool) or not isinstance(number, Real) or not isfinite(number):
        raise ValueError(f"{what} is {number!r}: give a finite number")
    if least is not None and number < least:
        raise ValueError(f"{what} is {number}: give {least:g} or more")


def check_priority(what: str, priority: object) -> None:
    if isinstance(priority, bool) or not isinstance(priority, int) or not -_PRIORITY <= priority < _PRIORITY:
        raise ValueError(f"{what} is {priority!r}: give a whole number of 32 bits")


def check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not name:
        raise ValueError(f"{what} is {name!r}: give a name")


def check_once(what: str, names: Iterable[str]) -> None:
    """Nothing else tells them apart."""
    if (name := twice(names)) is not None:
        raise ValueError(f"{what} {name} is there twice: give each a name of its own")


def check_amounts(what: str, amounts: object) -> None:
    """By resource."""
    if not isinstance(amounts, Mapping):
        raise ValueError(f"{what} are {amounts!r}: give a mapping from resources to amounts")
    for name, amount in amounts.items():
        check_name(f"a resource of {what}", name)
        check_amount(f"{name} of {what}", amount)


def check_usage(what: str, usage: Usage) -> None:
    """By flavor and resource."""
    if not isinstance(usage, Mapping):
        raise ValueError(f"{what} is {usage!r}: give a mapping from (flavor, resource) to amounts")
    for key, amount in usage.items():
        if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(one, str) for one in key):
            raise ValueError(f"{what} is of {key!r}: give (flavor, resource)")
        check_amount(f"{what} of {key[1]} of flavor {key[0]}", amount)


def check_kind(what: str, value: object, kind: type[Enum]) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{what} is {value!r}: give one of {', '.join(str(one) for one in kind.__members__)}")


def check_queues(queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
    cohorts = list(cohorts)
    both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
    for one in both:
        check_name("the name of a queue or cohort", one.name)
        what = f"{'queue' if isinstance(one, ClusterQueue) else 'cohort'} {one.name}"
        check_number(f"the weight of {what}", one.weight, least=0)
        _check_groups(what, one.groups)
    check_once("queue", (one.name for one in queues))
    check_once("cohort", (one.name for one in cohorts))
    for queue in queues:
        _check_rules(queue)


def contradiction(one: ClusterQueue | Cohort) -> str:
    """Why nobody can be admitted to a queue, or to those of a cohort, that contradicts itself, as people write it;
    empty if it does not."""
    what_it_is = f"{'queue' if isinstance(one, ClusterQueue) else 'cohort'} {one.name}"
    covered = [name for group in one.groups for name in dict.fromkeys(group.covered)]
    flavors = [name for group in one.groups for name, _ in group.flavors]
    for what, names in (("resource", covered), ("flavor", flavors)):
        if (name := twice(names)) is not None:
            return f"{what_it_is}: {what} {name} is there twice"
    for flavor, quotas in (pair for group in one.groups for pair in group.flavors):
        for resource, quota in quotas.items() if not flavor.startswith(VOLCANO) else ():
            said = (quota.nominal, quota.borrowing, quota.lending) if isinstance(quota, Quota) else ()
            if any(isinstance(amount, Real) and amount < 0 for amount in said):
                return f"{what_it_is}: the quota of {resource} of flavor {flavor} must not be negative"
    return ""


def _check_groups(what: str, groups: Sequence[ResourceGroup]) -> None:
    check_once(f"{what}: resource", (name for group in groups for name in dict.fromkeys(group.covered)))
    check_once(f"{what}: flavor", (name for group in groups for name, _ in group.flavors))
    for group in groups:
        for flavor, quotas in group.flavors:
            check_name(f"a flavor of {what}", flavor)
            for resource, quota in quotas.items():
                if not isinstance(quota, Quota):
                    raise ValueError(f"{what}: {resource} of flavor {flavor} is {quota!r}: give a Quota")
                if resource not in group.covered:
                    raise ValueError(f"{what}: {resource} of flavor {flavor} is not covered: name it in covered")
                # What a cohort of Volcano's Queues has beyond what these deserve may be less than nothing.
                least = -sys.maxsize if flavor.startswith(VOLCANO) else 0
                check_amount(f"{what}: nominal of {resource} of flavor {flavor}", quota.nominal, least=least)
                for field, limit in (("borrowing", quota.borrowing), ("lending", quota.lending)):
                    if limit is not None:
                        check_amount(f"{what}: {field} of {resource} of flavor {flavor}", limit, least=least)


def _check_rules(queue: ClusterQueue) -> None:
    what, evicts, search = f"of queue {queue.name}", queue.preemption, queue.fungibility
    for name, policy in (("within", evicts.within), ("reclaim", evicts.reclaim), ("borrow", evicts.borrow)):
        check_kind(f"preemption.{name} {what}", policy, Evicts)
    if evicts.borrow not in (Evicts.NEVER, Evicts.LOWER):
        raise ValueError(f"preemption.borrow {what} is {evicts.borrow}: give Never or LowerPriority")
    if evicts.threshold is not None:
        check_priority(f"preemption.threshold {what}", evicts.threshold)
    check_kind(f"strategy {what}", queue.strategy, Strategy)
    check_kind(f"stop {what}", queue.stop, Stop)
    check_kind(f"fungibility.when_can_borrow {what}", search.when_can_borrow, Search)
    check_kind(f"fungibility.when_can_preempt {what}", search.when_can_preempt, Search)
    check_kind(f"fungibility.preference {what}", search.preference, Preference)


def check_preemption(world: PreemptionWorld, preemptor: Request) -> None:
    """Whether what the decision on preemption is asked about makes sense. Raises a ValueError that says what to do."""
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


def check_quota(world: QuotaWorld, incoming: Sequence[Incoming]) -> None:
    """Whether what the decision by quota is asked about makes sense. Raises a ValueError that says what to do."""
    check_queues(world.queues, world.cohorts)
    for name, flavor in world.flavors.items():
        if flavor.name != name:
            raise ValueError(f"flavor {flavor.name!r} is there as {name!r}: give each by its own name")
    for at, runs in enumerate(world.admitted):
        check_usage(f"what workload {at} of those admitted to queue {runs.queue} uses", runs.usage)
    for one in incoming:
        check_name("the UID of a workload", one.uid)
        check_priority(f"the priority of workload {one.uid}", one.priority)
        check_number(f"since of workload {one.uid}", one.since)
        check_once(f"workload {one.uid}: podset", (podset.name for podset in one.podsets))
        for podset in one.podsets:
            what = f"podset {podset.name} of workload {one.uid}"
            check_amount(f"the count of {what}", podset.count)
            if podset.minimum is not None:
                check_amount(f"the minimum of {what}", podset.minimum, least=1)
            check_amounts(f"the requests of {what}", podset.requests)
    check_once("workload", (one.uid for one in incoming))
