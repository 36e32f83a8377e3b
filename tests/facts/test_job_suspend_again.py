"""A Job that is suspended again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from devcluster.api import ApiError, Object
from devcluster.scheduler import Scheduler
from tests.facts.fact import fact
from tests.facts.place import PATIENCE_S, Place, conditions, cpu_s, paused, requests_of, until
from tests.facts.test_job_unsuspend import plan

MANY = 1000
RUN_FOR = "devcluster.muster.dev/run-for"
KINDS: dict[str, Object] = {
    "plain": {},
    "replacement": {"podReplacementPolicy": "Failed"},
    "failure-policy": {
        "podFailurePolicy": {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}]}
    },
    "success-policy": {"successPolicy": {"rules": [{"succeededIndexes": "0-2"}]}},
    "per-index": {"backoffLimitPerIndex": 0},
}


def run(place: Place, slots: int = 4, grace_s: int = 0, **spec: Any) -> Object:
    """A Job whose pods are all ready."""
    place.add_nodes(1)
    place.create_job(slots=slots, template={"spec": {"terminationGracePeriodSeconds": grace_s}}, **spec)
    return place.until_job(lambda job: job["status"].get("ready") == slots)


def suspend(place: Place) -> Object:
    return place.patch_job({"spec": {"suspend": True}})


def is_suspended(job: Object) -> bool:
    return conditions(job).get("Suspended") == "True"


def seen_in(job: Object) -> Object:
    """The counts and conditions of pods in the Job's status."""
    status = job["status"]
    counts = {name: status.get(name) for name in ("active", "ready", "terminating", "failed")}
    return counts | {"suspended": is_suspended(job), "started": "startTime" in status}


@fact(
    "suspend.course",
    "A running Job with `backoffLimit: 0` is suspended: plain, with `podReplacementPolicy: Failed`, a "
    "`podFailurePolicy`, a `successPolicy`, or `backoffLimitPerIndex`.",
    result="Every pod that has not finished is deleted, at its grace period; Succeeded ones stay and count. "
    "Nothing counts as failed. The status first says Suspended=True with no `active` and "
    "`terminating: n`, then `terminating: 0`. Unsuspended, only the indexes that have not succeeded "
    "run again.",
    consequence="Suspension evicts a whole gang without touching its `backoffLimit`, whatever its policies. Its room "
    "is free at `terminating: 0`, not at Suspended.",
    for_users=True,
)
def test_what_suspension_does(place: Place, scheduler: Scheduler) -> None:
    place.add_nodes(1)
    finished = {}
    for kind, spec in KINDS.items():
        place.create_job(kind, slots=4, **spec)
    for kind in KINDS:
        place.until_job(lambda job: job["status"].get("ready") == 4, kind)
        finished[kind] = place.pods_of(kind)[0]["metadata"]["name"]
        place.api.patch(f"{place.pods}/{finished[kind]}", {"metadata": {"annotations": {RUN_FOR: "1ms"}}})
    for kind in KINDS:
        place.until_job(lambda job: job["status"].get("succeeded") == 1, kind)
    version = place.api.get(place.jobs)["metadata"]["resourceVersion"]
    for kind in KINDS:
        place.patch_job({"spec": {"suspend": True}}, kind)
    courses = watched(place, version)
    before = {"suspended": False, "active": 3, "ready": 3, "terminating": 0, "failed": None, "started": True}
    leaving = {"suspended": True, "active": None, "ready": 0, "terminating": 3, "failed": None, "started": False}
    assert courses == {kind: [before, leaving, leaving | {"terminating": 0}] for kind in KINDS}
    place.until_pods(lambda pods: {pod["metadata"]["name"] for pod in pods} == set(finished.values()))
    for kind in KINDS:
        place.patch_job({"spec": {"suspend": False}}, kind)
    for kind in KINDS:
        again = place.until_job(lambda job: job["status"].get("ready") == 3, kind)
        assert (again["status"]["succeeded"], again["status"].get("failed")) == (1, None)


def watched(place: Place, version: str) -> dict[str, list[Object]]:
    """The statuses of each Job from this version on, until each was suspended and its pods were gone."""
    courses: dict[str, list[Object]] = {kind: [] for kind in KINDS}
    open_ones = set(KINDS)
    with place.api.watch(place.jobs, version, PATIENCE_S) as changes:
        for _, job in changes:
            name, seen = job["metadata"]["name"], seen_in(job)
            courses[name].append(seen)
            if seen["suspended"] and not seen["terminating"]:
                open_ones.discard(name)
            if not open_ones:
                break
    return courses


