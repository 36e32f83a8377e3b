"""The writes of kube-scheduler before it asks an extender to bind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.scheduler import Scheduler
from tests.facts.claims import (
    claim_of,
    node_of,
    offer_devices,
    offer_volume,
    reserved_for,
    volume_claims,
)
from tests.facts.fact import fact
from tests.facts.holder import Holder
from tests.facts.place import Place, until

NAME = "prebind-scheduler"


@pytest.fixture
def holder(cluster: Cluster) -> Iterator[Holder]:
    """An extender that holds the binds of the pods held-0, held-1, ..."""
    with Holder(cluster.api, "held-") as extender:
        yield extender


def configuration(holder: Holder) -> Object:
    return {
        "leaderElection": {"leaderElect": False},
        "profiles": [{"schedulerName": NAME}],
        # A pod that failed is tried again soon: remains stay in spite of that.
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 1,
        "extenders": [holder.entry()],
    }


@pytest.fixture
def scheduler(cluster: Cluster, holder: Holder) -> Iterator[Scheduler]:
    started = cluster.start_scheduler(configuration(holder), name=NAME)
    yield started
    started.kill()


def create_pod(place: Place, name: str, **spec: object) -> None:
    """A pod of this scheduler, on the nodes of this fact."""
    container: Object = {"name": "main", "image": "train"}
    if "resourceClaims" in spec:
        container["resources"] = {"claims": [{"name": "gpu"}]}
    common = {"schedulerName": NAME, "nodeSelector": {"fact": place.namespace}, "containers": [container]}
    place.api.create(place.pods, {"metadata": {"name": name}, "spec": common | spec})


def create_pod_with_device(place: Place, name: str) -> None:
    create_pod(place, name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "gpu"}])


def pod(place: Place, name: str) -> Object:
    return place.api.get(f"{place.pods}/{name}")


def why_unscheduled(place: Place, name: str) -> str:
    """The message of the pod's condition PodScheduled."""
    conditions = pod(place, name)["status"].get("conditions", [])
    return next((condition.get("message", "") for condition in conditions if condition["type"] == "PodScheduled"), "")


def refuse(place: Place, holder: Holder) -> None:
    """The bind that is held fails, and the extender lets the pod pass no more."""
    until(lambda: holder.held, lambda held: held == 1)
    holder.rejects = True
    holder.settle("refused by the test")
    until(lambda: why_unscheduled(place, "held-0"), lambda message: "kept back" in message)


def bound(place: Place, name: str) -> str:
    """Wait for its Binding; the node."""
    stored = place.api.wait_for(f"{place.pods}/{name}", lambda obj: obj is not None and "nodeName" in obj["spec"])
    return str(stored["spec"]["nodeName"])


