"""The pods that a Volcano Job has when its PodGroup is taken up."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from extender.kube.convert import pod_from
from extender.kube.kinds.completion import Completion, PriorityClass
from extender.kube.kinds.kind import Object
from extender.kube.kinds.read import Reader
from extender.kube.kinds.volcano_job import volcano_job_from
from extender.kube.reading.objects import PodObject
from policies.model import GroupJob, GroupKey

# The shape of https://volcano.sh/en/docs/vcjob/, without the command lines.
TENSORFLOW = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: tensorflow-dist, namespace: team, uid: u1}
spec:
  minAvailable: 3
  schedulerName: volcano
  plugins: {env: [], svc: []}
  policies:
  - {event: PodEvicted, action: RestartJob}
  queue: default
  tasks:
  - replicas: 1
    name: ps
    template:
      spec:
        containers:
        - {name: tensorflow, image: tf, resources: {limits: {cpu: "1"}}}
  - replicas: 2
    name: worker
    template:
      spec:
        containers:
        - {name: tensorflow, image: tf, resources: {limits: {nvidia.com/gpu: 8}}}
"""
READER = Reader(("muster", "volcano"))


def stored(**spec: Any) -> Object:
    obj: Object = yaml.safe_load(TENSORFLOW)
    obj["spec"] |= spec
    return obj


def task(name: str | None, replicas: int, **facts: Any) -> Object:
    pod = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}}
    return {"name": name, "replicas": replicas, "template": pod, **facts}


def read(obj: Object) -> GroupJob:
    job = volcano_job_from(obj, READER)
    assert job is not None
    return job


def minima(job: GroupJob) -> dict[str, tuple[int, int]]:
    return {podset.name: (podset.count, podset.minimum) for podset in job.podsets.podsets}


def test_its_tasks_are_the_podsets_of_its_podgroup() -> None:
    job = read(stored())
    assert (job.key, job.uid) == (GroupKey("team", "tensorflow-dist-u1"), "u1")
    assert minima(job) == {"2-ps": (1, 1), "1-worker": (2, 2)}
    assert [dict(podset.template.requests).get("nvidia.com/gpu") for podset in job.podsets.podsets] == [None, 8]


def test_pods_of_a_template_without_a_priority_class_have_that_of_the_job() -> None:
    """The gang has the same priority before and after its pods come."""
    classes = {"high": PriorityClass(value=9), "low": PriorityClass(value=1)}
    tasks = stored()["spec"]["tasks"]
    tasks[0]["template"]["spec"]["priorityClassName"] = "low"
    reader = Reader(("muster", "volcano"), Completion(priorities=classes))
    job = volcano_job_from(stored(priorityClassName="high", tasks=tasks), reader)
    assert job is not None
    assert [podset.template.priority for podset in job.podsets.podsets] == [1, 9]
    assert job.podsets.priority == 9


def test_the_pods_that_its_controller_makes_fill_its_slots() -> None:
    job = read(stored())
    for podset in job.podsets.podsets:
        name = podset.name.partition("-")[2]
        for expected in podset.pods():
            meta = {
                "name": f"tensorflow-dist-{name}-{expected.index}",
                "namespace": "team",
                "uid": f"p-{name}-{expected.index}",
                "annotations": {
                    "scheduling.k8s.io/group-name": "tensorflow-dist-u1",
                    "volcano.sh/job-name": "tensorflow-dist",
                    "volcano.sh/task-spec": name,
                },
                "ownerReferences": [
                    {
                        "apiVersion": "batch.volcano.sh/v1alpha1",
                        "kind": "Job",
                        "name": "tensorflow-dist",
                        "uid": "u1",
                        "controller": True,
                    }
                ],
            }
            tasks = {entry["name"]: entry for entry in stored()["spec"]["tasks"]}
            made = {"metadata": meta, "spec": {**tasks[name]["template"]["spec"], "schedulerName": "volcano"}}
            pod = pod_from(msgspec.convert(made, PodObject))
            assert (pod.identity, pod.requests) == (expected.identity, expected.requests)
            assert (pod.group, pod.group_key, pod.controller) == (expected.group, job.key, expected.controller)


@pytest.mark.parametrize(
    ("tasks", "least", "expected"),
    [
        ([task("a", 1), task("b", 4)], 5, {"1-a": (1, 1), "1-b": (4, 4)}),
        ([task("a", 1), task("b", 4)], 0, {"1-a": (1, 1), "1-b": (4, 4)}),
        ([task("a", 1), task("b", 4)], 3, {"1-a": (1, 1), "1-b": (4, 2)}),
        ([task("a", 1), task("b", 4, minAvailable=2)], 3, {"1-a": (1, 1), "1-b": (4, 2)}),
        ([task("a", 1), task("b", 4, minAvailable=2)], 4, {"1-a": (1, 1), "1-b": (4, 3)}),
        ([task("a", 3, minAvailable=1), task("b", 3, minAvailable=1)], 5, {"1-a": (3, 3), "1-b": (3, 2)}),
    ],
)
def test_how_many_of_each_task_have_to_start(tasks: list[Object], least: int, expected: dict[str, Any]) -> None:
    assert minima(read(stored(tasks=tasks, minAvailable=least))) == expected


@pytest.mark.parametrize(
    ("spec", "ours"),
    [
        ({}, True),
        ({"schedulerName": "another", "tasks": [task("a", 1)]}, False),
        ({"schedulerName": None, "tasks": [task("a", 1)]}, False),
        ({"tasks": []}, False),
        ({"tasks": None}, False),
    ],
)
def test_it_is_ours_if_all_its_pods_are_for_schedulers_of_ours(spec: Any, ours: bool) -> None:
    assert (volcano_job_from(stored(**spec), READER) is not None) is ours


def test_one_whose_tasks_name_different_schedulers_is_ours_if_both_are() -> None:
    for name, ours in (("muster", True), ("another", False)):
        own = task("b", 1)
        own["template"]["spec"]["schedulerName"] = name
        assert (volcano_job_from(stored(tasks=[task("a", 1), own]), READER) is not None) is ours


@pytest.mark.parametrize(
    "spec",
    [
        {"tasks": [task("a", 1), task("b", 1, dependsOn={"name": ["a"]})]},
        {"tasks": [task(None, 1)]},
        {"tasks": [task("a", 0)]},
        {"tasks": [task("a", 20_000)]},
        {"tasks": [{"name": "a", "replicas": "many", "template": {}}]},
        {"tasks": [{"name": "a"}]},
        {"volumes": [{"mountPath": "/data", "volumeClaim": {}}]},
        {"tasks": [task("a", 1, template={"spec": {"containers": 7}})]},
        {"tasks": [task("a", 1, template={"spec": {"schedulingGates": [{"name": "example.com/quota"}]}})]},
        {"tasks": [task("a", 1, template={"metadata": {"annotations": {"muster.dev/pod-group": "g"}}, "spec": {}})]},
        {"tasks": [task("a", 1, template={"metadata": 7, "spec": {}})]},
    ],
    ids=str,
)
def test_where_the_templates_tell_too_little_its_pods_come_first(spec: Any) -> None:
    assert read(stored(**spec)).podsets.podsets == ()
