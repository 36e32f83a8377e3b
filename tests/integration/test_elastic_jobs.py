"""Elastic flavors for jobs on a real control plane without ProvisioningRequests: jobs start without a plan.

No autoscaler runs here. The tests read what it would read (``unschedulable``), and add nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from tests.integration.elastic import QUEUES, unschedulable, with_elastic
from tests.integration.queueing import Queues
from tests.integration.stage import RealStage
from tests.scenarios.pods import pod

pytestmark = pytest.mark.xdist_group("elastic-jobs")

WITHIN_S = 60
PLAN = "muster.dev/plan"
BROUGHT = {"affinity", "nodeSelector", "tolerations"}


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    install_crds_of(cluster, "queues")
    manifests = with_elastic(cluster.directory / "with-elastic")
    running = start_muster(cluster, {"elastic": {"flavors": ["spot"], "timeout_s": WITHIN_S}}, manifests=manifests)
    install_gate(cluster)
    install_job_admission(cluster)
    return running


class Research(Queues):
    """A queue with a node of the flavor that always exists, and quota for two nodes that are made on demand."""

    def wanting(self, name: str, size: int) -> None:
        """A job that names its queue, and says nothing of nodes."""
        spec = {**pod(name)["spec"], "restartPolicy": "Never"}
        meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "research"}}
        of_job = {"completions": size, "parallelism": size, "completionMode": "Indexed", "template": {"spec": spec}}
        self.stage.api.create(self.jobs, {"metadata": meta, "spec": of_job})

    def annotation(self, name: str) -> str:
        return str(self.until(name, bool)["metadata"]["annotations"][PLAN])


def is_given_back(job: Object) -> bool:
    """Whether the job is as its user wrote it."""
    job_annotations = job["metadata"].get("annotations") or {}
    template = job["spec"]["template"]
    marked = {PLAN, "muster.dev/flavors"}.intersection(job_annotations) or "muster.dev/workload" in str(template)
    return bool(job["spec"]["suspend"]) and not marked and not BROUGHT.intersection(template["spec"])


@pytest.fixture
def research(stage: RealStage) -> Iterator[Research]:
    queues = Research(stage)
    stage.add_nodes(1, labels={"pool": "owned"})
    queues.apply(QUEUES)
    yield queues
    queues.remove()


def test_a_job_is_started_without_nodes_with_quota_and_starts_whole_on_the_nodes_that_come(
    stage: RealStage, research: Research, muster: RunningMuster
) -> None:
    research.wanting("first", 2)
    for obj in unschedulable(stage, 2):
        spec = obj["spec"]
        assert (spec["nodeSelector"], spec.get("affinity")) == ({"pool": "spot"}, None), "of the flavor"
        assert {"key": "spot", "operator": "Exists", "effect": "NoSchedule"} in spec["tolerations"]
    assert "its 2 pods are pending without a plan" in research.reason("first", "AwaitingNodes")
    assert research.annotation("first").startswith("nodes are awaited until ")
    research.record("first", "QuotaReserved", "True")
    research.record("first", "Admitted", "False")
    research.wanting("second", 2)
    assert f"{research.home}/job-first (16)" in research.reason("second", "NoQuota")
    muster.restart_extender()
    research.reason("first", "AwaitingNodes")
    assert f"{research.home}/job-first (16)" in research.reason("second", "NoQuota"), "another life knows its quota"
    nodes = stage.add_nodes(1, labels={"pool": "spot"}) + stage.add_nodes(1, labels={"pool": "spot"})
    research.until_started("first", 2)
    assert {member.node for member in stage.pods() if member.node} == set(nodes)
    assert sorted(json.loads(research.annotation("first"))[""].split(",")) == sorted(f"{node}*1" for node in nodes)
    research.record("first", "Admitted", "True")
    stage.api.patch(f"{research.jobs}/first", {"spec": {"suspend": True}})
    research.until("first", is_given_back)
    research.until_started("second", 2)
    research.end("second")
    research.until_started("first", 2)
    research.end("first")


def test_a_job_whose_nodes_do_not_come_is_suspended_and_its_quota_is_free_for_the_next(
    stage: RealStage, research: Research, muster: RunningMuster
) -> None:
    research.wanting("first", 2)
    unschedulable(stage, 2)
    research.wanting("second", 2)
    research.reason("second", "NoQuota")

    stage.api.wait_for(f"{research.jobs}/first", lambda job: bool(job) and is_given_back(job), 2 * WITHIN_S)
    rests = research.until("first", bool)["metadata"]["annotations"]["muster.dev/nodes-in-vain"]
    assert rests.startswith("no nodes came by attempt 1; none are asked for before ")
    late = f"not enough joined within {WITHIN_S} s; it asks again 60 s later"
    vain = f"nodes of spot were requested and did not come: {late}"
    events = f"/apis/events.k8s.io/v1/namespaces/{stage.namespace}/events"
    stage.api.wait_for(events, lambda listed: any(event.get("note") == vain for event in listed), WITHIN_S)
    research.reason("second", "AwaitingNodes")
    assert f"{research.home}/job-second (16)" in research.reason("first", "NoQuota")
    stage.add_nodes(2, labels={"pool": "spot"})
    research.until_started("second", 2)
    research.end("second")
    research.until_started("first", 2)
    research.end("first")
