"""Explanations of a running core, made in slices."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from extender.api.models import Explanation
from extender.core.engine import Engine
from extender.core.explain.reasons import code_of
from extender.core.workload.workload import Workload
from extender.observe.explain.explanation import explaining
from extender.observe.explain.remedies import waits_for
from extender.runtime.runner import Runner
from extender.runtime.slices import Slices, StoppedError
from policies.model import GroupKey
from policies.steps import Steps

_TRIES = 5


class RestlessError(Exception):
    """The gang has changed during every try to explain it."""


class Explained(NamedTuple):
    """An explanation, with marked mentions; None if there is no such gang. ``spent_s``: its processor time."""

    explanation: Explanation | None
    spent_s: float


async def explained(runner: Runner, key: GroupKey) -> Explained:
    """Explain a gang. If it changes meanwhile, the explanation begins again. Raises RestlessError."""
    slices = Slices(pausing=lambda: runner.core.state.claims.lend())
    for _ in range(_TRIES):
        core = runner.core
        if (gang := core.state.workloads.get(key)) is None:
            return Explained(None, slices.spent_s)
        goes_on = partial(_is_as_before, runner, core, gang, _state(core, gang))
        try:
            explanation = await slices.run(_steps(core, gang, runner.clock()), goes_on)
        except StoppedError:
            continue
        return Explained(explanation, slices.spent_s)
    raise RestlessError(f"gang {key} changes while it is explained; ask again")


def _state(core: Engine, gang: Workload) -> tuple[bool, int, str]:
    """The facts about a gang that an explanation of it rests on: if they change, it is void."""
    return core.state.workloads.get(gang.key) is gang, gang.version, code_of(waits_for(gang))


def _is_as_before(runner: Runner, core: Engine, gang: Workload, before: object) -> bool:
    return runner.core is core and _state(core, gang) == before


def _steps(core: Engine, gang: Workload, now: float) -> Steps[Explanation]:
    outlook = yield from core.outlook(gang, now)
    return (yield from explaining(core.state, gang, now, outlook))
