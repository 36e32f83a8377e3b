"""Changes of other clients to a planned Job."""

from __future__ import annotations

import json

import pytest

from devcluster.api import ApiError, Object
from devcluster.errors import ClusterError
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.pins import affinity, name_in
from tests.facts.place import PATIENCE_S, Place, conditions, paused, until
from tests.facts.policies import JOBS, install, patches, until_active
from tests.facts.test_admission_jobs import SUSPEND_BY_PATCH
from tests.facts.test_job_unsuspend import plan

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
WAYS = {"client": (), "server": ("--server-side",), "forced": ("--server-side", "--force-conflicts")}
STAYS_SUSPENDED = patches("[JSONPatch{op: 'replace', path: '/spec/suspend', value: true}]")
UNSUSPENDED_WITHOUT_PLAN = [
    {"name": "unsuspended", "expression": "oldObject.spec.suspend && !object.spec.suspend"},
    {
        "name": "without-plan",
        "expression": "!has(object.spec.template.metadata.annotations) || "
        "!('muster.dev/plan' in object.spec.template.metadata.annotations)",
    },
]


def apply(place: Place, job: Object, way: str) -> str:
    """The answer of kubectl when a client applies this manifest."""
    try:
        return place.cluster.kubectl("apply", *WAYS[way], "-f", "-", stdin=json.dumps(job)).strip()
    except ClusterError as refused:
        return str(refused)


def suspend_at_create(place: Place) -> None:
    install(place, JOBS, SUSPEND_BY_PATCH)
    until_active(place, place.jobs, place.job(), lambda obj: bool(obj["spec"]["suspend"]))


def applied(place: Place, way: str, job: Object) -> Object:
    """Apply it, and wait until the controller has marked it Suspended."""
    apply(place, job, way)
    return place.until_job(lambda obj: conditions(obj) == {"Suspended": "True"}, job["metadata"]["name"])


def start(place: Place, name: str, patch: Object) -> None:
    place.patch_job(patch, name)
    place.until_job(lambda job: job["status"].get("active") == 2, name)


def is_suspended(place: Place, name: str) -> bool:
    return bool(place.until_job(bool, name)["spec"]["suspend"])


@fact(
    "hands.apply-without-suspend",
    "A manifest that does not mention `suspend` is applied again, while its Job waits and while it runs, by "
    "client-side and by server-side apply. The admission policy has suspended the Job, a PATCH has unsuspended it with "
    "its plan.",
    result="Nothing changes: neither `suspend` nor the plan is touched.",
    consequence="GitOps and the admission policy get on, as long as manifests do not mention `suspend`.",
    for_users=True,
)
def test_applied_again_without_suspend(place: Place) -> None:
    suspend_at_create(place)
    for way in WAYS:
        job = place.job(way)
        fields = [entry.get("fieldsV1", {}) for entry in applied(place, way, job)["metadata"]["managedFields"]]
        assert any("f:suspend" in owned.get("f:spec", {}) for owned in fields) == (way == "client")
        apply(place, job, way)
        assert is_suspended(place, way)
        start(place, way, plan("node-7"))
        apply(place, job, way)
        again = place.until_job(bool, way)
        assert not again["spec"]["suspend"]
        assert again["spec"]["template"]["metadata"]["annotations"] == {"muster.dev/plan": "node-7"}
        assert "affinity" in again["spec"]["template"]["spec"]


@fact(
    "hands.apply-suspend-true",
    "The same with `suspend: true` in the manifest, applied again while the Job runs.",
    result="Client-side apply suspends the running Job without a word. Server-side apply ends in a conflict, and with "
    "`--force-conflicts` it suspends the Job.",
    consequence="A manifest that says `suspend: true` is a trap: doctor and the documents say that the policy does it. "
    "A Job that others suspend while it runs is queued again; its pods have gone before.",
    for_users=True,
)
def test_applied_again_with_suspend(place: Place) -> None:
    suspend_at_create(place)
    suspended = {}
    for way in WAYS:
        job = place.job(way, suspend=True)
        applied(place, way, job)
        start(place, way, plan("node-7"))
        output = apply(place, job, way)
        suspended[way] = is_suspended(place, way)
        assert ("conflict" in output) == (way == "server")
    assert suspended == {"client": True, "server": False, "forced": True}


