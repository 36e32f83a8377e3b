"""The objects that a pod may need and that are written in PreBind: a device of a node, or a volume of a node."""

from __future__ import annotations

from functools import partial

from devcluster.api import Object
from tests.facts.place import Place

RESOURCE = "/apis/resource.k8s.io/v1"
STORAGE = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


def offer_devices(place: Place, nodes: list[str]) -> None:
    """Create one device on each node, a class for them, and a template by which each pod gets a claim of its own."""
    name = place.namespace
    selector = {"cel": {"expression": f"device.driver == '{name}.example.com'"}}
    place.api.create(f"{RESOURCE}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": [selector]}})
    place.afterwards(lambda: place.api.delete(f"{RESOURCE}/deviceclasses/{name}"))
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": f"{name}.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        place.api.create(f"{RESOURCE}/resourceslices", {"metadata": {"name": node}, "spec": spec})
        place.afterwards(partial(place.api.delete, f"{RESOURCE}/resourceslices/{node}"))
    request = {"name": "gpu", "exactly": {"deviceClassName": name}}
    place.api.create(
        f"{RESOURCE}/namespaces/{name}/resourceclaimtemplates",
        {"metadata": {"name": "gpu"}, "spec": {"spec": {"devices": {"requests": [request]}}}},
    )


def claim_of(place: Place, pod: str) -> Object:
    """The claim that was made for the pod."""
    claims = place.api.list(f"{RESOURCE}/namespaces/{place.namespace}/resourceclaims")
    return next(claim for claim in claims if claim["metadata"]["ownerReferences"][0]["name"] == pod)


def node_of(claim: Object) -> str:
    """The node whose device is allocated to the claim, if any."""
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", [])
    return str(results[0]["pool"]) if results else ""


def reserved_for(claim: Object) -> list[str]:
    """The names of the pods for which it is reserved."""
    return [consumer["name"] for consumer in claim.get("status", {}).get("reservedFor", [])]


def offer_volume(place: Place, node: str) -> None:
    """Create one local volume on the node, of a class that waits for the first consumer, and a claim for it."""
    name = place.namespace
    provisioner = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    place.api.create(STORAGE, {"metadata": {"name": name}} | provisioner)
    place.afterwards(lambda: place.api.delete(f"{STORAGE}/{name}"))
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    size = {"storage": "1Gi"}
    common = {"storageClassName": name, "accessModes": ["ReadWriteOnce"]}
    local = {"local": {"path": "/data"}, "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}}
    place.api.create(VOLUMES, {"metadata": {"name": name}, "spec": common | local | {"capacity": size}})
    place.afterwards(lambda: place.api.delete(f"{VOLUMES}/{name}"))
    place.api.create(
        volume_claims(place), {"metadata": {"name": "data"}, "spec": common | {"resources": {"requests": size}}}
    )


def volume_claims(place: Place) -> str:
    """The path of the namespace's PersistentVolumeClaims."""
    return f"/api/v1/namespaces/{place.namespace}/persistentvolumeclaims"
