"""On a real API server: which Workloads of kueue.x-k8s.io the extender's account may write, and which it may not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import install, install_crds_of
from tests.integration.extender import MERGE, Extender
from tests.integration.team import Team

pytestmark = pytest.mark.xdist_group("policy-workloads")

OURS = {"muster.dev/record": "true"}
GROUP = "kueue.x-k8s.io/v1beta2"
ADMITTED = {"conditions": [{"type": "Admitted", "status": "True"}], "admission": {"clusterQueue": "research"}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_crds_of(running, "queues")
        yield running


class Records:
    """The Workloads of a namespace with a job, whose deletion deletes them."""

    def __init__(self, cluster: Cluster) -> None:
        self.api, team = cluster.api, Team(cluster)
        made = team.create(team.job())
        self.path = f"/apis/{GROUP}/namespaces/{team.name}/workloads"
        self.owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": made["metadata"]["uid"]}

    def body(self, name: str = "job-train", /, **meta: Any) -> Object:
        owners = [{**self.owner, "controller": True}]
        spec = {"queueName": "q", "priority": 0, "active": True, "podSets": []}
        metadata = {"name": name, "labels": OURS, "ownerReferences": owners, **meta}
        return {"apiVersion": GROUP, "kind": "Workload", "metadata": metadata, "spec": spec}

    def now(self) -> Object:
        return self.api.get(f"{self.path}/job-train")


@pytest.fixture
def records(cluster: Cluster) -> Records:
    return Records(cluster)


def test_a_record_is_made_and_kept(extender: Extender, records: Records) -> None:
    extender.do(lambda kube: kube.call("POST", records.path, body=records.body()))
    extender.patch(f"{records.path}/job-train", {"spec": {"queueName": "other", "priority": 7}})
    extender.patch(f"{records.path}/job-train/status", {"status": ADMITTED})
    now = records.now()
    assert (now["spec"]["queueName"], now["status"]["admission"]["clusterQueue"]) == ("other", "research")


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {}},
        {"finalizers": ["kueue.x-k8s.io/resource-in-use"]},
        {"ownerReferences": []},
        {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}]},
    ],
)
def test_no_other_is_made(extender: Extender, records: Records, meta: Object) -> None:
    extender.refused("POST", records.path, records.body(**meta), "application/json")


FORBIDDEN: dict[str, Any] = {
    "labels": {"metadata": {"labels": {"muster.dev/record": None}}},
    "more labels": {"metadata": {"labels": {"app": "other"}}},
    "annotations": {"metadata": {"annotations": {"app": "other"}}},
    "finalizers": {"metadata": {"finalizers": ["example.com/held"]}},
    "owner": {"metadata": {"ownerReferences": []}},
    "other fields": {"spec": {"priorityClassRef": {"name": "first"}}},
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_nothing_else_of_it_can_be_changed(extender: Extender, records: Records, what: str) -> None:
    records.api.create(records.path, records.body())
    before = records.now()
    extender.refused("PATCH", f"{records.path}/job-train", FORBIDDEN[what], MERGE)
    assert records.now() == before


def test_a_workload_of_kueue_is_left_alone(extender: Extender, records: Records) -> None:
    records.api.create(records.path, records.body(labels={}))
    for path, change in (("", {"spec": {"queueName": "other"}}), ("/status", {"status": ADMITTED})):
        extender.refused("PATCH", f"{records.path}/job-train{path}", change, MERGE)
    records.api.patch(f"{records.path}/job-train", {"spec": {"queueName": "other"}})
    assert records.now()["spec"]["queueName"] == "other", "everybody else may do as before"
