"""Pods of real manifests on 22 real nodes: kube-scheduler alone and Muster accept the same nodes for each pod."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import convert

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_gate, install_job_admission, start_muster
from devcluster.platforms import for_kwok
from extender.kube.convert import pod_from
from extender.kube.reading.objects import PodObject
from extender.platforms.nodes import examples
from tests.integration.stage import RealStage
from tests.oracle.cases import CASES, Case, numbers, pinned, requests_in, runtimes

pytestmark = pytest.mark.xdist_group("oracle")

NODES = [f"node-{number}" for number in range(1, 23)]
MARKS = {"muster.dev/min-member": "1"}


@pytest.fixture(scope="module")
def world(cluster: Cluster) -> RunningMuster:
    """The 22 nodes, the RuntimeClasses, Muster, and a stock kube-scheduler beside it."""
    assert cluster.create_nodes(for_kwok(examples())) == NODES
    for runtime in runtimes().values():
        cluster.api.create("/apis/node.k8s.io/v1/runtimeclasses", runtime)
    running = start_muster(cluster)
    install_gate(cluster)
    install_job_admission(cluster)
    cluster.start_scheduler(name="stock")
    return running


@pytest.fixture
def stage(cluster: Cluster, world: RunningMuster) -> Iterator[RealStage]:
    with RealStage(cluster, world) as real_stage:
        yield real_stage


def copies(case: Case, scheduler: str) -> Iterator[Object]:
    """A copy of the pod for each node, as its author and its controller write it; the API server does the rest."""
    for node in NODES:
        spec = pinned(case.written(), node) | {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
        meta: dict[str, Any] = {"name": f"on-{node}"}
        if scheduler == "muster":
            meta["annotations"] = MARKS | {"muster.dev/pod-group": f"on-{node}"}
        yield {"metadata": meta, "spec": spec}


def on(pods: list[Object]) -> list[str]:
    """The nodes that have a pod, in their order."""
    there = {pod["spec"].get("nodeName") for pod in pods}
    return [node for node in NODES if node in there]


def refused(pod: Object) -> bool:
    """kube-scheduler has said that it has no node for it."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(
        condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable" for condition in conditions
    )


def allowed(stage: RealStage, pods: Iterator[Object], settled: Callable[[list[Object]], bool]) -> list[Object]:
    """The pods when each has a node or was refused one; they are gone again afterwards."""
    stage.api.create_all((stage.pods_path, pod) for pod in pods)
    seen: list[Object] = stage.api.wait_for(stage.pods_path, settled, 30)
    stage.api.delete(stage.pods_path, {"gracePeriodSeconds": 0})
    stage.api.wait_for(stage.pods_path, lambda left: not left)
    return seen


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_both_let_a_pod_go_to_the_same_nodes(stage: RealStage, case: Case) -> None:
    expected = numbers(case.scheduler)

    def all_looked_at(pods: list[Object]) -> bool:
        return len(pods) == len(NODES) and all(pod["spec"].get("nodeName") or refused(pod) for pod in pods)

    stock = allowed(stage, copies(case, "default-scheduler"), all_looked_at)
    assert on(stock) == expected
    assert dict(pod_from(convert(stock[0], PodObject)).requests) == requests_in(case.asks), (
        "what the API server has stored"
    )

    def all_decided(pods: list[Object]) -> bool:
        if len(on(pods)) < len(expected):
            return False
        states = [gang.state for gang in stage.gangs().values()]
        return len(states) == len(NODES) and states.count("NoRoom") == len(NODES) - len(on(pods))

    stage.api.create_all((stage.pods_path, pod) for pod in copies(case, "muster"))
    stage.wait(lambda: stage.api.list(stage.pods_path), all_decided, 30)
    assert on(stage.api.list(stage.pods_path)) == expected
    stage.api.delete(stage.pods_path, {"gracePeriodSeconds": 0})
    stage.api.wait_for(stage.pods_path, lambda left: not left)
    if case.path:
        jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        template = {"spec": case.written() | {"restartPolicy": "Never"}}
        stage.api.create(
            jobs, {"metadata": {"name": "j", "labels": {"muster.dev/gang": "true"}}, "spec": {"template": template}}
        )
        if expected:
            stage.api.wait_for(stage.pods_path, lambda pods: bool(on(pods)), 30)
        else:
            stage.wait(stage.gangs, lambda gangs: any(gang.state == "NoRoom" for gang in gangs.values()), 30)
        assert set(on(stage.api.list(stage.pods_path))) <= set(expected)
        stage.api.delete(jobs, {"propagationPolicy": "Background"})
