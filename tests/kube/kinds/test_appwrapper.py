"""AppWrappers are read, started and given back: Muster writes into ``podSetInfos``, and the components stay.

A table of components states which ones an AppWrapper may wrap, and which ones make it wait.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from extender.kube.kinds.appwrapper import APP_WRAPPER, RESETTING
from extender.kube.kinds.change import clean, suspend
from extender.kube.kinds.kind import Object
from policies.model import GroupKey
from tests.kube.kinds.appwrappers import LWS, MIXED, ROLES, SAMPLE, STOPPED, of, wrapping, written
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import by_patch, plan_for, pod, read, sizes, slots, started, stored, without_status
from tests.kube.kinds.rays import CLUSTER as RAY_CLUSTER
from tests.kube.kinds.rays import JOB as RAY_JOB
from tests.kube.kinds.test_jobset import WORKERS
from tests.kube.kinds.train_jobs import TRAINJOB
from tests.kube.kinds.training_jobs import PI as MPI_PI
from tests.kube.kinds.training_jobs import PYTORCH


def test_an_appwrapper_of_a_pytorchjob_is_read() -> None:
    job = read(APP_WRAPPER, stored(SAMPLE, **STOPPED))
    assert (job.key, job.owner.kind) == (GroupKey("team", "appwrapper-sample-pytorch-job"), "AppWrapper")
    assert (job.managed, job.suspended, job.stopped, job.problem, job.marked) == (True, True, True, "", False)
    assert sizes(job) == {"00/0-master": 1, "00/1-worker": 2}
    assert {podset.template.controller for podset in job.podsets.podsets} == {job.owner}
    assert [dict(podset.template.requests)["cpu"] for podset in job.podsets.podsets] == [1000, 1000]


@pytest.mark.parametrize(
    ("phase", "stopped", "finished"),
    [
        ("", True, False),
        ("Suspended", True, False),
        ("Suspending", False, False),
        ("Resetting", False, False),
        ("Succeeded", False, True),
        ("Failed", False, True),
    ],
)
def test_its_phase_says_whether_it_has_stopped_or_finished(phase: str, stopped: bool, finished: bool) -> None:
    job = read(APP_WRAPPER, stored(SAMPLE, phase=phase))
    assert (job.stopped, job.finished) == (stopped, finished)
    assert job.delay == (RESETTING if phase == "Resetting" else "")


def test_the_plan_is_written_beside_the_components_and_they_stay_as_they_are() -> None:
    obj = stored(MIXED, **STOPPED)
    after = started(APP_WRAPPER, obj)
    assert after["spec"]["suspend"] is False
    assert [component["template"] for component in after["spec"]["components"]] == [
        component["template"] for component in obj["spec"]["components"]
    ]
    gang = {"muster.dev/pod-group": "appwrapper-mixed", "muster.dev/min-member": "5", "muster.dev/workload": "6f9a-uid"}
    assert written(after) == [
        [],
        [gang | {"muster.dev/component": "1", "muster.dev/nodes": "n0,n0,n1"}],
        [gang | {"muster.dev/component": "2", "muster.dev/podset": "0", "muster.dev/nodes": "n1"}],
        [gang | {"muster.dev/component": "3", "muster.dev/podset": "0", "muster.dev/nodes": "n2"}],
    ]
    job = read(APP_WRAPPER, after)
    assert (job.marked, job.plan, job.podsets) == (True, plan_for(job), read(APP_WRAPPER, obj).podsets)


@pytest.mark.parametrize("manifest", [SAMPLE, MIXED])
def test_it_is_given_back_as_it_was_written(manifest: str) -> None:
    obj = stored(manifest, **STOPPED)
    after = by_patch(obj, started(APP_WRAPPER, obj))
    suspend(APP_WRAPPER, after)
    assert read(APP_WRAPPER, after).marked
    clean(APP_WRAPPER, after)
    assert without_status(after) == without_status(obj)


def test_one_that_has_finished_is_cleaned_where_it_is() -> None:
    obj = stored(MIXED, phase="Succeeded")
    after = started(APP_WRAPPER, obj)
    clean(APP_WRAPPER, after)
    assert written(after) == [[], [], [], []]
    assert not read(APP_WRAPPER, after).marked


def test_labels_that_somebody_has_added_for_the_pods_stay() -> None:
    obj = stored(SAMPLE, **STOPPED)
    obj["spec"]["components"][0]["podSetInfos"] = [{"labels": {"a": "b"}}, {"labels": {"a": "c"}}]
    assert [dict(podset.template.labels)["a"] for podset in read(APP_WRAPPER, obj).podsets.podsets] == ["b", "c"]
    after = started(APP_WRAPPER, obj)
    suspend(APP_WRAPPER, after)
    clean(APP_WRAPPER, after)
    assert without_status(after) == without_status(obj)


def test_its_pods_fill_its_slots() -> None:
    after = started(APP_WRAPPER, stored(MIXED, **STOPPED))
    job = read(APP_WRAPPER, after)
    _, workers, *alone = after["spec"]["components"]
    pods = []
    for at in range(3):
        template = made_of(workers["template"]["spec"]["template"], workers["podSetInfos"][0])
        pods.append(pod(template, f"w{at}", **{"batch.kubernetes.io/job-completion-index": str(at)}))
    for component in alone:
        template = made_of(component["template"], component["podSetInfos"][0])
        pods.append(pod(template, component["template"]["metadata"]["name"]))
    assert [(member.series, member.index) for member in pods] == [
        *(("01/", at) for at in range(3)),
        ("02/1-0", None),
        ("03/1-0", None),
    ]
    assert {member.identity for member in pods[:3]} < slots(job)
    assert {member.group_key for member in pods} == {job.key}
    assert {member.owner for member in pods} == {job.uid}
    shapes = {podset.name: podset.template for podset in job.podsets.podsets}
    assert all(member.requests == shapes[member.series].requests for member in pods)
    assert all(set(member.labels) >= set(shapes[member.series].labels) for member in pods)


def made_of(template: Object, info: Object) -> Object:
    """The object that the AppWrapper controller makes: it adds the info to the component's own metadata."""
    made = deepcopy(template)
    meta = made.setdefault("metadata", {})
    for field in ("annotations", "labels"):
        meta[field] = {**info.get(field, {}), **meta.get(field, {})}
    return made