@fact(
    "hands.apply-suspend-false",
    "The same with `suspend: false` in the manifest, applied again while the Job waits.",
    result="Each way unsuspends the Job, without a plan and without a conflict: its pods are created at once.",
    consequence="Suspending at CREATE is not enough: see hands.policy-at-update.",
    for_users=True,
)
def test_applied_again_with_suspend_false(place: Place) -> None:
    suspend_at_create(place)
    for way in WAYS:
        job = place.job(way, suspend=False)
        applied(place, way, job)
        apply(place, job, way)
        assert not is_suspended(place, way)
        place.until_job(lambda job: job["status"].get("active") == 2, way)


@fact(
    "hands.policy-at-update",
    "A policy for UPDATE puts `suspend: true` back when a Job is unsuspended without a plan in its template.",
    result="Apply and PATCH succeed and change nothing: no pod is created, and the PATCH that brings a plan still "
    "starts the Job.",
    consequence="The admission component needs a rule for UPDATE too, and the plan comes off whenever a Job is "
    "suspended: an old one would pass. Suspending again afterwards is the fallback alone, where no policy runs.",
)
def test_a_policy_keeps_a_job_suspended(place: Place) -> None:
    suspend_at_create(place)
    install(
        place, JOBS, STAYS_SUSPENDED, name="stays", operations=("UPDATE",), matchConditions=UNSUSPENDED_WITHOUT_PLAN
    )
    place.create_job("probe")
    dry_run = f"{place.jobs}/probe?dryRun=All"
    until(lambda: place.api.patch(dry_run, {"spec": {"suspend": False}}), lambda seen: bool(seen["spec"]["suspend"]))
    for way in WAYS:
        job = place.job(way, suspend=False)
        applied(place, way, job)
        apply(place, job, way)
        assert place.patch_job({"spec": {"suspend": False}}, way)["spec"]["suspend"]
        assert conditions(place.until_job(bool, way)) == {"Suspended": "True"}
        assert place.pods_of(way) == []
        start(place, way, plan("node-7"))


@fact(
    "hands.apply-own-affinity",
    "A manifest with a required node affinity of its own, into which the plan was crossed, is applied again while the "
    "Job runs.",
    result="Client-side apply and forced server-side apply fail (422, the template is immutable), server-side apply "
    "ends in a conflict. The Job runs on.",
    consequence="A plan in the template's affinity breaks GitOps for Jobs that have an affinity; a plan in an "
    "annotation and a policy that pins the pods does not.",
)
def test_applied_again_with_its_own_affinity(place: Place) -> None:
    suspend_at_create(place)
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    crossed = plan("node-7")
    crossed["spec"]["template"]["spec"]["affinity"] = affinity(zone | {"matchFields": [name_in("node-7")]})
    for way in WAYS:
        job = place.job(way, template={"spec": {"affinity": affinity(zone)}})
        applied(place, way, job)
        start(place, way, crossed)
        output = apply(place, job, way)
        assert ("conflict" if way == "server" else "field is immutable") in output
        assert not is_suspended(place, way)


def scaled_to(job: Object) -> int | None:
    """The number of ready pods, when no pod is terminating any more and the controller has counted them all."""
    status = job["status"]
    return status.get("ready") if status.get("active") == status.get("ready") and not status["terminating"] else None


@fact(
    "hands.scaled",
    "The user of a running Indexed Job changes `completions` and `parallelism` together, 3 to 5 to 2.",
    result="Pods of the new indexes are created from the same template; of the lower count the highest indexes are "
    "deleted, and nothing counts as failed. `parallelism` alone may be lowered, `completions` alone may not.",
    consequence="An index beyond the plan appears without notice, and its node is not in the annotation: the policy "
    "gates it, Muster plans the surplus. With one plan in the affinity it would land on a node of its siblings.",
    for_users=True,
)
def test_scaled_by_its_user(place: Place, scheduler: Scheduler) -> None:
    place.add_nodes(1)
    place.create_job(slots=3)
    place.until_job(lambda job: job["status"].get("ready") == 3)
    for slots in (5, 2):
        place.patch_job({"spec": {"parallelism": slots, "completions": slots}})
        job = place.until_job(lambda job: scaled_to(job) == job["spec"]["completions"])
        assert job["status"].get("failed") is None
        indexes = [pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in place.pods_of()]
        assert sorted(indexes) == [str(index) for index in range(slots)]
    place.patch_job({"spec": {"parallelism": 1}})
    with pytest.raises(ApiError) as refused:
        place.patch_job({"spec": {"completions": 3}})
    assert refused.value.code == 422


