"""Objects that an earlier release has written, at the start of this one: they are taken over untouched.

That release stamped no queue on pods, and wrote a plan, flavors and a release as this one does.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.effects import (
    CleanJob,
    Confirm,
    Effect,
    Evict,
    Nominate,
    PostBinding,
    Reserve,
    StartJob,
    SuspendJob,
    Ungate,
)
from policies.model import Pod
from policies.model.queues import QueueObject, Stop, Strategy
from tests.builders import cluster, gang, key
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, come, flavor, in_queue, reason, show, used
from tests.core.script import Script

NODES = cluster("a: 8x8")
WRITES = (StartJob, SuspendJob, CleanJob, Evict, Nominate, Ungate, PostBinding, Confirm, Reserve)
STARTED = ("running", "half created", "half started")


def queues(quota: int, **facts: Any) -> list[QueueObject]:
    return [flavor("gpus"), cluster_queue("team", {"gpus": quota}, **facts)]


def as_written(script: Script, pods: list[Pod]) -> list[Pod]:
    """The pods as the earlier release has stamped them."""
    seen = [script.pods[pod.uid] for pod in pods]
    return [
        replace(pod, phase="Running" if pod.node else pod.phase, stamp=pod.stamp and replace(pod.stamp, queue=""))
        for pod in seen
    ]


def writes(script: Script) -> list[Effect]:
    return [effect for effect in script.effects if isinstance(effect, WRITES)]


@pytest.mark.parametrize("how_far", STARTED)
@pytest.mark.parametrize(
    "facts", [{}, {"strategy": Strategy.STRICT}, {"stop": Stop.HOLD}], ids=["a queue", "a strict one", "a stopped one"]
)
def test_a_job_goes_on_wherever_it_was(how_far: str, facts: dict[str, Any]) -> None:
    before = Script(*NODES)
    show(before, *queues(16))
    train = Controlled(before, replace(job(2, name="train"), queue="team"))
    pods = train.create() if how_far != "half started" else []
    if how_far == "running":
        before.run(pods)
    later = Script(*NODES, synced=False, now=before.now)
    show(later, *queues(16, **facts))
    later.see(*as_written(before, pods))
    come(later, in_queue("waits", 1))
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.wait(3.0)
    assert (writes(later), used(later, "team")) == ([], 16)
    if how_far == "half started":
        pods = again.create()
    if how_far != "running":
        later.run(pods)
    later.advance(120.0)
    assert later.core.state.workloads[key("train")].release.complete
    assert not [effect for effect in writes(later) if isinstance(effect, SuspendJob | CleanJob | StartJob | Evict)]
    assert reason(later, "waits").code == ("QueueStopped" if "stop" in facts else "NoQuota")


@pytest.mark.parametrize("queue", ["", "team"])
@pytest.mark.parametrize("now_in", ["same", "none", "other"])
def test_a_gang_runs_on_and_uses_what_it_used(queue: str, now_in: str) -> None:
    """The stamp does not tell the queue of a gang that names another one now: it counts in the queue that it names."""
    before = Script(*NODES)
    show(before, *queues(16), cluster_queue("other", {"gpus": 16}))
    pods = in_queue("train", 2, queue)
    come(before, pods)
    before.run(pods)
    named = {"same": queue, "none": "", "other": "other"}[now_in]
    later = Script(*NODES, synced=False, now=before.now)
    show(later, *queues(16), cluster_queue("other", {"gpus": 16}))
    later.see(*(replace(pod, queue=named) for pod in as_written(before, pods)))
    later.feed_synced()
    later.advance(120.0)
    assert writes(later) == []
    assert used(later, "team") == (16 if named == "team" else 0)
    assert used(later, "other") == (16 if named == "other" else 0)
    assert reason(later, "train").code == "Running"


def test_a_release_that_broke_off_is_completed() -> None:
    before = Script(*NODES)
    pods = gang("train", 3)
    before.see(*pods)
    calls = before.bind_all(pods)
    assert calls
    first = before.pods[next(iter(before.bindings))]
    before.post(first)
    later = Script(*NODES, synced=False, now=before.now)
    later.see(*as_written(before, pods))
    later.feed_synced()
    later.run([pod for pod in pods if not later.pods[pod.uid].node])
    later.advance(120.0)
    assert len(later.bound(pods)) == 3
    assert not later.evicted
