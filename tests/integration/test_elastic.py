"""Elastic flavors on the real control plane: nodes are asked for, and a job starts on them when they are there.

No autoscaler runs here. What it does is done by the test (``Autoscaler``): it reads a ProvisioningRequest and its pod
templates, makes nodes for all of the pods, and says so in the status. For gangs of pods it reads what an autoscaler
does, the condition by which kube-scheduler says that a pod is unschedulable (``unschedulable``). No node is ever taken
away by one, either: that nodes say that they are to stay is what is looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.crds import until_established
from devcluster.muster import (
    MANIFESTS,
    RunningMuster,
    install_crds_of,
    install_gate,
    install_job_admission,
    start_muster,
)
from extender.kube.client import Kube
from extender.kube.convert import KEPT_NODE
from extender.kube.queues.capacity import CAPACITY
from extender.kube.queues.protection import READ_BY
from tests.integration.extender import MERGE, Extender
from tests.integration.stage import RealStage
from tests.integration.test_queues import Queues
from tests.manifests_of_autoscalers import PROVISIONING_REQUESTS
from tests.scenarios.pods import gated

pytestmark = pytest.mark.xdist_group("elastic")

GROUP = "/apis/autoscaling.x-k8s.io/v1"
PATIENCE_S = 60.0
JSON = "application/json"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: owned}
spec:
  nodeLabels: {pool: owned}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec:
  nodeLabels: {pool: spot}
  tolerations: [{key: spot, operator: Exists, effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, memory, nvidia.com/gpu]
      flavors:
        - name: owned
          resources: [{name: nvidia.com/gpu, nominalQuota: 8}]
        - name: spot
          resources: [{name: nvidia.com/gpu, nominalQuota: 16}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: research, namespace: default}
spec: {clusterQueue: research}
"""


def with_elastic(folder: Path) -> Path:
    """A kustomization in that folder, with the component."""
    folder.mkdir(parents=True, exist_ok=True)
    base, component = (os.path.relpath(MANIFESTS / part, folder) for part in ("base", "components/elastic"))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [base], "components": [component]}))
    return folder


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    cluster.kubectl("apply", "-f", "-", stdin=PROVISIONING_REQUESTS)
    until_established(cluster.api, "provisioningrequests.autoscaling.x-k8s.io")
    install_crds_of(cluster, "queues")
    manifests = with_elastic(cluster.directory / "with-elastic")
    running = start_muster(cluster, {"elastic": {"flavors": ["spot"], "timeout_s": 60}}, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


class Autoscaler:
    """A stand-in: it has what Muster asked for, and grants or denies it."""

    def __init__(self, stage: RealStage) -> None:
        self._stage = stage
        self.requests = f"{GROUP}/namespaces/{stage.namespace}/provisioningrequests"
        self.templates = f"/api/v1/namespaces/{stage.namespace}/podtemplates"

    def asked(self) -> Object:
        (found,) = self._stage.api.wait_for(self.requests, lambda some: len(some) == 1, PATIENCE_S)
        return dict(found)

    def template(self, request: Object) -> tuple[Object, int]:
        """That of its pods, and how many there are."""
        ((podset),) = request["spec"]["podSets"]
        found = self._stage.api.get(f"{self.templates}/{podset['podTemplateRef']['name']}")
        return found["template"], podset["count"]

    def grant(self, request: Object) -> list[str]:
        template, count = self.template(request)
        labels = template["spec"]["nodeSelector"]
        nodes = self._stage.add_nodes(count, labels=labels)
        self.say(request, "Provisioned", "there they are")
        return nodes

    def say(self, request: Object, condition: str, text: str) -> None:
        said = {"type": condition, "status": "True", "reason": condition, "message": text}
        path = f"{self.requests}/{request['metadata']['name']}/status"
        self._stage.api.patch(path, {"status": {"conditions": [said]}})

    def until_none(self) -> None:
        for path in (self.requests, self.templates):
            self._stage.api.wait_for(path, lambda some: not some, PATIENCE_S)


@pytest.fixture
def research(stage: RealStage) -> Iterator[Queues]:
    """One node of the flavor that is always there, and quota for two that are made on demand."""
    queues = Queues(stage)
    stage.add_nodes(1, labels={"pool": "owned"})
    queues.apply(QUEUES)
    yield queues
    queues.remove()


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
    assert {one.node for one in stage.pods() if one.node} == set(nodes)
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
        autoscaler.requests, lambda some: any("second" in one["metadata"]["name"] for one in some), PATIENCE_S
    )
    stage.api.wait_for(
        autoscaler.requests, lambda some: not any("first" in one["metadata"]["name"] for one in some), PATIENCE_S
    )
    rests = research.until("first", bool)["metadata"]["annotations"]["muster.dev/nodes-in-vain"]
    assert rests.startswith("no nodes came by attempt 1; none are asked for before "), "for the next leader"
    autoscaler.grant(autoscaler.asked())
    research.until_started("second", 2)
    autoscaler.until_none()
    research.end("second")
    research.until_started("first", 2)
    research.end("first")


