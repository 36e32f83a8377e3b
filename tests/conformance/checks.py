"""Checks that the entries for conformance share: nonsense is a ValueError that says what to do."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from math import isfinite
from numbers import Rational, Real

from policies.model.queues import (
    VOLCANO,
    ClusterQueue,
    Cohort,
    Evicts,
    Preference,
    Quota,
    ResourceGroup,
    Search,
    Stop,
    Strategy,
    Usage,
)
from policies.words import twice

_PRIORITY = 1 << 31


def check_amount(what: str, amount: object, *, least: int = 0) -> None:
    if isinstance(amount, bool) or not isinstance(amount, Rational) or amount.denominator != 1:
        raise ValueError(f"{what} is {amount!r}: give a whole number, cpu in thousandths")
    if amount < least:
        raise ValueError(f"{what} is {amount}: give {least} or more")


def check_number(what: str, number: object, *, least: float | None = None) -> None:
    """Raise a ValueError unless the value is a finite number of at least ``least``."""
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
    """Check that no name occurs twice, because only names identify the objects."""
    if (name := twice(names)) is not None:
        raise ValueError(f"{what} {name} is there twice: give each a name of its own")


def check_amounts(what: str, amounts: object) -> None:
    """Check amounts by resource."""
    if not isinstance(amounts, Mapping):
        raise ValueError(f"{what} are {amounts!r}: give a mapping from resources to amounts")
    for name, amount in amounts.items():
        check_name(f"a resource of {what}", name)
        check_amount(f"{name} of {what}", amount)


def check_usage(what: str, usage: Usage) -> None:
    """Check amounts by flavor and resource."""
    if not isinstance(usage, Mapping):
        raise ValueError(f"{what} is {usage!r}: give a mapping from (flavor, resource) to amounts")
    for key, amount in usage.items():
        if not isinstance(key, tuple) or len(key) != 2 or not all(isinstance(name, str) for name in key):
            raise ValueError(f"{what} is of {key!r}: give (flavor, resource)")
        check_amount(f"{what} of {key[1]} of flavor {key[0]}", amount)


def check_kind(what: str, value: object, kind: type[Enum]) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{what} is {value!r}: give one of {', '.join(str(member) for member in kind.__members__)}")


def check_queues(queues: Sequence[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
    cohorts = list(cohorts)
    both: list[ClusterQueue | Cohort] = [*queues, *cohorts]
    for entry in both:
        check_name("the name of a queue or cohort", entry.name)
        what = f"{'queue' if isinstance(entry, ClusterQueue) else 'cohort'} {entry.name}"
        check_number(f"the weight of {what}", entry.weight, least=0)
        _check_groups(what, entry.groups)
    check_once("queue", (entry.name for entry in queues))
    check_once("cohort", (cohort.name for cohort in cohorts))
    for queue in queues:
        _check_rules(queue)


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
                # A cohort of Volcano's Queues may have a negative amount beyond what these deserve.
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
