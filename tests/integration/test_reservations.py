"""A large Job behind short ones on the real control plane: it starts in its reservation, which a restart keeps.

When it is expected to start is said by ``muster explain``, by its Event and by its Workload.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from extender.cli.main import main
from policies.model import Pod
from tests.integration.queueing import GPU, Queues
from tests.integration.stage import RealStage
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("reservations")

RESERVED = "muster.dev/reserved"
QUEUE = f"""
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {{name: any}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {{name: team}}
spec:
  namespaceSelector: {{}}
  resourceGroups:
  - coveredResources: [cpu, {GPU}]
    flavors:
    - name: any
      resources: [{{name: {GPU}, nominalQuota: 2000}}, {{name: cpu, nominalQuota: 1000}}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {{name: team, namespace: default}}
spec: {{clusterQueue: team}}
"""


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    running = start_muster(cluster, {"backfill": "easy", "reserve_after_s": 2, "forecast_s": 1})
    install_gate(cluster)
    install_job_admission(cluster)
    return running


@pytest.fixture
def queues(stage: RealStage) -> Iterator[Queues]:
    made = Queues(stage)
    yield made
    made.remove()


def test_a_large_job_starts_in_its_reservation_and_what_would_overlap_waits(stage: RealStage, queues: Queues) -> None:
    stage.add_nodes(64)
    queues.apply(QUEUE)
    for number in range(16):
        _create(stage, f"short-{number}", 4, "1h")
    stage.until(lambda pods: len(_running(pods, "short")) == 64)
    path = _create(stage, "large", 64, "2h")
    written = stage.api.wait_for(path, lambda job: RESERVED in job["metadata"]["annotations"])
    reserved = json.loads(written["metadata"]["annotations"][RESERVED])
    assert sum(len(nodes) for _, nodes in reserved["rooms"]) == 64
    _is_expected_to_start(stage, queues, "large")
    first = [f"short-{number}-" for number in range(8)]
    stage.succeed(*(member.name for member in stage.pods() if member.name.startswith(tuple(first))))
    overlap = _create(stage, "overlap", 4, "10h")
    stage.until_told("job-overlap", _names_the_reservation)
    _create(stage, "quick", 4, "60")
    stage.until(lambda pods: len(_running(pods, "quick")) == 4)
    stage.kill_extender()
    stage.start_extender()
    stage.until_told("job-overlap", _names_the_reservation)
    again = json.loads(stage.api.get(path)["metadata"]["annotations"][RESERVED])
    assert again["rooms"] == reserved["rooms"]
    assert not _running(stage.pods(), "overlap")
    stage.succeed(*(member.name for member in _running(stage.pods(), "quick")))
    stage.succeed(*(member.name for member in _running(stage.pods(), "short")))
    pods = stage.until(lambda pods: len(_running(pods, "large")) == 64)
    assert not _running(pods, "overlap")
    stage.api.wait_for(path, lambda job: RESERVED not in job["metadata"]["annotations"])
    stage.api.delete(overlap, propagationPolicy="Background")  # it would start when the others are cleared away


def _is_expected_to_start(stage: RealStage, queues: Queues, name: str) -> None:
    """Each place where users look says when the Job is expected to start, after which other, and why."""
    gang = stage.until_told(f"job-{name}", lambda gang: gang.expected is not None)
    assert gang.expected is not None
    after = gang.expected.after
    assert after.startswith(f"{stage.namespace}/job-short-")
    assert gang.expected.earliest < gang.expected.start < gang.expected.latest
    assert gang.expected.rests_on == "its author's estimate of 1 h"
    result = CliRunner().invoke(main, ["explain", f"{stage.namespace}/job-{name}", "--url", stage.muster.url])
    for text in (result.output, stage.until_noted(name, "NoRoom")):
        assert "expected " in text, text
        assert "ends; rests on its author's estimate of 1 h" in " ".join(text.split())
    conditions = queues.record(name, "QuotaReserved", "False")["conditions"]
    (why,) = [condition["message"] for condition in conditions if condition["type"] == "QuotaReserved"]
    assert "; expected " in why, why


def _names_the_reservation(seen: object) -> bool:
    return "is reserved for" in str(getattr(seen, "message", ""))


def _create(stage: RealStage, name: str, size: int, duration: str) -> str:
    """Create a Job of ``size`` pods with 8 GPUs each and that expected duration. Returns its path."""
    path = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
    template: Object = {"spec": {**pod(name, gpus=8)["spec"], **stage.at_home, "restartPolicy": "Never"}}
    annotations = {"muster.dev/expected-duration": duration}
    meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "team"}, "annotations": annotations}
    body = {"completions": size, "parallelism": size, "completionMode": "Indexed", "backoffLimit": 0}
    stage.api.create(path, {"metadata": meta, "spec": {**body, "template": template}})
    return f"{path}/{name}"


def _running(pods: object, name: str) -> list[Pod]:
    assert isinstance(pods, list | tuple)
    return [member for member in pods if member.live and member.node and member.name.startswith(f"{name}-")]
