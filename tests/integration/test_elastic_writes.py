"""The writes of Muster where nodes are made, on the real control plane: the marks to stay, and nothing of other
clients.

No autoscaler takes a node away here: the tests look at the marks that nodes are to stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster
from extender.kube.client import Kube
from extender.kube.convert import PROTECTED_NODE
from extender.kube.queues.capacity import CAPACITY
from extender.kube.queues.protection import READ_BY
from tests.integration.elastic import PATIENCE_S, Autoscaler, research_of, start_elastic
from tests.integration.extender import MERGE, Extender
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage

pytestmark = pytest.mark.xdist_group("elastic-writes")

JSON = "application/json"


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_elastic(cluster)


@pytest.fixture
def research(stage: RealStage) -> Iterator[Queues]:
    yield from research_of(stage)


def kept(stage: RealStage, node: str, *, as_said: bool) -> Object:
    """The node's annotations, once it has Muster's label, or has it no more."""
    kept_node = stage.api.wait_for(
        f"/api/v1/nodes/{node}", lambda obj: (PROTECTED_NODE in obj["metadata"]["labels"]) is as_said, PATIENCE_S
    )
    return dict(kept_node["metadata"].get("annotations") or {})


def test_planned_nodes_say_that_they_are_to_stay_until_the_pods_are_there(
    stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    ours, theirs = stage.add_nodes(2, labels={"pool": "spot"})
    stage.api.patch(f"/api/v1/nodes/{theirs}", {"metadata": {"annotations": {READ_BY["karpenter"]: "true"}}})
    stage.kill_scheduler()
    research.job("first", "research", 2)
    for node in (ours, theirs):
        node_annotations = kept(stage, node, as_said=True)
        assert [node_annotations.get(key) for key in READ_BY.values()] == ["true", "true"]
    stage.start_scheduler()
    research.until_started("first", 2)
    assert not set(READ_BY.values()).intersection(kept(stage, ours, as_said=False))
    assert set(READ_BY.values()).intersection(kept(stage, theirs, as_said=False)) == {READ_BY["karpenter"]}
    research.end("first")


def test_after_a_restart_nodes_that_nobody_is_promised_are_given_back(
    stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    nodes = stage.add_nodes(2, labels={"pool": "spot"})
    stage.kill_scheduler()
    research.job("first", "research", 2)
    for node in nodes:
        kept(stage, node, as_said=True)
    stage.kill_extender()
    stage.api.delete(f"{research.jobs}/first", {"propagationPolicy": "Background"})
    stage.api.wait_for(stage.pods_path, lambda pods: not pods, PATIENCE_S)
    stage.start_extender()
    stage.start_scheduler()
    for node in nodes:
        assert not set(READ_BY.values()).intersection(kept(stage, node, as_said=False))


def test_on_a_node_the_extender_writes_only_that_it_is_to_stay(stage: RealStage, extender: Extender) -> None:
    (node,) = stage.add_nodes(1, labels={"pool": "spot"})
    path, (scale_down, disrupt) = f"/api/v1/nodes/{node}", READ_BY.values()
    metadata = {"labels": {PROTECTED_NODE: "cluster-autoscaler"}, "annotations": {scale_down: "true"}}
    wrong: list[Object] = [
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"pool": "owned"}}},
        {"metadata": {"annotations": {"other": "true"}}},
        {"metadata": {"annotations": {scale_down: "true"}}},
        {"metadata": {"labels": {PROTECTED_NODE: "karpenter"}, "annotations": {scale_down: "true"}}},
        {"metadata": {"labels": {PROTECTED_NODE: "karpenter"}, "annotations": {disrupt: "false"}}},
        {"metadata": {"labels": {PROTECTED_NODE: "karpenter"}}},
    ]
    for body in wrong:
        extender.refused("PATCH", path, body, MERGE)
    extender.patch(path, {"metadata": metadata})
    stage.api.patch(path, {"metadata": {"annotations": {disrupt: "true"}}})
    for labels in ({}, {PROTECTED_NODE: None}, {PROTECTED_NODE: "karpenter"}):
        extender.refused("PATCH", path, {"metadata": {"labels": labels, "annotations": {disrupt: None}}}, MERGE)
    extender.refused("PATCH", path, {"metadata": {"annotations": {scale_down: None}}}, MERGE)
    extender.patch(path, {"metadata": {"labels": {PROTECTED_NODE: None}, "annotations": {scale_down: None}}})
    assert kept(stage, node, as_said=False)[disrupt] == "true"


def test_of_others_the_extender_makes_and_deletes_nothing(
    cluster: Cluster, stage: RealStage, muster: RunningMuster, extender: Extender
) -> None:
    autoscaler = Autoscaler(stage)
    owner = stage.api.get(f"/api/v1/namespaces/{stage.namespace}/serviceaccounts/default")["metadata"]
    owners = [{"apiVersion": "v1", "kind": "ServiceAccount", "name": "default", "uid": owner["uid"]}]
    meta: Object = {"name": "one", "labels": {CAPACITY: "true"}, "ownerReferences": owners}
    spec = {"provisioningClassName": "x", "podSets": [{"count": 1, "podTemplateRef": {"name": "one"}}]}
    template = {"spec": {"containers": [{"name": "main", "image": "none"}]}}
    bodies: dict[str, Object] = {
        autoscaler.requests: {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "spec": spec},
        autoscaler.templates: {"apiVersion": "v1", "kind": "PodTemplate", "template": template},
    }
    wrong: list[Object] = [{"labels": {}}, {"ownerReferences": []}, {"finalizers": ["a.b/c"]}]
    for path, body in bodies.items():
        for change in wrong:
            extender.refused("POST", path, {**body, "metadata": {**meta, **change}}, JSON)
        extender.do(partial(_post, path, {**body, "metadata": meta}))
        extender.do(partial(_delete, f"{path}/one"))
        stage.api.create(path, {**body, "metadata": {"name": "others"}})
        extender.refused("DELETE", f"{path}/others", None, JSON)


async def _post(path: str, body: Object, kube: Kube) -> bytes:
    return await kube.call("POST", path, body=body)


async def _delete(path: str, kube: Kube) -> bytes:
    return await kube.call("DELETE", path)
