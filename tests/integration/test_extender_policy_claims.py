"""On a real API server: the extender takes an allocation off a ResourceClaim that no pod has reserved, and no more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from extender.core.effects import Deallocate
from extender.kube.writer import KubeApi
from tests.integration.extender import MERGE, Extender
from tests.integration.policed import TEAM, policed

CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{TEAM}/resourceclaims"
DEVICE = {"request": "gpu", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
ALLOCATED: Object = {"allocation": {"devices": {"results": [DEVICE]}}}
PODS = f"/api/v1/namespaces/{TEAM}/pods"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with policed("device-release") as running:
        yield running


def claim(cluster: Cluster, name: str, status: Object) -> str:
    """A claim with that status. Returns its UID."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    made = cluster.api.create(CLAIMS, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}})
    if status:
        cluster.api.patch(f"{CLAIMS}/{name}/status", {"status": status})
    return str(made["metadata"]["uid"])


def test_an_allocation_goes_that_no_pod_has_reserved_and_no_other(cluster: Cluster, extender: Extender) -> None:
    spec = {"schedulerName": "nobody", "containers": [{"name": "main", "image": "work"}]}
    pod = cluster.api.create(PODS, {"metadata": {"name": "user"}, "spec": spec})
    user = {"resource": "pods", "name": "user", "uid": pod["metadata"]["uid"]}
    free, used = claim(cluster, "free", ALLOCATED), claim(cluster, "used", ALLOCATED | {"reservedFor": [user]})
    extender.write(Deallocate(free, TEAM, "free"))
    assert "allocation" not in cluster.api.get(f"{CLAIMS}/free").get("status", {})
    answer = extender.do(lambda kube: KubeApi(kube).send(Deallocate(used, TEAM, "used"), 30.0))
    assert answer.status == 412
    taken = {"status": {"allocation": None, "reservedFor": None}}
    assert "no pod has reserved it" in extender.refused("PATCH", f"{CLAIMS}/used/status", taken, MERGE)


def test_the_extender_writes_no_allocation(cluster: Cluster, extender: Extender) -> None:
    claim(cluster, "new", {})
    refusal = extender.refused("PATCH", f"{CLAIMS}/new/status", {"status": ALLOCATED}, MERGE)
    assert "may only take the allocation off" in refusal