def problem(*components: Object | str, **metadata: Any) -> str:
    return read(APP_WRAPPER, wrapping(*components, **metadata)).problem


@pytest.mark.parametrize(
    ("component", "found"),
    [
        (of(INDEXED), {"00/": 5}),
        (of(WORKERS), {"00/000000000": 1, "00/000000001": 4, "00/000000002": 4}),
        (of(RAY_CLUSTER), {"00/0-headgroup": 1, "00/1-workergroup": 1}),
        # Its submitter is no podset.
        (of(RAY_JOB), {"00/0-headgroup": 1, "00/1-small-group": 1}),
        (LWS, {"00/1-0": 2, "00/1-1": 3}),
        (of(PYTORCH, *ROLES), {"00/0-master": 1, "00/1-worker": 3}),
    ],
    ids=["Job", "JobSet", "RayCluster", "RayJob", "podSets", "podSets of a PyTorchJob"],
)
def test_the_podsets_of_its_components(component: Object | str, found: dict[str, int]) -> None:
    job = read(APP_WRAPPER, wrapping(component))
    assert job.problem == ""
    assert sizes(job) == found


def test_what_is_written_follows_the_order_of_the_podsets_that_are_declared() -> None:
    after = started(APP_WRAPPER, wrapping(of(PYTORCH, *ROLES)))
    ((workers, master),) = written(after)
    assert (workers["muster.dev/nodes"].count(","), master["muster.dev/nodes"].count(",")) == (2, 0)


def test_how_few_are_enough_is_said_on_it() -> None:
    obj = wrapping(of(PYTORCH), annotations={"muster.dev/min-member": "2"})
    assert read(APP_WRAPPER, obj).podsets.minimum == 2


def changed(component: Object, **change: Any) -> Object:
    component = deepcopy(component)
    component["template"]["spec"] |= change
    return component


POD: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [{"name": "a"}]}}
SET: Object = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "a"}]}}},
}


@pytest.mark.parametrize(
    ("component", "said"),
    [
        (of(MPI_PI), "Muster cannot tell which pods the MPIJob makes"),
        ({"template": {"apiVersion": "a.b/v1", "kind": "X", "spec": POD}}, "Muster cannot tell which pods the X makes"),
        (of(TRAINJOB), "a TrainJob has no pod templates"),
        ({"template": SET}, "the StatefulSet makes some of its pods only when others run"),
        (
            LWS.replace("    replicas: 2", "    startupPolicy: LeaderReady"),
            "the LeaderWorkerSet makes some",
        ),
        (of(PYTORCH, {"path": "template.spec.template"}), "say the path 'template.spec.template', where no"),
        (of(PYTORCH, {"path": "template.spec.pytorchReplicaSpecs.Master.template"}), "not the pod templates of"),
        ({"template": POD, "podSets": [{"path": "spec"}]}, "say the path 'spec'"),
        ({"template": POD, "podSets": [{"path": "template.spec.containers[7]"}]}, "containers[7]', where no"),
        ({"template": POD, "podSets": [{"path": "template", "replicas": -1}]}, "replicas is not a number of pods"),
        ({"template": POD, "podSetInfos": [{"nodeSelector": {"a": "b"}}]}, "podSetInfos have nodeSelector"),
        (
            {"template": POD | {"metadata": {"labels": {"muster.dev/min-member": "1"}}}},
            "says muster.dev/min-member",
        ),
        ({"template": POD | {"metadata": {"labels": 3}}}, "its pod template cannot be read"),
        ({"template": 3}, "it has no template"),
    ],
)
def test_what_cannot_be_planned_is_told(component: Object | str, said: str) -> None:
    service: Object = {"template": {"apiVersion": "v1", "kind": "Service", "spec": {}}}
    text = problem(service, component)
    assert text.startswith("spec.components[1]: ")
    assert said in text


@pytest.mark.parametrize(("count", "said"), [(8, ""), (9, "it has more than 8 podsets, and AppWrapper allows no more")])
def test_it_has_no_more_podsets_than_its_own_webhook_allows(count: int, said: str) -> None:
    pods = ({"template": POD | {"metadata": {"name": f"pod-{at}"}}} for at in range(count))
    assert problem(*pods) == said


def test_one_without_pods_asks_for_none() -> None:
    assert problem({"template": {"apiVersion": "v1", "kind": "Service", "spec": {}}}).startswith("it asks for no pod: ")


def test_a_parallel_statefulset_is_planned_without_indexes() -> None:
    job = read(APP_WRAPPER, wrapping(changed({"template": SET}, podManagementPolicy="Parallel")))
    assert (job.problem, sizes(job)) == ("", {"00/1-0": 2})
    assert not job.podsets.podsets[0].indexed


def test_one_that_another_controller_looks_after_is_left_alone() -> None:
    obj = stored(SAMPLE)
    obj["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    assert not read(APP_WRAPPER, obj).managed
