"""A claim of each pod's own and one in common, on the newest Kubernetes and on the one before.

Users of other schedulers have reported it; each case has its right outcome.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.binaries import ASKED_BY
from devcluster.muster import RunningMuster, install_gate, start_muster
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gated, pod

pytestmark = pytest.mark.xdist_group("field-cases-devices")

VERSIONS = ["the asked one"] if ASKED_BY in os.environ else ["1.37", "1.36"]


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(kubernetes="" if ASKED_BY in os.environ else request.param) as running:
        yield running


@pytest.fixture(scope="module")
def muster(cluster: Cluster) -> RunningMuster:
    running = start_muster(cluster)
    install_gate(cluster)
    return running


DRA = "/apis/resource.k8s.io/v1"


@pytest.fixture
def fabric(stage: RealStage) -> Iterator[None]:
    """Three nodes with a GPU each, and one device of a fabric that all nodes reach."""
    made = []

    def create(plural: str, obj: Object) -> None:
        made.append(f"{DRA}/{plural}/{obj['metadata']['name']}")
        stage.api.create(f"{DRA}/{plural}", obj)

    for name in ("gpu", "fabric"):
        chosen = [{"cel": {"expression": f"device.driver == '{name}.example.com'"}}]
        create("deviceclasses", {"metadata": {"name": f"{name}.example.com"}, "spec": {"selectors": chosen}})
    pool: Object = {"generation": 1, "resourceSliceCount": 1}
    for node in stage.add_nodes(3, gpus=0):
        spec: Object = {"driver": "gpu.example.com", "nodeName": node, "pool": {"name": node, **pool}}
        create("resourceslices", {"metadata": {"name": node}, "spec": {**spec, "devices": [{"name": "gpu-0"}]}})
    common: Object = {"driver": "fabric.example.com", "allNodes": True, "pool": {"name": "fabric", **pool}}
    create("resourceslices", {"metadata": {"name": "fabric"}, "spec": {**common, "devices": [{"name": "fabric-0"}]}})

    def asks(name: str) -> Object:
        exactly = {"deviceClassName": f"{name}.example.com"}
        return {"devices": {"requests": [{"name": "one", "exactly": exactly}]}}

    home = f"{DRA}/namespaces/{stage.namespace}"
    stage.api.create(f"{home}/resourceclaimtemplates", {"metadata": {"name": "own"}, "spec": {"spec": asks("gpu")}})
    stage.api.create(f"{home}/resourceclaims", {"metadata": {"name": "common"}, "spec": asks("fabric")})
    yield
    for path in made:
        stage.api.delete(path)


def claiming(one: Object) -> Object:
    """The pod, with a claim of its own and the one in common."""
    claims = {"own": "resourceClaimTemplateName", "common": "resourceClaimName"}
    one["spec"]["resourceClaims"] = [{"name": name, field: name} for name, field in claims.items()]
    one["spec"]["containers"][0]["resources"]["claims"] = [{"name": name} for name in claims]
    return one


@pytest.mark.usefixtures("fabric")
def test_two_pods_with_a_claim_of_their_own_and_one_in_common_run(stage: RealStage) -> None:
    """Each node has one GPU, and the device in common is reached from both. kubernetes#139016, kubernetes#137617"""
    stage.create(*(claiming(pod(f"pod-{at}", gpus=0)) for at in range(2)))
    pods = stage.wait(stage.pods, lambda pods: sum(bool(member.node) for member in pods) == 2, 20.0)
    assert len({member.node for member in pods}) == 2


@pytest.mark.usefixtures("fabric")
def test_a_gang_whose_pods_share_a_claim_runs(stage: RealStage) -> None:
    """The same two pods as a gang. kubernetes#139016, kubernetes#137617"""
    stage.create(*map(claiming, gated("both", 2, gpus=0)))
    pods = stage.until(lambda pods: len(bound(pods, "both")) == 2)
    assert len({member.node for member in bound(pods, "both")}) == 2


@pytest.mark.usefixtures("fabric")
def test_a_gang_whose_pods_share_a_claim_holds_none_of_it_while_it_waits(stage: RealStage) -> None:
    """Four pods, and three GPUs. kubernetes#139016, kubernetes#137617"""
    stage.create(*map(claiming, gated("all", 4, gpus=0)))
    stage.until_told("all", lambda seen: seen.state == "NoRoom")
    claims = stage.api.list(f"{DRA}/namespaces/{stage.namespace}/resourceclaims")
    assert not any("allocation" in claim.get("status", {}) for claim in claims)
