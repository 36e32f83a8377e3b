"""What the admission policies do to Ray's kinds and AppWrappers, and to the queue of any kind that runs."""

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
from tests.integration.team import NODES, PLAN, QUEUE, WORKLOAD, Team, named


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with with_kinds() as running:
        yield running


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
@pytest.mark.parametrize("groups", [(), ("a",), ("a", "b")], ids=len)
def test_a_managed_ray_is_created_suspended_and_starts_with_a_plan_alone(
    team: Team, kind: str, groups: tuple[str, ...]
) -> None:
    one = team.api.create(rays(team, kind), ray(kind, *groups, suspend=False))
    assert suspended(one)
    assert ray_schedulers(one) == ["muster"] * (1 + len(groups))
    path = f"{rays(team, kind)}/train"
    assert suspended(team.api.patch(path, suspension(kind, to=False)))
    assert not suspended(team.api.patch(path, suspension(kind, to=False, plan="{}")))
    stopped = team.api.patch(path, suspension(kind, to=True))
    assert suspended(stopped)
    assert PLAN not in stopped["metadata"].get("annotations", {})


def test_the_submitter_of_a_rayjob_gets_our_scheduler_and_the_raycluster_of_it_is_its_own(team: Team) -> None:
    pods = {"spec": {"restartPolicy": "Never", "containers": [{"name": "submit", "image": "ray"}]}}
    one = team.api.create(rays(team, "RayJob"), ray("RayJob", "a", submitterPodTemplate=pods))
    assert ray_schedulers(one) == ["muster"] * 3
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": one["metadata"]["uid"]}
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
    one = team.api.create(rays(team, kind), ray(kind, "a", **change))
    assert not suspended(one)
    assert set(ray_schedulers(one)) == {""}


@pytest.mark.parametrize("explicit", [{}, {"suspend": False}, {"suspend": True}], ids=str)
def test_a_managed_appwrapper_is_created_suspended_and_starts_with_a_plan_alone(team: Team, explicit: Object) -> None:
    one = wrapper(team, spec=explicit)
    assert suspended(one)
    assert one["spec"]["components"][0]["template"]["spec"] == {"template": template()}
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
    one = wrapper(team)
    owner = {"apiVersion": one["apiVersion"], "kind": "AppWrapper", "name": "train", "uid": one["metadata"]["uid"]}
    inner = team.job(ownerReferences=[owner | {"controller": True}])
    assert not team.create(inner)["spec"]["suspend"]


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob"])
@pytest.mark.parametrize("way", ["client", "forced"])
def test_a_ray_that_is_applied_again_keeps_what_it_was_started_with(team: Team, kind: str, way: str) -> None:
    """Its groups of workers are a list, which is replaced as a whole."""
    manifest = ray(kind, "a", "b")
    manifest["metadata"]["namespace"] = team.name
    path = f"{rays(team, kind)}/train"
    team.apply(manifest, way)
    spec = team.api.get(path)["spec"]
    shape = spec.get("rayClusterSpec", spec)
    for one in (shape["headGroupSpec"], *shape["workerGroupSpecs"]):
        one["template"]["metadata"] = {
            "annotations": {WORKLOAD: "uid", NODES: "n"},
            "labels": {"muster.dev/led": "index"},
        }
        one["template"]["spec"]["affinity"] = named("n")
    team.api.patch(path, {"metadata": {"annotations": {PLAN: "{}"}}, "spec": spec | {"suspend": False}})
    started = team.api.get(path)["spec"]
    assert "error" not in team.apply(manifest, way).lower()
    assert team.api.get(path)["spec"] == started
    team.apply(renewed(manifest), way)
    assert team.api.get(path)["spec"] == renewed(started)


@pytest.mark.parametrize("way", ["client", "forced"])
def test_an_appwrapper_that_is_applied_again_keeps_what_it_was_started_with(team: Team, way: str) -> None:
    """Its components are a list, too. One that fails is made anew by what stands there."""
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
    found: Object = json.loads(json.dumps(obj).replace('"rayproject/ray"', '"rayproject/ray:2"'))
    return found


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
