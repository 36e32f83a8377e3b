"""MPIJob v2beta1, mpi-operator v0.8.2, which has no webhooks."""

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

FIRST, SECOND = NODES[:2]
LABELS = "training.kubeflow.org"
ROLES = {"Launcher": 1, "Worker": 2}
SUSPEND = {"spec": {"runPolicy": {"suspend": True}}}
START = {"spec": {"runPolicy": {"suspend": False}}}


@pytest.fixture(scope="module")
def kind(cluster: Cluster, scheduler: object) -> Iterator[Kind]:
    start_controller(cluster, "mpi-operator")
    yield Kind(cluster, "/apis/kubeflow.org/v2beta1", "mpijobs")
    finish(cluster, "mpi-operator")


def job(name: str, *, suspend: bool = True, grace_s: int = 0, **spec: Any) -> Object:
    """A launcher and two workers."""
    template = pod_template("mpi", grace_s=grace_s)
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "runPolicy": {"suspend": suspend},
            "mpiReplicaSpecs": {role: {"replicas": size, "template": template} for role, size in ROLES.items()},
            **spec,
        },
    }


def plan(node: str, **spec: Any) -> Object:
    """The PATCH that unsuspends it with an annotation and node affinity in both templates."""
    template = {"metadata": {"annotations": {PLAN: node}}, "spec": {"affinity": term_for(node), **spec}}
    return {
        "spec": {"runPolicy": {"suspend": False}, "mpiReplicaSpecs": {role: {"template": template} for role in ROLES}}
    }


def by_role(pods: list[Object]) -> tuple[Object, dict[str, Object]]:
    """The launcher, and the workers by name."""
    (launcher,) = (pod for pod in pods if pod["metadata"]["labels"][f"{LABELS}/job-role"] == "launcher")
    return launcher, {pod["metadata"]["name"]: pod for pod in pods if pod is not launcher}


def running(kind: Kind, name: str, **how: Any) -> tuple[Object, dict[str, Object]]:
    """Create it and unsuspend it; its pods when the operator has seen them run."""
    kind.create(job(name, **how))
    kind.patch(name, plan(FIRST))
    kind.until_condition(name, "Running")
    return by_role(kind.until_pods(3))


@fact(
    "mpi.slots",
    "An MPIJob is created with `spec.runPolicy.suspend: true`, and unsuspended; with `runLauncherAsWorker`, too.",
    result="Suspended: no pod, Suspended=True, and the launcher's Job exists, suspended. The podsets are the roles in "
    "`mpiReplicaSpecs`. All pods are labelled `training.kubeflow.org/job-name` and `training.kubeflow.org/job-role` "
    "(`launcher` or `worker`); a worker has `replica-index` from 0. The launcher has none, unless it is a worker too: "
    "then it is 0 and the workers begin with 1. The launcher is owned by its Job, a worker by the MPIJob.",
    consequence="A slot is the role and the index, less 1 for the workers of `runLauncherAsWorker`. The gang is named "
    "by the label, not by the owner.",
    slow=True,
)
@pytest.mark.parametrize("both", [False, True])
def test_slots(kind: Kind, both: bool) -> None:
    kind.create(job("slots", runLauncherAsWorker=both))
    kind.until_condition("slots", "Suspended")
    (launcher_job,) = kind.until("/apis/batch/v1", "jobs", lambda jobs: len(jobs) == 1)
    assert launcher_job["spec"]["suspend"] is True
    assert not kind.pods()
    kind.patch("slots", START)
    launcher, workers = by_role(kind.until_pods(3))
    for pod in (launcher, *workers.values()):
        assert pod["metadata"]["labels"][f"{LABELS}/job-name"] == "slots"
    assert launcher["metadata"]["labels"].get(f"{LABELS}/replica-index") == ("0" if both else None)
    indexes = {name: pod["metadata"]["labels"][f"{LABELS}/replica-index"] for name, pod in workers.items()}
    assert indexes == {f"slots-worker-{slot}": str(slot + both) for slot in range(2)}
    assert {pod["metadata"]["labels"][f"{LABELS}/job-role"] for pod in workers.values()} == {"worker"}
    assert launcher["metadata"]["ownerReferences"][0]["name"] == "slots-launcher"
    assert {pod["metadata"]["ownerReferences"][0]["name"] for pod in workers.values()} == {"slots"}


