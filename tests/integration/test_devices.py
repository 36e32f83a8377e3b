"""GPUs that DRA offers as an extended resource, and whose workloads a reason names, on a real control plane."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gang, pod
from tests.scenarios.stage import Object

pytestmark = pytest.mark.xdist_group("doctor")
DRA = "/apis/resource.k8s.io/v1"
CLASS, DRIVER = "gpu.example.com", "gpu.example.com"


@pytest.fixture
def offered(stage: RealStage) -> Iterator[None]:
    """Two nodes whose allocatable has no GPU, and four devices on each that a DeviceClass offers."""
    chosen = {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]}
    made = [f"{DRA}/deviceclasses/{CLASS}"]
    stage.api.create(
        f"{DRA}/deviceclasses",
        {"metadata": {"name": CLASS}, "spec": {"extendedResourceName": "nvidia.com/gpu"} | chosen},
    )
    for node in stage.add_nodes(2, gpus=0):
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"gpu-{at}"} for at in range(4)]
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
        stage.api.create(f"{DRA}/resourceslices", {"metadata": {"name": node}, "spec": spec})
        made.append(f"{DRA}/resourceslices/{node}")
    yield
    for path in made:
        stage.api.delete(path)


def job(name: str, stage: RealStage) -> Object:
    """A job that Muster is to admit, of two pods with a GPU each, for the nodes of that stage alone."""
    home = {"schedulerName": "muster", "nodeSelector": {"stage": stage.namespace}}
    spec = pod("", gpus=1)["spec"] | {"restartPolicy": "Never"} | home
    how = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "suspend": True}
    meta = {"name": name, "labels": {"muster.dev/gang": "true"}}
    return {"metadata": meta, "spec": how | {"template": {"spec": spec}}}


@pytest.mark.usefixtures("offered")
def test_gpus_that_dra_offers_are_the_reason_of_gangs_and_jobs_and_pods_get_them(stage: RealStage) -> None:
    stage.create(pod("single", gpus=1), *gang("bypods", 2, gpus=1))
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job("planned", stage))
    said = f"nvidia.com/gpu is offered by DRA (DeviceClass {CLASS}), and no node lists it: gangs do not support DRA yet"
    for name in ("bypods", "job-planned"):
        assert stage.until_told(name, lambda seen: seen.state == "OfferedByDra").message == said
    assert said in stage.until_noted("bypods", "OfferedByDra")
    stage.until(lambda pods: any(one.name == "single" and one.node for one in pods))
    assert not bound(stage.pods(), "bypods")


def test_an_event_counts_the_workloads_of_another_namespace(
    cluster: Cluster, muster: RunningMuster, stage: RealStage
) -> None:
    stage.add_nodes(3, clique="a")
    stage.create_all(gang("secret", 2))
    stage.until(lambda pods: len(bound(pods, "secret")) == 2)
    with RealStage(cluster, muster) as other:
        other.create_all(gang("mine", 2, topology="nvidia.com/gpu.clique", nodeSelector={"stage": stage.namespace}))
        noted = other.until_noted("mine", "NoRoom")
        assert "; held there by a workload of another namespace; " in noted
        assert "secret" not in noted
        told = other.until_told("mine", lambda seen: seen.state == "NoRoom").message
        assert f"held there by {stage.namespace}/secret (ends unknown)" in told, "an operator reads its name"
