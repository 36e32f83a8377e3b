"""Lent quota is taken back on the real control plane: exactly the borrower gives way, and the lender starts there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster
from tests.integration.preemption import start_with_preemption
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound

pytestmark = pytest.mark.xdist_group("preemption")


def _queue(name: str, nominal: int, rules: str) -> str:
    return f"""\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata:
  name: {name}
spec:
  cohortName: labs
  namespaceSelector: {{}}
  preemption:
    reclaimWithinCohort: {rules}
  resourceGroups:
    - coveredResources: ["cpu", "memory", "nvidia.com/gpu"]
      flavors:
        - name: gpus
          resources:
            - name: "nvidia.com/gpu"
              nominalQuota: {nominal}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata:
  name: {name}
  namespace: default
spec:
  clusterQueue: {name}
"""


FLAVOR = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata:
  name: gpus
"""
LABS = FLAVOR + _queue("research", 8, "Never") + _queue("production", 16, "Any")
"""Research has 8 GPUs and production 16; each may borrow what the other one does not use."""


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    return start_with_preemption(cluster)


@pytest.fixture
def labs(stage: RealStage) -> Iterator[Queues]:
    """Three nodes of 8 GPUs, and quota for all of them."""
    queues = Queues(stage)
    stage.add_nodes(3)
    queues.apply(LABS)
    yield queues
    queues.remove()


def test_lent_quota_is_taken_back_from_exactly_the_borrower(labs: Queues) -> None:
    labs.job("own", "research", 1)
    labs.until_started("own", 1)
    labs.job("borrower", "research", 1)
    labs.until_started("borrower", 1)
    labs.job("lender", "production", 2)
    labs.until_started("lender", 2)
    borrower = labs.until("borrower", lambda job: job["spec"]["suspend"] is True)
    assert not borrower["status"].get("failed")
    assert labs.until_started("own", 1)["spec"]["suspend"] is False
    assert len(bound(labs.stage.pods(), "job-lender")) == 2
    labs.end("lender")
    labs.until_started("borrower", 1)