@fact(
    "suspend.template-again",
    "The template of a Job that has run, in turn: suspended but not yet seen by the controller; Suspended while its "
    "pods still terminate.",
    result="422 until the controller has written Suspended=True and no `active`; from then on labels, annotations and "
    "node affinity may be written and taken off, with pods still terminating.",
    consequence="Wait for Suspended=True and `active: 0`, then take our annotations off; wait for `terminating: 0` "
    "before the room is planned again.",
)
def test_when_the_template_may_be_written_again(place: Place, scheduler: Scheduler) -> None:
    began = run(place, grace_s=30)
    with paused(place.cluster, "kwok"):
        with paused(place.cluster, "kube-controller-manager"):
            suspend(place)
            with pytest.raises(ApiError) as refused:
                place.patch_job(plan("node-7"))
            assert refused.value.code == 422
        left = place.until_job(is_suspended)
        assert (left["status"].get("active"), left["status"]["terminating"]) == (None, 4)
        written = plan("node-7")
        written["spec"]["suspend"] = True
        assert "affinity" in place.patch_job(written)["spec"]["template"]["spec"]
        taken_off = {"metadata": {"annotations": None, "labels": dict.fromkeys(["muster.dev/planned"])}}
        off = {"spec": {"template": taken_off | {"spec": {"affinity": None}}}}
        assert place.patch_job(off)["spec"]["template"] == began["spec"]["template"]
        assert place.until_job(is_suspended)["status"]["terminating"] == 4


@fact(
    "suspend.frozen",
    "Fields of the template of a suspended Job, besides labels, annotations and node affinity, are changed.",
    result="The resources of containers may be changed (1.36, beta). `schedulerName`, `priorityClassName`, pod "
    "affinity and the image may not: 422.",
    consequence="Our scheduler's name and the priority have to be there at CREATE: the admission policy sets them, "
    "nothing later can.",
    for_users=True,
)
def test_what_stays_frozen(place: Place) -> None:
    place.create_job(suspend=True)
    place.until_job(is_suspended)
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}
    requests = {"name": "main", "image": "train", "resources": {"requests": {"cpu": "2"}}}
    place.patch_job({"spec": {"template": {"spec": {"containers": [requests]}}}})
    for frozen in (
        {"schedulerName": "muster"},
        {"priorityClassName": "system-cluster-critical"},
        {"affinity": {"podAntiAffinity": apart}},
        {"containers": [{"name": "main", "image": "other"}]},
    ):
        with pytest.raises(ApiError) as refused:
            place.patch_job({"spec": {"template": {"spec": frozen}}})
        assert refused.value.code == 422


@fact(
    "suspend.unsuspended-while-terminating",
    "A suspended Job is unsuspended while pods of its former run still terminate.",
    result="By default the new pods are created at once, beside the old ones of the same index. With "
    "`podReplacementPolicy: Failed` none is created until the old ones are gone.",
    consequence="`terminating: 0` is awaited before a plan that uses the same room. A node that is silent keeps its "
    "pods terminating indefinitely, and with `Failed` it keeps the Job from starting: its pods have to be removed by "
    "force.",
    for_users=True,
)
@pytest.mark.parametrize("policy", ["TerminatingOrFailed", "Failed"])
def test_unsuspended_while_pods_terminate(place: Place, scheduler: Scheduler, policy: str) -> None:
    run(place, slots=2, grace_s=30, podReplacementPolicy=policy)
    with paused(place.cluster, "kwok"):
        suspend(place)
        place.until_job(lambda job: is_suspended(job) and job["status"]["terminating"] == 2)
        place.patch_job({"spec": {"suspend": False}})
        place.until_job(lambda job: conditions(job).get("Suspended") == "False")
        if policy == "TerminatingOrFailed":
            place.until_pods(lambda pods: len(pods) == 4)
        else:
            # The same pass of the controller that writes Suspended=False has created none.
            assert len(place.pods_of()) == 2
    place.until_job(lambda job: job["status"].get("ready") == 2 and job["status"]["terminating"] == 0)