@fact(
    "mpi.unsuspend",
    "One PATCH unsuspends an MPIJob and writes annotations, node affinity, a node selector, a scheduling gate and a "
    "scheduler's name into its templates.",
    result="Accepted. The workers carry all five. The launcher carries the annotations, the selector and the gate, but "
    "neither the affinity nor the scheduler's name: its Job was made before.",
    consequence="The launcher is pinned by the policy, from the annotation; the scheduler's name has to be there at "
    "CREATE. Affinity reaches the workers only.",
    slow=True,
)
def test_what_reaches_the_launcher(kind: Kind) -> None:
    kind.create(job("written"))
    kind.until("/apis/batch/v1", "jobs", lambda jobs: len(jobs) == 1)
    gated = {"nodeSelector": {"disk": "fast"}, "schedulingGates": [{"name": "muster.dev/gate"}]}
    kind.patch("written", plan(FIRST, schedulerName="muster", **gated))
    launcher, workers = by_role(kind.until_pods(3))
    for pod in (launcher, *workers.values()):
        assert plans_of([pod]) == {FIRST}
        assert {name: pod["spec"][name] for name in gated} == gated
        reached = {"schedulerName": pod["spec"]["schedulerName"], "affinity": pod["spec"].get("affinity")}
        expected = ("default-scheduler", None) if pod is launcher else ("muster", term_for(FIRST))
        assert tuple(reached.values()) == expected


@fact(
    "mpi.running-template",
    "The templates of a running MPIJob get another plan; then a worker is deleted.",
    result="Accepted. The worker is made again under its name, with the new plan; the others stay, and nothing counts "
    "as failed. The launcher's Job keeps the old plan.",
    consequence="A lost worker gets its new node by one PATCH of the running job. A lost launcher needs a suspension.",
    slow=True,
)
def test_a_running_template_may_be_changed(kind: Kind) -> None:
    launcher, workers = running(kind, "changed")
    kind.patch("changed", plan(SECOND))
    old = workers["changed-worker-0"]["metadata"]["uid"]
    kind.delete_pod("changed-worker-0")
    same, renewed = by_role(kind.until_pods(3, lambda pod: pod["metadata"]["uid"] != old))
    assert same["metadata"]["uid"] == launcher["metadata"]["uid"]
    assert plans_of([renewed["changed-worker-0"]]) == {SECOND}
    assert renewed["changed-worker-1"]["metadata"]["uid"] == workers["changed-worker-1"]["metadata"]["uid"]
    assert "Failed" not in conditions(kind.until_own("changed", bool))
    (launcher_job,) = kind.until("/apis/batch/v1", "jobs", bool)
    assert launcher_job["spec"]["template"]["metadata"]["annotations"] == {PLAN: FIRST}


@fact(
    "mpi.worker-failed",
    "A worker of a running MPIJob fails; or is evicted by its kubelet (Failed with the reason Evicted).",
    result="Failed: it is not replaced, and the job stays Running with a worker less. Evicted: the job gets "
    "Failed=True without a `completionTime`, and its pods run on.",
    consequence="A failed worker holds its slot until a client deletes it. Failed=True does not mean that the room is "
    "free.",
    slow=True,
    for_users=True,
)
@pytest.mark.parametrize("reason", ["Error", "Evicted"])
def test_a_worker_fails(kind: Kind, reason: str) -> None:
    launcher, workers = running(kind, "failing")
    kind.until_pods(3, is_running)
    kind.fail(workers["failing-worker-0"], reason=reason)
    seen = kind.until_own(
        "failing", lambda obj: obj["status"]["replicaStatuses"]["Worker"] == {"active": 1, "failed": 1}
    )
    by_type = conditions(seen)
    assert (by_type["Running"], by_type.get("Failed")) == (("False", "True") if reason == "Evicted" else ("True", None))
    assert "completionTime" not in seen["status"]
    uids = {pod["metadata"]["uid"] for pod in kind.until_pods(3)}
    assert uids == {pod["metadata"]["uid"] for pod in (launcher, *workers.values())}


@fact(
    "mpi.suspend-again",
    "A running MPIJob is suspended, its templates are written as they were, and it is unsuspended without a plan, and "
    "then with another.",
    result="Worker pods are deleted and the launcher's Job is suspended; Suspended=True is written while the pods "
    "still terminate. Nothing counts as failed. The launcher's Job keeps the annotations that were taken off: it "
    "merges them, and never removes one. A new value replaces the old.",
    consequence="To take a plan off, Muster writes an empty value into the launcher's annotation, or the Job's "
    "template itself while it is suspended. Its room is free when its pods are gone.",
    slow=True,
)
def test_suspended_again_and_restored(kind: Kind) -> None:
    kind.create(job("again", grace_s=30))
    kind.until("/apis/batch/v1", "jobs", lambda jobs: len(jobs) == 1)
    written = kind.get("/apis/kubeflow.org/v2beta1", "mpijobs", "again")["spec"]
    kind.patch("again", plan(FIRST))
    kind.until_condition("again", "Running")
    with paused(kind.cluster, "kwok"):
        kind.patch("again", SUSPEND)
        kind.until_condition("again", "Suspended")
        kind.until("/api/v1", "pods", lambda pods: all("deletionTimestamp" in pod["metadata"] for pod in pods))
        assert len(kind.pods()) == 3
    kind.until("/api/v1", "pods", lambda pods: not pods)
    off = {"template": {"metadata": {"annotations": None}, "spec": {"affinity": None}}}
    assert kind.patch("again", {"spec": {"mpiReplicaSpecs": dict.fromkeys(ROLES, off)}})["spec"] == written
    kind.patch("again", START)
    launcher, workers = by_role(kind.until_pods(3))
    assert (plans_of([launcher]), plans_of(list(workers.values()))) == ({FIRST}, {""})
    kind.patch("again", SUSPEND)
    kind.until("/api/v1", "pods", lambda pods: not pods)
    kind.patch("again", plan(SECOND))
    assert plans_of(kind.until_pods(3)) == {SECOND}
    assert "Failed" not in conditions(kind.until_condition("again", "Running"))


