"""The training jobs of Kubeflow are read, started, suspended and given back."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from extender.kube.kinds.kind import Object
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.registry import KINDS
from extender.kube.kinds.training import TRAINING
from policies.model import GroupKey
from tests.kube.kinds.jobs import (
    SUSPENDED,
    affinity_names,
    by_patch,
    pod,
    read,
    sizes,
    slots,
    started,
    stopped_again,
    stored,
    without_status,
)
from tests.kube.kinds.training_jobs import BY_NAME, LABELS, PI, PYTORCH, PYTORCHJOB, indexed, templates

# https://github.com/kubeflow/training-operator/blob/v1.9.3/examples/pytorch/simple.yaml
# https://github.com/kubeflow/mpi-operator/blob/v0.8.2/examples/v2beta1/pi/pi.yaml


def test_each_role_of_a_pytorchjob_is_a_podset_in_rank_order() -> None:
    job = read(PYTORCHJOB, stored(PYTORCH))
    assert (job.key, job.problem) == (GroupKey("team", "pytorchjob-pytorch-simple"), "")
    assert list(sizes(job).items()) == [("0-master", 1), ("1-worker", 3)]
    assert (job.suspended, job.stopped) == (True, True)


def test_the_pods_of_these_kinds_have_the_same_names_in_each_start() -> None:
    assert {kind for kind in KINDS if kind.same_names} == {*TRAINING, MPI}
    assert read(PYTORCHJOB, stored(PYTORCH)).same_names


@pytest.mark.parametrize(
    ("name", "field", "roles"),
    [
        ("PyTorchJob", "pytorchReplicaSpecs", {"Master": 1, "Worker": 2}),
        ("TFJob", "tfReplicaSpecs", {"Chief": 1, "PS": 2, "Worker": 2}),
        ("XGBoostJob", "xgbReplicaSpecs", {"Master": 1, "Worker": 2}),
        ("PaddleJob", "paddleReplicaSpecs", {"Master": 1, "Worker": 2}),
        ("JAXJob", "jaxReplicaSpecs", {"Worker": 2}),
    ],
)
def test_the_pods_of_each_kind_fill_its_slots(name: str, field: str, roles: dict[str, int]) -> None:
    obj = stored(PYTORCH) | {"kind": name}
    worker = obj["spec"].pop("pytorchReplicaSpecs")["Worker"]
    obj["spec"][field] = {role: deepcopy(worker) | {"replicas": count} for role, count in roles.items()}
    kind = BY_NAME[name]
    assert kind in TRAINING
    after = started(kind, obj)
    pods = [
        pod(templates(after, field)[role], f"{role}-{at}", **{f"{LABELS}/replica-type": role.lower()}, **indexed(at))
        for role, count in roles.items()
        for at in range(count)
    ]
    assert {member.identity for member in pods} == slots(read(kind, obj))
    assert {member.group_key for member in pods} == {read(kind, obj).key}
    assert after["spec"]["runPolicy"] == {"suspend": False}


def test_the_workers_of_a_pytorchjob_ask_for_what_its_operator_adds() -> None:
    obj = stored(PYTORCH)
    master, worker = (dict(podset.template.requests) for podset in read(PYTORCHJOB, obj).podsets.podsets)
    assert (master, worker) == (
        {"pods": 1},
        {"pods": 1, "nvidia.com/gpu": 8, "cpu": 50, "memory": 10 * 2**20},
    )
    del obj["spec"]["pytorchReplicaSpecs"]["Master"]
    (alone,) = (dict(podset.template.requests) for podset in read(PYTORCHJOB, obj).podsets.podsets)
    assert alone == {"pods": 1, "nvidia.com/gpu": 8}


def test_a_pytorchjob_is_given_back_as_its_author_wrote_it() -> None:
    changes: tuple[Object, ...] = (
        {},
        {"metadata": {}},
        {"metadata": {"annotations": {}}},
        {"metadata": {"labels": {"a": "b"}}},
    )
    for change in changes:
        obj = stored(PYTORCH)
        templates(obj)["Worker"] |= deepcopy(change)
        running = by_patch(obj, started(PYTORCHJOB, obj))
        assert templates(running)["Worker"]["metadata"]["annotations"]["muster.dev/nodes"] == "n0,n1,n1"
        assert read(PYTORCHJOB, running).podsets == read(PYTORCHJOB, obj).podsets
        assert without_status(by_patch(running, stopped_again(PYTORCHJOB, running))) == obj


def test_workers_alone_are_led_by_affinity_because_their_number_tells_who_is_beyond_the_plan() -> None:
    obj = stored(PYTORCH)
    del obj["spec"]["pytorchReplicaSpecs"]["Master"]
    assert list(affinity_names(templates(started(PYTORCHJOB, obj))["Worker"])) == ["n0", "n1"]


def test_a_finished_pytorchjob_is_given_back_too() -> None:
    obj = stored(PYTORCH)
    done = started(PYTORCHJOB, obj) | {"status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}
    assert read(PYTORCHJOB, done).finished
    assert read(PYTORCHJOB, done).marked
    back = stopped_again(PYTORCHJOB, done)
    assert without_status(back) == obj


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, True),
        (SUSPENDED, True),
        ({"conditions": [{"type": "Created", "status": "True"}]}, True),
        ({"startTime": "2026-01-02T03:04:05Z", "conditions": [{"type": "Running", "status": "True"}]}, False),
        ({**SUSPENDED, "replicaStatuses": {"Worker": {"active": 1}}}, False),
        ({**SUSPENDED, "replicaStatuses": {"Worker": {}}}, True),
    ],
    ids=str,
)
def test_it_has_stopped_when_its_operator_has_seen_that(status: Object, expected: bool) -> None:
    assert read(PYTORCHJOB, stored(PYTORCH, **status)).stopped is expected


def test_it_runs_when_a_pod_of_it_is_active() -> None:
    assert read(PYTORCHJOB, stored(PYTORCH, replicaStatuses={"Worker": {"active": 1}})).running
    assert not read(PYTORCHJOB, stored(PYTORCH, replicaStatuses={"Worker": {}})).running


def test_fewer_workers_are_enough_and_the_master_stays() -> None:
    obj = stored(PYTORCH)
    obj["metadata"]["annotations"] = {"muster.dev/min-member": "2"}
    minima = {podset.name: podset.minimum for podset in read(PYTORCHJOB, obj).podsets.podsets}
    assert minima == {"0-master": 1, "1-worker": 1}


@pytest.mark.parametrize(("least", "expected"), [(2, 2), (1, 1), (9, 3), (0, 1)])
def test_an_elastic_pytorchjob_begins_with_the_workers_that_it_says(least: int, expected: int) -> None:
    obj = stored(PYTORCH)
    obj["spec"]["elasticPolicy"] = {"rdzvBackend": "c10d", "minReplicas": least, "maxReplicas": 3}
    job = read(PYTORCHJOB, obj)
    assert {podset.name: (podset.minimum, podset.count) for podset in job.podsets.podsets} == {
        "0-master": (1, 1),
        "1-worker": (expected, 3),
    }
    assert (job.podsets.minimum, job.podsets.first_wave) == (1 + expected, 1 + expected)


def test_what_the_author_says_of_all_pods_goes_before_the_elastic_policy() -> None:
    obj = stored(PYTORCH)
    obj["spec"]["elasticPolicy"] = {"minReplicas": 1}
    obj["metadata"]["annotations"] = {"muster.dev/min-member": "4"}
    assert read(PYTORCHJOB, obj).podsets.minimum == 4


def test_an_elastic_policy_that_cannot_be_read_is_the_reason() -> None:
    obj = stored(PYTORCH)
    obj["spec"]["elasticPolicy"] = {"minReplicas": "two"}
    assert read(PYTORCHJOB, obj).problem == "its minReplicas is not a number of pods"


def test_another_manager_keeps_it() -> None:
    for kind, manifest, own in ((PYTORCHJOB, PYTORCH, "training-operator"), (MPI, PI, "mpi-operator")):
        for manager, managed in ((f"kubeflow.org/{own}", True), ("kueue.x-k8s.io/multikueue", False)):
            obj = stored(manifest)
            obj["spec"]["runPolicy"]["managedBy"] = manager
            assert read(kind, obj).managed is managed


def test_no_roles_are_a_problem() -> None:
    obj = stored(PYTORCH)
    obj["spec"]["pytorchReplicaSpecs"] = None
    assert read(PYTORCHJOB, obj).problem == "it has no spec.pytorchReplicaSpecs"


def test_a_plan_is_said_by_role() -> None:
    plan = started(PYTORCHJOB, stored(PYTORCH))["metadata"]["annotations"]["muster.dev/plan"]
    assert json.loads(plan) == {"0-master": "n0*1", "1-worker": "n0*1,n1*2"}
