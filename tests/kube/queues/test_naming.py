"""The queue that a job or a pod names, and the message to its author if the name is wrong."""

from __future__ import annotations

import pytest
from msgspec import convert

from extender.kube.convert import pod_from
from extender.kube.kinds.job import JOB
from extender.kube.reading.objects import PodObject
from extender.kube.reading.queue_name import MISSPELT
from policies.model import Job, Pod
from tests.kube.kinds.jobs import read

KUEUE, OURS, PRINTED = "kueue.x-k8s.io/queue-name", "muster.dev/queue-name", "kueue.sh/queue-name"
DIFFERENT = "its labels kueue.x-k8s.io/queue-name and muster.dev/queue-name name different queues"


def job(labels: dict[str, str], annotations: dict[str, str] | None = None) -> Job:
    meta = {"name": "train", "namespace": "team", "uid": "u", "labels": labels, "annotations": annotations or {}}
    template = {"spec": {"containers": [{"name": "main"}]}}
    return read(JOB, {"metadata": meta, "spec": {"suspend": True, "template": template}})


def pod(labels: dict[str, str]) -> Pod:
    meta = {"name": "a", "namespace": "team", "uid": "u", "labels": {"muster.dev/pod-group": "g", **labels}}
    return pod_from(convert({"metadata": meta, "spec": {}}, PodObject))


@pytest.mark.parametrize(
    ("labels", "queue", "problem", "misspelt"),
    [
        ({}, "", "", False),
        ({KUEUE: ""}, "", "", False),
        ({KUEUE: "a"}, "a", "", False),
        ({OURS: "a"}, "a", "", False),
        ({KUEUE: "a", OURS: "a"}, "a", "", False),
        ({KUEUE: "a", OURS: "b"}, "a", DIFFERENT, False),
        ({PRINTED: "a"}, "a", "", True),
        ({PRINTED: "a", KUEUE: ""}, "a", "", True),
        ({PRINTED: "a", KUEUE: "a"}, "a", "", False),
        ({PRINTED: "b", KUEUE: "a"}, "a", DIFFERENT.replace(OURS, PRINTED), False),
    ],
)
def test_the_queue_of_a_job_and_of_a_pod(labels: dict[str, str], queue: str, problem: str, misspelt: bool) -> None:
    train, member = job(labels), pod(labels)
    assert member.group is not None
    assert (train.queue, member.queue) == (queue, queue)
    assert (train.problem, member.group.problem or "") == (problem, problem)
    assert (train.hint == MISSPELT, (member.hint or "").startswith(MISSPELT)) == (misspelt, misspelt)


def test_an_annotation_names_no_queue() -> None:
    assert job({}, {KUEUE: "a"}).queue == ""


@pytest.mark.parametrize(("labels", "queue"), [({}, "volcano/research"), ({KUEUE: "a"}, "a")])
def test_a_queue_of_volcano_counts_where_the_job_names_no_local_queue(labels: dict[str, str], queue: str) -> None:
    assert job(labels, {"scheduling.volcano.sh/queue-name": "research"}).queue == queue


def test_a_pod_of_no_gang_may_contradict_itself() -> None:
    assert pod({KUEUE: "a", OURS: "b", "muster.dev/pod-group": ""}).queue == "a"
