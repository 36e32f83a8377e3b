"""On a real API server: which jobs the admission policies suspend when they are created, and until when."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import yaml

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.muster import install_gate, install_job_admission
from tests.documents.pages import ROOT, blocks
from tests.integration.team import GANG, PLAN, QUEUE, WAYS, Team, ours, scheduler_of


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install_gate(running)
        install_job_admission(running)
        yield running


# Which jobs.


@pytest.mark.parametrize(
    "meta",
    [
        {"labels": QUEUE},
        {"labels": {"muster.dev/queue-name": "team-a"}},
        {"labels": GANG},
        {"labels": {}, "annotations": GANG},
    ],
    ids=["queue of Kueue's name", "queue", "label", "annotation"],
)
@pytest.mark.parametrize("spec", [{}, {"suspend": False}, {"suspend": True}], ids=["silent", "false", "true"])
def test_a_managed_job_is_created_suspended_and_for_our_scheduler(team: Team, meta: Object, spec: Object) -> None:
    job = team.create(team.job(**meta, spec=spec))
    assert (job["spec"]["suspend"], scheduler_of(job)) == (True, "muster")
    assert ours(job) == meta["labels"]


def test_the_manifest_of_the_page_needs_nothing_else(team: Team) -> None:
    (shown,) = [block for block in blocks(ROOT / "docs" / "jobs.md") if block.language == "yaml"]
    job = team.create(yaml.safe_load(shown.text))
    assert (job["spec"]["suspend"], scheduler_of(job)) == (True, "muster")


OWNER = {"name": "owner", "uid": "1", "controller": True}
LEFT_ALONE: dict[str, Object] = {
    "names nothing": {"labels": {}},
    "an empty queue": {"labels": {"muster.dev/queue-name": ""}},
    "said so": {"labels": QUEUE | {"muster.dev/gang": "false"}},
    "said so in an annotation": {"annotations": {"muster.dev/gang": "false"}},
    "of a JobSet": {"ownerReferences": [OWNER | {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}]},
    "of an MPIJob": {"ownerReferences": [OWNER | {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob"}]},
    "of a RayJob": {"ownerReferences": [OWNER | {"apiVersion": "ray.io/v1", "kind": "RayJob"}]},
    "of another controller": {"spec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
}


@pytest.mark.parametrize("why", LEFT_ALONE)
def test_any_other_job_is_left_alone(team: Team, why: str) -> None:
    job = team.create(team.job(**LEFT_ALONE[why]))
    assert (job["spec"]["suspend"], scheduler_of(job)) == (False, "default-scheduler")


@pytest.mark.parametrize(
    "meta",
    [
        {"ownerReferences": [OWNER | {"apiVersion": "batch/v1", "kind": "CronJob"}]},
        {"ownerReferences": [OWNER | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow"}]},
        {
            "ownerReferences": [
                OWNER | {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "controller": False}
            ]
        },
        {"spec": {"managedBy": "kubernetes.io/job-controller"}},
    ],
    ids=["CronJob", "Workflow", "no controller", "its own controller"],
)
def test_a_job_of_a_cronjob_or_a_workflow_is_managed(team: Team, meta: Object) -> None:
    assert team.create(team.job(**meta))["spec"]["suspend"]


def test_another_scheduler_that_a_job_names_stays(team: Team) -> None:
    assert scheduler_of(team.create(team.job(pod={"schedulerName": "volcano"}))) == "volcano"


def test_a_plan_that_a_manifest_brings_along_is_dropped(team: Team) -> None:
    """The manifest may come from `kubectl get -o yaml`, for example."""
    job = team.create(team.job(annotations={PLAN: "{}", "kept": "yes"}))
    assert job["metadata"]["annotations"] == {"kept": "yes"}


def test_a_namespace_can_hand_all_its_jobs_over(cluster: Cluster) -> None:
    team = Team(cluster, manage_jobs="true")
    job = team.create(team.job(labels={}))
    assert (job["spec"]["suspend"], scheduler_of(job), ours(job)) == (True, "muster", GANG)
    assert team.create(team.job("labelled", labels={"a": "b"}))["metadata"]["labels"] == {"a": "b"} | GANG
    assert team.create(team.job("queued"))["metadata"]["labels"] == QUEUE
    assert not team.create(team.job("out", labels={"muster.dev/gang": "false"}))["spec"]["suspend"]
    # A user who replaces it does not know the label.
    again = team.job(labels={"a": "b"}) | {"spec": job["spec"] | {"suspend": False}}
    cluster.kubectl("replace", "-f", "-", stdin=json.dumps(again))
    now = team.now()
    assert (now["spec"]["suspend"], now["metadata"]["labels"]) == (True, {"a": "b"} | GANG)


def test_a_job_that_was_there_before_its_namespace_was_handed_over_is_its_users(cluster: Cluster, team: Team) -> None:
    team.create(team.job(labels={}, spec={"suspend": True}))
    cluster.api.patch(f"/api/v1/namespaces/{team.name}", {"metadata": {"labels": {"muster.dev/manage-jobs": "true"}}})
    assert not team.patch({"spec": {"suspend": False}})["spec"]["suspend"]


# Until when.


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spec", [{}, {"suspend": False}], ids=["silent", "false"])
def test_a_manifest_applied_again_neither_starts_nor_stops_its_job(team: Team, way: str, spec: Object) -> None:
    manifest = team.job(spec=spec)
    assert "error" not in team.apply(manifest, way).lower()
    assert "error" not in team.apply(manifest, way).lower()
    waiting = team.now()
    assert waiting["spec"]["suspend"]
    assert "startTime" not in waiting.get("status", {})
    started = team.start()
    assert "error" not in team.apply(manifest, way).lower()
    now = team.now()
    assert not now["spec"]["suspend"]
    assert now["metadata"]["annotations"][PLAN] == started["metadata"]["annotations"][PLAN]


def test_nor_does_one_that_no_longer_mentions_it(team: Team) -> None:
    for way in WAYS:
        team.apply(team.job(way, spec={"suspend": False}), way)
        team.apply(team.job(way), way)
        assert team.now(way)["spec"]["suspend"]


def test_a_manifest_that_says_suspend_stops_its_job(team: Team) -> None:
    stopped = {}
    for way in WAYS:
        manifest = team.job(way, spec={"suspend": True})
        team.apply(manifest, way)
        team.start(way)
        team.apply(manifest, way)
        stopped[way] = team.now(way)["spec"]["suspend"]
    assert stopped == {"client": True, "server": False, "forced": True}  # server: a conflict, as Kubernetes says


def test_an_old_plan_does_not_start_a_job_again(team: Team) -> None:
    team.create(team.job())
    team.start()
    stopped = team.patch({"spec": {"suspend": True}})
    assert stopped["spec"]["suspend"]
    assert PLAN not in stopped["metadata"].get("annotations", {})
    assert team.patch({"spec": {"suspend": False}})["spec"]["suspend"]
    team.start()


def test_a_job_that_ran_before_it_was_managed_runs_on(team: Team) -> None:
    team.create(team.job(labels={}))
    team.until_active()
    assert not team.patch({"metadata": {"labels": QUEUE}})["spec"]["suspend"]
    assert not team.patch({"spec": {"activeDeadlineSeconds": 1000}})["spec"]["suspend"]


def test_a_job_can_be_taken_out_of_our_hands(team: Team) -> None:
    team.create(team.job())
    released = team.patch({"metadata": {"labels": {"muster.dev/gang": "false"}}, "spec": {"suspend": False}})
    assert not released["spec"]["suspend"]


TAKEN_OUT: Object = {"muster.dev/gang": "false"}
RENAMED: Object = {"kueue.x-k8s.io/queue-name": "team-b"}
REMOVED: Object = {"kueue.x-k8s.io/queue-name": None}
CHANGES: list[Object] = [{"labels": RENAMED}, {"labels": REMOVED}, {"labels": TAKEN_OUT}, {"annotations": TAKEN_OUT}]


@pytest.mark.parametrize("change", CHANGES, ids=["renamed", "removed", "left-alone", "left-alone-by-annotation"])
def test_the_queue_of_a_job_that_runs_stays(team: Team, change: Object) -> None:
    """Otherwise its old queue would get back quota that the job still uses."""
    team.create(team.job())
    team.start()
    with pytest.raises(ApiError, match="it runs with the quota of the queue team-a: suspend it before"):
        team.patch({"metadata": change})
    team.patch({"metadata": {"labels": {"kept": "yes"}}, "spec": {"parallelism": 1}})
    team.patch({"spec": {"suspend": True}})
    team.patch({"metadata": change})


def test_a_job_that_names_no_queue_may_name_one_while_it_runs(team: Team) -> None:
    team.create(team.job(labels=GANG))
    team.start()
    assert team.patch({"metadata": {"labels": QUEUE}})["metadata"]["labels"].items() >= QUEUE.items()
