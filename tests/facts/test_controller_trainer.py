"""TrainJob, Kubeflow Trainer v2.3.0 on JobSet v0.12.0, with the webhooks of both."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.controllers import start_controller
from tests.facts.fact import fact
from tests.facts.kinds import JSON_PATCH, NODES, PLAN, Kind, plans_of, pod_template, term_for
from tests.facts.place import conditions, paused, until

FIRST, SECOND = NODES[:2]
GROUP = "/apis/trainer.kubeflow.org/v1alpha1"
JOBSETS = ("/apis/jobset.x-k8s.io/v1alpha2", "jobsets")
SUSPEND = {"spec": {"suspend": True}}
START = {"spec": {"suspend": False}}
TEMPLATE = "/spec/replicatedJobs/0/template/spec/template/metadata"


@pytest.fixture(scope="module")
def kind() -> Iterator[Kind]:
    """On a cluster of its own: it brings JobSet's controller, which other facts start and stop."""
    with Cluster() as cluster:
        cluster.start_scheduler()
        start_controller(cluster, "trainer")
        for name, grace_s in (("torch", 0), ("slow", 30)):
            cluster.api.create(f"{GROUP}/clustertrainingruntimes", runtime(name, grace_s))
        yield Kind(cluster, GROUP, "trainjobs")


def runtime(name: str, grace_s: int) -> Object:
    """A runtime like the project's own for PyTorch: its template has no metadata."""
    template = {"spec": pod_template("node", grace_s=grace_s)["spec"]}
    step = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    job = {"name": "node", "template": {"metadata": {"labels": step}, "spec": {"template": template}}}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {"mlPolicy": {"numNodes": 1, "torch": {}}, "template": {"spec": {"replicatedJobs": [job]}}},
    }


def job(name: str, of: str = "torch", **spec: Any) -> Object:
    """Two nodes, suspended."""
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": {"suspend": True, "runtimeRef": {"name": of}, "trainer": {"numNodes": 2}, **spec},
    }


def patches(node: str, **spec: Any) -> Object:
    """Muster's entry in `runtimePatches`."""
    template = {"metadata": {"annotations": {PLAN: node}}, **({"spec": spec} if spec else {})}
    jobs = [{"name": "node", "template": {"spec": {"template": template}}}]
    entry = {"manager": "muster.dev/muster", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}
    return {"spec": {"runtimePatches": [entry]}}


def plan(node: str, **spec: Any) -> Object:
    """The PATCH that unsuspends it with an annotation of its template."""
    return {"spec": patches(node, **spec)["spec"] | {"suspend": False}}


def until_jobset(kind: Kind) -> Object:
    (jobset,) = kind.until(*JOBSETS, lambda jobsets: len(jobsets) == 1)
    return jobset


def running(kind: Kind, name: str, of: str = "torch") -> list[Object]:
    kind.create(job(name, of))
    kind.patch(name, plan(FIRST))
    pods = kind.until_pods(2)
    kind.until_own(name, lambda obj: any(job["active"] for job in obj["status"].get("jobsStatus", [])))
    return pods


def suspended(kind: Kind, name: str) -> None:
    """Suspend it, and wait until nothing of it is left."""
    kind.patch(name, SUSPEND)
    kind.until("/api/v1", "pods", lambda pods: not pods)
    kind.until_own(name, lambda obj: not any(job["active"] for job in obj["status"]["jobsStatus"]))


@fact(
    "trainjob.slots",
    "A TrainJob is created with `spec.suspend: true`, and unsuspended.",
    result="Suspended: Suspended=True, and a suspended JobSet of the TrainJob's name, with suspended Jobs; no pod. The "
    "podsets are the JobSet's `replicatedJobs`; the TrainJob itself has neither template nor, without "
    "`trainer.numNodes`, a size. Pods are labelled as JobSet's: `jobset.sigs.k8s.io/jobset-name`, "
    "`replicatedjob-name`, `job-index`, and the completion index.",
    consequence="A TrainJob is planned from its JobSet, and its slots are those of the JobSet. Nothing on a pod names "
    "the TrainJob but the name.",
    slow=True,
)
def test_slots(kind: Kind) -> None:
    kind.create(job("slots"))
    kind.until_condition("slots", "Suspended")
    jobset = until_jobset(kind)
    assert (jobset["metadata"]["name"], jobset["spec"]["suspend"]) == ("slots", True)
    (replicated,) = jobset["spec"]["replicatedJobs"]
    assert (replicated["name"], replicated["template"]["spec"]["parallelism"]) == ("node", 2)
    assert not kind.pods()
    kind.patch("slots", START)
    labels = [pod["metadata"]["labels"] for pod in kind.until_pods(2)]
    assert {pod_labels["jobset.sigs.k8s.io/jobset-name"] for pod_labels in labels} == {"slots"}
    assert {pod_labels["jobset.sigs.k8s.io/replicatedjob-name"] for pod_labels in labels} == {"node"}
    assert {pod_labels["jobset.sigs.k8s.io/job-index"] for pod_labels in labels} == {"0"}
    assert {pod_labels["batch.kubernetes.io/job-completion-index"] for pod_labels in labels} == {"0", "1"}
    assert not any("trainer.kubeflow.org" in name for pod_labels in labels for name in pod_labels)


