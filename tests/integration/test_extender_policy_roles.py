"""On a real API server: what the extender's account may write on jobs with several pod templates."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds
from devcluster.muster import NAMESPACE, install
from extender.kube.kinds.change import merge_patch
from tests.integration.team import NODES, PLAN, QUEUE, WORKLOAD, Team, named
from tests.integration.test_extender_policy import MERGE, Extender

OUR_MARKS = {"muster.dev/pod-group": "gang", "muster.dev/min-member": "2", WORKLOAD: "uid", NODES: "a,b"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        for name in ("jobset", "training-operator"):
            install_crds(running, name)
        yield running


@pytest.fixture(scope="module")
def extender(cluster: Cluster) -> Extender:
    return Extender(cluster.service_account_kubeconfig(NAMESPACE, "muster-extender"))


@pytest.fixture
def team(cluster: Cluster) -> Team:
    return Team(cluster)


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


def pods_of(obj: Object) -> list[Object]:
    """The templates themselves, to be written to."""
    if obj["kind"] == "JobSet":
        return [job["template"]["spec"]["template"] for job in obj["spec"]["replicatedJobs"]]
    return [role["template"] for role in obj["spec"]["pytorchReplicaSpecs"].values()]


def path_of(team: Team, obj: Object) -> str:
    return f"/apis/{obj['apiVersion']}/namespaces/{team.name}/{obj['kind'].lower()}s"


def mark(obj: Object, *, suspend: bool) -> None:
    """As Muster starts it, or takes what is its own off again."""
    (obj["spec"] if obj["kind"] == "JobSet" else obj["spec"].setdefault("runPolicy", {}))["suspend"] = suspend
    obj["metadata"]["annotations"] = {PLAN: "" if suspend else "{}"}
    for pod in pods_of(obj):
        pod.setdefault("metadata", {})["annotations"] = {} if suspend else dict(OUR_MARKS)
        if obj["kind"] != "JobSet":
            pod["spec"]["affinity"] = {} if suspend else named("a", "b")


@pytest.mark.parametrize("manifest", [JOBSET, PYTORCH], ids=["JobSet", "PyTorchJob"])
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
    assert [pod["spec"]["containers"] for pod in pods_of(created)] == [PODS["spec"]["containers"]] * 2


SPEC_CHANGES: list[Object] = [
    {"containers": [{"name": "pytorch", "image": "miner"}]},
    {"containers": [{"name": "pytorch", "image": "train", "command": ["sh"]}]},
    {"initContainers": [{"name": "first", "image": "miner"}]},
    {"serviceAccountName": "admin"},
    {"hostPID": True},
    {"schedulerName": "default-scheduler"},
    {"tolerations": [{"operator": "Exists"}]},
]


def first_jobs(obj: Object) -> Object:
    """The first role, without its pod template."""
    if obj["kind"] == "JobSet":
        first: Object = obj["spec"]["replicatedJobs"][0]
        return first
    role: Object = obj["spec"]["pytorchReplicaSpecs"]["Master"]
    return role


@pytest.mark.parametrize("manifest", [JOBSET, PYTORCH], ids=["JobSet", "PyTorchJob"])
def test_nothing_else_of_it_can_be_changed(team: Team, extender: Extender, manifest: Object) -> None:
    before = team.api.create(path_of(team, manifest), manifest)
    path = f"{path_of(team, manifest)}/train"
    spoilt: list[Object] = []
    for at in (0, 1):
        for change in SPEC_CHANGES:
            spoilt.append(deepcopy(before))
            pods_of(spoilt[-1])[at]["spec"] |= change
        spoilt.append(deepcopy(before))
        pods_of(spoilt[-1])[at].setdefault("metadata", {})["labels"] = {"app": "other"}
    spoilt += [deepcopy(before) for _ in range(4)]
    first_jobs(spoilt[-4])["replicas"] = 2
    spoilt[-3]["spec"]["ttlSecondsAfterFinished" if manifest is JOBSET else "nprocPerNode"] = (
        1 if manifest is JOBSET else "1"
    )
    spoilt[-2]["metadata"]["labels"]["app"] = "other"
    if manifest is JOBSET:
        spoilt[-1]["spec"]["replicatedJobs"].pop()
        spoilt += [deepcopy(before) for _ in range(3)]
        spoilt[-3]["spec"]["replicatedJobs"].reverse()
        spoilt[-2]["spec"]["replicatedJobs"][0]["template"].setdefault("metadata", {})["labels"] = {"app": "other"}
        spoilt[-1]["spec"]["replicatedJobs"][0]["template"]["spec"]["backoffLimit"] = 9
    else:
        del spoilt[-1]["spec"]["pytorchReplicaSpecs"]["Master"]
        spoilt += [deepcopy(before) for _ in range(2)]
        spoilt[-2]["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": 1}
        spoilt[-1]["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Always"
    for after in spoilt:
        mark(after, suspend=False)
        extender.refused("PATCH", path, merge_patch(before, after), MERGE)
    assert team.api.get(path)["metadata"]["generation"] == before["metadata"]["generation"]