@fact(
    "prebind.claim",
    "A pod with a ResourceClaim of its own (DRA); the extender holds its bind.",
    result="Before the extender is asked: the claim is allocated to a device of the node and reserved for the pod, and "
    "the pod has `nominatedNodeName`. Two writes to the claim and one to the pod.",
    consequence="To hold a bind holds devices, too, in the API. The quorum belongs before PreBind for such pods.",
    slow=True,
)
@pytest.mark.usefixtures("scheduler")
def test_a_claim_before_the_bind(place: Place, holder: Holder) -> None:
    (node,) = place.add_nodes(1)
    offer_devices(place, [node])
    create_pod_with_device(place, "held-0")
    until(lambda: holder.held, lambda held: held == 1)
    claim = claim_of(place, "held-0")
    assert node_of(claim) == node
    assert reserved_for(claim) == ["held-0"]
    assert claim["metadata"]["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert "nodeName" not in pod(place, "held-0")["spec"]
    assert pod(place, "held-0")["status"]["nominatedNodeName"] == node


@fact(
    "prebind.claim-refused",
    "The extender refuses that bind, and then the pod in filter; another pod wants the only device.",
    result="The reservation is revoked at once, the allocation is not: the other pod is Unschedulable (`cannot "
    "allocate all claims`) until the first pod is deleted. Then it gets the device.",
    consequence="A gang whose holds end after PreBind keeps its devices against everybody. Muster has to take the "
    "allocation back itself (`resourceclaims/status`), or to end the holds before PreBind.",
    slow=True,
)
@pytest.mark.usefixtures("scheduler")
def test_a_claim_after_a_refused_bind(place: Place, holder: Holder) -> None:
    (node,) = place.add_nodes(1)
    offer_devices(place, [node])
    create_pod_with_device(place, "held-0")
    refuse(place, holder)
    assert reserved_for(claim_of(place, "held-0")) == []
    create_pod_with_device(place, "other")
    until(lambda: why_unscheduled(place, "other"), lambda message: "cannot allocate all claims" in message)
    assert node_of(claim_of(place, "held-0")) == node
    place.api.delete(f"{place.pods}/held-0", {"gracePeriodSeconds": 0})
    assert bound(place, "other") == node


@fact(
    "prebind.claim-moves",
    "The same, and a second node with a free device that passes every other filter.",
    result="The pod's next attempt fails on the second node, because its claim is allocated on the first. PostFilter "
    "then takes the allocation back, and another pod gets that device.",
    consequence="kube-scheduler frees devices only in an attempt of the pod itself, and only where another node comes "
    "as far as the filter of devices: in a full cluster nothing does.",
    slow=True,
)
@pytest.mark.usefixtures("scheduler")
def test_a_claim_is_taken_back_where_another_node_is_tried(place: Place, holder: Holder) -> None:
    nodes = place.add_nodes(2)
    offer_devices(place, nodes)
    create_pod_with_device(place, "held-0")
    refuse(place, holder)
    until(lambda: node_of(claim_of(place, "held-0")), lambda node: node == "")
    for name in ("other", "third"):
        create_pod_with_device(place, name)
    assert {bound(place, "other"), bound(place, "third")} == set(nodes)


@fact(
    "prebind.claim-restart",
    "kube-scheduler is killed while the bind is held, and started again.",
    result="The claim stays allocated and reserved; the new process asks for the bind of the same pod to the same "
    "node.",
    consequence="A restart of kube-scheduler keeps a gang of such pods together on its nodes.",
    slow=True,
)
def test_a_claim_over_a_restart(cluster: Cluster, place: Place, holder: Holder, scheduler: Scheduler) -> None:
    offer_devices(place, place.add_nodes(4))
    create_pod_with_device(place, "held-0")
    until(lambda: holder.held, lambda held: held == 1)
    before = claim_of(place, "held-0")
    scheduler.kill()
    until(lambda: holder.held, lambda held: held == 0)
    left = claim_of(place, "held-0")
    assert (node_of(left), reserved_for(left)) == (node_of(before), ["held-0"])
    again = cluster.start_scheduler(configuration(holder), name=f"{NAME}-again")
    place.afterwards(again.kill)
    until(lambda: holder.held, lambda held: held == 1)
    holder.settle()
    assert bound(place, "held-0") == node_of(before)


def volume_bound(place: Place) -> bool:
    """The claim has its volume, for the API and not for kube-scheduler alone."""
    claim = place.api.get(f"{volume_claims(place)}/data")
    return bool(claim["status"]["phase"] == "Bound" and claim["spec"].get("volumeName") == place.namespace)


def create_pod_with_volume(place: Place, name: str) -> None:
    create_pod(place, name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])


@fact(
    "prebind.volume",
    "A pod with a volume that waits for its first consumer; the extender holds its bind.",
    result="Before the extender is asked the volume is bound to the claim, on the node that kube-scheduler chose.",
    consequence="As with devices: to hold a bind is too late to choose another node.",
    slow=True,
)
@pytest.mark.usefixtures("scheduler")
def test_a_volume_before_the_bind(place: Place, holder: Holder) -> None:
    (node,) = place.add_nodes(1)
    offer_volume(place, node)
    assert not volume_bound(place)
    create_pod_with_volume(place, "held-0")
    until(lambda: holder.held, lambda held: held == 1)
    assert volume_bound(place)
    assert "nodeName" not in pod(place, "held-0")["spec"]


@fact(
    "prebind.volume-refused",
    "The extender refuses that bind, the pod is deleted; another pod uses the claim while the node is cordoned.",
    result="Claim and volume stay bound, whatever becomes of the pod: every pod that uses the claim fits on that node "
    "alone, and is Unschedulable until it is uncordoned.",
    consequence="No component takes a bound volume back. Plan pods with unbound volumes once, and keep to the node.",
    slow=True,
)
@pytest.mark.usefixtures("scheduler")
def test_a_volume_after_a_refused_bind(place: Place, holder: Holder) -> None:
    node, _ = place.add_nodes(2)
    offer_volume(place, node)
    create_pod_with_volume(place, "held-0")
    refuse(place, holder)
    assert volume_bound(place)
    place.api.delete(f"{place.pods}/held-0", {"gracePeriodSeconds": 0})
    place.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    create_pod_with_volume(place, "other")
    until(lambda: why_unscheduled(place, "other"), lambda message: "node" in message)
    assert volume_bound(place)
    place.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": False}})
    assert bound(place, "other") == node