@fact(
    "trainjob.unsuspend",
    "One PATCH unsuspends a TrainJob, at once after its creation or later, and writes annotations, a node selector and "
    "a scheduling gate through an entry of its own in `runtimePatches`.",
    result="Accepted. Every pod carries the three. The entry has no field for a scheduler's name: it is dropped.",
    consequence="A TrainJob is admitted by one PATCH, with the plan as an annotation. The scheduler's name belongs "
    "into the runtime, or the admission policy sets it in the JobSet.",
    slow=True,
)
@pytest.mark.parametrize("at_once", [False, True])
def test_annotations_reach_every_pod(kind: Kind, at_once: bool) -> None:
    kind.create(job("written"))
    if not at_once:
        until_jobset(kind)
    gated: Any = {"nodeSelector": {"disk": "fast"}, "schedulingGates": [{"name": "muster.dev/gate"}]}
    entry = kind.patch("written", plan(FIRST, schedulerName="muster", **gated))["spec"]["runtimePatches"][0]
    (written,) = entry["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    assert written["template"]["spec"]["template"]["spec"] == gated
    pods = kind.until_pods(2)
    assert plans_of(pods) == {FIRST}
    for pod in pods:
        assert {name: pod["spec"][name] for name in gated} == gated


@fact(
    "trainjob.affinity",
    "The same with node affinity.",
    result="TrainJob's webhook accepts it, JobSet's refuses the change that follows: the TrainJob says "
    "Suspended=False, its JobSet stays suspended without a pod, and only the log of trainer tells why. It may be taken "
    "off in the PATCH that suspends the TrainJob; then it starts. Affinity that is there at CREATE, before the JobSet, "
    "works.",
    consequence="As with JobSet: pinned by the policy, from the annotation, never by affinity. A TrainJob whose JobSet "
    "stays suspended has not been admitted, whatever its condition says.",
    slow=True,
)
def test_affinity_hangs(kind: Kind) -> None:
    kind.create(job("pinned"))
    until_jobset(kind)
    kind.patch("pinned", plan(FIRST, affinity=term_for(FIRST)))
    log = kind.cluster.process("trainer").log
    until(log.read_text, lambda text: 'admission webhook \\"vjobset.kb.io\\" denied the request' in text)
    stuck = kind.until_condition("pinned", "Suspended", "False")
    assert "Failed" not in conditions(stuck)
    assert until_jobset(kind)["spec"]["suspend"] is True
    assert not kind.pods()
    kind.patch("pinned", {"spec": patches(FIRST)["spec"] | SUSPEND["spec"]})
    kind.patch("pinned", START)
    assert plans_of(kind.until_pods(2)) == {FIRST}
    kind.create(job("at-creation", **patches(FIRST, affinity=term_for(FIRST))["spec"]))
    kind.patch("at-creation", START)
    assert all(pod["spec"]["affinity"] == term_for(FIRST) for pod in kind.until_pods(2))


@fact(
    "trainjob.running-template",
    "The entry in `runtimePatches` of a running TrainJob is changed, or the number of its nodes.",
    result="Refused by the webhook, 403, also in the PATCH that suspends it. The number of nodes is immutable, 422, "
    "suspended or not.",
    consequence="A running TrainJob keeps its plan, and its size for life. A lost slot needs a suspension.",
    slow=True,
    for_users=True,
)
def test_a_running_template_is_frozen(kind: Kind) -> None:
    running(kind, "frozen")
    more = {"spec": {"trainer": {"numNodes": 3}}}
    changed = patches(SECOND)
    for patch, code in ((changed, 403), ({"spec": changed["spec"] | SUSPEND["spec"]}, 403), (more, 422)):
        with pytest.raises(ApiError) as refused:
            kind.patch("frozen", patch)
        assert refused.value.code == code
    suspended(kind, "frozen")
    with pytest.raises(ApiError) as refused:
        kind.patch("frozen", more)
    assert refused.value.code == 422


@fact(
    "trainjob.suspend-again",
    "A running TrainJob is suspended, and unsuspended with another plan.",
    result="Suspended=True is written while the pods still terminate. The entry may be changed when no Job of the "
    "JobSet is active; the new pods carry the new plan, and nothing counts as failed.",
    consequence="Room is free when the pods are gone; after that, a TrainJob is planned again by one PATCH.",
    slow=True,
)
def test_suspended_again(kind: Kind) -> None:
    running(kind, "again", "slow")
    with paused(kind.cluster, "kwok"):
        kind.patch("again", SUSPEND)
        kind.until_condition("again", "Suspended")
        kind.until("/api/v1", "pods", lambda pods: all("deletionTimestamp" in pod["metadata"] for pod in pods))
        assert len(kind.pods()) == 2
    suspended(kind, "again")
    kind.patch("again", plan(SECOND))
    assert plans_of(kind.until_pods(2)) == {SECOND}
    assert not until_jobset(kind)["status"].get("restarts")
    assert "Failed" not in conditions(kind.until_condition("again", "Suspended", "False"))


@fact(
    "trainjob.restore",
    "A TrainJob that has run is suspended and its entry in `runtimePatches` is removed, the only metadata that its "
    "template has; then it is unsuspended.",
    result="It hangs: trainer's server-side apply would leave `metadata: null` in the JobSet's template, which the API "
    "server refuses. The TrainJob says Suspended=False, the JobSet stays suspended with the old plan. With an "
    "entry whose plan is empty it starts.",
    consequence="To give a TrainJob back, Muster leaves its entry with an empty plan; it never removes the entry.",
    slow=True,
)
def test_restored(kind: Kind) -> None:
    running(kind, "restored")
    suspended(kind, "restored")
    kind.patch("restored", {"spec": {"runtimePatches": None, "suspend": False}})
    log = kind.cluster.process("trainer").log
    until(log.read_text, lambda text: "must be of type object" in text)
    kind.until_condition("restored", "Suspended", "False")
    jobset = until_jobset(kind)
    assert jobset["spec"]["suspend"] is True
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    assert template["metadata"] == {"annotations": {PLAN: FIRST}}
    kind.patch("restored", {"spec": patches("")["spec"] | SUSPEND["spec"]})
    kind.patch("restored", START)
    assert plans_of(kind.until_pods(2)) == {""}


@fact(
    "trainjob.by-its-jobset",
    "The annotation is written into the suspended JobSet of a TrainJob instead, before the TrainJob is unsuspended; "
    "and taken off there, after a suspension.",
    result="Trainer keeps what others have written into its JobSet: the pods carry the plan. Taken off, it is still on "
    "the pods of the next start, as with any JobSet (jobset.restore). An empty plan reaches them.",
    consequence="It works, but it takes two PATCHes for an admission, the JobSet's and the TrainJob's, and gains "
    "nothing over `runtimePatches`.",
    slow=True,
)
def test_the_plan_in_the_jobset(kind: Kind) -> None:
    kind.create(job("direct"))
    until_jobset(kind)
    planned = {"spec": {"replicatedJobs": until_jobset(kind)["spec"]["replicatedJobs"]}}
    planned["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["metadata"] = {"annotations": {PLAN: FIRST}}
    kind.patch_in(*JOBSETS, "direct", planned)
    kind.patch("direct", START)
    assert plans_of(kind.until_pods(2)) == {FIRST}
    kind.until_own("direct", lambda obj: any(job["active"] for job in obj["status"]["jobsStatus"]))
    suspended(kind, "direct")
    kind.patch_in(*JOBSETS, "direct", [{"op": "remove", "path": f"{TEMPLATE}/annotations"}], JSON_PATCH)
    kind.patch("direct", START)
    assert plans_of(kind.until_pods(2)) == {FIRST}
    kind.until_own("direct", lambda obj: any(job["active"] for job in obj["status"]["jobsStatus"]))
    suspended(kind, "direct")
    kind.patch_in(
        *JOBSETS, "direct", [{"op": "add", "path": f"{TEMPLATE}/annotations", "value": {PLAN: ""}}], JSON_PATCH
    )
    kind.patch("direct", START)
    assert plans_of(kind.until_pods(2)) == {""}


@fact(
    "trainjob.finished",
    "The pods of a TrainJob succeed.",
    result="Complete=True, without a condition Suspended that has changed. (Failed=True when its JobSet has failed.)",
    consequence="Complete and Failed mean finished; the JobSet says Completed and Failed.",
    slow=True,
)
def test_finished(kind: Kind) -> None:
    for pod in running(kind, "done"):
        kind.succeed(pod)
    assert conditions(kind.until_condition("done", "Complete")).get("Failed") is None
    assert conditions(until_jobset(kind))["Completed"] == "True"
