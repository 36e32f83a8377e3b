"""The results that the core remembers instead of working them out again, compared with what it would find now.

As long as the last forecast, or the order of a workload, is said to be valid, both are the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from extender.core.engine import Engine
from extender.core.ledger.expectations import Expectation, _stated
from extender.core.ledger.pending import QueueView
from policies.api import PolicyError
from policies.steps import finish


def outdated(core: Engine, now: float) -> Iterator[str]:
    """Yield what the core remembers and would find otherwise now."""
    yield from _outdated_orders(core)
    yield from _outdated_forecast(core, now)


def _outdated_orders(core: Engine) -> Iterator[str]:
    """Yield the workloads whose place by the queue policy has changed without a change of their version."""
    policy = core._cycle._admission.turns._policy
    for key, workload in core.state.workloads.items():
        if workload.order is None or workload.order[0] != workload.version:
            continue
        try:
            order = policy.order(QueueView(workload))
        except PolicyError:
            continue
        if order != workload.order[1]:
            yield f"the order of {key} is remembered as {workload.order[1]}, and is {order}"


def _outdated_forecast(core: Engine, now: float) -> Iterator[str]:
    """Yield how a forecast of now differs from the last one, unless that one is to be renewed anyway."""
    forecast, expectations = core._cycle._forecast, core.state.expectations
    if core._cycle.walking or now >= forecast.valid_until:
        return
    played = finish(forecast.play(now))
    fresh = {key: start for key, start in played.expectations.items() if expectations._may_have_one(key)}
    for key in expectations.of | fresh:
        if (before := _facts(expectations.of.get(key))) != (after := _facts(fresh.get(key))):
            yield f"the forecast of {key} is {before}, was not renewed, and would be {after}"
    if expectations.unknown != (unknown := dict.fromkeys(filter(expectations._may_have_one, played.unknown))):
        yield f"the starts of {[*expectations.unknown]} are said to be unknown, and are those of {[*unknown]}"
    for key, start in fresh.items():
        if _stated(known := expectations.stated.get(key), start) is not known:
            yield f"objects name {_facts(known)} for {key}, and would name {_facts(start)}"


def _facts(expected: Expectation | None) -> tuple[object, ...] | None:
    """The expected start without the instant at which it was found."""
    return None if expected is None else (expected.start, expected.after, expected.rests_on, expected.spread)
