"""On a real API server: the allowed writes of the extender's account on jobs with several pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds
from devcluster.muster import install
from extender.kube.kinds.change import merge_patch
from tests.integration.extender import MERGE, Extender
from tests.integration.team import NODES, PLAN, QUEUE, WORKLOAD, Team, named

OUR_MARKS = {"muster.dev/pod-group": "gang", "muster.dev/min-member": "2", WORKLOAD: "uid", NODES: "a,b"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_crds(running, "jobset", "training-operator", "kuberay")
        yield running


PODS = {"spec": {"restartPolicy": "Never", "containers": [{"name": "pytorch", "image": "train"}]}}
JOBSET = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "train", "labels": QUEUE},
    "spec": {
        "replicatedJobs": [
            {"name": name, "replicas": 1, "template": {"spec": {"parallelism": 1, "template": PODS}}} for name in "ab"
        ]
    },
}
PYTORCH = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "train", "labels": QUEUE},
    "spec": {
        "pytorchReplicaSpecs": {
            role: {"replicas": 1, "restartPolicy": "Never", "template": PODS} for role in ("Master", "Worker")
        }
    },
}
RAY = {
    "headGroupSpec": {"rayStartParams": {}, "template": PODS},
    "workerGroupSpecs": [
        {"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "rayStartParams": {}, "template": PODS}
    ],
}
RAYCLUSTER = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "train", "labels": QUEUE},
    "spec": RAY,
}
RAYJOB = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "train", "labels": QUEUE},
    "spec": {
        "entrypoint": "train",
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": RAY,
        "submitterPodTemplate": PODS,
    },
}
EACH = pytest.mark.parametrize("manifest", [JOBSET, PYTORCH, RAYCLUSTER, RAYJOB], ids=lambda obj: str(obj["kind"]))


def ray_of(obj: Object) -> Object:
    cluster: Object = obj["spec"].get("rayClusterSpec", obj["spec"])
    return cluster


def pods_of(obj: Object) -> list[Object]:
    """The templates themselves, to be written to."""
    if obj["kind"] == "JobSet":
        return [job["template"]["spec"]["template"] for job in obj["spec"]["replicatedJobs"]]
    if obj["kind"].startswith("Ray"):
        submitter = [obj["spec"]["submitterPodTemplate"]] if "submitterPodTemplate" in obj["spec"] else []
        return [
            group["template"] for group in (ray_of(obj)["headGroupSpec"], *ray_of(obj)["workerGroupSpecs"])
        ] + submitter
    return [role["template"] for role in obj["spec"]["pytorchReplicaSpecs"].values()]


def path_of(team: Team, obj: Object) -> str:
    return f"/apis/{obj['apiVersion']}/namespaces/{team.name}/{obj['kind'].lower()}s"


def mark(obj: Object, *, suspend: bool) -> None:
    """Mark the job as Muster does when it starts it, or remove the marks."""
    (obj["spec"].setdefault("runPolicy", {}) if obj["kind"] == "PyTorchJob" else obj["spec"])["suspend"] = suspend
    obj["metadata"]["annotations"] = {PLAN: "" if suspend else "{}"}
    for pod in pods_of(obj):
        pod.setdefault("metadata", {})["annotations"] = {} if suspend else dict(OUR_MARKS)
        if obj["kind"] != "JobSet":
            pod["spec"]["affinity"] = {} if suspend else named("a", "b")


@EACH
def test_a_job_with_several_templates_is_started_and_given_back(
    team: Team, extender: Extender, manifest: Object
) -> None:
    created = team.api.create(path_of(team, manifest), manifest)
    path = f"{path_of(team, manifest)}/train"
    for suspend in (False, True):
        before = team.api.get(path)
        after = deepcopy(before)
        mark(after, suspend=suspend)
        extender.patch(path, merge_patch(before, after))
        assert pods_of(team.api.get(path)) == pods_of(after)
    assert [pod["spec"]["containers"] for pod in pods_of(created)] == [PODS["spec"]["containers"]] * len(
        pods_of(created)
    )


SPEC_CHANGES: list[Object] = [
    {"containers": [{"name": "pytorch", "image": "miner"}]},
    {"containers": [{"name": "pytorch", "image": "train", "command": ["sh"]}]},
    {"initContainers": [{"name": "first", "image": "miner"}]},
    {"serviceAccountName": "admin"},
    {"hostPID": True},
    {"schedulerName": "default-scheduler"},
    {"tolerations": [{"operator": "Exists"}]},
]


def around(obj: Object) -> list[Object]:
    """It, each with something around its pod templates changed."""
    if obj["kind"] == "JobSet":
        paths: list[tuple[str, Any]] = [
            ("ttlSecondsAfterFinished", 1),
            ("replicatedJobs", obj["spec"]["replicatedJobs"][:1]),
            ("replicatedJobs", obj["spec"]["replicatedJobs"][::-1]),
            ("replicatedJobs.0.replicas", 2),
            ("replicatedJobs.0.template.metadata", {"labels": {"app": "other"}}),
            ("replicatedJobs.0.template.spec.backoffLimit", 9),
        ]
    elif obj["kind"] == "PyTorchJob":
        paths = [
            ("nprocPerNode", "1"),
            ("runPolicy.ttlSecondsAfterFinished", 1),
            ("pytorchReplicaSpecs.Master.replicas", 2),
            ("pytorchReplicaSpecs.Worker.restartPolicy", "Always"),
            ("pytorchReplicaSpecs.Master", None),
        ]
    else:
        within, workers = "rayClusterSpec." if obj["kind"] == "RayJob" else "", ray_of(obj)["workerGroupSpecs"]
        paths = [
            (f"{within}rayVersion", "2.52.0"),
            (f"{within}headGroupSpec.rayStartParams", {"num-cpus": "9"}),
            (f"{within}workerGroupSpecs", []),
            (f"{within}workerGroupSpecs", [*workers, workers[0] | {"groupName": "other"}]),
            (f"{within}workerGroupSpecs.0.replicas", 2),
            (f"{within}workerGroupSpecs.0.rayStartParams", {"num-cpus": "9"}),
        ]
        if obj["kind"] == "RayJob":
            paths += [("entrypoint", "mine"), ("submitterPodTemplate", None), ("rayClusterSpec.suspend", True)]
    return [changed(obj, *change) for change in paths]


def changed(obj: Object, path: str, value: Any) -> Object:
    """A copy with that field of its spec; None takes it off."""
    after = deepcopy(obj)
    inside: Any = after["spec"]
    *parts, last = path.split(".")
    for key in parts:
        inside = inside[int(key)] if key.isdigit() else inside.setdefault(key, {})
    if value is None:
        del inside[last]
    else:
        inside[last] = deepcopy(value)
    return after


@EACH
def test_nothing_else_of_it_can_be_changed(team: Team, extender: Extender, manifest: Object) -> None:
    before = team.api.create(path_of(team, manifest), manifest)
    path = f"{path_of(team, manifest)}/train"
    spoilt: list[Object] = around(before)
    for at in range(len(pods_of(before))):
        for change in SPEC_CHANGES:
            spoilt.append(deepcopy(before))
            pods_of(spoilt[-1])[at]["spec"] |= change
        spoilt.append(deepcopy(before))
        pods_of(spoilt[-1])[at].setdefault("metadata", {})["labels"] = {"app": "other"}
    spoilt.append(deepcopy(before))
    spoilt[-1]["metadata"]["labels"]["app"] = "other"
    for after in spoilt:
        mark(after, suspend=False)
        extender.refused("PATCH", path, merge_patch(before, after), MERGE)
    assert team.api.get(path)["metadata"]["generation"] == before["metadata"]["generation"]
