"""On a real API server with the CRD of Trainer 2.1: writes of the policies, and of the extender, on a TrainJob."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from devcluster import Cluster
from devcluster.api import ApiError, Object
from devcluster.controllers import install_crds
from devcluster.muster import install, install_job_admission
from extender.core.effects import StartJob
from extender.kube.kinds.change import clean, merge_patch, start, suspend
from extender.kube.kinds.trainer import TRAIN_JOB, before_start, carried
from policies.model import NodeWait, Toleration
from tests.integration.extender import Extender
from tests.integration.spoilt import check_refused, spoilt
from tests.integration.team import QUEUE, Team
from tests.kube.kinds.jobs import SUSPENDED, plan_for, read
from tests.kube.kinds.train_jobs import OTHERS, jobset

SPOT = Toleration("spot", "Equal", "true", "NoSchedule")
TRAINJOB: Object = {
    "apiVersion": "trainer.kubeflow.org/v1alpha1",
    "kind": "TrainJob",
    "metadata": {"name": "train", "labels": QUEUE},
    "spec": {
        "runtimeRef": {"name": "torch"},
        "trainer": {"numNodes": 3},
        "annotations": {"team.example.com/a": "b"},
        "podTemplateOverrides": [OTHERS],
    },
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        install(running)
        install_job_admission(running)
        install_crds(running, "trainer-2.1")
        yield running


def path_of(team: Team) -> str:
    return TRAIN_JOB.path_of(team.name, "train")


def created(team: Team) -> Object:
    return team.api.create(path_of(team).rpartition("/")[0], TRAINJOB)


def start_of(
    obj: Object, tolerations: tuple[Toleration, ...] = (), node_wait: NodeWait | None = None
) -> tuple[Object, Object]:
    """The TrainJob as Muster starts it, and its JobSet."""
    made = jobset()
    job = read(TRAIN_JOB, made)
    (name,) = plan_for(job)
    flavors = {name: {"cpu": "spot"}} if tolerations else {}
    plan, labels = ({}, {name: (("pool", "spot"),)}) if node_wait else (plan_for(job), {})
    start(TRAIN_JOB, made, StartJob(job, plan, 3, flavors, {name: tolerations}, node_wait, labels))
    return carried(obj, made, entry=True), made


def test_it_is_created_suspended_and_shows_whether_it_is_held(team: Team) -> None:
    spec = created(team)["spec"]
    (queue,) = QUEUE.values()
    shown = {"muster.dev/workload": "", "muster.dev/hold": "false", "muster.dev/queue-name": queue}
    assert (spec["suspend"], spec["annotations"]) == (True, {"team.example.com/a": "b"} | shown)
    assert ("runtimePatches" in spec, spec["podTemplateOverrides"]) == (False, [OTHERS])
    held = team.api.patch(path_of(team), {"metadata": {"labels": {"muster.dev/hold": "true"}}})
    assert held["spec"]["annotations"]["muster.dev/hold"] == "true"


@pytest.mark.parametrize("tolerations", [(), (SPOT,)])
@pytest.mark.parametrize("node_wait", [None, NodeWait(1.8e9, 1)], ids=["with nodes", "without nodes"])
def test_it_is_started_suspended_and_given_back(
    team: Team, extender: Extender, tolerations: tuple[Toleration, ...], node_wait: NodeWait | None
) -> None:
    before = created(team)
    after, made = start_of(before, tolerations, node_wait)
    # Trainer 2.1 wants it in two writes.
    for written in (before_start(before, after), after):
        extender.patch(path_of(team), merge_patch(before, written))
    overrides = team.api.get(path_of(team))["spec"]["podTemplateOverrides"]
    assert ("tolerations" in str(overrides)) == bool(tolerations)
    for change in (suspend, clean):
        change(TRAIN_JOB, made)
        made["status"] = SUSPENDED
        if change is clean:  # its request is outdated now, and Muster's marks are removed all the same
            team.api.patch(path_of(team), {"metadata": {"labels": dict.fromkeys(QUEUE)}})
        now = team.api.get(path_of(team))
        extender.patch(path_of(team), merge_patch(now, carried(now, made, entry=change is clean)))
    given_back = team.api.get(path_of(team))
    others, ours = given_back["spec"]["podTemplateOverrides"]
    assert (others, "spec" in ours, set(ours["metadata"]["annotations"].values())) == (OTHERS, False, {""})
    assert given_back["spec"]["annotations"] == before["spec"]["annotations"] | {"muster.dev/queue-name": ""}
    assert (given_back["spec"]["suspend"], "annotations" in given_back["metadata"]) == (True, False)


def test_a_field_that_its_crd_does_not_have_is_refused_as_muster_writes_it(team: Team) -> None:
    """With Trainer 2.0 that is podTemplateOverrides."""
    created(team)
    with pytest.raises(ApiError) as refused:
        team.api.patch(f"{path_of(team)}?fieldValidation=Strict", {"spec": {"runtimePatches": []}})
    assert (refused.value.code, "runtimePatches" in str(refused.value)) == (422, True)


OURS = "podTemplateOverrides.1"
CHANGES: list[tuple[str, Object]] = [
    ("", {"labels": {"a": "b"}}),
    ("annotations", {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}),
    ("annotations", {"team.example.com/a": "c"}),
    ("podTemplateOverrides.0.spec", {"serviceAccountName": "admin"}),
    ("podTemplateOverrides.0", {"metadata": {"annotations": {"muster.dev/workload": ""}}}),
    (OURS, {"spec": {"serviceAccountName": "admin"}}),
    (OURS, {"spec": {"tolerations": [{"operator": "Exists"}]}}),  # no flavor has brought it
    (OURS, {"spec": {"containers": [{"name": "node", "env": [{"name": "A", "value": "b"}]}]}}),
    (f"{OURS}.metadata", {"labels": {"app": "other"}}),
    (f"{OURS}.metadata.annotations", {"container.apparmor.security.beta.kubernetes.io/node": "unconfined"}),
]


def test_nothing_else_of_it_can_be_changed(team: Team, extender: Extender) -> None:
    before = created(team)
    more, fewer = start_of(before)[0], start_of(before)[0]
    more["spec"]["podTemplateOverrides"].append({"targetJobs": [{"name": "node"}]})
    del fewer["spec"]["podTemplateOverrides"][0]
    changed = [spoilt(start_of(before)[0], path, change) for path, change in CHANGES]
    check_refused(team, extender, path_of(team), [*changed, more, fewer])
