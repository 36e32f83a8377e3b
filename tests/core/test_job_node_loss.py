"""A job that loses a node runs again, whole and in one domain, wherever in its life that happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from extender.core.limits import Limits
from tests.builders import cluster
from tests.core.jobs import Controlled, job
from tests.core.script import Script

SIZE = 4


def silent(script: Script, node: str) -> None:
    """Silence the kubelet of the node: the Node stays, with the taint that the control plane writes."""
    known = script.core.state.claims.nodes[node]
    script.see(replace(known, ready=False))


def deleted(script: Script, node: str) -> None:
    script.drop(node)


def planned(train: Controlled) -> None:
    """Started, and no pod of it exists."""


def starting(train: Controlled) -> None:
    """Half of its pods exist and are held."""
    for pod in train.create(only=SIZE // 2):
        train.script.bind(pod)


def created(train: Controlled) -> None:
    """All pods exist, and none is bound."""
    train.create()


def binding(train: Controlled) -> None:
    """Bindings of all but the last are being written."""
    train.script.bind_all(train.create())


def running(train: Controlled) -> None:
    train.run()


@pytest.mark.parametrize("lose", [silent, deleted])
@pytest.mark.parametrize("reach", [planned, starting, created, binding, running])
def test_it_runs_again_elsewhere(reach: Callable[[Controlled], None], lose: Callable[[Script, str], None]) -> None:
    script = Script(*cluster("a: 4x8", "b: 5x8"), limits=Limits(node_loss_s=2))
    train = Controlled(script, job(SIZE, level="clique"))
    reach(train)
    lost = train.starts[0].plan[""][0]
    lose(script, lost)
    script.post_all()
    train.wait(8)
    if train.pods:
        stop(train, lost if lose is silent else "")
        train.wait(5)
    assert len(train.stops) == 1, train.stops
    assert lost in train.stops[0]
    again = train.starts[-1]
    assert len(train.starts) == 2, script.message("job")
    assert lost not in again.plan[""]
    assert len({node[0] for node in again.plan[""]}) == 1, "in one clique"
    pods = train.run()
    assert len(script.bound(pods)) == SIZE
    assert script.reason("job") == "Running"


def test_a_node_that_is_lost_while_bindings_to_it_are_written_is_noticed_when_they_are() -> None:
    script = Script(*cluster("a: 1x8"))
    train = Controlled(script, job(4, gpus=2))
    script.bind_all(train.create())
    script.drop("a-0")
    script.post_all()
    train.wait(3)
    assert len(train.stops) == 1
    assert "a-0" in train.stops[0]


def stop(train: Controlled, silent: str) -> None:
    """Let the controller delete the pods.

    Those on the silent node stay, because no kubelet confirms that they are gone.
    """
    script = train.script
    stay = [uid for uid in train.pods if silent and script.pods[uid].node == silent]
    for uid in stay:
        script.change(script.pods[uid], deleting=True)
        del train.pods[uid]
    train.delete()
    train.show(stopped=True)


@pytest.mark.parametrize("lose", [silent, deleted])
def test_pods_of_an_earlier_start_on_a_node_that_is_lost_are_not_waited_for(
    lose: Callable[[Script, str], None],
) -> None:
    script = Script(*cluster("a: 2x8"))
    train = Controlled(script, job(1))
    (pod,) = train.run()
    train.show(suspended=True, stopped=True)
    script.change(script.pods[pod.uid], deleting=True)
    train.wait(60)
    assert len(train.starts) == 1
    lose(script, train.starts[0].plan[""][0])
    train.wait(3)
    assert len(train.starts) == 2


@pytest.mark.parametrize("lose", [silent, deleted])
def test_pods_of_an_earlier_start_are_waited_for_anywhere_where_the_next_ones_have_their_names(
    lose: Callable[[Script, str], None],
) -> None:
    """A pod of a PyTorchJob, for example, cannot be created while one of its name exists."""
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, replace(job(2), same_names=True))
    pods = train.run()
    train.show(suspended=True, stopped=True)
    lose(script, train.starts[0].plan[""][0])
    script.change(script.pods[pods[0].uid], deleting=True)
    script.gone(script.pods[pods[1].uid])
    train.wait(60)
    assert len(train.starts) == 1
    hint = "node a-0 does not report: give it the out-of-service taint, or delete it"
    assert (hint in script.message("job")) == (lose is silent)
    script.change(script.pods[pods[0].uid], phase="Failed")
    train.wait(3)
    assert len(train.starts) == 1, "it is written so before it is removed"
    script.gone(script.pods[pods[0].uid])
    train.wait(3)
    assert len(train.starts) == 2


def test_a_job_that_does_not_stop_because_of_a_silent_node_says_which() -> None:
    """The controllers of MPIJobs, RayClusters and AppWrappers wait for the pods there."""
    script = Script(*cluster("a: 3x8"))
    train = Controlled(script, job(2))
    pods = train.run()
    node = train.starts[0].plan[""][0]
    silent(script, node)
    train.show(suspended=True)
    for pod in pods:
        script.change(script.pods[pod.uid], deleting=True)
    hint = f"node {node} does not report: give it the out-of-service taint, or delete it"
    assert hint not in script.message("job"), "the other one may go"
    script.gone(script.pods[next(pod.uid for pod in pods if script.pods[pod.uid].node != node)])
    assert hint in script.message("job")
