"""JobSet v0.12.0, with its webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.controllers import start_controller
from tests.facts.fact import fact
from tests.facts.kinds import JSON_PATCH, Kind, finish, plans_of, pod_template, term_for

PODS = ("leader", "workers")


@pytest.fixture(scope="module")
def kind(cluster: Cluster, scheduler: object) -> Iterator[Kind]:
    start_controller(cluster, "jobset")
    yield Kind(cluster, "/apis/jobset.x-k8s.io/v1alpha2", "jobsets")
    finish(cluster, "jobset")


def jobset(name: str, **spec: Any) -> Object:
    """A leader and two workers, suspended."""
    jobs = [
        {
            "name": role,
            "template": {
                "spec": {
                    "parallelism": count,
                    "completions": count,
                    "completionMode": "Indexed",
                    "backoffLimit": 0,
                    "template": pod_template(),
                }
            },
        }
        for role, count in zip(PODS, (1, 2), strict=True)
    ]
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"suspend": True, "replicatedJobs": jobs, **spec},
    }


def plan(nodes: str) -> list[Object]:
    """The operations that unsuspend it with the plan on its templates, as an annotation."""
    templates = [f"/spec/replicatedJobs/{at}/template/spec/template/metadata" for at in (0, 1)]
    value = {"annotations": {"muster.dev/plan": nodes}}
    start = {"op": "replace", "path": "/spec/suspend", "value": False}
    return [start, *({"op": "add", "path": path, "value": value} for path in templates)]


def affinity(node: str) -> list[Object]:
    paths = [f"/spec/replicatedJobs/{at}/template/spec/template/spec/affinity" for at in (0, 1)]
    return [{"op": "add", "path": path, "value": term_for(node)} for path in paths]


@fact(
    "jobset.unsuspend-annotations",
    "One JSON PATCH unsuspends a JobSet and writes annotations of its templates.",
    result="Accepted. A suspended JobSet has its Jobs already, suspended; they are resumed with the annotations, "
    "and every pod carries them.",
    consequence="A JobSet is admitted by one PATCH, with the plan as an annotation of each template.",
    slow=True,
)
def test_annotations_reach_every_pod(kind: Kind) -> None:
    kind.create(jobset("annotated"))
    jobs = kind.until("/apis/batch/v1", "jobs", lambda listed: len(listed) == 2)
    assert [job["spec"]["suspend"] for job in jobs] == [True, True]
    kind.patch("annotated", plan("node-1,node-2"), JSON_PATCH)
    pods = kind.until_pods(3)
    assert {pod["metadata"]["annotations"]["muster.dev/plan"] for pod in pods} == {"node-1,node-2"}


@fact(
    "jobset.slots",
    "A JobSet is created with `spec.suspend: true` and unsuspended.",
    result="Suspended: Suspended=True. The podsets are `spec.replicatedJobs`, `replicas` times the Job's `parallelism` "
    "or `completions`, whichever is less. Pods are labelled `jobset.sigs.k8s.io/jobset-name`, `replicatedjob-name`, "
    "`job-index` and `batch.kubernetes.io/job-completion-index`. Completed=True when all Jobs are.",
    consequence="Slot i of a replicated job with Jobs of n pods is the pod with `job-index` i / n and completion index "
    "i mod n.",
    slow=True,
)
def test_slots(kind: Kind) -> None:
    shape = jobset("slots")
    shape["spec"]["replicatedJobs"][1]["replicas"] = 2
    kind.create(shape)
    kind.until_condition("slots", "Suspended")
    assert not kind.pods()
    kind.patch("slots", plan("node-1"), JSON_PATCH)
    pods = kind.until_pods(5)
    prefix = "jobset.sigs.k8s.io"
    slots = sorted(
        tuple(
            pod["metadata"]["labels"][name]
            for name in (
                f"{prefix}/replicatedjob-name",
                f"{prefix}/job-index",
                "batch.kubernetes.io/job-completion-index",
            )
        )
        for pod in pods
    )
    assert slots == [("leader", "0", "0"), *(("workers", job, index) for job in "01" for index in "01")]
    assert {pod["metadata"]["labels"][f"{prefix}/jobset-name"] for pod in pods} == {"slots"}
    for pod in pods:
        kind.succeed(pod)
    kind.until_condition("slots", "Completed")


@fact(
    "jobset.affinity",
    "Node affinity is written into the templates of a suspended JobSet, with the unsuspension or before it.",
    result="Refused by JobSet's webhook, 422.",
    consequence="Pods of JobSets are pinned by the admission policy, from the annotation; never by template affinity.",
    slow=True,
)
def test_affinity_is_refused(kind: Kind) -> None:
    kind.create(jobset("pinned"))
    for operations in (affinity("node-1"), plan("node-1") + affinity("node-1")):
        with pytest.raises(ApiError) as refused:
            kind.patch("pinned", operations, JSON_PATCH)
        assert refused.value.code == 422
        assert "jobset" in str(refused.value)


@fact(
    "jobset.running-template",
    "The annotations of the templates are changed while the JobSet runs.",
    result="Refused by the webhook, 422.",
    consequence="A running JobSet keeps its plan. A lost slot needs a suspension, or a parameter of the policy.",
    slow=True,
)
def test_a_running_template_is_frozen(kind: Kind) -> None:
    kind.create(jobset("running"))
    kind.patch("running", plan("node-1"), JSON_PATCH)
    kind.until_pods(3)
    with pytest.raises(ApiError) as refused:
        kind.patch("running", plan("node-2")[1:], JSON_PATCH)
    assert refused.value.code == 422


@fact(
    "jobset.suspend-again",
    "A running JobSet is suspended, its annotations are taken off, and it is unsuspended with others.",
    result="The pods are deleted, nothing counts as a failure, the templates are as they were, "
    "and the new pods carry the new annotations.",
    consequence="A JobSet is planned again by suspension. Its manifest is given back as it was written, its Jobs are "
    "not (jobset.restore).",
    slow=True,
)
def test_suspended_again_and_restored(kind: Kind) -> None:
    written = kind.create(jobset("again"))["spec"]["replicatedJobs"]
    kind.patch("again", plan("node-1"), JSON_PATCH)
    kind.until_pods(3)
    kind.patch("again", {"spec": {"suspend": True}})
    kind.until_pods(0)
    off = [
        {"op": "remove", "path": f"/spec/replicatedJobs/{at}/template/spec/template/metadata/annotations"}
        for at in (0, 1)
    ]
    restored = kind.patch("again", off, JSON_PATCH)
    assert restored["spec"]["replicatedJobs"] == written
    assert not restored["status"].get("restarts")
    kind.patch("again", plan("node-2"), JSON_PATCH)
    pods = kind.until_pods(3)
    assert {pod["metadata"]["annotations"]["muster.dev/plan"] for pod in pods} == {"node-2"}


@fact(
    "jobset.restore",
    "A JobSet that has run is suspended, its annotations are taken off, and it is unsuspended without any; then the "
    "same with an empty plan.",
    result="The pods carry the old plan: the JobSet's controller merges annotations into its Jobs, which exist still, "
    "and never removes one. An empty value replaces the old one.",
    consequence="A JobSet is given back with an empty plan in place of its plan. A pod with a plan that the JobSet's "
    "template does not have is not to be led by it.",
    slow=True,
)
def test_a_plan_that_was_taken_off_stays(kind: Kind) -> None:
    kind.create(jobset("restored"))
    kind.patch("restored", plan("node-1"), JSON_PATCH)
    kind.until_pods(3)
    off = [
        {"op": "remove", "path": f"/spec/replicatedJobs/{at}/template/spec/template/metadata/annotations"}
        for at in (0, 1)
    ]
    for operations, plans in ((off, {"node-1"}), (plan("")[1:], {""})):
        kind.patch("restored", {"spec": {"suspend": True}})
        kind.until("/api/v1", "pods", lambda pods: not pods)
        kind.patch("restored", operations, JSON_PATCH)
        kind.patch("restored", {"spec": {"suspend": False}})
        assert plans_of(kind.until_pods(3)) == plans


@fact(
    "jobset.failure-restart",
    "A pod of a running JobSet with `failurePolicy.maxRestarts` fails.",
    result="All Jobs are made again from the JobSet's templates, and all pods are new.",
    consequence="A restart of a JobSet keeps the plan, and needs no new admission; its slots are filled again.",
    slow=True,
    for_users=True,
)
def test_a_restart_keeps_the_annotations(kind: Kind) -> None:
    kind.create(jobset("failing", failurePolicy={"maxRestarts": 2}))
    kind.patch("failing", plan("node-1"), JSON_PATCH)
    before = {pod["metadata"]["uid"]: pod for pod in kind.until_pods(3)}
    kind.fail(next(pod for pod in before.values() if "workers" in pod["metadata"]["name"]))
    after = kind.until_pods(3, lambda pod: pod["metadata"]["uid"] not in before)
    assert {pod["metadata"]["annotations"]["muster.dev/plan"] for pod in after} == {"node-1"}


@fact(
    "jobset.in-order",
    "A JobSet with `startupPolicyOrder: InOrder` is unsuspended while no node takes its leader.",
    result="Only the leader's pod is created; the workers' pods come when it is ready.",
    consequence="The quorum of an InOrder JobSet is counted by replicated job. Waiting for all members would deadlock.",
    slow=True,
    for_users=True,
)
def test_in_order(kind: Kind) -> None:
    with kind.closed_nodes():
        kind.create(jobset("ordered", startupPolicy={"startupPolicyOrder": "InOrder"}))
        kind.patch("ordered", plan("node-1"), JSON_PATCH)
        (first,) = kind.until_pods(1)
        assert "leader" in first["metadata"]["name"]
        workers = kind.get("/apis/batch/v1", "jobs", "ordered-workers-0")
        assert workers["spec"]["suspend"] is True
    kind.until_pods(3)
