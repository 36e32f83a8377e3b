"""Durations are read from pods, PodGroups and jobs of every kind, and the longest run from the queue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from extender.kube.convert import pod_from
from extender.kube.kinds.appwrapper import APP_WRAPPER
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.mpi import MPI
from extender.kube.kinds.ray import RAY_JOB
from extender.kube.kinds.read import Reader
from extender.kube.kinds.training import TRAINING
from extender.kube.podgroups.coscheduling import group_from
from extender.kube.podgroups.kai import KaiGroup, kai_group_from
from extender.kube.podgroups.volcano import VolcanoGroup, volcano_group_from
from extender.kube.queues.read import (
    ClusterQueueObject,
    LocalQueueObject,
    Read,
    cluster_queue_from,
    local_queue_from,
)
from extender.kube.reading.durations import AGEING, EXPECTED_DURATION, HOW, MAX_RUN, span_of
from extender.kube.reading.objects import GroupObject, PodObject
from extender.kube.snapshots.queues import reduced_queue
from policies.model import RunTerms
from policies.model.queues import ClusterQueue, LocalQueue

POD: Object = {"containers": [{"name": "main"}], "schedulerName": "muster"}
BAD = f"{EXPECTED_DURATION} is 'soon' and does not count: {HOW}"


def meta(said: str | None = None) -> Object:
    metadata: Object = {"name": "w", "namespace": "team", "uid": "u"}
    return metadata if said is None else metadata | {"annotations": {EXPECTED_DURATION: said}}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("90s", 90),
        ("90m", 5400),
        ("6h", 21600),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("2d", 172_800),
        ("1d12h", 129_600),
    ],
)
def test_a_duration_is_as_go_writes_it_or_in_days_or_plain_seconds(text: str, seconds: float) -> None:
    assert span_of(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "soon", "-1h", "1.5", "1 h", "1w", "1d90", "d", "99999d", "1e3", "٣", "1h" * 60, "9" * 10]
)
def test_anything_else_is_none(text: str) -> None:
    assert span_of(text) is None


def test_a_pod_says_it_in_an_annotation_and_has_a_deadline_of_its_own() -> None:
    def read(duration: str | None, **spec: Any) -> Any:
        return pod_from(msgspec.convert({"metadata": meta(duration), "spec": spec}, PodObject))

    assert read("6h").run == RunTerms(21600)
    assert read("6h", activeDeadlineSeconds=60).run == RunTerms(21600, 60)
    assert read(None).run == RunTerms()
    for text in ("soon", "0"):
        pod = read(text)
        assert pod.run == RunTerms()
        assert pod.hint == BAD.replace("soon", text)


def test_a_pod_in_no_gang_begins_when_its_kubelet_takes_it_up_if_it_says_how_long_it_runs() -> None:
    def began(duration: str | None, **status: Any) -> float | None:
        return pod_from(msgspec.convert({"metadata": meta(duration), "spec": {}, "status": status}, PodObject)).began

    assert began("6h", startTime="1970-01-01T00:10:00Z") == 600
    assert began("6h") is None
    assert began(None, startTime="1970-01-01T00:10:00Z") is None


@pytest.mark.parametrize(
    ("kind", "convert"), [(GroupObject, group_from), (VolcanoGroup, volcano_group_from), (KaiGroup, kai_group_from)]
)
def test_a_podgroup_says_it_too(kind: type[Any], convert: Any) -> None:
    def read(duration: str) -> Any:
        return convert(msgspec.convert({"metadata": meta(duration), "spec": {"minMember": 1}}, kind))

    assert read("6h").run == RunTerms(21600)
    assert read("6h").problem is None
    assert read("soon").run == RunTerms()
    assert read("soon").problem == BAD


def job(deadline: int | None = None, pod: Object | None = None, **more: Any) -> Object:
    spec = {} if deadline is None else {"activeDeadlineSeconds": deadline}
    return spec | more | {"template": {"spec": pod or POD}}


def roles(field: str, **policy: Any) -> Object:
    replicas = {"Worker": {"replicas": 2, "template": {"spec": POD}}}
    return {"runPolicy": {"suspend": True} | policy, field: replicas}


RAY = {"rayClusterSpec": {"headGroupSpec": {"template": {"spec": POD}}}, "submissionMode": "HTTPMode"}
DEADLINES: list[tuple[Kind, Object, float | None]] = [
    (JOB, job(600), 600),
    (JOB, job(), None),
    (JOB, job(pod=POD | {"activeDeadlineSeconds": 60}), 60),
    (JOB, job(600, POD | {"activeDeadlineSeconds": 60}), 600),
    (JOBSET, {"replicatedJobs": [{"name": "a", "template": {"spec": job(600)}}]}, 600),
    (TRAINING[0], roles("pytorchReplicaSpecs", activeDeadlineSeconds=600), 600),
    (MPI, roles("mpiReplicaSpecs", activeDeadlineSeconds=600), 600),
    (RAY_JOB, RAY | {"activeDeadlineSeconds": 600}, 600),
    (APP_WRAPPER, {"components": [{"template": {"apiVersion": "batch/v1", "kind": "Job", "spec": job(600)}}]}, 600),
    (JOB, job(deadline="soon"), None),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("kind", "spec", "seconds"), DEADLINES)
def test_a_job_has_the_deadline_of_its_kind(kind: Kind, spec: Object, seconds: float | None) -> None:
    read_job = Reader().read(kind, {"metadata": meta("6h"), "spec": {"suspend": True} | spec})
    assert read_job.run == RunTerms(21600, seconds)
    assert read_job.hint is None


def test_a_jobset_has_a_deadline_if_all_of_its_jobs_do_and_those_that_wait_for_others_end_later() -> None:
    def deadline(**of: Any) -> float | None:
        jobs = [
            {"name": "a", "template": {"spec": job(100)}},
            {"name": "b", "template": {"spec": job(of.pop("second", 50))}, "dependsOn": [{"name": "a"}]},
            {"name": "c", "template": {"spec": job(120)}},
        ]
        spec = {"suspend": True, "replicatedJobs": jobs} | of
        return Reader().read(JOBSET, {"metadata": meta(), "spec": spec}).run.deadline_s

    assert deadline() == 150
    assert deadline(startupPolicy={"startupPolicyOrder": "InOrder"}) == 270
    assert deadline(second=None) is None


def test_what_a_job_says_goes_before_what_its_template_says() -> None:
    obj = {"metadata": meta(), "spec": {"suspend": True} | job()}
    obj["spec"]["template"]["metadata"] = {"annotations": {EXPECTED_DURATION: "1h"}}
    assert Reader().read(JOB, obj).run == RunTerms(3600)
    obj["metadata"] = meta("2h")
    assert Reader().read(JOB, obj).run == RunTerms(7200)
    obj["metadata"] = meta("soon")
    read_job = Reader().read(JOB, obj)
    assert (read_job.run, read_job.hint, read_job.problem) == (RunTerms(3600), BAD, "")


def test_a_job_began_when_its_status_says() -> None:
    obj = {"metadata": meta(), "spec": {"suspend": True} | job()}
    assert Reader().read(JOB, obj).began is None
    obj["status"] = {"startTime": "2026-08-01T10:00:00Z"}
    assert Reader().read(JOB, obj).began == 1785578400
    obj["status"] = {"startTime": ["noon"]}
    assert Reader().read(JOB, obj).began is None


def limited(said: str, key: str = MAX_RUN) -> tuple[Read[ClusterQueue], Read[LocalQueue]]:
    noted = {"name": "q", "namespace": "team", "annotations": {key: said}}
    local: Object = {"metadata": noted, "spec": {"clusterQueue": "q"}}
    everybody: Object = {"metadata": noted, "spec": {"namespaceSelector": {}}}
    return (
        cluster_queue_from(msgspec.convert(everybody, ClusterQueueObject)),
        local_queue_from(msgspec.convert(local, LocalQueueObject)),
    )


def test_a_queue_says_how_long_its_workloads_may_run() -> None:
    for queue in limited("12h"):
        assert (queue.value.max_run_s, queue.problems) == (43200, ())
    for queue in limited("a while"):
        assert queue.value.max_run_s is None
        assert queue.problems == (f"its annotation {MAX_RUN} is 'a while': {HOW}",)


def test_a_snapshot_has_what_its_queues_say() -> None:
    noted = {"name": "q", "annotations": {MAX_RUN: "12h", AGEING: "5 per hour", "other": "thing"}}
    taken = reduced_queue("ClusterQueue", "v1beta2", msgspec.json.encode({"metadata": noted, "spec": {}}))
    queue = cluster_queue_from(msgspec.convert(taken, ClusterQueueObject)).value
    assert (queue.max_run_s, queue.ageing) == (43200, 120)
    assert "other" not in taken["metadata"]["annotations"]


@pytest.mark.parametrize(("text", "points"), [("100 per day", 100), ("5 per hour", 120), ("0 per day", 0)])
def test_a_cluster_queue_says_how_its_workloads_rise_as_they_wait(text: str, points: int) -> None:
    queue, _ = limited(text, AGEING)
    assert (queue.value.ageing, queue.problems) == (points, ())


@pytest.mark.parametrize("text", ["", "100", "per day", "1.5 per day", "-1 per day", "100 per week", "100 per days"])
def test_anything_else_keeps_the_queue_from_being_used(text: str) -> None:
    queue, _ = limited(text, AGEING)
    assert queue.value.ageing == 0
    assert queue.problems == (f"its annotation {AGEING} is {text!r}: write a number per day or per hour",)
