"""A job that was started just before a restart, and whose pods have yet to come: its start is taken over as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from extender.core.bare import bare
from extender.core.events import JobSeen, NodeSeen
from policies.model import Job, Node
from policies.model.queues import QueueObject, Stop, Strategy
from tests.builders import GPU, cluster
from tests.core.jobs import Controlled, job
from tests.core.queues import cluster_queue, come, flavor, in_queue, show, used
from tests.core.script import Script

NODES = cluster("a: 8x8")
STARTED = ("suspended", "stopped", "marked", "plan", "flavors")


def queues(quota: int = 16, **facts: Any) -> list[QueueObject]:
    return [flavor("gpus"), cluster_queue("team", {"gpus": quota}, **facts)]


def queued(name: str, count: int, queue: str = "team", created: float = 0.0, **facts: Any) -> Job:
    seen = job(count, name=name)
    template = replace(seen.podsets.podsets[0].template, created=created)
    (podset,) = seen.podsets.podsets
    podsets = replace(seen.podsets, podsets=(replace(podset, template=template),))
    return replace(seen, podsets=podsets, queue=queue, **facts)


def started(things: Sequence[QueueObject], seen: Job) -> Job:
    """The job as it stands when Muster has started it and is killed."""
    script = Script(*NODES)
    show(script, *things)
    train = Controlled(script, seen)
    assert len(train.starts) == 1
    return train.seen


def again(things: Sequence[QueueObject], nodes: Sequence[Node] = NODES) -> Script:
    script = Script(*nodes, synced=False)
    show(script, *things)
    return script


def goes_on(script: Script, train: Controlled) -> bool:
    """Whether all of its pods come and are bound where they were planned."""
    train.settle()
    planned = dict(train.seen.plan or {})
    if train.stops or train.starts or used(script, "team") != 16:
        return False
    pods = train.run()
    return sorted(script.pods[pod.uid].node or "" for pod in pods) == sorted(planned[""]) and not train.stops


@pytest.mark.parametrize(
    ("job_facts", "queue_facts"),
    [({}, {}), ({"held": True}, {}), ({}, {"stop": Stop.HOLD})],
    ids=["nothing", "a hold", "a stop of its queue"],
)
def test_whatever_was_put_on_it_meanwhile(job_facts: dict[str, Any], queue_facts: dict[str, Any]) -> None:
    seen = started(queues(), queued("train", 2))
    later = again(queues(**queue_facts))
    train = Controlled(later, replace(seen, **job_facts))
    later.feed_synced()
    assert goes_on(later, train), train.stops


@pytest.mark.parametrize("strategy", Strategy)
def test_with_its_quota_full_to_the_brim_and_others_before_it(strategy: Strategy) -> None:
    seen = started(queues(strategy=strategy), queued("train", 2, created=5.0))
    later = again(queues(strategy=strategy))
    come(later, in_queue("first", 2, created=1.0))
    train = Controlled(later, seen)
    later.feed_synced()
    assert goes_on(later, train), train.stops


@pytest.mark.parametrize("synced", ["before", "after"])
@pytest.mark.parametrize("held", [False, True])
def test_a_start_that_is_shown_late_in_a_new_term(synced: str, held: bool) -> None:
    """The watch of jobs lags: it shows first the waiting job, and then the former leader's write."""
    things = queues(strategy=Strategy.STRICT)
    seen = replace(started(things, queued("train", 2)), held=held)
    later = again(things)
    come(later, in_queue("first", 3))
    train = Controlled(later, queued("train", 2, held=held), obeys=False)
    if synced == "before":
        later.feed_synced()
    train.obeys = True
    train.show(**{name: getattr(seen, name) for name in STARTED})
    if synced == "after":
        later.feed_synced()
    assert goes_on(later, train), train.stops


@pytest.mark.parametrize("form", [0, 1])
def test_on_nodes_that_the_quarantine_shows_as_bare(form: int) -> None:
    """The nodes may be mere suspects, and are shown in full a moment later."""
    seen = started(queues(), queued("train", 2))
    later = again(queues(), ())
    for node in NODES:
        later.feed(bare(NodeSeen(node))[form])
    train = Controlled(later, seen)
    later.feed_synced()
    train.settle()
    assert (train.stops, used(later, "team")) == ([], 16)
    come(later, in_queue("other", 6, "none"))
    later.see(*NODES)
    assert goes_on(later, train), train.stops


def test_a_job_that_the_quarantine_shows_as_bare() -> None:
    seen = started(queues(), queued("train", 2))
    later = again(queues())
    (shown,) = bare(JobSeen(seen))
    assert isinstance(shown, JobSeen)
    train = Controlled(later, shown.job)
    later.feed_synced()
    assert goes_on(later, train), train.stops


FLAVORS = {"": {GPU: "gpus"}}
Order = Callable[[list[Job]], list[Job]]


@pytest.mark.parametrize("order", [list, lambda jobs: jobs[::-1]], ids=["first", "last"])
@pytest.mark.parametrize("queue", ["team", "other"])
def test_nobody_pays_for_a_plan_that_a_neighbour_has_forged_meanwhile(queue: str, order: Order) -> None:
    """Together they use more than there is: of a cohort, or of their one queue, in which the forged one came last."""
    cohort = [*queues(cohort="c"), cluster_queue("other", {"gpus": 8}, cohort="c")]
    seen = started(cohort, queued("train", 2))
    plan = {"": tuple(node.name for node in NODES[3:])}
    forged = queued("forged", 5, queue, 9.0, suspended=False, stopped=False, plan=plan, marked=True, flavors=FLAVORS)
    later = again(cohort)
    made = {seen_job.key.name: Controlled(later, seen_job) for seen_job in order([seen, forged])}
    later.feed_synced()
    made["forged"].settle()
    assert made["forged"].stops
    assert goes_on(later, made["train"]), made["train"].stops
