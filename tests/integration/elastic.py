"""An elastic flavor, and a stand-in for the autoscaler that makes its nodes.

No autoscaler runs here; the test plays it (``Autoscaler``). It reads a ProvisioningRequest and its pod templates,
makes nodes for all of the pods, and says so in the status. For gangs of pods it reads what an autoscaler reads: the
condition by which kube-scheduler marks a pod as unschedulable (``unschedulable``).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from devcluster import Cluster
from devcluster.api import Object
from devcluster.crds import until_established
from devcluster.muster import (
    RunningMuster,
    install_crds_of,
    install_gate,
    install_job_admission,
    start_muster,
    with_components,
)
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.manifests_of_autoscalers import PROVISIONING_REQUESTS

GROUP = "/apis/autoscaling.x-k8s.io/v1"
PATIENCE_S = 60.0
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
    return with_components(folder, "elastic")


def start_elastic(cluster: Cluster) -> RunningMuster:
    """Start Muster in a cluster that serves ProvisioningRequests; the nodes of the flavor spot are made on demand."""
    cluster.kubectl("apply", "-f", "-", stdin=PROVISIONING_REQUESTS)
    until_established(cluster.api, "provisioningrequests.autoscaling.x-k8s.io")
    install_crds_of(cluster, "queues")
    manifests = with_elastic(cluster.directory / "with-elastic")
    running = start_muster(cluster, {"elastic": {"flavors": ["spot"], "timeout_s": 60}}, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


class Autoscaler:
    """A stand-in: it reads the requests of Muster, and grants or denies them."""

    def __init__(self, stage: RealStage) -> None:
        self._stage = stage
        self.requests = f"{GROUP}/namespaces/{stage.namespace}/provisioningrequests"
        self.templates = f"/api/v1/namespaces/{stage.namespace}/podtemplates"

    def asked(self) -> Object:
        (request,) = self._stage.api.wait_for(self.requests, lambda requests: len(requests) == 1, PATIENCE_S)
        return dict(request)

    def template(self, request: Object) -> tuple[Object, int]:
        """The template of its pods, and how many pods there are."""
        ((podset),) = request["spec"]["podSets"]
        pod_template = self._stage.api.get(f"{self.templates}/{podset['podTemplateRef']['name']}")
        return pod_template["template"], podset["count"]

    def grant(self, request: Object) -> list[str]:
        template, count = self.template(request)
        labels = template["spec"]["nodeSelector"]
        nodes = self._stage.add_nodes(count, labels=labels)
        self.say(request, "Provisioned", "there they are")
        return nodes

    def say(self, request: Object, condition: str, text: str) -> None:
        entry = {"type": condition, "status": "True", "reason": condition, "message": text}
        path = f"{self.requests}/{request['metadata']['name']}/status"
        self._stage.api.patch(path, {"status": {"conditions": [entry]}})

    def until_none(self) -> None:
        for path in (self.requests, self.templates):
            self._stage.api.wait_for(path, lambda requests: not requests, PATIENCE_S)


def research_of(stage: RealStage) -> Iterator[Queues]:
    """A queue with a node of the flavor that always exists, and quota for two nodes that are made on demand."""
    queues = Queues(stage)
    stage.add_nodes(1, labels={"pool": "owned"})
    queues.apply(QUEUES)
    yield queues
    queues.remove()


def unschedulable(stage: RealStage, count: int) -> list[Object]:
    """The pods that an autoscaler makes nodes for, once there are ``count`` of them."""

    def found(pods: list[Object]) -> list[Object]:
        return [
            pod for pod in pods for two in pod["status"].get("conditions", ()) if two.get("reason") == "Unschedulable"
        ]

    return found(stage.api.wait_for(stage.pods_path, lambda pods: len(found(pods)) == count, PATIENCE_S))
