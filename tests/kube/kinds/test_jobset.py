"""A JobSet is read, started, suspended and given back."""

from __future__ import annotations

import pytest

from extender.kube.kinds.jobset import EXCLUSIVE, JOBSET, PLACES_THEM, TOO_MANY_JOBS
from extender.kube.kinds.kind import Object
from policies.model import GroupKey
from tests.kube.kinds.jobs import (
    SUSPENDED,
    UID,
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

# https://jobset.sigs.k8s.io/docs/tutorials/pytorch-examples/ and its driver-worker example, with a queue.
WORKERS = """
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: pytorch
  labels: {kueue.x-k8s.io/queue-name: team-queue}
spec:
  suspend: true
  replicatedJobs:
  - name: driver
    replicas: 1
    template:
      spec:
        parallelism: 1
        completions: 1
        backoffLimit: 0
        template:
          spec:
            containers:
            - {name: driver, image: bash:latest}
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 4
        completions: 4
        backoffLimit: 0
        template:
          metadata:
            annotations: {author: says}
          spec:
            containers:
            - name: pytorch
              image: gcr.io/k8s-staging-jobset/pytorch-resnet:latest
              ports: [{containerPort: 3389}]
              resources: {limits: {nvidia.com/gpu: "8"}}
"""
JOB_INDEX, GLOBAL = "jobset.sigs.k8s.io/job-index", "jobset.sigs.k8s.io/job-global-index"
INDEX = "batch.kubernetes.io/job-completion-index"
KEY = GroupKey("team", "jobset-pytorch")


def templates(obj: Object) -> list[Object]:
    return [replicated["template"]["spec"]["template"] for replicated in obj["spec"]["replicatedJobs"]]


def replaced(manifest: str, **fields: object) -> Object:
    obj = stored(manifest)
    obj["spec"] |= fields
    return obj


def test_one_whose_template_names_a_native_group_is_told_and_waits() -> None:
    obj = stored(WORKERS)
    pod_of_driver = obj["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod_of_driver["spec"]["schedulingGroup"] = {"podGroupName": "own"}
    job = read(JOBSET, obj)
    assert (job.managed, "names a native group in spec.schedulingGroup" in job.problem) == (True, True)


def test_each_of_its_jobs_is_a_podset() -> None:
    job = read(JOBSET, stored(WORKERS))
    assert (job.key, job.problem) == (KEY, "")
    assert job.resumes, "its status counts Jobs that have succeeded, and does not name them"
    assert sizes(job) == {"000000000": 1, "000000001": 4, "000000002": 4}
    assert all(podset.indexed for podset in job.podsets.podsets), "as its webhook completes its Jobs"
    assert [dict(podset.template.requests).get("nvidia.com/gpu", 0) for podset in job.podsets.podsets] == [0, 8, 8]
    assert (job.podsets.minimum, job.podsets.first_wave) == (9, 9)


@pytest.mark.parametrize("where", ["the JobSet", "a Job", "a pod"])
def test_one_whose_controller_chooses_nodes_itself_waits(where: str) -> None:
    obj = stored(WORKERS)
    job = obj["spec"]["replicatedJobs"][1]["template"]
    place = {"the JobSet": obj, "a Job": job, "a pod": job["spec"]["template"]}[where]
    place.setdefault("metadata", {}).setdefault("annotations", {})[EXCLUSIVE] = "rack"
    assert read(JOBSET, obj).problem == PLACES_THEM


def test_its_pods_fill_its_slots() -> None:
    obj = stored(WORKERS)
    driver, workers = templates(started(JOBSET, obj))
    pods = [pod(driver, "d", **{INDEX: "0", JOB_INDEX: "0", GLOBAL: "0"})]
    pods += [
        pod(workers, f"w{job}-{index}", **{INDEX: str(index), JOB_INDEX: str(job), GLOBAL: str(job + 1)})
        for job in range(2)
        for index in range(4)
    ]
    assert {member.identity for member in pods} == slots(read(JOBSET, obj))
    assert {member.group_key for member in pods} == {KEY}
    assert {member.controller.uid for member in pods if member.controller} == {"maker-uid"}, "its Jobs make them"


def test_its_nodes_are_annotations_by_job_and_never_affinity() -> None:
    obj = stored(WORKERS)
    after = started(JOBSET, obj, {"000000000": ("a",), "000000001": ("a", "a", "b", "b"), "000000002": tuple("ccdd")})
    nodes = [template["metadata"]["annotations"]["muster.dev/nodes"] for template in templates(after)]
    assert nodes == ["a", "a,a,b,b;c,c,d,d"]
    assert all("affinity" not in template["spec"] for template in templates(after))
    assert after["metadata"]["annotations"]["muster.dev/plan"] == (
        '{"000000000":"a*1","000000001":"a*2,b*2","000000002":"c*2,d*2"}'
    )


def test_its_annotations_lose_their_values_and_nothing_else_changes() -> None:
    obj = stored(WORKERS)
    job = read(JOBSET, obj)
    plan = {podset.name: ("n",) * podset.count for podset in job.podsets.podsets}
    running = by_patch(obj, started(JOBSET, obj, plan))
    assert read(JOBSET, running).podsets == job.podsets
    back = by_patch(running, stopped_again(JOBSET, running))
    after = read(JOBSET, back)
    assert (after.marked, after.podsets, after.plan) == (False, job.podsets, None)
    for template in templates(back):
        pod_annotations = template["metadata"]["annotations"]
        assert {key: value for key, value in pod_annotations.items() if value} in ({}, {"author": "says"})
        template["metadata"]["annotations"] = {key: value for key, value in pod_annotations.items() if value}
    expected = stored(WORKERS)
    templates(expected)[0]["metadata"] = {"annotations": {}}
    assert without_status(back) == expected
    again = started(JOBSET, back, plan)
    assert [template["metadata"]["annotations"] for template in templates(again)] == [
        template["metadata"]["annotations"] for template in templates(running)
    ]


def test_pods_of_a_jobset_that_was_given_back_are_in_no_gang() -> None:
    obj = stored(WORKERS)
    plan = {podset.name: ("n",) * podset.count for podset in read(JOBSET, obj).podsets.podsets}
    back = stopped_again(JOBSET, started(JOBSET, obj, plan))
    free = pod(templates(back)[1], "w", **{INDEX: "0", GLOBAL: "1"})
    assert (free.group, free.owner, free.hint) == (None, "maker-uid", None)


def test_what_its_author_says_of_the_gang_is_kept() -> None:
    obj = stored(WORKERS)
    for template in templates(obj):
        template.setdefault("metadata", {})["annotations"] = {"muster.dev/pod-group": "g", "muster.dev/min-member": "5"}
    job = read(JOBSET, obj)
    assert job.key == GroupKey("team", "g")
    assert {podset.name: podset.minimum for podset in job.podsets.podsets} == {
        "000000000": 1,
        "000000001": 3,
        "000000002": 1,
    }
    plan = {podset.name: ("n",) * podset.count for podset in job.podsets.podsets}
    back = stopped_again(JOBSET, started(JOBSET, obj, plan))
    for template in templates(back):
        pod_annotations = template["metadata"]["annotations"]
        assert {key: value for key, value in pod_annotations.items() if value} == {
            "muster.dev/pod-group": "g",
            "muster.dev/min-member": "5",
        }


def test_in_order_its_replicated_jobs_are_waves() -> None:
    job = read(JOBSET, replaced(WORKERS, startupPolicy={"startupPolicyOrder": "InOrder"}))
    assert [podset.wave for podset in job.podsets.podsets] == [0, 1, 1]
    assert (job.podsets.minimum, job.podsets.first_wave) == (9, 1)
    assert {podset.wave for podset in read(JOBSET, stored(WORKERS)).podsets.podsets} == {0}
    obj = stored(WORKERS)
    obj["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "driver", "status": "Ready"}]
    assert [podset.wave for podset in read(JOBSET, obj).podsets.podsets] == [0, 1, 1]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, True),
        (SUSPENDED, True),
        ({"conditions": [{"type": "Suspended", "status": "False"}]}, False),
        ({**SUSPENDED, "replicatedJobsStatus": [{"name": "workers", "active": 1, "suspended": 1}]}, False),
        ({"replicatedJobsStatus": [{"name": "workers", "active": 1}]}, False),
        ({**SUSPENDED, "replicatedJobsStatus": [{"name": "workers", "active": 0, "suspended": 2}]}, True),
    ],
    ids=str,
)
def test_it_has_stopped_when_its_jobs_have(status: Object, expected: bool) -> None:
    assert read(JOBSET, stored(WORKERS, **status)).stopped is expected


def test_more_jobs_than_can_be_planned_are_not_even_counted() -> None:
    obj = stored(WORKERS)
    obj["spec"]["replicatedJobs"][1]["replicas"] = (1 << 31) - 1
    assert read(JOBSET, obj).problem == TOO_MANY_JOBS


def test_what_cannot_be_read_is_a_problem() -> None:
    for broken in ({"replicatedJobs": ["x"]}, {"replicatedJobs": [{"name": "x"}]}, {"replicatedJobs": None}):
        job = read(JOBSET, replaced(WORKERS, **broken))
        assert job.problem.startswith("it")
        assert (job.uid, job.podsets.podsets) == (UID, ())


def test_of_jobs_with_more_completions_than_pods_each_podset_says_how_many() -> None:
    obj = stored(WORKERS)
    obj["spec"]["replicatedJobs"][1]["template"]["spec"]["completions"] = 6
    shapes = [(podset.count, podset.indexed, podset.completions) for podset in read(JOBSET, obj).podsets.podsets]
    assert shapes == [(1, True, 0), (4, False, 6), (4, False, 6)]
