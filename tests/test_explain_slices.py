"""Explanations in slices: no step is long, calls are answered in between, and what happens meanwhile does no harm."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import numpy as np
import pytest

from extender.api.models import Explanation
from extender.core.causes import NoRoom
from extender.core.events import NodeGone, PodGone
from extender.core.ledger.state import State
from extender.core.preemption.preview import Preview
from extender.core.workload.workload import Workload
from extender.observe.explain import slices
from extender.observe.explain.explanation import explaining
from extender.observe.explain.slices import RestlessError, explained
from extender.runtime import slices as runtime_slices
from policies.model import GroupKey, Node
from policies.model.queues import Evicts, Preemption
from policies.steps import Steps, finish
from tests.builders import cluster, gang
from tests.core.queues import Queued, cluster_queue, flavor, in_queue
from tests.core.script import Script
from tests.explaining import running as run_on
from tests.running import GPUS, Extender, eventually, running

LONGEST = 600
"""Units of ``policies.steps``."""
GANG = GroupKey("ns", "gang")
NODES = tuple(Node(name, GPUS) for name in ("n0", "n1"))


def crowded(running_gangs: int = 150) -> Script:
    """A gang waits for whole nodes, beside gangs that have one node each."""
    script = Script(*cluster(f"a: {running_gangs}x8"), checked=10_000)
    script.see(*(pod for number in range(running_gangs) for pod in run_on(f"runs-{number}", f"a-{number}")))
    script.see(gang("waits", 2))
    return script


def steps_of(script: Script, name: str = "waits") -> Steps[Explanation]:
    workload = script.gang(name)
    outlook = yield from script.core.outlook(workload, script.now)
    return (yield from explaining(script.core.state, workload, script.now, outlook))


def test_no_step_of_an_explanation_is_long() -> None:
    costs = [*steps_of(crowded())]
    assert max(costs) < LONGEST
    assert sum(costs) > 2 * LONGEST


def test_no_step_of_an_explanation_in_a_queue_is_long() -> None:
    """The queue has quota, and could evict for more of it: what lacks is room."""
    rules = Preemption(within=Evicts.LOWER)
    things = flavor("gpus"), cluster_queue("team", {"gpus": 400}, preemption=rules)
    busy = [pod for number in range(40) for pod in run_on(f"runs-{number}", f"a-{number}")]
    script = Queued(*cluster("a: 40x8"), *(replace(pod, queue="team") for pod in busy), things=things)
    script.see(in_queue("waits", 2, priority=1))
    script.advance(1)
    assert max(steps_of(script)) < LONGEST


def test_an_explanation_is_of_the_nodes_of_its_first_step() -> None:
    script = crowded(20)
    at_once = finish(steps_of(script))
    assert at_once.remedies[0].startswith("wait for ")
    steps = explaining(script.core.state, script.gang("waits"), script.now)
    next(steps)
    script.core.state.claims.lend()
    for number in range(20):
        script.feed(NodeGone(f"a-{number}"))
    explanation = finish(steps)
    assert [room.nodes for room in explanation.domains] == [20]
    assert not script.core.state.claims.nodes


def test_an_explanation_that_is_not_finished_leaves_nothing_behind() -> None:
    script = crowded(20)
    free = script.core.state.claims.snapshot().free.copy()
    steps = steps_of(script)
    for _ in range(8):
        next(steps)
    steps.close()
    assert np.array_equal(script.core.state.claims.snapshot().free, free)
    with script.core.state.claims.statement() as statement:
        assert np.array_equal(statement.snapshot.free, free)


@pytest.fixture
def one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other work comes in after each step."""
    monkeypatch.setattr(runtime_slices, "SLICE_S", 0.0)


@asynccontextmanager
async def waiting() -> AsyncIterator[Extender]:
    """An extender with a gang of three, and two nodes."""
    async with running(*NODES) as extender:
        for name in ("a", "b", "c"):
            extender.member(name, size=3)
        await eventually(lambda: isinstance(extender.core.state.workloads[GANG].reason_state.cause, NoRoom))
        yield extender


@pytest.mark.anyio
@pytest.mark.usefixtures("one_step")
async def test_calls_are_answered_while_a_gang_is_explained() -> None:
    async with waiting() as extender:
        explanation = asyncio.create_task(explained(extender.runner, GANG))
        await asyncio.sleep(0)
        answer = extender.runner.filter(extender.core.state.pods["a"], ("n0", "n1"))
        assert answer is not None
        assert not explanation.done()
        shown, _ = await explanation
        assert shown is not None
        assert shown.gang.state == "NoRoom"


@pytest.mark.anyio
@pytest.mark.usefixtures("one_step")
async def test_a_gang_that_changes_while_it_is_explained_is_explained_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def counted(state: State, gang: Workload, now: float, outlook: Preview | None) -> Steps[Explanation]:
        begun.append(len(gang.members))
        return explaining(state, gang, now, outlook)

    monkeypatch.setattr(slices, "explaining", counted)
    async with waiting() as extender:
        explanation = asyncio.create_task(explained(extender.runner, GANG))
        await eventually(lambda: begun == [3])
        extender.runner.dispatch(PodGone("c"))
        shown, _ = await explanation
        assert shown is not None
        assert shown.gang.members == 2
        assert begun[1] == 2


@pytest.mark.anyio
@pytest.mark.usefixtures("one_step")
async def test_a_gang_that_goes_while_it_is_explained_is_not_there() -> None:
    async with waiting() as extender:
        explanation = asyncio.create_task(explained(extender.runner, GANG))
        await asyncio.sleep(0)
        for name in ("a", "b", "c"):
            extender.runner.dispatch(PodGone(name))
        assert (await explanation).explanation is None


@pytest.mark.anyio
@pytest.mark.usefixtures("one_step")
async def test_a_gang_that_changes_all_the_time_is_not_explained() -> None:
    async with waiting() as extender:
        changing = asyncio.create_task(change_again_and_again(extender.core.state.workloads[GANG]))
        with pytest.raises(RestlessError):
            await explained(extender.runner, GANG)
        assert (await extender.client.get("/api/v1/explain/ns/gang")).status_code == 503
        changing.cancel()


async def change_again_and_again(workload: Workload) -> None:
    while True:
        workload.bump_version()
        await asyncio.sleep(0)
