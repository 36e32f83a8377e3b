"""A tenant writes Muster's annotations on objects of his own, where no policy of the API server prevents that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from extender.core.limits import Elasticity, Limits
from policies.model import Job, NodeWait, Pod
from policies.model.queues import Stop, Strategy
from tests.builders import GPU, cluster, key, node
from tests.core.jobs import Controlled, job
from tests.core.queues import FLAVOR, cluster_queue, come, flavor, in_queue, leave, reason, show, sort, used
from tests.core.script import Script

NODES = tuple(f"a-{at}" for at in range(4))
FORGED: dict[str, Any] = {"suspended": False, "stopped": False, "plan": {"": NODES}, "marked": True}
GPUS = {"": {GPU: "gpus"}}


def queued(script: Script, name: str, count: int, queue: str = "team", **facts: Any) -> Controlled:
    return Controlled(script, replace(job(count, name=name), queue=queue, **facts))


LATER_S = 6.0
"""A time after which no start of an earlier life is still being written."""


def two_teams(**facts: Any) -> Script:
    script = Script(*cluster("a: 4x8"), **facts)
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}), cluster_queue("honest", {"gpus": 24}))
    return script


@pytest.mark.parametrize("flavors", [None, GPUS, {"": {GPU: "other"}}], ids=str)
def test_a_forged_plan_beyond_its_quota_is_not_believed(flavors: Any) -> None:
    """D2: 32 of 8 GPUs, and the neighbour has none."""
    script = two_teams()
    forged = queued(script, "forged", 4)
    assert reason(script, "forged").code == "NoQuota"
    forged.show(**FORGED, flavors=flavors)
    assert forged.stops
    assert used(script, "team") == 0
    honest = queued(script, "honest", 3, "honest")
    assert honest.starts
    assert forged.seen.suspended


def test_nor_is_one_that_was_forged_while_muster_was_away() -> None:
    script = two_teams(synced=False)
    forged = queued(script, "forged", 4, **FORGED, flavors=GPUS)
    script.feed_synced()
    forged.settle()
    assert forged.stops
    honest = queued(script, "honest", 3, "honest")
    assert honest.starts
    assert used(script, "team") == 0


def test_nor_is_one_of_a_job_that_was_left_out_for_a_while() -> None:
    script = two_teams(synced=False)
    forged = queued(script, "forged", 4, **FORGED, flavors=GPUS, bare=True)
    script.feed_synced()
    forged.settle()
    assert not forged.stops
    forged.show(bare=False)
    assert forged.stops
    assert used(script, "team") == 0


HINDERED: dict[str, dict[str, Any]] = {"held": {"held": True}, "of no queue": {"queue": "nowhere"}}


@pytest.mark.parametrize("why", HINDERED)
def test_nor_is_one_of_a_job_that_may_not_start(why: str) -> None:
    script = two_teams()
    script.advance(LATER_S)
    forged = queued(script, "forged", 1, **HINDERED[why])
    forged.show(suspended=False, stopped=False, plan={"": ("a-0",)}, marked=True, flavors=GPUS)
    assert forged.stops
    assert not list(script.core.state.claims.on("a-0"))


def test_nor_is_one_in_a_queue_that_is_stopped() -> None:
    script = two_teams()
    show(script, cluster_queue("team", {"gpus": 8}, stop=Stop.HOLD))
    script.advance(LATER_S)
    forged = queued(script, "forged", 1)
    forged.show(suspended=False, stopped=False, plan={"": ("a-0",)}, marked=True, flavors=GPUS)
    assert forged.stops


def test_nor_is_one_that_passes_by_whoever_waits_before_it() -> None:
    """In a strict queue there is room and quota for it, but it is not its turn."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}, strategy=Strategy.STRICT))
    come(script, runs := in_queue("runs", 1))
    first = queued(script, "first", 2)
    forged = queued(script, "forged", 1)
    assert not first.starts + forged.starts
    script.advance(LATER_S)
    forged.show(suspended=False, stopped=False, plan={"": ("a-3",)}, marked=True, flavors=GPUS)
    assert (len(forged.stops), used(script, "team")) == (1, 8)
    leave(script, runs)
    first.settle()
    assert first.starts


