"""What an AppWrapper may wrap: the podsets of its components, and what keeps it waiting."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.kind import Object
from tests.kube.kinds.appwrappers import LWS, ROLES, SAMPLE, of, wrapping, written
from tests.kube.kinds.batch_jobs import INDEXED
from tests.kube.kinds.jobs import read, sizes, started, stored
from tests.kube.kinds.rays import CLUSTER as RAY_CLUSTER
from tests.kube.kinds.rays import JOB as RAY_JOB
from tests.kube.kinds.test_jobset import WORKERS
from tests.kube.kinds.train_jobs import TRAINJOB
from tests.kube.kinds.training_jobs import PI as MPI_PI
from tests.kube.kinds.training_jobs import PYTORCH


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
        (of(MPI_PI), "nobody can tell which pods the MPIJob makes"),
        ({"template": {"apiVersion": "a.b/v1", "kind": "X", "spec": POD}}, "nobody can tell which pods the X makes"),
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
