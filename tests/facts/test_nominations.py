"""Nominations: the room that they keep."""

from __future__ import annotations

from devcluster.api import Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.place import Place, until


def pod(place: Place, name: str, **spec: object) -> Object:
    """A pod that takes the node of this fact."""
    container = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "8"}}}
    common = {"nodeSelector": {"fact": place.namespace}, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return place.api.create(place.pods, {"metadata": {"name": name}, "spec": common | spec})


def state_of(place: Place, name: str) -> tuple[str, str]:
    """Return its node, and why it has none."""
    stored = place.api.get(f"{place.pods}/{name}")
    conditions = {
        condition["type"]: condition.get("message", "") for condition in stored["status"].get("conditions", [])
    }
    return stored["spec"].get("nodeName", ""), conditions.get("PodScheduled", "")


@fact(
    "nomination.gated",
    "A pod with a scheduling gate has `status.nominatedNodeName`; a pod of the same priority asks for the room, and "
    "one of a higher priority.",
    result="The room is kept from the pod of the same priority until the nomination is cleared. The pod of a higher "
    "priority gets it.",
    consequence="Muster's nominations hold the room of gated members against equal and lower priority. Nothing "
    "rests on it: filter refuses promised room to all pods of its kube-scheduler.",
)
def test_the_nomination_of_a_gated_pod_holds_room(place: Place, scheduler: Scheduler) -> None:
    (node,) = place.add_nodes(1)
    classes, urgent = "/apis/scheduling.k8s.io/v1/priorityclasses", f"urgent-{place.namespace}"
    place.api.create(classes, {"metadata": {"name": urgent}, "value": 1000, "preemptionPolicy": "Never"})
    place.afterwards(lambda: place.api.delete(f"{classes}/{urgent}"))
    pod(place, "gated", schedulingGates=[{"name": "example.com/held"}])
    nominated = f"{place.pods}/gated/status"
    place.api.patch(nominated, {"status": {"nominatedNodeName": node}})
    pod(place, "same")
    until(lambda: state_of(place, "same"), lambda seen: "Insufficient nvidia.com/gpu" in seen[1])
    pod(place, "higher", priorityClassName=urgent)
    until(lambda: state_of(place, "higher"), lambda seen: seen[0] == node)
    assert state_of(place, "same")[0] == ""
    place.api.delete(f"{place.pods}/higher")
    place.api.wait_for(f"{place.pods}/higher", lambda obj: obj is None)
    assert state_of(place, "same")[0] == ""
    place.api.patch(nominated, {"status": {"nominatedNodeName": None}})
    until(lambda: state_of(place, "same"), lambda seen: seen[0] == node)