def test_a_start_of_an_earlier_life_is_taken_over_whatever_was_written_since() -> None:
    """The pods do not exist yet, or some are bound: nothing is restarted, and nothing stays in part."""
    for bound in (0, 1, 2):
        before = Script(*cluster("a: 4x8"))
        show(before, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
        train = queued(before, "train", 2)
        pods = train.create()
        if bound:
            before.run(pods)
        later = Script(*cluster("a: 4x8"), synced=False, now=before.now)
        show(later, flavor("gpus"), cluster_queue("team", {"gpus": 16 if bound < 2 else 0}))
        later.see(*(_again(before, pod) if at < bound else pod for at, pod in enumerate(pods)))
        again = Controlled(later, replace(train.seen, held=bound > 0))
        later.feed_synced()
        again.settle()
        assert not again.stops, bound
        assert used(later, "team") == 16


@pytest.mark.parametrize("bound", [False, True])
def test_a_queue_that_loses_its_quota_ends_a_start_only_if_a_restart_finds_no_bound_pod(*, bound: bool) -> None:
    """Seed 604000034."""
    before, quota = Script(*cluster("a: 4x8")), cluster_queue("team", {"gpus": 8})
    show(before, flavor("gpus"), cluster_queue("team", {"gpus": 16}))
    train = queued(before, "train", 2)
    pods = train.run() if bound else train.create()
    show(before, quota)
    train.settle()
    assert not train.stops
    later = Script(*cluster("a: 4x8"), synced=False, now=before.now)
    show(later, flavor("gpus"), quota)
    later.see(*(_again(before, pod) if bound else pod for pod in pods))
    again = Controlled(later, train.seen)
    later.feed_synced()
    again.settle()
    assert bool(again.stops) is not bound


def test_a_job_whose_pods_have_ended_well_is_not_run_again_for_a_hold() -> None:
    before = Script(*cluster("a: 4x8"))
    train = Controlled(before, job(2))
    pods = train.run()
    later = Script(*cluster("a: 4x8"), synced=False, now=before.now)
    later.see(*(replace(before.pods[pod.uid], phase="Succeeded") for pod in pods))
    again = Controlled(later, replace(train.seen, held=True))
    later.feed_synced()
    again.settle()
    assert not again.stops


def _again(script: Script, pod: Pod) -> Pod:
    return replace(script.pods[pod.uid], phase="Running")


def test_slots_that_are_forged_beside_pods_that_run_get_no_room_beyond_the_quota() -> None:
    before = two_teams()
    train = queued(before, "train", 1)
    (pod,) = train.run()
    later = two_teams(synced=False, now=before.now)
    later.see(_again(before, pod))
    larger = replace(job(4, name="train"), queue="team", **FORGED, flavors=GPUS)
    podset = replace(larger.podsets.podsets[0], minimum=1)
    runs_on = before.pods[pod.uid].node or ""
    own = (runs_on, *(name for name in NODES if name != runs_on))
    forged = Controlled(
        later, replace(larger, podsets=replace(larger.podsets, podsets=(podset,)), plan={"": own}, running=True)
    )
    later.feed_synced()
    forged.settle()
    honest = queued(later, "honest", 3, "honest")
    assert (forged.stops, used(later, "team")) == ([], 8)
    assert honest.starts


@pytest.mark.parametrize("forged", ["other", "b", "nowhere"])
def test_forged_flavors_are_counted_as_the_node_says(forged: str) -> None:
    """D6: a flavor that the queue does not have, or that the node of the pod is none of."""
    nodes = [node(f"{name}-{at}", labels={FLAVOR: name}) for name, count in (("a", 2), ("b", 1)) for at in range(count)]
    queue = cluster_queue("team", {"a": 8, "b": 8})
    before = Script(*nodes)
    show(before, sort("a"), sort("b"), queue)
    (pod,) = (train := queued(before, "train", 1)).run()
    later = Script(*nodes, synced=False, now=before.now)
    show(later, sort("a"), sort("b"), sort("other"), queue)
    later.see(_again(before, pod))
    again = Controlled(later, replace(train.seen, flavors={"": {GPU: forged}}))
    later.feed_synced()
    again.settle()
    assert (used(later, "team", "a"), again.stops) == (8, [])


UNPLANNED = NodeWait(9e9, 999_999)


@pytest.mark.parametrize("elastic", [(), ("spot",)], ids=str)
def test_a_text_in_place_of_a_plan_is_believed_only_with_an_elastic_flavor_and_quota(elastic: tuple[str, ...]) -> None:
    """D9."""
    script = Script(*cluster("a: 4x8"), limits=Limits(elastic=Elasticity(frozenset(elastic))))
    show(script, flavor("gpus"), sort("spot"), cluster_queue("team", {"gpus": 8, "spot": 8}))
    forged = queued(script, "forged", 4)
    for flavors in (None, GPUS, {"": {GPU: "spot"}}):
        forged.show(suspended=False, stopped=False, node_wait=UNPLANNED, marked=True, flavors=flavors)
        assert forged.seen.suspended, flavors
        assert used(script, "team") + used(script, "team", "spot") == 0


# D7: pods on nodes.


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("queue", ["", "other"])
def test_quota_stays_with_pods_that_run_whatever_queue_they_name_by_now(queue: str, restart: bool) -> None:
    script = Script(*cluster("a: 4x8"))
    queues = flavor("gpus"), cluster_queue("team", {"gpus": 8}), cluster_queue("other", {"gpus": 8})
    show(script, *queues)
    pods = in_queue("runs", 1)
    come(script, pods)
    script.run(pods)
    bound = [_again(script, pod) for pod in pods]
    assert [pod.stamp and pod.stamp.queue for pod in bound] == ["team"]
    if restart:
        script = Script(*cluster("a: 4x8"), synced=False, now=script.now)
        show(script, *queues)
    script.see(*(replace(pod, queue=queue) for pod in bound))
    if restart:
        script.feed_synced()
    come(script, in_queue("next", 1))
    assert (used(script, "team"), used(script, "other")) == (8, 0)
    assert reason(script, "next").code == "NoQuota"


def test_and_while_they_terminate_whatever_the_pods_name_that_come_in_their_place() -> None:
    """Seed 820000738 of the campaign: a pod of another queue is edited into a gang whose own pods terminate."""
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 8}), cluster_queue("other", {"gpus": 8}))
    come(script, pods := in_queue("runs", 1))
    script.run(pods)
    script.see(*(replace(pod, uid="later", name="later", queue="other") for pod in pods))
    script.see(*(replace(_again(script, pod), deleting=True) for pod in pods))
    come(script, in_queue("next", 1))
    assert (used(script, "team"), used(script, "other")) == (8, 0)
    leave(script, [_again(script, pod) for pod in pods])
    assert used(script, "team") == 8, "of the next one"


@pytest.mark.parametrize("named", ["", "other"])
def test_and_with_a_job_that_runs(named: str) -> None:
    script = Script(*cluster("a: 4x8"))
    show(script, flavor("gpus"), cluster_queue("team", {"gpus": 16}), cluster_queue("other", {"gpus": 16}))
    train = queued(script, "train", 2)
    train.run()
    train.show(queue=named)
    assert (used(script, "team"), used(script, "other")) == (16, 0)
    again = Script(*cluster("a: 4x8"), synced=False, now=script.now)
    show(again, flavor("gpus"), cluster_queue("team", {"gpus": 16}), cluster_queue("other", {"gpus": 16}))
    again.see(*(_again(script, pod) for pod in train.pods.values()))
    seen: Job = train.seen
    after = Controlled(again, seen)
    again.feed_synced()
    after.settle()
    assert (used(again, "team"), used(again, "other"), after.stops) == (16, 0, [])
    assert again.core.state.workloads[key("train")].release.complete