@fact(
    "hands.deleted-in-mid-start",
    "A Job is deleted while its pods are being created, in the background or in the foreground.",
    result="Pods that are created after the deletion go as well; nothing is left.",
    consequence="The end of a deleted Job is the end of its last pod. Its room is free then, not when the Job is gone.",
)
@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_deleted_in_mid_start(place: Place, policy: str) -> None:
    place.create_job(slots=60, suspend=True)
    version = place.api.get(place.pods)["metadata"]["resourceVersion"]
    with place.api.watch(place.pods, version, PATIENCE_S) as changes:
        place.patch_job(plan("node-a"))
        next(iter(changes))
        with paused(place.cluster, "kube-controller-manager"):
            assert 0 < len(place.pods_of()) < 60
            place.api.delete(f"{place.jobs}/train", {"propagationPolicy": policy})
    place.api.wait_for(f"{place.jobs}/train", lambda job: job is None)
    place.until_pods(lambda pods: not pods)


@fact(
    "hands.preempted",
    "A pod of higher priority that is pinned to a full node.",
    result="kube-scheduler preempts on that node alone: it deletes a pod there. The victim's Job, with `backoffLimit: "
    "0`, fails; the Job on the other node runs on.",
    consequence="kube-scheduler's preemption ends Jobs instead of queueing them again. Preempt answers with a veto for "
    "members of gangs, and Muster suspends the victim's Job itself.",
    for_users=True,
)
def test_preempted_by_kube_scheduler(place: Place, scheduler: Scheduler) -> None:
    nodes = place.add_nodes(2, gpus=1)
    high = f"{place.namespace}-high"
    place.api.create(CLASSES, {"metadata": {"name": high}, "value": 1000})
    place.afterwards(lambda: place.api.delete(f"{CLASSES}/{high}"))
    gpu = {"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    for name, node, given in (
        ("beside", nodes[0], {}),
        ("victim", nodes[1], {}),
        ("high", nodes[1], {"priorityClassName": high}),
    ):
        pinned = {"containers": [gpu], "affinity": affinity({"matchFields": [name_in(node)]})}
        place.create_job(name, slots=1, template={"spec": pinned | given})
        place.until_job(lambda job: job["status"].get("ready") == 1, name)
    place.until_job(lambda job: conditions(job).get("Failed") == "True", "victim")
    assert place.until_job(bool, "beside")["status"]["ready"] == 1


@fact(
    "hands.quota",
    "A ResourceQuota refuses the last pod of a Job, and is raised.",
    result="The other pods run; the Job says `active: n-1`, an Event FailedCreate tells why. The controller tries "
    "again with a pause that doubles from 1 s to 60 s; a raise of the quota does not wake it.",
    consequence="A gang can lack a pod that was never created. The hold must not wait for it indefinitely: at its "
    "deadline the Job is suspended, with the reason of the Event. Admission looks at the ResourceQuotas of the "
    "namespace first.",
    for_users=True,
)
def test_a_quota_refuses_the_last_pod(place: Place, scheduler: Scheduler) -> None:
    place.add_nodes(1)
    quotas = f"/api/v1/namespaces/{place.namespace}/resourcequotas"
    place.api.create(quotas, {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": "3"}}})
    place.api.wait_for(f"{quotas}/pods", lambda quota: quota is not None and "hard" in quota.get("status", {}))
    place.create_job(slots=4)
    events = f"/apis/events.k8s.io/v1/namespaces/{place.namespace}/events"
    reported = place.api.wait_for(events, lambda seen: any(event["reason"] == "FailedCreate" for event in seen))
    assert any("exceeded quota" in event["note"] for event in reported)
    short = place.until_job(lambda job: job["status"].get("ready") == 3)
    assert (short["status"]["active"], short["status"].get("failed")) == (3, None)
    place.api.patch(f"{quotas}/pods", {"spec": {"hard": {"pods": "4"}}})
    place.until_job(lambda job: job["status"].get("ready") == 4)
    place.api.delete(f"{quotas}/pods")
