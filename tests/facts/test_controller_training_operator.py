"""PyTorchJob and the other kinds of training-operator v1.9.3, with its webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import start_controller
from tests.facts.fact import fact
from tests.facts.kinds import NODES, PLAN, Kind, finish, is_running, plans_of, pod_template, term_for
from tests.facts.place import conditions, paused

GROUP = "/apis/kubeflow.org/v1"
FIRST, SECOND = NODES[:2]
LABELS = "training.kubeflow.org"
ROLES = {"Master": 1, "Worker": 2}
# By kind: its plural, the field with its roles, the name that it demands of the container, and the sizes of its roles.
KINDS = {
    "PyTorchJob": ("pytorchjobs", "pytorchReplicaSpecs", "pytorch", ROLES),
    "TFJob": ("tfjobs", "tfReplicaSpecs", "tensorflow", {"Chief": 1, "PS": 2, "Worker": 2}),
    "XGBoostJob": ("xgboostjobs", "xgbReplicaSpecs", "xgboost", ROLES),
    "PaddleJob": ("paddlejobs", "paddleReplicaSpecs", "paddle", ROLES),
    "JAXJob": ("jaxjobs", "jaxReplicaSpecs", "jax", {"Worker": 2}),
}


@pytest.fixture(scope="module")
def operator(cluster: Cluster, scheduler: object) -> Iterator[None]:
    start_controller(cluster, "training-operator")
    yield
    finish(cluster, "training-operator")


@pytest.fixture
def kind(cluster: Cluster, operator: None) -> Kind:
    return Kind(cluster, GROUP, "pytorchjobs")


def job(name: str, kind: str = "PyTorchJob", *, restart: str = "OnFailure", grace_s: int = 0, **run: Any) -> Object:
    """Suspended."""
    _, field, container, roles = KINDS[kind]
    template = pod_template(container, grace_s=grace_s)
    specs = {role: {"replicas": size, "restartPolicy": restart, "template": template} for role, size in roles.items()}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"runPolicy": {"suspend": True, **run}, field: specs},
    }


def plan(node: str, kind: str = "PyTorchJob", **spec: Any) -> Object:
    """The PATCH that unsuspends it with an annotation and node affinity in every template."""
    _, field, _, roles = KINDS[kind]
    template = {"metadata": {"annotations": {PLAN: node}}, "spec": {"affinity": term_for(node), **spec}}
    return {"spec": {"runPolicy": {"suspend": False}, field: {role: {"template": template} for role in roles}}}


SUSPEND = {"spec": {"runPolicy": {"suspend": True}}}
OFF = {"template": {"metadata": {"annotations": None}, "spec": {"affinity": None}}}


def running(kind: Kind, name: str, **how: Any) -> dict[str, Object]:
    """Create it and unsuspend it; its pods by name when the operator has seen all of them run."""
    kind.create(job(name, **how))
    kind.patch(name, plan(FIRST))
    kind.until_own(name, lambda obj: active(obj) == 3)
    return {pod["metadata"]["name"]: pod for pod in kind.until_pods(3, is_running)}


def active(job: Object) -> int:
    """How many of its pods run, as the operator counts them."""
    counts = job.get("status", {}).get("replicaStatuses", {}).values()
    return sum(status.get("active", 0) for status in counts)


@fact(
    "training.slots",
    "A PyTorchJob, TFJob, XGBoostJob, PaddleJob or JAXJob is created with `spec.runPolicy.suspend: true`, and "
    "unsuspended.",
    result="Suspended: no pod, and the condition Suspended=True. The podsets are the roles in `pytorchReplicaSpecs` "
    "(`tfReplicaSpecs`, `xgbReplicaSpecs`, `paddleReplicaSpecs`, `jaxReplicaSpecs`) with `replicas` and `template`. "
    "All pods are created at once. A pod is labelled `training.kubeflow.org/job-name`, `replica-type` (the role in "
    "lower case) and `replica-index`.",
    consequence="Slot i of role p is the pod with `replica-type: p` and `replica-index: i`. The quorum is the sum of "
    "the roles; no role waits for another.",
    slow=True,
)
@pytest.mark.parametrize("name", KINDS)
def test_slots(cluster: Cluster, operator: None, name: str) -> None:
    plural, field, _, roles = KINDS[name]
    kind = Kind(cluster, GROUP, plural)
    kind.create(job("slots", name))
    assert set(kind.until_condition("slots", "Suspended")["spec"][field]) == set(roles)
    assert not kind.pods()
    with kind.closed_nodes():
        kind.patch("slots", plan(FIRST, name))
        pods = kind.until_pods(sum(roles.values()))
        labels = [pod["metadata"]["labels"] for pod in pods]
        assert {pod_labels[f"{LABELS}/job-name"] for pod_labels in labels} == {"slots"}
        slots = {(pod_labels[f"{LABELS}/replica-type"], pod_labels[f"{LABELS}/replica-index"]) for pod_labels in labels}
        assert slots == {(role.lower(), str(index)) for role, size in roles.items() for index in range(size)}
        assert plans_of(pods) == {FIRST}
    kind.until_condition("slots", "Running")


@fact(
    "training.unsuspend",
    "One PATCH unsuspends a PyTorchJob and writes annotations, node affinity, a node selector, a scheduling gate and a "
    "scheduler's name into its templates.",
    result="Accepted. Every pod carries all five.",
    consequence="One PATCH admits the job, with affinity or with the plan that the policy reads.",
    slow=True,
)
def test_everything_may_be_written(kind: Kind) -> None:
    kind.create(job("written"))
    more: dict[str, Any] = {
        "nodeSelector": {"disk": "fast"},
        "schedulerName": "muster",
        "schedulingGates": [{"name": "muster.dev/gate"}],
    }
    kind.patch("written", plan(FIRST, **more))
    pods = kind.until_pods(3)
    assert plans_of(pods) == {FIRST}
    for pod in pods:
        assert {name: pod["spec"][name] for name in more} == more
        assert pod["spec"]["affinity"] == term_for(FIRST)


@fact(
    "training.running-template",
    "The templates of a running PyTorchJob get another plan; then one of its pods is deleted.",
    result="Accepted. The pods stay as they are; the replacement of the deleted one carries the new plan.",
    consequence="A lost slot of these kinds gets its new node by one PATCH of the running job, without a suspension.",
    slow=True,
)
def test_a_running_template_may_be_changed(kind: Kind) -> None:
    before = running(kind, "changed")
    kind.patch("changed", plan(SECOND))
    kind.delete_pod("changed-worker-0")
    old = before.pop("changed-worker-0")["metadata"]["uid"]
    pods = kind.until_pods(3, lambda pod: pod["metadata"]["uid"] != old)
    after = {pod["metadata"]["name"]: pod for pod in pods}
    assert plans_of([after.pop("changed-worker-0")]) == {SECOND}
    assert {name: pod["metadata"]["uid"] for name, pod in after.items()} == {
        name: pod["metadata"]["uid"] for name, pod in before.items()
    }
    assert plans_of(list(after.values())) == {FIRST}


@fact(
    "training.deleted-by-others",
    "A running pod of a PyTorchJob is deleted by anybody but the operator.",
    result="It counts as failed. With `restartPolicy: Never` the job is Failed at once; with OnFailure, "
    "Always or ExitCode it is Restarting, and the pod is made again when the old one is gone.",
    consequence="Muster suspends the job before anybody evicts a pod of it; with `restartPolicy: Never` that is all "
    "that keeps it alive.",
    slow=True,
    for_users=True,
)
@pytest.mark.parametrize("restart", ["Never", "OnFailure", "Always", "ExitCode"])
def test_a_pod_that_others_delete(kind: Kind, restart: str) -> None:
    before = running(kind, "evicted", restart=restart, grace_s=30)
    with paused(kind.cluster, "kwok"):
        kind.delete_pod("evicted-worker-0")
        kind.until_condition("evicted", "Failed" if restart == "Never" else "Restarting")
    if restart != "Never":
        pods = kind.until_pods(3, is_running)
        assert conditions(kind.until_condition("evicted", "Running")).get("Failed") is None
        renewed = {pod["metadata"]["name"] for pod in pods} - {
            name
            for name, pod in before.items()
            if pod["metadata"]["uid"] in {later["metadata"]["uid"] for later in pods}
        }
        assert renewed == {"evicted-worker-0"}


@fact(
    "training.failed",
    "A pod of a running PyTorchJob fails.",
    result="`restartPolicy: Never`, or ExitCode and the exit code 1: the job is Failed, and its other pods run on. "
    "OnFailure, Always, or ExitCode and 137: the pod is deleted and made again, the others stay.",
    consequence="A restart is a new pod in the same slot. The room of a failed job is free when its pods are gone, "
    "not at Failed.",
    slow=True,
    for_users=True,
)
@pytest.mark.parametrize(
    ("restart", "code", "survives"),
    [("Never", 1, False), ("ExitCode", 1, False), ("OnFailure", 1, True), ("Always", 1, True), ("ExitCode", 137, True)],
)
def test_a_pod_fails(kind: Kind, restart: str, code: int, survives: bool) -> None:
    before = running(kind, "failing", restart=restart)
    victim = before["failing-worker-0"]
    kind.fail(victim, code)
    if survives:
        pods = kind.until_pods(3, lambda pod: is_running(pod) and pod["metadata"]["uid"] != victim["metadata"]["uid"])
        assert len({pod["metadata"]["uid"] for pod in pods} & {pod["metadata"]["uid"] for pod in before.values()}) == 2
    else:
        kind.until_condition("failing", "Failed")
        assert sum(map(is_running, kind.pods())) == 2


@fact(
    "training.suspend-again",
    "A running PyTorchJob is suspended, its templates are written as they were while its pods still terminate, and it "
    "is unsuspended with another plan when they are gone.",
    result="Pods and Services are deleted, whatever `cleanPodPolicy`. Suspended=True and no `active` are written "
    "while the pods still terminate; no field counts those. The templates may be written at any time. Nothing counts "
    "as failed; the new pods carry the new plan.",
    consequence="Its room is free when its pods are gone: Muster counts the pods itself, the status does not tell.",
    slow=True,
)
@pytest.mark.parametrize("policy", ["None", "Running", "All"])
def test_suspended_again_and_restored(kind: Kind, policy: str) -> None:
    written = kind.create(job("again", grace_s=30, cleanPodPolicy=policy))["spec"]
    kind.patch("again", plan(FIRST))
    kind.until_own("again", lambda obj: active(obj) == 3)
    with paused(kind.cluster, "kwok"):
        kind.patch("again", SUSPEND)
        status = kind.until_condition("again", "Suspended")["status"]
        assert all("active" not in counts for counts in status["replicaStatuses"].values())
        leaving = kind.pods()
        assert len(leaving) == 3
        assert all("deletionTimestamp" in pod["metadata"] for pod in leaving)
        assert kind.patch("again", {"spec": {"pytorchReplicaSpecs": dict.fromkeys(ROLES, OFF)}})["spec"] == written
    kind.until("/api/v1", "pods", lambda pods: not pods)
    kind.until("/api/v1", "services", lambda services: not services)
    kind.patch("again", plan(SECOND))
    after = kind.until_condition("again", "Running")
    assert conditions(after).get("Failed") is None
    assert plans_of(kind.until_pods(3)) == {SECOND}


@fact(
    "training.unsuspended-while-terminating",
    "A suspended PyTorchJob is unsuspended while pods of its former run still terminate.",
    result="They count as failed pods of the new run: with `restartPolicy: Never` the job is Failed and "
    "starts no more; with OnFailure it starts when they are gone.",
    consequence="Muster never unsuspends such a job before all its pods are gone.",
    slow=True,
    for_users=True,
)
@pytest.mark.parametrize("restart", ["Never", "OnFailure"])
def test_unsuspended_while_pods_terminate(kind: Kind, restart: str) -> None:
    running(kind, "early", restart=restart, grace_s=30)
    with paused(kind.cluster, "kwok"):
        kind.patch("early", SUSPEND)
        kind.until_condition("early", "Suspended")
        kind.patch("early", plan(SECOND))
        kind.until_condition("early", "Failed" if restart == "Never" else "Restarting")
        assert len(kind.pods()) == 3
    if restart != "Never":
        kind.until_pods(3, lambda pod: is_running(pod) and plans_of([pod]) == {SECOND})


@fact(
    "training.elastic",
    "`replicas` of a role of a running PyTorchJob is raised and lowered, without an `elasticPolicy`.",
    result="The next indexes are created; the highest ones are deleted.",
    consequence="Any of these jobs may grow and shrink. An index beyond the plan is gated by the policy; template "
    "affinity would send it to the nodes of its siblings.",
    slow=True,
    for_users=True,
)
def test_elastic(kind: Kind) -> None:
    running(kind, "elastic")
    for size in (4, 1):
        kind.patch("elastic", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": size}}}})
        names = {pod["metadata"]["name"] for pod in kind.until_pods(1 + size)}
        assert names == {"elastic-master-0", *(f"elastic-worker-{index}" for index in range(size))}


@fact(
    "training.finished",
    "The master of a running PyTorchJob succeeds.",
    result="Succeeded=True at once. By default (`cleanPodPolicy: None`) the workers run on.",
    consequence="Succeeded=True and Failed=True mean finished, but its pods may keep their nodes: rooms are counted "
    "by pods.",
    slow=True,
    for_users=True,
)
def test_finished(kind: Kind) -> None:
    pods = running(kind, "done")
    kind.succeed(pods["done-master-0"])
    kind.until_condition("done", "Succeeded")
    left = {pod["metadata"]["name"] for pod in kind.pods() if is_running(pod)}
    assert left == {"done-worker-0", "done-worker-1"}
