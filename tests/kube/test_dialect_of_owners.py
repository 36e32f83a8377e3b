"""The gang of a pod, by the object that made the pod."""

from __future__ import annotations

import pytest

from extender.kube.convert import pod_from
from extender.kube.dialects.naming import BAD_NAME, BAD_SIZE
from extender.kube.dialects.owner import LWS_SIZE, owned_gang
from extender.kube.reading.objects import Meta, OwnerReference, PodObject
from extender.kube.reading.plain import quoted
from policies.model import Dialect, GroupRef

SAYS = {"muster.dev/gang": "true"}
LWS = "leaderworkerset.sigs.k8s.io"


def made_by(kind: str, name: str, version: str = "apps/v1") -> list[OwnerReference]:
    return [
        OwnerReference(api_version="v1", kind="ConfigMap", name="other", uid="uid-0", controller=False),
        OwnerReference(api_version=version, kind=kind, name=name, uid="uid-1", controller=True),
    ]


def pod(
    kind: str, name: str, labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None
) -> GroupRef | None:
    return owned_gang(Meta(labels=SAYS | (labels or {}), annotations=annotations, owner_references=made_by(kind, name)))


def ref(name: str, owner: str = "", size: int | None = None) -> GroupRef:
    return GroupRef(name, Dialect.OWNER, size, owner=owner or name)


def test_a_stateful_set_is_a_gang() -> None:
    assert pod("StatefulSet", "web") == ref("statefulset-web")


def test_it_may_be_an_annotation() -> None:
    meta = Meta(annotations=SAYS, owner_references=made_by("StatefulSet", "web"))
    assert owned_gang(meta) == ref("statefulset-web")


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"pod-template-hash": "5d59d67564"}, "deployment-nginx"),
        ({"pod-template-hash": "5d59"}, "replicaset-nginx-5d59d67564"),
        ({}, "replicaset-nginx-5d59d67564"),
    ],
)
def test_all_replica_sets_of_a_deployment_are_one_gang(labels: dict[str, str], name: str) -> None:
    assert pod("ReplicaSet", "nginx-5d59d67564", labels) == ref(name)


@pytest.mark.parametrize("maker", ["vllm", "vllm-3"])
def test_each_group_of_a_leader_worker_set_is_a_gang_that_its_pods_say_the_size_of(maker: str) -> None:
    labels = {f"{LWS}/name": "vllm", f"{LWS}/group-index": "3", f"{LWS}/worker-index": "0"}
    gang = pod("StatefulSet", maker, labels, {f"{LWS}/size": "4"})
    assert gang == ref("leaderworkerset-vllm-3", "leaderworkerset-vllm", 4)


@pytest.mark.parametrize("size", ["0", "four", "-1", "9" * 40])
def test_a_size_of_a_group_that_is_no_number_is_a_problem(size: str) -> None:
    gang = pod("StatefulSet", "vllm", {f"{LWS}/name": "vllm", f"{LWS}/group-index": "3"}, {f"{LWS}/size": size})
    assert gang is not None
    assert gang.problem == BAD_SIZE.format(LWS_SIZE, quoted(size))


def test_a_group_without_a_size_waits_for_its_owner_to_say_it() -> None:
    gang = pod("StatefulSet", "vllm", {f"{LWS}/name": "vllm", f"{LWS}/group-index": "3"})
    assert gang == ref("leaderworkerset-vllm-3", "leaderworkerset-vllm")


def test_a_group_without_a_readable_number_is_that_of_its_stateful_set() -> None:
    assert pod("StatefulSet", "vllm-3", {f"{LWS}/name": "vllm", f"{LWS}/group-index": "three"}) == ref(
        "statefulset-vllm-3"
    )


def test_a_name_that_is_none_is_a_problem() -> None:
    gang = pod("StatefulSet", "x" * 250)
    assert gang is not None
    assert gang.problem == BAD_NAME.format("the name of its gang", gang.name)
    assert len(gang.name) < 70


def test_a_topology_that_cannot_be_read_is_a_problem() -> None:
    gang = pod("StatefulSet", "web", annotations={"muster.dev/slice-size": "none"})
    assert gang is not None
    assert gang.problem is not None
    assert "slice-size" in gang.problem


@pytest.mark.parametrize(
    "meta",
    [
        Meta(labels=SAYS),
        Meta(
            labels={**SAYS, "jobset.sigs.k8s.io/jobset-name": "train"},
            owner_references=made_by("Job", "train-workers-0", "batch/v1"),
        ),
        Meta(labels=SAYS, owner_references=made_by("CronJob", "train", "batch/v1")),
        Meta(labels=SAYS, owner_references=made_by("Notebook", "train", "kubeflow.org/v1")),
        Meta(labels=SAYS, owner_references=made_by("StatefulSet", "web", "example.com/v1")),
        Meta(labels=SAYS, owner_references=made_by("DaemonSet", "web")),
        Meta(labels={"muster.dev/gang": "yes"}, owner_references=made_by("StatefulSet", "web")),
        Meta(labels=SAYS, annotations={"muster.dev/gang": "false"}, owner_references=made_by("StatefulSet", "web")),
        Meta(labels={}, owner_references=made_by("StatefulSet", "web")),
    ],
)
def test_others_are_in_no_gang(meta: Meta) -> None:
    assert owned_gang(meta) is None


@pytest.mark.parametrize(
    ("kind", "version", "name"),
    [("Job", "batch/v1", "job-train"), ("PyTorchJob", "kubeflow.org/v1", "pytorchjob-train")],
)
def test_a_job_that_was_started_without_a_plan_is_a_gang_without_a_size(kind: str, version: str, name: str) -> None:
    meta = Meta(labels=SAYS, owner_references=made_by(kind, "train", version))
    assert owned_gang(meta) == ref(name)


def test_a_gang_that_a_pod_names_goes_before() -> None:
    meta = Meta(
        name="web-0", namespace="default", uid="uid", labels=SAYS, owner_references=made_by("StatefulSet", "web")
    )
    assert pod_from(PodObject(metadata=meta)).group == ref("statefulset-web")
    meta.annotations = {"muster.dev/pod-group": "train", "muster.dev/min-member": "2"}
    assert pod_from(PodObject(metadata=meta)).group == GroupRef("train", Dialect.ANNOTATION, 2)
