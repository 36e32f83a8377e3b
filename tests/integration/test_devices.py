"""Devices that drivers publish (DRA), on a real control plane: kube-scheduler allocates them, Muster counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from devcluster import Cluster
from devcluster.muster import RunningMuster
from tests.integration.stage import RealStage
from tests.scenarios.pods import bound, gang, pod
from tests.scenarios.stage import Object

pytestmark = pytest.mark.xdist_group("doctor")
DRA = "/apis/resource.k8s.io/v1"
CLASS, DRIVER = "gpu.example.com", "gpu.example.com"
Offer = Callable[..., None]


@pytest.fixture
def offer(stage: RealStage) -> Iterator[Offer]:
    """Publish devices as a driver does; they are deleted at the end of the test."""
    made: list[str] = []

    def create(kind: str, obj: Object) -> None:
        stage.api.create(f"{DRA}/{kind}", obj)
        made.append(f"{DRA}/{kind}/{obj['metadata']['name']}")

    def publish(
        nodes: int, *kinds: str, resource: str = "", driver: str = DRIVER, shared: str = "", clique: str = ""
    ) -> None:
        """Nodes with a device of each of these kinds, or one pool of devices that all nodes share; and a class."""
        spec: Object = {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}]}
        create(
            "deviceclasses", {"metadata": {"name": driver}, "spec": spec | {"extendedResourceName": resource or None}}
        )
        names = stage.add_nodes(nodes, gpus=0, clique=clique) if nodes else [shared]
        for name in names:
            pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
            devices = [
                {
                    "name": f"{kind}-{at}",
                    "attributes": {"kind": {"string": kind}},
                    "capacity": {"memory": {"value": "80Gi" if kind == "large" else "40Gi"}},
                }
                for at, kind in enumerate(kinds)
            ]
            where = {"allNodes": True} if shared else {"nodeName": name}
            create(
                "resourceslices",
                {
                    "metadata": {"name": f"{name}-{driver}"},
                    "spec": {"driver": driver, "pool": pool, "devices": devices} | where,
                },
            )

    yield publish
    for path in reversed(made):
        stage.api.delete(path)


def template(stage: RealStage, name: str, *requests: Object) -> None:
    spec = {"spec": {"devices": {"requests": list(requests)}}}
    path = f"{DRA}/namespaces/{stage.namespace}/resourceclaimtemplates"
    stage.api.create(path, {"metadata": {"name": name}, "spec": spec})


def asking(count: int = 1, expression: str = "", driver: str = DRIVER, name: str = "gpu") -> Object:
    selectors = [{"cel": {"expression": expression}}] if expression else []
    return {"name": name, "exactly": {"deviceClassName": driver, "count": count, "selectors": selectors}}


def claiming(name: str, size: int, stage: RealStage, **claims: str) -> list[Object]:
    """A gang whose pods have these claims, made of templates, or with ``@`` before its name one that is there."""
    uses = [
        {"name": use, "resourceClaimName": of[1:]}
        if of.startswith("@")
        else {"name": use, "resourceClaimTemplateName": of}
        for use, of in claims.items()
    ]
    return gang(name, size, gpus=0, resourceClaims=uses)


def job(name: str, stage: RealStage) -> Object:
    """A job for Muster's admission, of two pods with a GPU each, for the nodes of that stage alone."""
    home = {"schedulerName": "muster", "nodeSelector": {"stage": stage.namespace}}
    spec = pod("", gpus=1)["spec"] | {"restartPolicy": "Never"} | home
    how = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "suspend": True}
    meta = {"name": name, "labels": {"muster.dev/gang": "true"}}
    return {"metadata": meta, "spec": how | {"template": {"spec": spec}}}


def test_gpus_that_a_class_offers_as_an_extended_resource_start_gangs_and_jobs(stage: RealStage, offer: Offer) -> None:
    offer(2, "large", "large", "large", resource="nvidia.com/gpu")
    stage.create(pod("single", gpus=1), *gang("bypods", 2, gpus=1))
    stage.until(
        lambda pods: (
            len(bound(pods, "bypods")) == 2 and any(seen_pod.name == "single" and seen_pod.node for seen_pod in pods)
        )
    )
    stage.api.create(f"/apis/batch/v1/namespaces/{stage.namespace}/jobs", job("planned", stage))
    stage.until(
        lambda pods: len([member for member in pods if member.name.startswith("planned-") and member.node]) == 2
    )
    stage.create_all(gang("more", 2, gpus=1))
    assert "1 of 2 members fit at once" in stage.until_told("more", lambda seen: seen.state == "NoRoom").message


def test_a_gang_uses_what_a_node_lists_and_the_devices_of_another_one(stage: RealStage, offer: Offer) -> None:
    offer(1, "large", "large", resource="nvidia.com/gpu")
    stage.add_nodes(1, gpus=2)
    stage.create_all(gang("train", 4, gpus=1))
    stage.until(lambda pods: len(bound(pods, "train")) == 4)
    assert len({member.node for member in bound(stage.pods(), "train")}) == 2
    stage.create_all(gang("more", 1, gpus=1))
    stage.until_told("more", lambda seen: seen.state == "NoRoom")


def test_a_gang_with_claims_starts_where_devices_are_free_and_the_next_waits_for_them(
    stage: RealStage, offer: Offer
) -> None:
    offer(2, "large", "large", "small", "small")
    template(stage, "two", asking(2, f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('40Gi'))"))
    template(stage, "any", asking())
    stage.create_all(claiming("large", 2, stage, gpu="two"))
    stage.until(lambda pods: len(bound(pods, "large")) == 2)
    stage.create_all(claiming("late", 1, stage, gpu="two"))
    stage.until_told("late", lambda seen: seen.state == "NoRoom")
    stage.create_all(claiming("small", 4, stage, gpu="any"))
    stage.until(lambda pods: len(bound(pods, "small")) == 4)
    assert not bound(stage.pods(), "late")


def test_a_gang_whose_template_is_missing_says_so_and_starts_when_it_comes(stage: RealStage, offer: Offer) -> None:
    offer(2, "large")
    stage.create_all(claiming("train", 2, stage, channel="later"))
    message = stage.until_told("train", lambda seen: seen.state == "ResourceClaims").message
    assert message.startswith("there is no ResourceClaimTemplate later, which pod train-")
    template(stage, "later", asking())
    stage.until(lambda pods: len(bound(pods, "train")) == 2)


def test_a_device_of_ones_own_and_one_in_common_of_all_nodes(stage: RealStage, offer: Offer) -> None:
    """kubernetes/kubernetes#139016, as a gang of 2."""
    offer(2, "large")
    offer(0, "switch", driver="fabric.example.com", shared="fabric")
    template(stage, "own", asking())
    path = f"{DRA}/namespaces/{stage.namespace}/resourceclaims"
    spec = {"devices": {"requests": [asking(driver="fabric.example.com")]}}
    stage.api.create(path, {"metadata": {"name": "common"}, "spec": spec})
    stage.create_all(claiming("train", 2, stage, gpu="own", fabric="@common"))
    stage.until(lambda pods: len(bound(pods, "train")) == 2)
    assert len({member.node for member in bound(stage.pods(), "train")}) == 2


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
        message = other.until_told("mine", lambda seen: seen.state == "NoRoom").message
        assert f"held there by {stage.namespace}/secret (ends unknown)" in message, "an operator reads its name"