def unschedulable(stage: RealStage, count: int) -> list[Object]:
    """The pods that an autoscaler makes nodes for, as soon as there are so many."""

    def found(pods: list[Object]) -> list[Object]:
        return [
            one for one in pods for two in one["status"].get("conditions", ()) if two.get("reason") == "Unschedulable"
        ]

    return found(stage.api.wait_for(stage.pods_path, lambda pods: len(found(pods)) == count, PATIENCE_S))


def test_a_gang_of_pods_is_let_go_as_a_whole_and_starts_on_the_nodes_that_an_autoscaler_makes(
    stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    pods = gated("gang", 2)
    for one in pods:
        one["metadata"]["labels"] = {"muster.dev/queue-name": "research"}
        one["spec"] |= {"nodeSelector": {"pool": "spot"}}
    stage.create(*pods)
    seen = unschedulable(stage, 2)
    assert {one["spec"]["nodeSelector"]["pool"] for one in seen} == {"spot"}
    why = stage.until_told("gang", lambda gang: gang.state == "AwaitingNodes").message
    assert "kube-scheduler has its 2 pods without a plan" in why
    research.job("job", "research", 2)
    assert f"{research.home}/gang (16)" in research.reason("job", "NoQuota")
    nodes = stage.add_nodes(1, labels={"pool": "spot"}) + stage.add_nodes(1, labels={"pool": "spot"})
    started = stage.until(lambda pods: all(one.node for one in pods))
    assert {one.node for one in started} == set(nodes)


def kept(stage: RealStage, node: str, *, as_said: bool) -> Object:
    """Its annotations when it has Muster's label, or has it no more."""
    found = stage.api.wait_for(
        f"/api/v1/nodes/{node}", lambda one: (KEPT_NODE in one["metadata"]["labels"]) is as_said, PATIENCE_S
    )
    return dict(found["metadata"].get("annotations") or {})


def test_planned_nodes_say_that_they_are_to_stay_until_the_pods_are_there(
    stage: RealStage, research: Queues, muster: RunningMuster
) -> None:
    ours, theirs = stage.add_nodes(2, labels={"pool": "spot"})
    stage.api.patch(f"/api/v1/nodes/{theirs}", {"metadata": {"annotations": {READ_BY["karpenter"]: "true"}}})
    stage.kill_scheduler()
    research.job("first", "research", 2)
    for node in (ours, theirs):
        said = kept(stage, node, as_said=True)
        assert [said.get(key) for key in READ_BY.values()] == ["true", "true"]
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
    stage.api.wait_for(stage.pods_path, lambda some: not some, PATIENCE_S)
    stage.start_extender()
    stage.start_scheduler()
    for node in nodes:
        assert not set(READ_BY.values()).intersection(kept(stage, node, as_said=False))


def test_on_a_node_the_extender_writes_only_that_it_is_to_stay(stage: RealStage, extender: Extender) -> None:
    (node,) = stage.add_nodes(1, labels={"pool": "spot"})
    path, (scale_down, disrupt) = f"/api/v1/nodes/{node}", READ_BY.values()
    said = {"labels": {KEPT_NODE: "cluster-autoscaler"}, "annotations": {scale_down: "true"}}
    wrong: list[Object] = [
        {"spec": {"unschedulable": True}},
        {"metadata": {"labels": {"pool": "owned"}}},
        {"metadata": {"annotations": {"other": "true"}}},
        {"metadata": {"annotations": {scale_down: "true"}}},
        {"metadata": {"labels": {KEPT_NODE: "karpenter"}, "annotations": {scale_down: "true"}}},
        {"metadata": {"labels": {KEPT_NODE: "karpenter"}, "annotations": {disrupt: "false"}}},
        {"metadata": {"labels": {KEPT_NODE: "karpenter"}}},
    ]
    for body in wrong:
        extender.refused("PATCH", path, body, MERGE)
    extender.patch(path, {"metadata": said})
    stage.api.patch(path, {"metadata": {"annotations": {disrupt: "true"}}})
    for labels in ({}, {KEPT_NODE: None}, {KEPT_NODE: "karpenter"}):
        extender.refused("PATCH", path, {"metadata": {"labels": labels, "annotations": {disrupt: None}}}, MERGE)
    extender.refused("PATCH", path, {"metadata": {"annotations": {scale_down: None}}}, MERGE)
    extender.patch(path, {"metadata": {"labels": {KEPT_NODE: None}, "annotations": {scale_down: None}}})
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
        for one in wrong:
            extender.refused("POST", path, {**body, "metadata": {**meta, **one}}, JSON)
        extender.do(partial(_post, path, {**body, "metadata": meta}))
        extender.do(partial(_delete, f"{path}/one"))
        stage.api.create(path, {**body, "metadata": {"name": "others"}})
        extender.refused("DELETE", f"{path}/others", None, JSON)


async def _post(path: str, body: Object, kube: Kube) -> bytes:
    return await kube.call("POST", path, body=body)


async def _delete(path: str, kube: Kube) -> bytes:
    return await kube.call("DELETE", path)
