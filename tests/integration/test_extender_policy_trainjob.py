"""On a real API server: the extender's allowed writes on a TrainJob, whose pod templates are in its JobSet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from devcluster import Cluster
from devcluster.api import Object
from devcluster.controllers import install_crds
from devcluster.muster import install
from extender.core.effects import StartJob
from extender.kube.kinds.change import clean, merge_patch, start, suspend
from extender.kube.kinds.trainer import MANAGER, TRAIN_JOB, carried
from extender.kube.reading.reserved import RESERVATIONS
from policies.model import NodeWait, Toleration
from tests.integration.extender import Extender
from tests.integration.spoilt import check_refused, spoilt
from tests.integration.team import QUEUE, Team
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read
from tests.kube.kinds.train_jobs import jobset

SPOT = Toleration("spot", "Equal", "true", "NoSchedule")
ENTRY: Object = {
    "manager": MANAGER,
    "trainingRuntimeSpec": {"template": {"metadata": {"annotations": {"muster.dev/workload": ""}}}},
}
OTHERS: Object = {
    "manager": "kueue.x-k8s.io/manager",
    "trainingRuntimeSpec": {"template": {"metadata": {"labels": {"a": "b"}}}},
}
TRAINJOB: Object = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "train", "labels": QUEUE},
    "spec": {
        "suspend": True,
        "runtimeRef": {"name": "torch"},
        "trainer": {"numNodes": 3},
        "runtimePatches": [OTHERS, ENTRY],
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_crds(running, "trainer")
        yield running


def path_of(team: Team) -> str:
    return TRAIN_JOB.path_of(team.name, "train")


def created(team: Team, **meta: Any) -> Object:
    return team.api.create(path_of(team).rpartition("/")[0], TRAINJOB | {"metadata": TRAINJOB["metadata"] | meta})


def start_of(obj: Object) -> Object:
    """The TrainJob as Muster starts it."""
    made = jobset()
    job = read(TRAIN_JOB, made)
    start(TRAIN_JOB, made, StartJob(job, plan_for(job), job.podsets.minimum))
    return carried(obj, made, entry=True)


@pytest.mark.parametrize("tolerations", [(), (SPOT,)])
@pytest.mark.parametrize("node_wait", [None, NodeWait(1.8e9, 1)], ids=["with nodes", "without nodes"])
def test_it_is_started_suspended_and_given_back(
    team: Team, extender: Extender, tolerations: tuple[Toleration, ...], node_wait: NodeWait | None
) -> None:
    created(team)
    made = jobset()
    job = read(TRAIN_JOB, made)
    (name,) = plan_for(job)
    brought, flavors = {name: tolerations}, {name: {"cpu": "spot"}} if tolerations else {}
    labels = {name: (("pool", "spot"),)} if node_wait else {}
    plan = {} if node_wait else plan_for(job)
    start(TRAIN_JOB, made, StartJob(job, plan, job.podsets.minimum, flavors, brought, node_wait, labels))
    for change, entry in ((None, True), (suspend, False), (clean, True)):
        if change is not None:
            change(TRAIN_JOB, made)
            made["status"] = SUSPENDED
        if change is clean:  # its request is outdated now, and Muster's marks are removed all the same
            team.api.patch(path_of(team), {"metadata": {"labels": dict.fromkeys(QUEUE)}})
        before = team.api.get(path_of(team))
        extender.patch(path_of(team), merge_patch(before, carried(before, made, entry=entry)))
        if change is not clean:
            patch = team.api.get(path_of(team))["spec"]["runtimePatches"][1]
            assert ("tolerations" in str(patch)) == bool(tolerations)
            assert ("pool=spot" in str(patch)) == bool(node_wait)
    after = team.api.get(path_of(team))
    assert after["spec"]["suspend"] is True
    assert after["spec"]["runtimePatches"][0] == OTHERS
    assert "annotations" not in after["metadata"]
    assert "tolerations" not in str(after["spec"]["runtimePatches"])
    assert "spot" not in str(after["spec"])


def test_room_is_kept_for_one_that_waits(team: Team, extender: Extender) -> None:
    """The entry of such a TrainJob says nothing of pods yet."""
    created(team)
    for key in RESERVATIONS:
        extender.patch(path_of(team), {"metadata": {"annotations": {key: "{}"}}})
        assert key in team.api.get(path_of(team))["metadata"]["annotations"]


OURS = "runtimePatches.1.trainingRuntimeSpec.template"
PODS = f"{OURS}.spec.replicatedJobs.0.template.spec.template"
# All else of the spec is immutable by its CRD.
CHANGES: list[tuple[str, Object]] = [
    ("runtimePatches.0.trainingRuntimeSpec.template.metadata.labels", {"a": "c"}),
    ("runtimePatches.1", {"manager": "kueue.x-k8s.io/other"}),
    (f"{OURS}.metadata", {"labels": {"a": "b"}}),
    (f"{OURS}.metadata.annotations", {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}),
    (f"{OURS}.spec.replicatedJobs.0.template", {"metadata": {"annotations": {"a": "b"}}}),
    (PODS, {"spec": {"serviceAccountName": "admin"}}),
    (PODS, {"spec": {"tolerations": [{"operator": "Exists"}]}}),  # no flavor has brought it
    (PODS, {"spec": {"nodeSelector": {"disk": "fast"}}}),
    (f"{PODS}.metadata", {"labels": {"app": "other"}}),
    (f"{PODS}.metadata.annotations", {"container.apparmor.security.beta.kubernetes.io/node": "unconfined"}),
]


def test_nothing_else_of_it_can_be_changed(team: Team, extender: Extender) -> None:
    before = created(team)
    more, fewer, renamed = (start_of(before) for _ in range(3))
    more["spec"]["runtimePatches"].append({"manager": "kueue.x-k8s.io/third"})
    del fewer["spec"]["runtimePatches"][0]
    renamed["metadata"]["labels"]["app"] = "other"
    changed = [spoilt(start_of(before), path, change) for path, change in CHANGES]
    check_refused(team, extender, path_of(team), [*changed, more, fewer, renamed])


def test_one_that_does_not_ask_for_muster_is_left_alone(team: Team, extender: Extender) -> None:
    before = created(team, labels={})
    check_refused(team, extender, path_of(team), [start_of(before)])
