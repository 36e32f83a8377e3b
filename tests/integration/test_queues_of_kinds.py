"""On a real control plane with the real controllers: kinds of jobs whose queue is not read from their own labels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import install_crds_of, install_job_admission, start_muster
from extender.kube.queues.workloads import RECORD
from tests.integration.team import Team
from tests.integration.test_kinds import install_runtime
from tests.kube.kinds.train_jobs import TRAINJOB

pytestmark = pytest.mark.xdist_group("queues-of-kinds")

PATIENCE_S = 120.0
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
TRAINS = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/{}/trainjobs"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: gpus}
spec: {}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: research}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: gpus
          resources: [{name: nvidia.com/gpu, nominalQuota: 16}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: team-queue, namespace: NAMESPACE}
spec: {clusterQueue: research}
"""
"""The TrainJob of the test asks for 24."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_crds_of(running, "queues")
        start_muster(running)
        install_job_admission(running)
        start_controller(running, "trainer")
        install_runtime(running)
        running.add_nodes(3)
        yield running


def test_a_trainjob_waits_for_quota_of_the_queue_that_it_names_and_then_runs(cluster: Cluster) -> None:
    team = Team(cluster)
    cluster.kubectl("apply", "-f", "-", stdin=QUEUES.replace("NAMESPACE", team.name))
    train = yaml.safe_load(TRAINJOB)
    path = TRAINS.format(team.name)
    cluster.api.create(path, train)

    def waits(records: list[Object]) -> bool:
        conditions = [two for record in records for two in record.get("status", {}).get("conditions", ())]
        return any(condition["reason"] == "WaitingForQuota" for condition in conditions)

    records = cluster.api.wait_for(f"{GROUP}/namespaces/{team.name}/workloads", waits, PATIENCE_S)
    assert records[0]["metadata"]["labels"][RECORD] == "true"
    (owner,) = records[0]["metadata"]["ownerReferences"]
    assert (owner["kind"], records[0]["spec"]["queueName"]) == ("TrainJob", "team-queue")
    assert cluster.api.get(f"{path}/{train['metadata']['name']}")["spec"]["suspend"] is True
    quota = [{"name": "nvidia.com/gpu", "nominalQuota": "24"}]
    groups = [{"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "gpus", "resources": quota}]}]
    cluster.api.patch(f"{GROUP}/clusterqueues/research", {"spec": {"resourceGroups": groups}})
    cluster.api.wait_for(
        team.pods, lambda pods: sum(bool(pod["spec"].get("nodeName")) for pod in pods) == 3, PATIENCE_S
    )
    status = cluster.api.get(f"{GROUP}/clusterqueues/research")["status"]
    assert status["conditions"][0]["status"] == "True"
