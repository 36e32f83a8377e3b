"""A running job that the core has failed on keeps its room and its quota, and is not stopped."""

from __future__ import annotations

from dataclasses import replace

import pytest

from extender.core.bare import bare
from extender.core.effects import CleanJob, Evict, StartJob, SuspendJob
from extender.core.events import JobSeen, QueueSeen
from extender.core.limits import Limits, Preempts
from extender.core.workload.job import JobRecord
from policies.model import Job, Node, Pod
from policies.model.queues import Stop
from tests.builders import cluster, gang
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, flavor, show, used
from tests.core.script import Script

LIMITS = Limits(preemption=Preempts.ON, node_loss_s=2)


def running() -> tuple[Job, list[Pod]]:
    """A job of two pods that Muster has started, and its pods on their nodes."""
    script = Script(*cluster("a: 3x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    train = Controlled(script, replace(job(2), queue="team"))
    pods = train.run()
    return replace(train.seen, running=True), [script.pods[pod.uid] for pod in pods]


def restarted(seen: Job, pods: list[Pod], nodes: list[Node]) -> Script:
    """The next life of the core, which knows the bare facts of the job."""
    script = Script(*nodes, synced=False, limits=LIMITS)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    (event,) = bare(JobSeen(seen))
    script.feed(event)
    script.see(*pods)
    script.feed_synced()
    script.advance(1)
    return script


def stops(script: Script) -> list[object]:
    return [effect for effect in script.effects if isinstance(effect, SuspendJob | CleanJob | StartJob | Evict)]


def test_its_quota_and_its_room_stay_counted() -> None:
    seen, pods = running()
    script = restarted(seen, pods, cluster("a: 3x8"))
    assert used(script, "team") == 16
    others = gang("others", 1)
    script.see(others)
    script.advance(1)
    (free,) = {"a-0", "a-1", "a-2"} - {pod.node for pod in pods}
    assert script.planned(others[0]) == free


def test_it_gives_way_to_nobody() -> None:
    seen, pods = running()
    script = restarted(seen, pods, cluster("a: 2x8"))
    script.see(gang("high", 1, priority=10))
    script.advance(100)
    assert stops(script) == []


@pytest.mark.parametrize("lost", ["node", "pod", "queue"])
def test_it_is_not_suspended_whatever_becomes_of_it(lost: str) -> None:
    seen, pods = running()
    script = restarted(seen, pods, cluster("a: 3x8"))
    if lost == "node":
        script.drop(pods[0].node or "")
    elif lost == "pod":
        script.gone(pods[0])
    else:
        script.feed(QueueSeen(replace(cluster_queue("team", {"gpus": 16}), stop=Stop.DRAIN)))
    script.advance(200)
    assert stops(script) == []


def test_it_is_taken_in_again_with_all_that_it_says() -> None:
    seen, pods = running()
    script = restarted(seen, pods, cluster("a: 3x8"))
    script.feed(JobSeen(seen))
    script.advance(200)
    assert stops(script) == []
    script.drop(pods[0].node or "")
    script.advance(5)
    assert [type(stop) for stop in stops(script)] == [SuspendJob]


def test_nothing_is_due_for_it() -> None:
    """Seed 830009594 of the campaign: it awaited nodes, and was looked at again and again after its time."""
    seen, _ = running()
    record = JobRecord(seen)
    record.expect(50.0)
    assert [*record.deadlines(20.0, 0.0)] == [50.0]
    record.seen = replace(seen, bare=True)
    assert not [*record.deadlines(20.0, 0.0)]
