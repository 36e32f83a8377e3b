"""Seeds with real nodes: the written objects mean what the model means, and kubelets write them piece by piece."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from extender.core.engine import Engine
from extender.platforms import nodes as platforms
from policies.model import Node, Pod
from tests.builders import GPU, cluster, single
from tests.simulation.campaign import Run
from tests.simulation.drawing import draw
from tests.simulation.model.agents import Platform
from tests.simulation.model.amounts import amount, as_printed, as_typed, requests_of
from tests.simulation.model.changes import Change, Kind
from tests.simulation.model.pods import as_read
from tests.simulation.model.wire import Wire, node_of, read_node, read_pod
from tests.simulation.model.world import World
from tests.simulation.platform_plan import has_platforms, restart_kubelet, restart_plugin
from tests.simulation.referee import Referee
from tests.simulation.terms import Terms
from tests.simulation.trouble import Trouble

FIRST, SEED = 100_001, 100_023


@pytest.mark.parametrize(
    ("name", "text", "much"),
    [
        ("cpu", "191450m", 191_450),
        ("cpu", "143", 143_000),
        ("cpu", "0.5", 500),
        ("memory", "2085104340Ki", 2085104340 << 10),
        ("memory", "901090Mi", 901090 << 20),
        ("hugepages-2Mi", "10256Mi", 10256 << 20),
        ("ephemeral-storage", "384269682460", 384269682460),
        ("rdma/ib", "1k", 1000),
        ("nvidia.com/gpu", "0", 0),
    ],
)
def test_amounts_are_read_and_printed_as_kubelets_print_them(name: str, text: str, much: int) -> None:
    assert amount(name, text) == much
    if text != "0.5":
        assert as_printed(name, much) == text


def test_each_way_in_which_people_write_an_amount_means_the_same() -> None:
    dice = Random("amounts")
    for name, much in (("cpu", 191_450), ("cpu", 12), ("memory", 3 << 29), ("hugepages-2Mi", 5 << 30), (GPU, 8)):
        assert {amount(name, as_typed(name, much, dice)) for _ in range(40)} == {much}


@pytest.mark.parametrize("kind", platforms.PLATFORMS)
def test_muster_reads_nodes_as_they_are_meant(kind: str) -> None:
    (written,) = platforms.nodes(kind, 1)
    meant = node_of(written)
    assert read_node(msgspec.json.encode(written)) == meant
    assert read_node(Wire().node(meant)) == meant


def _written(run: Run) -> tuple[list[Change], list[Change]]:
    """All versions of nodes and pods that a run has."""
    nodes, pods = list[Change](), list[Change]()
    run.world.api.listeners[Kind.NODES].append(nodes.append)
    run.world.api.listeners[Kind.PODS].append(pods.append)
    run.play()
    return [seen for seen in nodes if not seen.gone], [seen for seen in pods if not seen.gone]


def test_muster_reads_in_a_run_what_was_meant() -> None:
    """This includes every version of every node and pod. The requests of pods agree with the model's own arithmetic."""
    nodes, pods = _written(Run(draw(SEED), every=0))
    assert len(pods) > 30
    for seen in nodes:
        assert read_node(seen.written) == seen.value
    for seen in pods:
        assert isinstance(seen.value, Pod)
        assert read_pod(seen.written, seen.value) == as_read(seen.value)
        assert requests_of(msgspec.json.decode(seen.written)) == seen.value.requests


def test_a_pod_runs_before_it_is_ready_and_has_ended_before_it_is_gone() -> None:
    world, seen = _world(), list[tuple[object, ...]]()

    def note(change: Change) -> None:
        pod = change.value
        if isinstance(pod, Pod) and not pod.stays and not change.gone:
            status = msgspec.json.decode(change.written)["status"]
            ready = [condition["status"] for condition in status["conditions"] if condition["type"] == "Ready"]
            seen.append((pod.phase, pod.deleting, "podIP" in status, *ready))

    world.api.listeners[Kind.PODS].append(note)
    world.api.create_pod(single("here", gpus=0, node="a-0"))
    world.clock.run(world.clock.now + 40.0)
    world.api.delete_pod("uid-here")
    world.clock.run(world.clock.now + 5.0)
    assert "uid-here" not in world.api.pods
    assert list(dict.fromkeys(seen)) == [
        ("Pending", False, False),
        ("Pending", False, False, "False"),
        ("Running", False, False, "False"),
        ("Running", False, True, "False"),
        ("Running", False, True, "True"),
        ("Running", True, True, "True"),
        ("Failed", True, True, "False"),
    ]


def test_half_of_the_seeds_have_real_nodes_and_those_differ() -> None:
    assert sum(map(has_platforms, range(0, 1_000_000, 1000))) == 500
    plans = [draw(seed) for seed in range(FIRST, FIRST + 40)]
    nodes = [node for plan in plans for node in plan.nodes]
    names = {name for node in nodes for name, _ in node.allocatable}
    assert len(names) > 30
    assert {node.unschedulable for node in nodes} == {True, False}
    assert any(dict(node.allocatable).get(GPU, 0) == 0 for node in nodes), "devices that register later"
    assert any(GPU not in dict(node.allocatable) for node in nodes), "and such as nobody knows of yet"
    assert any(dict(node.allocatable)["cpu"] % 1000 for node in nodes)
    resources = {name for plan in plans for _, job in plan.jobs for role in job.roles for name, _ in role.requests}
    assert len(resources) > 20
    assert {len(plan.platform.levels) > 1 for plan in plans if plan.platform is not None} == {True, False}


def _world() -> World:
    daemons = {"agent": (("cpu", 250), ("pods", 1))}
    return World(7, cluster("a: 1x8"), Engine, platform=Platform({}, {"a-0": ((GPU, 8),)}, daemons))


def test_a_daemon_is_on_each_node_and_comes_again() -> None:
    world = _world()
    world.clock.run(world.clock.now + 0.1)
    (daemon,) = world.api.pods.values()
    assert (daemon.node, daemon.stays, dict(daemon.requests)["cpu"]) == ("a-0", True, 250)
    world.api.delete_pod(daemon.uid)
    world.clock.run(world.clock.now + 5.0)
    (again,) = world.api.pods.values()
    assert again.uid != daemon.uid


@pytest.mark.parametrize(("restart", "meanwhile"), [(restart_plugin, 0), (restart_kubelet, None)])
def test_devices_are_gone_for_a_while_when_what_lists_them_restarts(restart: object, meanwhile: int | None) -> None:
    world = _world()
    world.api.create_pod(single("runs", gpus=8, node="a-0"))
    assert callable(restart)
    restart(Trouble(world, world.chance.stream("faults"), Referee(Terms(calm=False))))
    assert _gpus(world.api.nodes["a-0"]) == meanwhile
    world.clock.run(world.clock.now + 30.0)
    assert _gpus(world.api.nodes["a-0"]) == 8
    assert world.api.pods["uid-runs"].phase == "Running"


def _gpus(node: Node) -> int | None:
    return dict(node.allocatable).get(GPU)
