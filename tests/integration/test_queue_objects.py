"""On a real API server: the queue objects that people have are taken as they are, in either version, and kept whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from devcluster import Cluster
from devcluster.muster import install_crds_of
from tests.manifests_of_queues import FLAVORS, TEAMS, TUTORIAL

GROUP = "/apis/kueue.x-k8s.io"
PLURAL = {
    "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Cohort": "cohorts",
    "WorkloadPriorityClass": "workloadpriorityclasses",
}
RARE = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: rare
spec:
  cohort: all
  namespaceSelector:
    matchExpressions:
      - {key: kubernetes.io/metadata.name, operator: In, values: [team-a]}
  admissionChecks: [provisioning]
  admissionChecksStrategy:
    admissionChecks:
      - {name: provisioning, onFlavors: [spot]}
  preemption:
    withinClusterQueue: LowerPriority
    reclaimWithinCohort: Any
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 100}
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: TryNextFlavor}
  fairSharing: {weight: 500m}
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
  aFieldOfALaterVersion: {kept: true}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: Cohort
metadata:
  name: all
spec:
  parentName: everything
  resourceGroups:
    - coveredResources: [cpu]
      flavors:
        - name: spot
          resources:
            - {name: cpu, nominalQuota: "1.5", lendingLimit: 1}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: WorkloadPriorityClass
metadata:
  name: high
value: 1000
description: before all others
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_crds_of(running, "queues")
        running.api.create("/api/v1/namespaces", {"metadata": {"name": "default-team"}})
        yield running


@pytest.mark.parametrize("text", [TUTORIAL, FLAVORS, TEAMS, RARE], ids=["tutorial", "flavors", "teams", "rare fields"])
@pytest.mark.parametrize("asked", ["v1beta1", "v1beta2"])
def test_every_field_is_there_in_either_version(cluster: Cluster, text: str, asked: str) -> None:
    cluster.kubectl("apply", "--validate=strict", "-f", "-", stdin=text)
    for written in yaml.safe_load_all(text):
        kept = cluster.api.get(path_of(written, asked))
        assert kept["apiVersion"] == f"kueue.x-k8s.io/{asked}"
        rest = {key: value for key, value in written.items() if key not in ("apiVersion", "metadata")}
        assert {key: kept[key] for key in rest} == rest


def path_of(obj: dict[str, Any], version: str) -> str:
    namespace = f"/namespaces/{obj['metadata'].get('namespace', 'default')}" if obj["kind"] == "LocalQueue" else ""
    return f"{GROUP}/{version}{namespace}/{PLURAL[obj['kind']]}/{obj['metadata']['name']}"


def test_what_kubectl_prints_of_a_queue(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=TUTORIAL)
    status = {"pendingWorkloads": 1, "admittedWorkloads": 2, "conditions": [{"type": "Active", "status": "True"}]}
    path = f"{GROUP}/v1beta2/clusterqueues/heavy-ml-cluster-queue"
    cluster.api.patch(f"{path}/status", {"status": status})
    header, row = cluster.kubectl("get", "cq", "heavy-ml-cluster-queue").splitlines()
    assert header.split() == ["NAME", "COHORT", "ACTIVE", "PENDING", "WORKLOADS", "ADMITTED", "WORKLOADS", "AGE"]
    assert row.split()[1:-1] == ["ml-cohort", "True", "1", "2"]
