"""How claims, volumes, classes and capacities are read, with the claims from templates of a StatefulSet."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.core.events import CapacitySeen, ClaimSeen, StorageClassSeen, StorageDriverSeen, VolumeSeen
from extender.kube.kinds.claims import claim_makers
from extender.kube.kinds.completion import TemplateSpec
from extender.kube.kinds.kind import UnreadableJobError
from extender.kube.reading.identity import UnreadableError
from extender.kube.reading.objects import (
    CapacityObject,
    ClaimObject,
    DriverObject,
    StorageClassObject,
    VolumeObject,
)
from extender.kube.reading.volumes import (
    capacity_from,
    claim_from,
    driver_from,
    ephemeral_makers,
    storage_class_from,
    volume_from,
)
from policies.model import Requirement
from policies.model.storage import Capacity, ClaimMaker, Storage, StorageClass

GIB = 1 << 30
ASKED = {"storageClassName": "local", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
LOCAL = Storage("local", 10 * GIB, ("ReadWriteOnce",))


def claim(meta: dict[str, Any] | None = None, phase: str = "Pending", **spec: Any) -> ClaimSeen:
    named = {"name": "data", "namespace": "team", "uid": "u", **(meta or {})}
    obj = {"metadata": named, "spec": {**ASKED, **spec}, "status": {"phase": phase}}
    return claim_from(msgspec.convert(obj, ClaimObject))


def test_what_a_claim_asks_for() -> None:
    assert claim() == ClaimSeen("team", "data", False, LOCAL)  # noqa: FBT003
    more = claim(volumeMode="Block", volumeAttributesClassName="gold", selector={"matchLabels": {"disk": "nvme"}}).asks
    assert (more.block, more.attributes, more.selector) == (True, "gold", (Requirement("disk", "In", ("nvme",)),))


def test_the_annotation_of_its_class_goes_before_the_field() -> None:
    assert claim({"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}).asks.storage_class == "old"


def test_what_holds_a_claim_to_nodes_and_pods() -> None:
    annotations = {"volume.kubernetes.io/selected-node": "n1"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "pod-1", "controller": True}
    seen = claim({"annotations": annotations, "ownerReferences": [owner]}, volumeName="pv")
    assert (seen.node, seen.owner, seen.volume, seen.bound) == ("n1", "pod-1", "pv", False)
    assert claim({"deletionTimestamp": "2026-01-01T00:00:00Z"}).trouble == "is being deleted"
    assert claim(phase="Lost", volumeName="pv").trouble == "has lost its volume"


def test_an_amount_that_is_none_is_told() -> None:
    with pytest.raises(UnreadableError, match="much"):
        claim(resources={"requests": {"storage": "much"}})


def volume(phase: str, meta: dict[str, Any] | None = None, **spec: Any) -> VolumeSeen | None:
    fields = {**ASKED, "capacity": {"storage": "10Gi"}, **spec}
    obj = {"metadata": {"name": "pv", "uid": "u", **(meta or {})}, "spec": fields, "status": {"phase": phase}}
    return volume_from(msgspec.convert(obj, VolumeObject))


def test_a_free_volume_and_one_that_is_kept_for_a_claim() -> None:
    assert volume("Available") == VolumeSeen("pv", "", "", None, False, LOCAL)  # noqa: FBT003
    kept = volume("Available", claimRef={"namespace": "team", "name": "data"})
    assert kept is not None
    assert (kept.namespace, kept.claim, kept.bound) == ("team", "data", False)


@pytest.mark.parametrize("phase", ["Pending", "Released", "Failed", "Bound"])
def test_volumes_that_concern_nobody(phase: str) -> None:
    assert volume(phase, claimRef=None if phase != "Bound" else {"namespace": "team", "name": "data"}) is None
    assert volume("Available", {"deletionTimestamp": "2026-01-01T00:00:00Z"}) is None


def test_a_class_with_its_topologies() -> None:
    obj = {
        "metadata": {"name": "zonal"},
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
    }
    nodes = ((Requirement("zone", "In", ("a", "b")),),)
    known = StorageClass("zonal", "disk.example.com", waits=True, topologies=nodes)
    assert storage_class_from(msgspec.convert(obj, StorageClassObject)) == StorageClassSeen(known)
    plain = storage_class_from(msgspec.convert({"metadata": {"name": "now"}}, StorageClassObject))
    assert plain == StorageClassSeen(StorageClass("now"))


def test_drivers_and_capacities() -> None:
    obj = {"metadata": {"name": "lvm.example.com"}, "spec": {"storageCapacity": True}}
    assert driver_from(msgspec.convert(obj, DriverObject)) == StorageDriverSeen("lvm.example.com", counts=True)
    of_node = {
        "metadata": {"name": "c", "namespace": "storage"},
        "storageClassName": "lvm",
        "capacity": "100Gi",
        "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": "n1"}},
    }
    nodes = ((Requirement("kubernetes.io/hostname", "In", ("n1",)),),)
    known = Capacity("storage", "c", "lvm", nodes, 100 * GIB)
    assert capacity_from(msgspec.convert(of_node, CapacityObject)) == CapacitySeen(known)
    assert capacity_from(msgspec.convert({**of_node, "nodeTopology": None}, CapacityObject)) is None
    everywhere = capacity_from(msgspec.convert({**of_node, "nodeTopology": {}}, CapacityObject))
    assert everywhere is not None
    assert everywhere.capacity.nodes is None


def test_a_stateful_set_makes_claims_of_its_templates() -> None:
    obj = {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": ASKED}]}}
    assert claim_makers(obj, "spec.volumeClaimTemplates", "web") == (ClaimMaker("data", LOCAL, "web"),)
    with pytest.raises(UnreadableJobError, match="volumeClaimTemplates cannot be read"):
        claim_makers({"spec": {"volumeClaimTemplates": ["data"]}}, "spec.volumeClaimTemplates")


def test_the_ephemeral_volumes_of_a_template_make_claims_for_each_pod() -> None:
    spec = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": ASKED}}}]}
    read = msgspec.convert(spec, TemplateSpec)
    assert ephemeral_makers(read.volumes or ()) == (ClaimMaker("scratch", LOCAL, ephemeral=True),)
