"""Admission policies on kinds of jobs besides Jobs, and on the queue of any kind that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from tests.integration.managed_kinds import (
    NAMED,
    TRAINING,
    collection,
    create,
    jobset,
    ray,
    ray_schedulers,
    rays,
    schedulers,
    suspended,
    suspension,
    template,
    train_job,
    training,
    trains,
    with_kinds,
    wrapper,
    wrappers,
)
from tests.integration.team import GANG, NODES, PLAN, QUEUE, REQUIRED, WORKLOAD, Team, named, node_names, ours

MANAGE = {"manage_jobs": "true"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with with_kinds() as running:
        yield running


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
@pytest.mark.parametrize("groups", [(), ("a",), ("a", "b")], ids=len)
def test_a_managed_ray_is_created_suspended_and_starts_with_a_plan_alone(
    team: Team, kind: str, groups: tuple[str, ...]
) -> None:
    made = team.api.create(rays(team, kind), ray(kind, *groups, suspend=False))
    assert suspended(made)
    assert ray_schedulers(made) == ["muster"] * (1 + len(groups))
    path = f"{rays(team, kind)}/train"
    assert suspended(team.api.patch(path, suspension(kind, to=False)))
    assert not suspended(team.api.patch(path, suspension(kind, to=False, plan="{}")))
    stopped = team.api.patch(path, suspension(kind, to=True))
    assert suspended(stopped)
    assert PLAN not in stopped["metadata"].get("annotations", {})


def test_the_submitter_of_a_rayjob_gets_our_scheduler_and_the_raycluster_of_it_is_its_own(team: Team) -> None:
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "submit", "image": "ray"}]}}
    ray_job = team.api.create(rays(team, "RayJob"), ray("RayJob", "a", submitterPodTemplate=pods))
    assert ray_schedulers(ray_job) == ["muster"] * 3
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": ray_job["metadata"]["uid"]}
    made = ray("RayCluster", "a")
    made["metadata"]["ownerReferences"] = [owner | {"controller": True}]
    assert not suspended(team.api.create(rays(team, "RayCluster"), made))


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("RayJob", {"shutdownAfterJobFinishes": False}),
        ("RayJob", {"clusterSelector": {"ray.io/cluster": "there"}}),
        ("RayJob", {"managedBy": "kueue.x-k8s.io/multikueue"}),
        ("RayCluster", {"managedBy": "kueue.x-k8s.io/multikueue"}),
    ],
    ids=str,
)
def test_what_cannot_be_suspended_or_is_run_elsewhere_is_left_alone(team: Team, kind: str, change: Object) -> None:
    made = team.api.create(rays(team, kind), ray(kind, "a", **change))
    assert not suspended(made)
    assert set(ray_schedulers(made)) == {""}


@pytest.mark.parametrize("explicit", [{}, {"suspend": False}, {"suspend": True}], ids=str)
def test_a_managed_appwrapper_is_created_suspended_and_starts_with_a_plan_alone(team: Team, explicit: Object) -> None:
    made = wrapper(team, spec=explicit)
    assert suspended(made)
    assert made["spec"]["components"][0]["template"]["spec"] == {"template": template()}
    path = f"{wrappers(team)}/train"
    assert suspended(team.api.patch(path, suspension("AppWrapper", to=False)))
    assert not suspended(team.api.patch(path, suspension("AppWrapper", to=False, plan="{}")))
    stopped = team.api.patch(path, suspension("AppWrapper", to=True))
    assert suspended(stopped)
    assert PLAN not in stopped["metadata"].get("annotations", {})


@pytest.mark.parametrize(
    "given",
    [{"labels": {}}, {"labels": QUEUE | {"muster.dev/gang": "false"}}, {"spec": {"managedBy": "kueue.x-k8s.io/else"}}],
    ids=["without a queue", "left alone", "run elsewhere"],
)
def test_another_appwrapper_is_left_alone(team: Team, given: Object) -> None:
    assert not suspended(wrapper(team, **given))


def test_what_an_appwrapper_has_made_is_its_own(team: Team) -> None:
    made = wrapper(team)
    owner = {"apiVersion": made["apiVersion"], "kind": "AppWrapper", "name": "train", "uid": made["metadata"]["uid"]}
    inner = team.job(ownerReferences=[owner | {"controller": True}])
    assert not team.create(inner)["spec"]["suspend"]


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
@pytest.mark.parametrize("way", ["client", "forced"])
def test_a_ray_that_is_applied_again_keeps_what_it_was_started_with(team: Team, kind: str, way: str) -> None:
    """The worker groups are a list, which is replaced as a whole."""
    manifest = ray(kind, "a", "b")
    manifest["metadata"]["namespace"] = team.name
    path = f"{rays(team, kind)}/train"
    team.apply(manifest, way)
    spec = team.api.get(path)["spec"]
    shape = spec.get("rayClusterSpec", spec)
    for group in (shape["headGroupSpec"], *shape["workerGroupSpecs"]):
        group["template"]["metadata"] = {
            "annotations": {WORKLOAD: "uid", NODES: "n"},
            "labels": {"muster.dev/led": "index"},
        }
        group["template"]["spec"]["affinity"] = named("n")
    team.api.patch(path, {"metadata": {"annotations": {PLAN: "{}"}}, "spec": spec | {"suspend": False}})
    started = team.api.get(path)["spec"]
    assert "error" not in team.apply(manifest, way).lower()
    assert team.api.get(path)["spec"] == started
    team.apply(renewed(manifest), way)
    assert team.api.get(path)["spec"] == renewed(started)


@pytest.mark.parametrize("way", ["client", "forced"])
def test_an_appwrapper_that_is_applied_again_keeps_what_it_was_started_with(team: Team, way: str) -> None:
    """The components are a list, too. A failed one is created again from it."""
    inner: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "inner"}}
    spec = {"components": [{"template": inner | {"spec": {"template": template()}}}]}
    manifest: Object = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "spec": spec}
    manifest["metadata"] = {"name": "train", "namespace": team.name, "labels": QUEUE}
    path = f"{wrappers(team)}/train"
    team.apply(manifest, way)
    (component,) = team.api.get(path)["spec"]["components"]
    led = {
        "suspend": False,
        "components": [component | {"podSetInfos": [{"annotations": {WORKLOAD: "uid", NODES: "n"}}]}],
    }
    team.api.patch(path, {"metadata": {"annotations": {PLAN: "{}"}}, "spec": led})
    started = team.api.get(path)["spec"]
    assert "error" not in team.apply(manifest, way).lower()
    assert team.api.get(path)["spec"] == started
    team.api.patch(path, suspension("AppWrapper", to=True))
    team.apply(manifest, way)
    assert "podSetInfos" not in team.api.get(path)["spec"]["components"][0], "it waits, and nothing of ours is needed"


def renewed(obj: Object) -> Object:
    """With another image in each of its templates."""
    changed: Object = json.loads(json.dumps(obj).replace('"rayproject/ray"', '"rayproject/ray:2"'))
    return changed


def any_kind(team: Team, kind: str) -> str:
    """The path of a managed job of that kind, which is suspended."""
    if kind in ("JobSet", *TRAINING):
        made, at = jobset(1, labels=QUEUE) if kind == "JobSet" else training(kind, None), collection(team, kind)
        create(team, made)
    elif kind.startswith("Ray"):
        at = rays(team, kind)
        team.api.create(at, ray(kind, "a"))
    elif kind == "AppWrapper":
        at = wrappers(team)
        wrapper(team)
    else:
        at = trains(team)
        train_job(team)
    return f"{at}/train"


def condition(kind: str) -> Object:
    now = {"lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "Ended", "message": ""}
    return {"conditions": [{"type": kind, "status": "True", **now}]}


ENDED: dict[str, Object] = {
    "JobSet": condition("Completed"),
    "RayJob": {"jobDeploymentStatus": "Complete"},
    "AppWrapper": {"phase": "Succeeded"},
    "TrainJob": condition("Failed"),
}


@pytest.mark.parametrize("kind", ["JobSet", *TRAINING, "RayCluster", "RayJob", "TrainJob", "AppWrapper"])
def test_the_queue_of_one_that_runs_stays_until_it_is_suspended_or_has_ended(team: Team, kind: str) -> None:
    path = any_kind(team, kind)
    renamed: Object = {"metadata": {"labels": {NAMED: "team-b"}}}
    team.api.patch(path, renamed)
    started: Object = {"metadata": {"labels": QUEUE, "annotations": {PLAN: "{}"}}}
    team.api.patch(path, suspension(kind, to=False) | started)
    for change in (renamed, {"metadata": {"labels": {"muster.dev/gang": "false"}}}):
        with pytest.raises(ApiError, match="it runs with the quota of the queue team-a: suspend it before"):
            team.api.patch(path, change)
    if kind in ENDED:
        team.api.patch(f"{path}/status", {"status": ENDED[kind]})
    else:
        team.api.patch(path, suspension(kind, to=True))
    team.api.patch(path, renamed)


# JobSets, training jobs and TrainJobs.


@pytest.mark.parametrize("kind", TRAINING)
@pytest.mark.parametrize("policy", [None, {}, {"suspend": False}, {"suspend": True}])
def test_a_managed_training_job_is_created_suspended(team: Team, kind: str, policy: Object | None) -> None:
    made = create(team, training(kind, policy))
    assert suspended(made)
    assert set(schedulers(made)) == {"muster"}


@pytest.mark.parametrize("kind", TRAINING)
def test_any_other_training_job_is_left_alone(team: Team, kind: str) -> None:
    cases: list[tuple[Object, Object]] = [
        ({"labels": {}}, {}),
        ({"labels": QUEUE | {"muster.dev/gang": "false"}}, {}),
        ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}),
    ]
    for number, (meta, policy) in enumerate(cases):
        made = create(team, training(kind, policy, name=f"train-{number}", **meta))
        assert not suspended(made)
        assert set(schedulers(made)) == {""}


def test_a_managed_jobset_is_created_suspended_and_its_jobs_are_its_own(cluster: Cluster) -> None:
    team = Team(cluster, **MANAGE)
    made = create(team, jobset(1, 2, 1))
    assert suspended(made)
    assert ours(made) == GANG
    assert schedulers(made) == ["muster", "muster", "volcano"]
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
    shown: dict[str, str] = entry["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert (shown[WORKLOAD], shown["muster.dev/queue-name"]) == ("", one["metadata"]["labels"][NAMED])
    return shown["muster.dev/hold"]


def test_a_trainjob_shows_its_jobset_which_queue_of_volcano_it_names(team: Team) -> None:
    marks = {"muster.dev/gang": "true", "scheduling.volcano.sh/queue-name": "research"}
    trainjob = train_job(team, labels={}, annotations=marks)
    (entry,) = trainjob["spec"]["runtimePatches"]
    shown = entry["trainingRuntimeSpec"]["template"]["metadata"]["annotations"]
    assert shown["muster.dev/queue-name"] == "volcano/research"


@pytest.mark.parametrize("others", [0, 2])
def test_a_managed_trainjob_is_suspended_with_an_entry_that_shows_whether_it_is_held(team: Team, others: int) -> None:
    patches = [{"manager": f"example.com/{at}"} for at in range(others)]
    trainjob = train_job(team, spec={"suspend": False, **({"runtimePatches": patches} if others else {})})
    assert suspended(trainjob)
    assert trainjob["spec"]["runtimePatches"][:others] == patches
    assert held(trainjob) == "false"
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
        trainjob = train_job(team, name=f"train-{at}", labels=labels)
        assert (suspended(trainjob), held(trainjob)) == (False, "")


def test_the_jobset_of_a_managed_trainjob_gets_our_scheduler_and_is_suspended_by_its_trainjob_alone(team: Team) -> None:
    trainjob = train_job(team)
    owner = {
        "apiVersion": trainjob["apiVersion"],
        "kind": "TrainJob",
        "name": "train",
        "uid": trainjob["metadata"]["uid"],
    }
    for at, (marks, expected) in enumerate((({WORKLOAD: ""}, ["muster", "volcano"]), ({}, ["", "volcano"]))):
        made = jobset(1, 1, annotations=marks, labels=QUEUE, ownerReferences=[owner | {"controller": True}])
        made["metadata"]["name"] = f"train-{at}"
        created = create(team, made)
        assert (schedulers(created), suspended(created)) == (expected, False)