@fact(
    "mpi.unsuspended-while-terminating",
    "A suspended MPIJob is unsuspended while pods of its former run still terminate.",
    result="The operator counts them as members: Running=True with all pods on their way out. The new ones come when "
    "those are gone.",
    consequence="Muster unsuspends when all its pods are gone, and does not take the operator's counts for a quorum.",
    slow=True,
    for_users=True,
)
def test_unsuspended_while_pods_terminate(kind: Kind) -> None:
    running(kind, "early", grace_s=30)
    with paused(kind.cluster, "kwok"):
        kind.patch("early", SUSPEND)
        kind.until_condition("early", "Suspended")
        kind.until("/api/v1", "pods", lambda pods: all("deletionTimestamp" in pod["metadata"] for pod in pods))
        kind.patch("early", plan(SECOND))
        seen = kind.until_condition("early", "Running")
        assert seen["status"]["replicaStatuses"]["Worker"] == {"active": 2}
        assert plans_of(kind.pods()) == {FIRST}
    kind.until_pods(3, lambda pod: is_running(pod) and plans_of([pod]) == {SECOND})


@fact(
    "mpi.launcher-waits",
    "An MPIJob with `launcherCreationPolicy: WaitForWorkersReady` starts while no node takes its pods: created "
    "suspended, or not.",
    result="Not suspended at first: the launcher comes when the workers are ready. Suspended at first: it "
    "starts together with the workers.",
    consequence="An MPIJob that was suspended at CREATE is one wave, whatever its policy. One that was not needs a "
    "quorum of its workers alone.",
    slow=True,
    for_users=True,
)
def test_the_launcher_waits(kind: Kind) -> None:
    with kind.closed_nodes():
        kind.create(job("unsuspended", suspend=False, launcherCreationPolicy="WaitForWorkersReady"))
        names = {pod["metadata"]["name"] for pod in kind.until_pods(2)}
        assert names == {"unsuspended-worker-0", "unsuspended-worker-1"}
        # The same pass of the operator writes this last.
        kind.until_own("unsuspended", lambda obj: "Worker" in obj.get("status", {}).get("replicaStatuses", {}))
        assert not kind.list_of("/apis/batch/v1", "jobs")
    kind.until_pods(3, is_running)
    with kind.closed_nodes():
        kind.create(job("suspended", launcherCreationPolicy="WaitForWorkersReady"))
        kind.until("/apis/batch/v1", "jobs", lambda jobs: len(jobs) == 1)
        kind.patch("suspended", START)
        by_role(kind.until_pods(3))


@fact(
    "mpi.elastic",
    "`replicas` of the workers of a running MPIJob is raised and lowered.",
    result="The next indexes are created; the highest ones are deleted.",
    consequence="As with an elastic Indexed Job: an index beyond the plan is gated by the policy.",
    slow=True,
    for_users=True,
)
def test_elastic(kind: Kind) -> None:
    running(kind, "elastic")
    for size in (4, 1):
        kind.patch("elastic", {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": size}}}})
        _, workers = by_role(kind.until_pods(1 + size))
        assert set(workers) == {f"elastic-worker-{index}" for index in range(size)}


@fact(
    "mpi.finished",
    "The launcher of a running MPIJob succeeds.",
    result="Succeeded=True. By default (`cleanPodPolicy: None`) the workers run on.",
    consequence="Succeeded=True and Failed=True mean finished, but its pods may keep their nodes: rooms are counted "
    "by pods.",
    slow=True,
    for_users=True,
)
def test_finished(kind: Kind) -> None:
    launcher, workers = running(kind, "done")
    kind.until_pods(3, is_running)
    kind.succeed(launcher)
    kind.until_condition("done", "Succeeded")
    assert {pod["metadata"]["name"] for pod in kind.pods() if is_running(pod)} == set(workers)
