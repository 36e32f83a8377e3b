"""A node that is lost under a running Job.

One cluster-wide scene for all of them: Jobs on pairs of nodes, one node of each pair falls silent or is deleted.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.place import Place, conditions, until
from tests.facts.silence import NODES, Pair, kubelets_that_fall_silent, tainted, tolerations

IGNORES_DISRUPTION = {
    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
}
# The Pod garbage collector looks every 20 s, and waits 40 s more before it believes that a node is gone.
COLLECTED_S = 150.0


class Scene:
    """The Jobs by their kind of loss. All of their pods ran before the nodes were lost."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.strict = Pair(place, "strict")
        self.retry = Pair(place, "retry", backoffLimit=6)
        self.careful = Pair(place, "careful", backoffLimit=6, podFailurePolicy=IGNORES_DISRUPTION)
        self.again = Pair(place, "again", seconds=None)
        self.waits = Pair(place, "waits", seconds=None, podReplacementPolicy="Failed")
        self.pinned = Pair(place, "pinned", pinned=1, backoffLimit=6)
        self.deleted = Pair(place, "deleted")
        self.forgiven = Pair(place, "forgiven", backoffLimit=0, podFailurePolicy=IGNORES_DISRUPTION)
        self.two_terms = Pair(place, "two-terms", pinned=2, backoffLimit=6)
        self.silent = [self.strict, self.retry, self.careful, self.again, self.waits, self.pinned, self.two_terms]
        self.gone = [self.deleted, self.forgiven]

    def lose(self) -> None:
        """Once every pod runs: silence or delete the nodes, and wait until the silent ones carry the taint."""
        self.place.until_pods(lambda pods: len(pods) == 16 and all(p["status"]["phase"] == "Running" for p in pods))
        self.two_terms.lose_where_it_runs()
        for pair in self.silent:
            pair.silence()
        for pair in self.gone:
            self.place.delete_node(pair.lost)
        self.lost_at = datetime.datetime.now(datetime.UTC)
        silent = {pair.lost for pair in self.silent}
        self.place.api.wait_for(
            NODES, lambda nodes: silent <= {node["metadata"]["name"] for node in nodes if tainted(node)}, 120.0
        )


@pytest.fixture(scope="module")
def scene(cluster: Cluster, scheduler: Scheduler) -> Iterator[Scene]:
    assert scheduler.running
    with kubelets_that_fall_silent(cluster), Place(cluster) as place:
        made = Scene(place)
        made.lose()
        yield made


def reason_of(job: Object) -> str:
    """Why the Job fails or has failed, if so."""
    reasons = (
        condition["reason"] for condition in job["status"].get("conditions", []) if condition["type"] == "FailureTarget"
    )
    return next(reasons, "")


def disruption_of(pod: Object) -> str:
    """The reason of the condition DisruptionTarget, if the pod has it."""
    reasons = (
        condition["reason"]
        for condition in pod["status"].get("conditions", [])
        if condition["type"] == "DisruptionTarget"
    )
    return next(reasons, "")


