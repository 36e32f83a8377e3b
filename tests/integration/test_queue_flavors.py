"""Flavors of queues on the real control plane: which one a job gets, and what is said of one that cannot be used."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster
from tests.integration.queueing import A100, Queues, start_with_queues
from tests.integration.stage import RealStage
from tests.manifests_of_queues import TUTORIAL
from tests.scenarios.pods import bound, gated

pytestmark = pytest.mark.xdist_group("queue-flavors")


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_with_queues(cluster)


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    one = Queues(stage)
    yield one
    one.remove()


SPOT = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: spot
spec:
  nodeLabels: {capacity: spot}
  nodeTaints:
    - {key: spot, value: "true", effect: NoSchedule}
  tolerations:
    - {key: spot, operator: Equal, value: "true", effect: NoSchedule}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: on-demand
spec:
  nodeLabels: {capacity: on-demand}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: both
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, nvidia.com/gpu]
      flavors:
        - name: spot
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
        - name: on-demand
          resources: [{name: nvidia.com/gpu, nominalQuota: 64}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: both
  namespace: default
spec:
  clusterQueue: both
"""


def test_the_next_flavor_is_taken_where_there_is_quota_and_no_node(stage: RealStage, queues: Queues) -> None:
    """Spot nodes are tainted: the pods get the toleration of the flavor, and lose it when the job is suspended."""
    queues.apply(SPOT)
    spot = stage.add_nodes(2, labels={"capacity": "spot"})
    on_demand = stage.add_nodes(2, labels={"capacity": "on-demand"})
    for name in spot:
        taints = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
        stage.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}})
    queues.job("cheap", "both", 2)
    cheap = queues.until_started("cheap", 2)
    assert "spot" in cheap["metadata"]["annotations"]["muster.dev/flavors"]
    assert [one["key"] for one in cheap["spec"]["template"]["spec"]["tolerations"]] == ["spot"]
    queues.job("dear", "both", 2)
    dear = queues.until_started("dear", 2)
    assert "on-demand" in dear["metadata"]["annotations"]["muster.dev/flavors"]
    assert "tolerations" not in dear["spec"]["template"]["spec"]
    pods = stage.until(lambda pods: sum(one.node is not None for one in pods) == 4)
    nodes = {one.name.partition("-")[0]: {two.node for two in pods if two.name[0] == one.name[0]} for one in pods}
    assert nodes == {"cheap": set(spot), "dear": set(on_demand)}
    stage.api.patch(
        f"{queues.jobs}/cheap", {"metadata": {"labels": {"muster.dev/hold": "true"}}, "spec": {"suspend": True}}
    )
    cleaned = queues.until("cheap", lambda job: "muster.dev/flavors" not in job["metadata"].get("annotations", {}))
    assert "tolerations" not in cleaned["spec"]["template"]["spec"]


def test_podsets_of_a_group_get_nodes_of_one_flavor(stage: RealStage, queues: Queues) -> None:
    """Two spot nodes would do for the workers, and not for their leader as well."""
    queues.apply(SPOT)
    stage.add_nodes(2, labels={"capacity": "spot"})
    on_demand = stage.add_nodes(3, labels={"capacity": "on-demand"})
    members = gated("pair", 3)
    for one in members:
        one["metadata"]["labels"] = {"muster.dev/queue-name": "both"}
        one["metadata"]["annotations"]["kueue.x-k8s.io/podset-group-name"] = "leader-and-workers"
    (container,) = members[-1]["spec"]["containers"]
    for amounts in container["resources"].values():
        amounts["nvidia.com/gpu"] = "7"
    stage.create(*members)
    pods = bound(stage.until(lambda pods: len(bound(pods, "pair")) == 3), "pair")
    assert {one.node for one in pods} == set(on_demand)


def test_a_queue_that_cannot_be_used_says_why(stage: RealStage, queues: Queues) -> None:
    flavorless = "---\n".join(text for text in TUTORIAL.split("---\n") if "ResourceFlavor" not in text)
    queues.apply(flavorless)
    stage.add_nodes(4, labels=A100)
    queues.job("train", "kueue-gang-queue", 4)
    assert "a100-gpu-80gb" in queues.reason("train", "QueueInactive")
    status = queues.status("ClusterQueue", "heavy-ml-cluster-queue", lambda status: bool(status.get("conditions")))
    active, warning = status["conditions"]
    assert (active["status"], "a100-gpu-80gb" in active["message"]) == ("False", True)
    assert "there is no limit" in warning["message"]
    queues.apply(TUTORIAL)
    queues.until_started("train", 4)


RACKS = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: Topology
metadata:
  name: racks
spec:
  levels:
    - nodeLabel: example.com/block
    - nodeLabel: example.com/rack
"""


def test_a_queue_whose_topology_is_missing_says_why(stage: RealStage, queues: Queues) -> None:
    queues.apply(TUTORIAL.replace("  nodeLabels:", "  topologyName: racks\n  nodeLabels:"))
    stage.add_nodes(4, labels=A100)
    queues.job("train", "kueue-gang-queue", 4)
    assert "there is no Topology racks" in queues.reason("train", "QueueInactive")
    queues.status("ClusterQueue", "heavy-ml-cluster-queue", lambda status: "racks" in str(status.get("conditions")))
    queues.apply(RACKS)
    queues.until_started("train", 4)
