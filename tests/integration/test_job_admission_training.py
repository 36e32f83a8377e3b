"""What the admission policies do to JobSets, training jobs and TrainJobs, whose kinds come after them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import Object
from tests.integration.managed_kinds import (
    NAMED,
    TRAINING,
    collection,
    create,
    jobset,
    schedulers,
    suspended,
    suspension,
    train_job,
    training,
    trains,
    with_kinds,
)
from tests.integration.team import GANG, NODES, PLAN, QUEUE, REQUIRED, WORKLOAD, Team, node_names, ours

MANAGE = {"manage_jobs": "true"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with with_kinds() as running:
        yield running


@pytest.mark.parametrize("kind", TRAINING)
@pytest.mark.parametrize("policy", [None, {}, {"suspend": False}, {"suspend": True}])
def test_a_managed_training_job_is_created_suspended(team: Team, kind: str, policy: Object | None) -> None:
    one = create(team, training(kind, policy))
    assert suspended(one)
    assert set(schedulers(one)) == {"muster"}


@pytest.mark.parametrize("kind", TRAINING)
def test_any_other_training_job_is_left_alone(team: Team, kind: str) -> None:
    cases: list[tuple[Object, Object]] = [
        ({"labels": {}}, {}),
        ({"labels": QUEUE | {"muster.dev/gang": "false"}}, {}),
        ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}),
    ]
    for number, (meta, policy) in enumerate(cases):
        one = create(team, training(kind, policy, name=f"train-{number}", **meta))
        assert not suspended(one)
        assert set(schedulers(one)) == {""}


def test_a_managed_jobset_is_created_suspended_and_its_jobs_are_its_own(cluster: Cluster) -> None:
    team = Team(cluster, **MANAGE)
    one = create(team, jobset(1, 2, 1))
    assert suspended(one)
    assert ours(one) == GANG
    assert schedulers(one) == ["muster", "muster", "volcano"]
    jobs = team.api.wait_for(team.jobs, lambda jobs: len(jobs) == 4)
    assert all(job["spec"]["suspend"] for job in jobs)
    # As its controller starts them: nothing of ours holds them.
    team.api.patch(f"{collection(team, 'JobSet')}/train", suspension("JobSet", to=False, plan="{}"))
    team.api.wait_for(team.jobs, lambda jobs: len(jobs) == 4 and not any(job["spec"]["suspend"] for job in jobs))


@pytest.mark.parametrize("kind", ["JobSet", "PyTorchJob", "MPIJob"])
def test_it_starts_with_a_plan_alone(team: Team, kind: str) -> None:
    manifest = jobset(1, labels=QUEUE) if kind == "JobSet" else training(kind, None)
    path = f"{collection(team, kind)}/{create(team, manifest)['metadata']['name']}"
    assert suspended(team.api.patch(path, suspension(kind, to=False)))
    assert suspended(team.api.patch(path, suspension(kind, to=False, plan="")))
    started = team.api.patch(path, suspension(kind, to=False, plan="{}"))
    assert not suspended(started)
    assert not suspended(team.api.patch(path, {"metadata": {"labels": {"a": "b"}}}))
    stopped = team.api.patch(path, suspension(kind, to=True))
    assert suspended(stopped)
    assert PLAN not in stopped["metadata"].get("annotations", {})
    assert suspended(team.api.patch(path, suspension(kind, to=False)))


def test_pods_of_a_jobset_are_led_by_job_and_index(team: Team) -> None:
    create(team, jobset(2, 1, labels=QUEUE))
    jobs = [{"op": "add", "path": "/spec/suspend", "value": False}]
    jobs.append({"op": "add", "path": "/metadata/annotations", "value": {PLAN: "{}"}})
    for at, nodes in enumerate(("a,b;c,d", "e,f")):
        path = f"/spec/replicatedJobs/{at}/template/spec/template/metadata"
        annotations = {WORKLOAD: "uid", NODES: nodes}
        jobs.append({"op": "add", "path": path, "value": {"annotations": annotations}})
    team.api.patch(f"{collection(team, 'JobSet')}/train", jobs, "application/json-patch+json")
    pods = team.api.wait_for(team.pods, lambda pods: len(pods) == 6)
    led = {}
    for pod in pods:
        labels = pod["metadata"]["labels"]
        slot = (
            labels["jobset.sigs.k8s.io/replicatedjob-name"],
            *(labels["jobset.sigs.k8s.io/job-index"], labels["batch.kubernetes.io/job-completion-index"]),
        )
        led[slot] = node_names(pod) if REQUIRED in str(pod["spec"]) else []
    assert led == {
        ("role-0", "0", "0"): ["a"],
        ("role-0", "0", "1"): ["b"],
        ("role-0", "1", "0"): ["c"],
        ("role-0", "1", "1"): ["d"],
        ("role-1", "0", "0"): [],  # of another scheduler
        ("role-1", "0", "1"): [],
    }


def held(one: Object) -> str:
    """Whether the entry of Muster's shows to its JobSet that it is held, and its queue; empty without one."""
    ours = [patch for patch in one["spec"].get("runtimePatches", ()) if patch["manager"] == "muster.dev/muster"]
    if not ours:
        return ""
    (entry,) = ours
    said: dict[str, str] = entry["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert (said[WORKLOAD], said["muster.dev/queue-name"]) == ("", one["metadata"]["labels"][NAMED])
    return said["muster.dev/hold"]


def test_a_trainjob_shows_its_jobset_which_queue_of_volcano_it_names(team: Team) -> None:
    said = {"muster.dev/gang": "true", "scheduling.volcano.sh/queue-name": "research"}
    one = train_job(team, labels={}, annotations=said)
    (entry,) = one["spec"]["runtimePatches"]
    shown = entry["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert shown["muster.dev/queue-name"] == "volcano/research"


@pytest.mark.parametrize("others", [0, 2])
def test_a_managed_trainjob_is_suspended_with_an_entry_that_shows_whether_it_is_held(team: Team, others: int) -> None:
    patches = [{"manager": f"example.com/{at}"} for at in range(others)]
    one = train_job(team, spec={"suspend": False, **({"runtimePatches": patches} if others else {})})
    assert suspended(one)
    assert one["spec"]["runtimePatches"][:others] == patches
    assert held(one) == "false"
    path = f"{trains(team)}/train"
    assert held(team.api.patch(path, {"metadata": {"labels": {"muster.dev/hold": "true"}}})) == "true"
    assert suspended(team.api.patch(path, suspension("TrainJob", to=False)))
    assert held(team.api.patch(path, {"spec": {"runtimePatches": patches}})) == "true", "it was taken off by an apply"
    assert held(team.api.patch(path, {"metadata": {"labels": {"muster.dev/hold": None, NAMED: "other"}}})) == "false"
    started = team.api.patch(path, suspension("TrainJob", to=False, plan="{}"))
    assert not suspended(started)
    running = team.api.patch(path, {"metadata": {"labels": {"muster.dev/hold": "true"}}})
    assert running["spec"]["runtimePatches"] == started["spec"]["runtimePatches"], "nobody may change it by now"
    assert suspended(team.api.patch(path, suspension("TrainJob", to=True)))


def test_any_other_trainjob_is_left_alone(team: Team) -> None:
    for at, labels in enumerate(({}, QUEUE | {"muster.dev/gang": "false"})):
        one = train_job(team, name=f"train-{at}", labels=labels)
        assert (suspended(one), held(one)) == (False, "")


def test_the_jobset_of_a_managed_trainjob_gets_our_scheduler_and_is_suspended_by_its_trainjob_alone(team: Team) -> None:
    one = train_job(team)
    owner = {"apiVersion": one["apiVersion"], "kind": "TrainJob", "name": "train", "uid": one["metadata"]["uid"]}
    for at, (said, expected) in enumerate((({WORKLOAD: ""}, ["muster", "volcano"]), ({}, ["", "volcano"]))):
        made = jobset(1, 1, annotations=said, labels=QUEUE, ownerReferences=[owner | {"controller": True}])
        made["metadata"]["name"] = f"train-{at}"
        created = create(team, made)
        assert (schedulers(created), suspended(created)) == (expected, False)