def unschedulable(pod: Object) -> bool:
    """kube-scheduler has tried it and found no node."""
    return any(condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions", []))


@fact(
    "loss.default-toleration",
    "A pod without tolerations of its own, as the API server admits it.",
    result="It tolerates `not-ready` and `unreachable` with the effect NoExecute for 300 s.",
    consequence="Taint eviction comes 300 s after the taint: 350 s after the last heartbeat with the default grace "
    "period of 50 s. The rows below set 2 s in the template, and a grace period of 12 s.",
    for_users=True,
)
def test_the_default_is_300_seconds(place: Place) -> None:
    place.create_job(slots=1)
    (pod,) = place.until_pods(lambda pods: len(pods) == 1)
    assert sorted(pod["spec"]["tolerations"], key=str) == sorted(tolerations(300), key=str)


@fact(
    "loss.silent",
    "The kubelet of a node falls silent, and the pods on it tolerate that without limit.",
    result="The node is not Ready and gets the taints. Its pods stay Running, with Ready=False and no "
    "`deletionTimestamp`. The Job counts them as active.",
    consequence="No component decides anything yet: the node's Ready condition is the sign to act on, with time left "
    "for it.",
    slow=True,
    for_users=True,
)
def test_a_silent_node(scene: Scene) -> None:
    (pod,) = scene.again.on_lost()
    assert pod["status"]["phase"] == "Running"
    assert "deletionTimestamp" not in pod["metadata"]
    assert {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}["Ready"] == "False"
    node = scene.place.api.get(f"{NODES}/{scene.again.lost}")
    assert {condition["type"]: condition["status"] for condition in node["status"]["conditions"]}["Ready"] == "Unknown"
    status = until(lambda: scene.again.status, lambda status: status["ready"] == 1)
    assert status["active"] == 2


@fact(
    "loss.silent-backoff-0",
    "Taint eviction of one pod on a silent node, Job with `backoffLimit: 0`.",
    result="The pod terminates without an end. The Job gets FailureTarget (BackoffLimitExceeded), and its "
    "healthy pods are deleted and count as failed, too. Its condition Failed never comes.",
    consequence="Muster has to suspend the Job before the toleration ends. FailureTarget, not Failed, says that a Job "
    "is over: with Failed alone its quota would be held by a dead node.",
    slow=True,
    for_users=True,
)
def test_eviction_ends_a_job_without_retries(scene: Scene) -> None:
    job = scene.place.until_job(lambda job: bool(reason_of(job)), "strict")
    assert reason_of(job) == "BackoffLimitExceeded"
    (pod,) = until(lambda: scene.strict.pods, lambda pods: len(pods) == 1)
    assert pod["spec"]["nodeName"] == scene.strict.lost
    assert disruption_of(pod) == "DeletionByTaintManager"
    # The healthy pod terminates, too, for a moment.
    status = until(lambda: scene.strict.status, lambda status: status["terminating"] == 1)
    assert (status["failed"], status.get("active", 0)) == (2, 0)
    assert "Failed" not in {condition["type"] for condition in status["conditions"]}


@fact(
    "loss.silent-retry",
    "The same with `backoffLimit: 6`.",
    result="The evicted pod counts as failed at once, and a replacement of its index is created, which goes "
    "to any node that the template allows.",
    consequence="Two pods of one index exist. Only the one without `deletionTimestamp` is the slot's.",
    slow=True,
    for_users=True,
)
def test_eviction_with_retries(scene: Scene) -> None:
    (spare,) = scene.retry.add_nodes(1)
    status = until(lambda: scene.retry.status, lambda status: status.get("ready") == 2)
    assert (status["active"], status["failed"], status["terminating"]) == (2, 1, 1)
    (evicted,) = scene.retry.on_lost()
    (replacement,) = (pod for pod in scene.retry.pods if pod["spec"]["nodeName"] == spare)
    index = "batch.kubernetes.io/job-completion-index"
    assert replacement["metadata"]["annotations"][index] == evicted["metadata"]["annotations"][index]


@fact(
    "loss.silent-policy",
    "The same with a `podFailurePolicy` that ignores DisruptionTarget (so `podReplacementPolicy: Failed`).",
    result="`active: 1`, `terminating: 1`, `failed: 0`, and no replacement: the phase of the pod never becomes Failed.",
    consequence="Such a Job hangs on a silent node until the Node object is deleted or has the out-of-service taint.",
    slow=True,
    for_users=True,
)
def test_eviction_with_a_policy_that_ignores_it(scene: Scene) -> None:
    status = until(lambda: scene.careful.status, lambda status: status.get("terminating") == 1)
    scene.place.until_job(lambda job: bool(reason_of(job)), "strict")
    assert (status["active"], status.get("failed", 0)) == (1, 0)
    assert len(scene.careful.pods) == 2


@fact(
    "loss.silent-suspended",
    "A Job whose pod sits on a silent node is suspended, and unsuspended when Suspended=True and `active: 0`.",
    result="`failed: 0`. The pod on the silent node stays in `terminating`; the Job starts all its indexes beside it "
    "at once.",
    consequence="Suspension saves the Job. `terminating: 0` must not be waited for when a node is silent.",
    slow=True,
    for_users=True,
)
def test_suspension_on_a_silent_node(scene: Scene) -> None:
    scene.place.patch_job({"spec": {"suspend": True}}, "again")
    stopped = scene.place.until_job(lambda job: conditions(job).get("Suspended") == "True", "again")
    assert stopped["status"].get("failed", 0) == 0
    until(lambda: scene.again.pods, lambda pods: len(pods) == 1)
    scene.again.add_nodes(1)
    scene.place.patch_job({"spec": {"suspend": False}}, "again")
    status = until(lambda: scene.again.status, lambda status: status.get("ready") == 2)
    assert (status["active"], status["terminating"], status.get("failed", 0)) == (2, 1, 0)


@fact(
    "loss.silent-suspended-failed",
    "The same with `podReplacementPolicy: Failed`.",
    result="After the unsuspension only the index whose pod is gone starts; the other waits for its terminating pod.",
    consequence="Refuse to promise a restart for it: the Job needs the node's deletion, or the out-of-service taint.",
    slow=True,
    for_users=True,
)
def test_suspension_with_replacement_after_failure(scene: Scene) -> None:
    scene.place.patch_job({"spec": {"suspend": True}}, "waits")
    scene.place.until_job(lambda job: conditions(job).get("Suspended") == "True", "waits")
    until(lambda: scene.waits.pods, lambda pods: len(pods) == 1)
    scene.waits.add_nodes(1)
    scene.place.patch_job({"spec": {"suspend": False}}, "waits")
    status = until(lambda: scene.waits.status, lambda status: status.get("active", 0) > 0)
    assert (status["active"], status["terminating"]) == (1, 1)


@fact(
    "loss.pinned",
    "The replacement of a pod that is pinned to the silent node by one term (an affinity, or the policy that pins by "
    "index: the index is the same, so is the node).",
    result="Pending, Unschedulable, with idle nodes beside it; so it is after the Node was deleted.",
    consequence="A pin has to be revoked: the running Job's template cannot change, only a policy's list of revoked "
    "slots, more terms, or a suspension can lead the replacement elsewhere.",
    slow=True,
)
def test_the_replacement_of_a_pinned_pod(scene: Scene) -> None:
    (evicted,) = scene.pinned.on_lost()

    def replacement() -> list[Object]:
        return [pod for pod in scene.pinned.pods if pod["metadata"]["uid"] != evicted["metadata"]["uid"]]

    (waiting,) = until(replacement, lambda pods: len(pods) == 1 and unschedulable(pods[0]))
    scene.place.delete_node(scene.pinned.lost)
    until(lambda: scene.pinned.pods, lambda pods: len(pods) == 1, COLLECTED_S)
    (left,) = replacement()
    assert left["metadata"]["uid"] == waiting["metadata"]["uid"]
    assert left["status"]["phase"] == "Pending"
    assert "nodeName" not in left["spec"]


@fact(
    "loss.two-terms",
    "The replacement of a pod whose affinity has two terms, the lost node and a spare.",
    result="It runs on the other node of the two.",
    consequence="A spare in the affinity heals a slot without a write. Nothing says which of the two is the spare: the "
    "room on both has to be kept, or filter has to decide.",
    slow=True,
)
def test_the_replacement_with_a_spare(scene: Scene) -> None:
    pair = scene.two_terms
    until(lambda: pair.status, lambda status: status.get("ready") == 1 and status.get("terminating") == 1)
    living = [pod for pod in pair.pods if "deletionTimestamp" not in pod["metadata"]]
    assert [pod["spec"]["nodeName"] for pod in living] == [pair.well]


@fact(
    "loss.deleted",
    "A Node is deleted under a pod, Job with `backoffLimit: 0`.",
    result="The Pod garbage collector fails and removes the pod after 40 s and up to two rounds of 20 s ({seconds} s "
    "here). Then the Job fails (BackoffLimitExceeded).",
    consequence="Muster has 40 s to suspend the Job, whatever the pods tolerate: act at once on the deletion of a Node "
    "with pods of an admitted Job.",
    slow=True,
    for_users=True,
)
def test_a_deleted_node(scene: Scene, measured: Callable[..., None]) -> None:
    path = f"{scene.place.jobs}/deleted"
    job = scene.place.api.wait_for(path, lambda job: bool(reason_of(job)), COLLECTED_S)
    assert reason_of(job) == "BackoffLimitExceeded"
    target = next(condition for condition in job["status"]["conditions"] if condition["type"] == "FailureTarget")
    noticed = datetime.datetime.fromisoformat(target["lastTransitionTime"])
    measured(seconds=round((noticed - scene.lost_at).total_seconds()))


@fact(
    "loss.deleted-policy",
    "The same with a `podFailurePolicy` that ignores DisruptionTarget.",
    result="The garbage collector's write makes the pod Failed with DisruptionTarget: nothing counts as failed, and "
    "the replacement is created then.",
    consequence="To delete the Node frees what a silent node holds up.",
    slow=True,
    for_users=True,
)
def test_a_deleted_node_and_a_policy_that_ignores_it(scene: Scene) -> None:
    scene.forgiven.add_nodes(1)
    status = until(lambda: scene.forgiven.status, lambda status: status.get("ready") == 2, COLLECTED_S)
    assert (status["active"], status.get("terminating", 0), status.get("failed", 0)) == (2, 0, 0)


@fact(
    "loss.out-of-service",
    "The taint `node.kubernetes.io/out-of-service` is put on a silent node; Job that ignores DisruptionTarget.",
    result="The Pod garbage collector removes the terminating pod from the silent node (within 20 s), and the Job gets "
    "its replacement, with `failed: 0`.",
    consequence="What to tell the user of a Job that hangs on a silent node, where the Node object is to be kept.",
    slow=True,
    for_users=True,
)
def test_the_out_of_service_taint(scene: Scene) -> None:
    until(lambda: scene.careful.status, lambda status: status.get("terminating") == 1)
    scene.careful.add_nodes(1)
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    path = f"{NODES}/{scene.careful.lost}"
    node = scene.place.api.get(path)
    taints = [*node["spec"]["taints"], taint]
    scene.place.api.patch(path, {"spec": {"taints": taints}})
    status = until(lambda: scene.careful.status, lambda status: status.get("ready") == 2, COLLECTED_S)
    assert (status.get("terminating", 0), status.get("failed", 0)) == (0, 0)
