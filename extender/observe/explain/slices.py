"""Explanations of a running core, made in slices: between two of them kube-scheduler's calls are answered."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from extender.api.models import Explanation
from extender.core.engine import Engine
from extender.core.explain.reasons import code_of
from extender.core.workload.workload import Workload
from extender.observe.explain.explanation import explaining
from extender.observe.explain.remedies import waits_for
from extender.runtime.runner import Runner
from policies.model import GroupKey
from policies.steps import Steps

_SLICE_S = 0.001
"""Processor time of a slice. As much time is left to other work after it."""
_TRIES = 5


class RestlessError(Exception):
    """The gang has changed during every try to explain it."""


class Explained(NamedTuple):
    """An explanation, with marked mentions; None if there is no such gang. ``spent_s``: its processor time."""

    explanation: Explanation | None
    spent_s: float


async def explained(runner: Runner, key: GroupKey) -> Explained:
    """Explain a gang. If it changes meanwhile, the explanation is begun anew. Raises RestlessError."""
    spent_s = 0.0
    for _ in range(_TRIES):
        core = runner.core
        if (gang := core.state.workloads.get(key)) is None:
            return Explained(None, spent_s)
        before, steps = _state(core, gang), _steps(core, gang, runner.clock())
        while runner.core is core and _state(core, gang) == before:
            began = time.thread_time()
            try:
                next(steps)
                while (slice_s := time.thread_time() - began) < _SLICE_S:
                    next(steps)
            except StopIteration as end:
                return Explained(end.value, spent_s + time.thread_time() - began)
            spent_s += slice_s
            core.state.claims.lend()
            await asyncio.sleep(slice_s)
        steps.close()
    raise RestlessError(f"gang {key} changes while it is explained; ask again")


def _state(core: Engine, gang: Workload) -> tuple[bool, int, str]:
    """The facts about a gang that an explanation of it rests on: if they change, it is void."""
    return core.state.workloads.get(gang.key) is gang, gang.version, code_of(waits_for(gang))


def _steps(core: Engine, gang: Workload, now: float) -> Steps[Explanation]:
    outlook = yield from core.outlook(gang, now)
    return (yield from explaining(core.state, gang, now, outlook))
