"""With Kueue's real controller: it decides by quota when a job starts, and Muster where, all of it together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from devcluster.muster import RunningMuster, start_muster
from extender.cli.main import main
from extender.kube.queues.following import KUEUE_RUNS
from extender.kube.queues.workloads import name_of
from policies.model import Controller
from tests.integration.stage import RealStage
from tests.scenarios.pods import pod

# The first start builds the controller, which takes minutes.
pytestmark = [pytest.mark.xdist_group("kueue"), pytest.mark.timeout(1800)]

GROUP = "kueue.x-k8s.io/v1beta2"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kueue-system/leases"
COVERED = ["cpu", "nvidia.com/gpu"]
PATIENCE_S = 90.0


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    start_controller(cluster, "kueue")
    cluster.api.wait_for(
        LEASES, lambda leases: any(lease["spec"].get("holderIdentity") for lease in leases), PATIENCE_S
    )
    return start_muster(cluster)


@pytest.fixture
def jobs(stage: RealStage) -> Iterator[Jobs]:
    made = Jobs(stage)
    yield made
    made.remove()


class Jobs:
    """Jobs of a namespace that has a LocalQueue with 16 GPUs."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        self.path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        quotas = [{"name": "cpu", "nominalQuota": "100"}, {"name": "nvidia.com/gpu", "nominalQuota": "16"}]
        group = {"coveredResources": COVERED, "flavors": [{"name": "any", "resources": quotas}]}
        self._make("ResourceFlavor", "any", {})
        self._make("ClusterQueue", "research", {"namespaceSelector": {}, "resourceGroups": [group]})
        self._make("LocalQueue", "team", {"clusterQueue": "research"}, f"namespaces/{stage.namespace}/")

    def _make(self, kind: str, name: str, spec: Object, within: str = "") -> None:
        body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec}
        self.stage.api.create(f"/apis/{GROUP}/{within}{kind.lower()}s", body)

    def create(self, name: str, size: int) -> None:
        """Create a job as docs/migrate-kueue.md says: it is Kueue's, and its pods are a gang of Muster's."""
        marks = {"muster.dev/pod-group": name, "muster.dev/min-member": str(size)}
        spec = {**pod(name)["spec"], "restartPolicy": "Never", "schedulerName": "muster"}
        template = {"metadata": {"annotations": marks}, "spec": spec}
        labels = {"kueue.x-k8s.io/queue-name": "team", "muster.dev/gang": "false"}
        body = {"completions": size, "parallelism": size, "template": template}
        self.stage.api.create(self.path, {"metadata": {"name": name, "labels": labels}, "spec": body})

    def workload(self, job: str, condition: str) -> Object:
        """Kueue's, when it has that condition."""
        uid = self.stage.api.get(f"{self.path}/{job}")["metadata"]["uid"]
        name = name_of(Controller("batch/v1", "Job", job, uid))

        def holds(obj: Object | None) -> bool:
            conditions: list[dict[str, Any]] = (obj or {}).get("status", {}).get("conditions", [])
            return any((two["type"], two["status"]) == (condition, "True") for two in conditions)

        path = f"/apis/{GROUP}/namespaces/{self.stage.namespace}/workloads/{name}"
        answer: Object = self.stage.api.wait_for(path, holds, PATIENCE_S)
        return answer

    def nodes(self, job: str, size: int) -> set[str]:
        """The nodes of its pods, once all have a node."""

        def of_it(pods: list[Object]) -> list[str]:
            named = [obj for obj in pods if obj["metadata"].get("labels", {}).get("job-name") == job]
            return [obj["spec"]["nodeName"] for obj in named if obj["spec"].get("nodeName")]

        seen = self.stage.api.wait_for(self.stage.pods_path, lambda pods: len(of_it(pods)) == size, PATIENCE_S)
        return set(of_it(seen))

    def remove(self) -> None:
        api = self.stage.api
        api.delete(self.path, {"propagationPolicy": "Background"})
        api.wait_for(self.path, lambda jobs: not jobs, PATIENCE_S)
        for path in (
            f"namespaces/{self.stage.namespace}/localqueues/team",
            "clusterqueues/research",
            "resourceflavors/any",
        ):
            api.delete(f"/apis/{GROUP}/{path}")
            # Kueue keeps them by a finalizer until nothing uses them.
            api.wait_for(f"/apis/{GROUP}/{path}", lambda obj: obj is None, PATIENCE_S)


def test_a_job_that_kueue_admits_starts_whole_in_one_clique_and_the_next_one_waits_for_quota(
    stage: RealStage, jobs: Jobs
) -> None:
    """The nodes of two cliques alternate: pods on the next free ones would be spread over both."""
    for _ in range(2):
        for clique in ("a", "b"):
            stage.add_nodes(1, clique=clique)
    jobs.create("first", 2)
    admitted = jobs.workload("first", "Admitted")
    assert "muster.dev/record" not in admitted["metadata"].get("labels", {}), "it is Kueue's own"
    assert len({stage.cliques[node] for node in jobs.nodes("first", 2)}) == 1
    jobs.create("second", 2)
    stage.api.wait_for(f"{jobs.path}/second", lambda job: bool(job) and job["spec"]["suspend"])
    done = [obj["metadata"]["name"] for obj in stage.api.get(stage.pods_path)["items"]]
    assert all(name.startswith("first-") for name in done), "the second one has no pods"
    stage.succeed(*done)
    jobs.workload("second", "Admitted")
    assert len({stage.cliques[node] for node in jobs.nodes("second", 2)}) == 1


def test_muster_leaves_the_queues_alone_and_says_so(stage: RealStage, jobs: Jobs) -> None:
    jobs.create("train", 2)
    jobs.workload("train", "QuotaReserved")
    muster = stage.muster
    assert KUEUE_RUNS in httpx.get(f"{muster.url}/readyz", trust_env=False).text
    assert KUEUE_RUNS in muster.extender.tail(1000)
    assert httpx.get(f"{muster.url}/queues", trust_env=False).json() == []
    argv = ["doctor", "--kubeconfig", str(stage.cluster.kubeconfig), "--url", muster.url, "-o", "json"]
    findings = json.loads(CliRunner().invoke(main, argv).stdout)["findings"]
    codes = {finding["code"] for finding in findings}
    assert "KueueManagesQueues" in codes
    assert not codes & {"KueueOrphan", "KueueFinalizer"}
