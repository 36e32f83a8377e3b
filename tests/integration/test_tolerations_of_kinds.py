"""On a real control plane with the real controllers: kinds of jobs with immutable pod templates.

Their pods get the tolerations of their flavor all the same, and lose them when they are suspended.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import install_crds_of, install_job_admission, start_muster
from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.kind import Kind
from extender.kube.kinds.trainer import TRAIN_JOB
from tests.integration.team import Team
from tests.integration.test_kinds import install_runtime
from tests.kube.kinds.appwrappers import MIXED
from tests.kube.kinds.train_jobs import TRAINJOB

pytestmark = pytest.mark.xdist_group("queues-of-kinds")

PATIENCE_S = 120.0
QUEUE = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/spot"
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: spot}
spec:
  nodeLabels: {pool: spot}
  nodeTaints: [{key: spot, value: "true", effect: NoSchedule}]
  tolerations: [{key: spot, operator: Equal, value: "true", effect: NoSchedule}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: spot}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [nvidia.com/gpu]
      flavors:
        - name: spot
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: NAME, namespace: NAMESPACE}
spec: {clusterQueue: spot}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_crds_of(running, "queues")
        start_muster(running)
        install_job_admission(running)
        start_controller(running, "trainer")
        start_controller(running, "appwrapper")
        install_runtime(running)
        for name in running.add_nodes(5, labels={"pool": "spot"}):
            taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
            running.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}})
        yield running


@pytest.mark.parametrize(("kind", "manifest", "pods"), [(TRAIN_JOB, TRAINJOB, 3), (APP_WRAPPER, MIXED, 3)])
def test_its_pods_run_on_tainted_nodes_and_it_is_given_back(
    cluster: Cluster, kind: Kind, manifest: str, pods: int
) -> None:
    team, job = Team(cluster), yaml.safe_load(manifest)
    # A Service and a Job: pods without GPUs get no flavor, and none of its tolerations.
    job["spec"] |= {"components": job["spec"]["components"][:2]} if kind is APP_WRAPPER else {}
    name = job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"]
    cluster.kubectl("apply", "-f", "-", stdin=QUEUES.replace("NAMESPACE", team.name).replace("NAME", name))
    path = kind.path_of(team.name, job["metadata"]["name"])
    cluster.api.create(path.rpartition("/")[0], job)

    def runs(listed: list[Object]) -> bool:
        tolerated = [str(pod["spec"].get("tolerations")) for pod in listed if pod["spec"].get("nodeName")]
        return len(tolerated) == pods and all("'spot'" in text for text in tolerated)

    for _ in range(2):
        cluster.api.wait_for(team.pods, runs, PATIENCE_S)
        assert "spot" in str(cluster.api.get(path)["spec"])
        cluster.api.patch(QUEUE, {"spec": {"stopPolicy": "HoldAndDrain"}})
        cluster.api.wait_for(team.pods, lambda listed: not listed, PATIENCE_S)
        cluster.api.wait_for(path, lambda obj: "spot" not in str(obj["spec"]) and obj["spec"]["suspend"], PATIENCE_S)
        cluster.api.patch(QUEUE, {"spec": {"stopPolicy": "None"}})
    cluster.api.delete(path)
    cluster.api.wait_for(team.pods, lambda listed: not listed, PATIENCE_S)