@fact(
    "suspend.before-the-status",
    "A Job is unsuspended with plan A, suspended, and unsuspended with plan B, before the controller writes that it "
    "has started.",
    result="All three are accepted, though pods of A exist. They stay and fill their indexes: the template says B, the "
    "pods say A.",
    consequence="A plan is replaced only after `startTime` has been seen, and then Suspended=True, `active: 0` and "
    "`terminating: 0`. Each plan has a number, and a pod whose plan is not the Job's is not counted as its member.",
)
def test_two_plans_before_the_status(place: Place) -> None:
    created = place.create_job(slots=40, suspend=True)
    place.until_job(is_suspended)
    version = place.api.get(place.pods)["metadata"]["resourceVersion"]
    with place.api.watch(place.pods, version, PATIENCE_S) as changes:
        place.patch_job(plan("node-a"))
        next(iter(changes))
        with paused(place.cluster, "kube-controller-manager"):
            assert "startTime" not in place.until_job(bool)["status"]
            suspend(place)
            place.patch_job(plan("node-b"))
    place.until_job(lambda job: job["status"].get("active") == 40)
    plans = {pod["metadata"]["annotations"]["muster.dev/plan"] for pod in place.pods_of()}
    assert created["metadata"]["uid"] == place.pods_of()[0]["metadata"]["ownerReferences"][0]["uid"]
    assert place.until_job(bool)["spec"]["template"]["metadata"]["annotations"]["muster.dev/plan"] == "node-b"
    assert "node-a" in plans


@fact(
    "suspend.deleted-by-others",
    "A pod of a Job with `backoffLimit: 0` is deleted by anybody but the Job controller.",
    result="It counts as failed: the Job fails (BackoffLimitExceeded) and its other pods are deleted.",
    consequence="Muster never evicts a pod of a Job: it suspends the Job, and before others evict.",
    for_users=True,
)
def test_a_pod_that_others_delete(place: Place, scheduler: Scheduler) -> None:
    run(place)
    place.api.delete(f"{place.pods}/{place.pods_of()[0]['metadata']['name']}", {"gracePeriodSeconds": 0})
    failed = place.until_job(lambda job: conditions(job).get("Failed") == "True")
    reasons = {condition["reason"] for condition in failed["status"]["conditions"] if condition["type"] == "Failed"}
    assert reasons == {"BackoffLimitExceeded"}


@fact(
    "suspend.thousand",
    "A Job with 1,000 pods, none of them bound, is suspended, and unsuspended with another plan.",
    result="To suspend: {patches} PATCHes and {deletes} DELETEs of pods (those beyond 1,000 are sent again before the "
    "controller's cache has seen the first), {statuses} writes of the Job's status, {down_ms} ms of "
    "CPU of kube-apiserver a pod. To start again: {creates} creations, {up_ms} ms a pod. None failed.",
    consequence="A new plan for a Job whose pods exist costs two writes for each old pod beside the creation of the "
    "new one. At kube-controller-manager's default of 20 requests a second that is 100 s or more to suspend 1,000 "
    "pods: suspend to start over, not to move a pod.",
    slow=True,
)
def test_a_thousand_pods(place: Place, measured: Callable[..., None]) -> None:
    cluster = place.cluster
    place.create_job(slots=MANY, suspend=True)
    place.patch_job(plan("node-a"))
    place.until_job(lambda job: job["status"].get("active") == MANY)
    before, began = requests_of(cluster, place.namespace), cpu_s(cluster)
    suspend(place)
    place.until_job(lambda job: is_suspended(job) and not job["status"].get("terminating"))
    place.until_pods(lambda pods: not pods)
    down_s = cpu_s(cluster) - began
    down = asked_since(place, before, "delete pods")
    before, began = requests_of(cluster, place.namespace), cpu_s(cluster)
    place.patch_job(plan("node-b"))
    again = place.until_job(lambda job: job["status"].get("active") == MANY)
    up_s = cpu_s(cluster) - began
    up = asked_since(place, before, "create pods")
    assert again["status"].get("failed") is None
    assert down["delete pods"] >= MANY, "fewer deletions than pods"
    assert up["create pods"] == MANY
    measured(
        patches=down["patch pods"],
        deletes=down["delete pods"],
        statuses=down["update jobs/status"],
        creates=up["create pods"],
        down_ms=round(down_s * 1000 / MANY, 2),
        up_ms=round(up_s * 1000 / MANY, 2),
    )


def asked_since(place: Place, before: Counter[str], request: str) -> Counter[str]:
    """The requests of the Job controller since then; the audit log may be a moment behind."""
    return until(
        lambda: requests_of(place.cluster, place.namespace) - before,
        lambda requests: requests[request] >= MANY,
        every_s=0.5,
    )
