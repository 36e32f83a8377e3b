"""Pods of a running job that a user moves to another gang, or to none: their slots are not filled meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from policies.model import Dialect, GroupRef, Pod
from tests.builders import cluster, gang, reborn, single
from tests.core.jobs import Controlled, job
from tests.core.script import Script

OTHER = GroupRef("other", Dialect.ANNOTATION, 1)


def with_one_moved(*, indexed: bool = True, to: GroupRef | None = OTHER) -> tuple[Script, Controlled, list[Pod]]:
    """A job of two pods that has half of the node, and one of whose pods was moved while it ran."""
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(2, indexed=indexed, gpus=2))
    pods = train.run()
    script.change(pods[1], group=to)
    train.settle()
    return script, train, pods


def goes(script: Script, train: Controlled, pod: Pod) -> None:
    """Remove the pod, as its controller sees."""
    script.gone(script.pods[pod.uid])
    del train.pods[pod.uid]
    train.settle()


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("to", [OTHER, None])
def test_no_room_is_kept_beside_a_pod_that_was_moved(to: GroupRef | None, indexed: bool) -> None:
    script, train, _ = with_one_moved(indexed=indexed, to=to)
    (waiting,) = gang("waiting", 1, gpus=4)
    script.see(waiting)
    assert script.planned(waiting) == "a-0"
    script.run([waiting])
    train.wait(100)
    assert (train.create(), train.stops) == ([], [])
    assert script.reason("job") == "Running"


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("to", [OTHER, None])
def test_the_room_of_a_moved_pod_is_kept_for_its_replacement_when_it_is_gone(
    to: GroupRef | None, indexed: bool
) -> None:
    script, train, pods = with_one_moved(indexed=indexed, to=to)
    (waiting,) = gang("waiting", 1, gpus=6)
    script.see(waiting)
    script.change(pods[1], deleting=True)
    goes(script, train, pods[1])
    assert not script.planned(waiting)
    script.run(train.create())
    assert len(script.bound([script.pods[uid] for uid in train.pods])) == 2
    assert not train.stops


@pytest.mark.parametrize("indexed", [True, False])
def test_a_pod_that_is_moved_back_has_its_slot_again(indexed: bool) -> None:
    script, train, pods = with_one_moved(indexed=indexed)
    script.change(pods[1], group=pods[1].group)
    train.wait(3)
    assert script.message("job") == "2 members are bound"
    goes(script, train, pods[1])
    (waiting,) = gang("waiting", 1, gpus=6)
    script.see(waiting)
    assert not script.planned(waiting), "its room is kept for its replacement"
    assert not train.stops


@pytest.mark.parametrize("indexed", [True, False])
def test_a_pod_that_waits_and_is_moved_leaves_its_room_and_the_job_is_started_over_when_it_is_gone(
    indexed: bool,
) -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(2, indexed=indexed, gpus=2))
    pods = train.run()
    goes(script, train, pods[1])
    (again,) = train.create()
    script.change(again, group=GroupRef("other", Dialect.ANNOTATION, 2))
    (waiting,) = gang("waiting", 1, gpus=6)
    script.see(waiting)
    script.run([waiting])
    assert script.bound([waiting])
    train.wait(100)
    assert not train.stops
    goes(script, train, again)
    assert train.stops == ["the room on node a-0, on which a pod of it was to run, is gone"]


@pytest.mark.parametrize("indexed", [True, False])
def test_a_restart_tells_that_a_job_was_whole_by_the_pod_that_was_moved(indexed: bool) -> None:
    before, train, pods = with_one_moved(indexed=indexed)
    complete = [pod.uid for pod in before.pods.values() if pod.stamp is not None and pod.stamp.complete]
    assert complete == [pods[1].uid]
    (waiting,) = gang("waiting", 1, gpus=4)
    before.see(waiting)
    before.run([waiting])
    script = Script(*cluster("a: 1x8"), *before.pods.values(), synced=False, now=before.now)
    again = Controlled(script, train.seen)
    script.feed_synced()
    again.wait(100)
    assert not again.stops
    assert script.reason("job") == "Running"


def test_a_pod_that_was_moved_into_a_job_stands_for_none_of_its_pods() -> None:
    nodes = cluster("a: 3x8")
    script = Script(*nodes)
    train = Controlled(script, job(2))
    lost, _ = train.run()
    home = script.pods[lost.uid].node
    script.see(single("foreign", gpus=8, node="a-2", group=GroupRef("job", Dialect.ANNOTATION, 2)))
    assert script.reason("job") == "Running"
    script.see(*(replace(node, ready=False) for node in nodes if node.name == home))
    script.gone(script.pods[lost.uid])
    script.see(reborn(lost))
    train.wait(3)
    assert len(train.stops) == 1
