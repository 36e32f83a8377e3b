"""Elastic flavors on the real control plane: nodes are asked for, and jobs and gangs start on them when they come."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster
from tests.integration.elastic import PATIENCE_S, Autoscaler, research_of, start_elastic, unschedulable
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.scenarios.pods import gated

pytestmark = pytest.mark.xdist_group("elastic")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_elastic(cluster)


@pytest.fixture
def research(stage: RealStage) -> Iterator[Queues]:
    yield from research_of(stage)


def test_nodes_are_asked_for_with_quota_reserved_and_the_job_starts_on_them(stage: RealStage, research: Queues) -> None:
    autoscaler = Autoscaler(stage)
    research.job("first", "research", 2)
    request = autoscaler.asked()
    assert request["spec"]["provisioningClassName"] == "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
    template, count = autoscaler.template(request)
    assert (count, template["spec"]["nodeSelector"]) == (2, {"pool": "spot"})
    assert {"key": "spot", "operator": "Exists", "effect": "NoSchedule"} in template["spec"]["tolerations"]
    research.record("first", "QuotaReserved", "True")
    assert research.until("first", bool)["spec"]["suspend"] is True
    assert "a ProvisioningRequest asks for nodes for 2 pods" in research.reason("first", "AwaitingNodes")
    research.job("second", "research", 2)
    assert f"{research.home}/job-first (16)" in research.reason("second", "NoQuota")
    nodes = autoscaler.grant(request)
    research.until_started("first", 2)
    assert {pod.node for pod in stage.pods() if pod.node} == set(nodes)
    autoscaler.until_none()
    research.end("first")
    research.until_started("second", 2)
    research.end("second")


def test_what_is_denied_gives_its_quota_back_and_says_so(
    cluster: Cluster, stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    autoscaler = Autoscaler(stage)
    research.job("first", "research", 2)
    first = autoscaler.asked()
    muster.restart_extender()
    assert autoscaler.asked()["metadata"]["uid"] == first["metadata"]["uid"], "after a restart it goes on with that"
    research.job("second", "research", 2)
    research.reason("second", "NoQuota")
    autoscaler.say(first, "Failed", "out of stock")
    research.reason("second", "AwaitingNodes")
    stage.api.wait_for(
        autoscaler.requests,
        lambda requests: any("second" in request["metadata"]["name"] for request in requests),
        PATIENCE_S,
    )
    stage.api.wait_for(
        autoscaler.requests,
        lambda requests: not any("first" in request["metadata"]["name"] for request in requests),
        PATIENCE_S,
    )
    rests = research.until("first", bool)["metadata"]["annotations"]["muster.dev/nodes-in-vain"]
    assert rests.startswith("no nodes came by attempt 1; none are asked for before "), "for the next leader"
    autoscaler.grant(autoscaler.asked())
    research.until_started("second", 2)
    autoscaler.until_none()
    research.end("second")
    research.until_started("first", 2)
    research.end("first")


def test_a_gang_of_pods_is_started_without_nodes_as_a_whole_and_starts_on_the_nodes_that_an_autoscaler_makes(
    stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    pods = gated("gang", 2)
    for obj in pods:
        obj["metadata"]["labels"] = {"muster.dev/queue-name": "research"}
        obj["spec"] |= {"nodeSelector": {"pool": "spot"}}
    stage.create(*pods)
    seen = unschedulable(stage, 2)
    assert {pod["spec"]["nodeSelector"]["pool"] for pod in seen} == {"spot"}
    why = stage.until_told("gang", lambda gang: gang.state == "AwaitingNodes").message
    assert "its 2 pods are pending without a plan" in why
    research.job("job", "research", 2)
    assert f"{research.home}/gang (16)" in research.reason("job", "NoQuota")
    nodes = stage.add_nodes(1, labels={"pool": "spot"}) + stage.add_nodes(1, labels={"pool": "spot"})
    started = stage.until(lambda pods: all(pod.node for pod in pods))
    assert {pod.node for pod in started} == set(nodes)
