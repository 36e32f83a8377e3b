"""A pod of a Job with a podFailurePolicy that others evict."""

from __future__ import annotations

import pytest

from devcluster.api import Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.place import Place, conditions, paused
from tests.facts.test_node_loss import IGNORES_DISRUPTION

GRACE_S = 30


def evict(place: Place, pod: str, *, properly: bool) -> None:
    """Through the Eviction API, or by a plain deletion."""
    if properly:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
        place.api.create(f"{place.pods}/{pod}/eviction", eviction)
    else:
        place.api.delete(f"{place.pods}/{pod}")


def end(place: Place, pod: Object) -> None:
    """End the pod as its kubelet does: it says Failed when the containers have been killed. kwok never says so."""
    killed = {"terminated": {"exitCode": 137, "reason": "Error"}}
    container = {"name": "main", "image": "train", "imageID": "", "ready": False, "restartCount": 0, "state": killed}
    status = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    place.api.patch(f"{place.pods}/{pod['metadata']['name']}/status", status)


@fact(
    "evicted.policy",
    "A pod of a Job with `backoffLimit: 0` and a `podFailurePolicy` that ignores DisruptionTarget is "
    "evicted through the Eviction API, or deleted.",
    result="Nothing counts while it terminates. When it has Failed: evicted, its failure is ignored, and a "
    "replacement is created. Deleted, it lacks the condition DisruptionTarget, and the Job fails "
    "(BackoffLimitExceeded).",
    consequence="Such a Job survives drains and preemption, and loses a slot for as long as the pod terminates. "
    "To take a single pod of it, use the Eviction API, never a deletion.",
    for_users=True,
)
@pytest.mark.parametrize("properly", [True, False], ids=["evicted", "deleted"])
def test_evicted(place: Place, scheduler: Scheduler, properly: bool) -> None:
    place.add_nodes(1)
    template = {"spec": {"terminationGracePeriodSeconds": GRACE_S}}
    place.create_job(slots=2, template=template, podFailurePolicy=IGNORES_DISRUPTION)
    place.until_job(lambda job: job["status"].get("ready") == 2)
    victim = place.pods_of()[0]["metadata"]["name"]
    with paused(place.cluster, "kwok"):
        evict(place, victim, properly=properly)
        leaving = place.until_job(lambda job: job["status"].get("terminating") == 1)
        assert (leaving["status"]["active"], leaving["status"].get("failed")) == (1, None)
        pods = place.pods_of()
        assert len(pods) == 2
        pod = next(member for member in pods if member["metadata"]["name"] == victim)
        assert (conditions(pod).get("DisruptionTarget") == "True") is properly
        end(place, pod)
        if properly:
            again = place.until_job(lambda job: job["status"].get("active") == 2)
            assert again["status"].get("failed") is None
        else:
            failed = place.until_job(lambda job: conditions(job).get("FailureTarget") == "True")
            reasons = {
                condition["reason"]
                for condition in failed["status"]["conditions"]
                if condition["type"] == "FailureTarget"
            }
            assert reasons == {"BackoffLimitExceeded"}
            place.until_pods(lambda pods: all("deletionTimestamp" in member["metadata"] for member in pods))
    if properly:
        place.until_job(lambda job: job["status"].get("ready") == 2)
