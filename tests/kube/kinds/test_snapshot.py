"""Jobs of every kind in a snapshot: it has nothing else of them, and reads like the watch."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from msgspec import convert

from extender.kube.keys import MIN_PARALLELISM
from extender.kube.kinds.completion import Completion
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.kind import Kind, Object
from extender.kube.kinds.ray import RAY_CLUSTER
from extender.kube.kinds.read import Reader, templates_of
from extender.kube.kinds.registry import Registry
from extender.kube.kinds.resources import LIMITS, PRIORITIES
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.reading.objects import PodObject
from extender.kube.snapshots.jobs import JobObject, job_from, job_object, take_jobs
from extender.kube.snapshots.pseudonyms import anonymise
from extender.kube.snapshots.reduction import reduced_job
from extender.kube.snapshots.snapshot import ClusterFile, decode, encode, reduced
from policies.model import Job
from tests.kube.fake_api import fake_api
from tests.kube.kinds.appwrappers import STOPPED, wrapping
from tests.kube.kinds.following import job, listed
from tests.kube.kinds.jobs import started, stopped_again, stored
from tests.kube.kinds.rays import CLUSTER
from tests.kube.kinds.test_hostile_jobs import MANIFESTS, kind_of
from tests.kube.kinds.test_own import MANIFEST as OWN
from tests.kube.kinds.test_own import kind as own_kind
from tests.kube.kinds.train_jobs import jobset

READER = Reader(("muster", "default-scheduler"), Completion(workload_priorities={"high": 9}))


def in_file(kind: Kind, obj: Object) -> bytes:
    return msgspec.json.encode(reduced_job(job_object(kind, obj, READER)[0], ()))


def read_again(content: bytes) -> Job:
    """Read the job with a Muster that knows no kinds of settings."""
    return job_from(msgspec.json.decode(content, type=JobObject), READER)


def unlabelled(one: Job) -> Job:
    """Labels of pods are written where some pod selects others by them, and none does here. So the shape differs."""
    podsets = (replace(each, template=replace(each.template, labels=()), shape="") for each in one.podsets.podsets)
    return replace(one, podsets=replace(one.podsets, podsets=tuple(podsets)))


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_what_is_read_of_the_file_is_what_the_watch_reads(manifest: str) -> None:
    obj = stored(manifest)
    obj["metadata"]["labels"] = {"muster.dev/queue-name": "team", "kueue.x-k8s.io/priority-class": "high"}
    room = '{"rooms":[[{"cpu":1000},["n1"]]],"victims":[["team","job-x","",[]]],"until":1.0}'
    values = {
        "hold": "true",
        "min-runtime": "1h",
        "evicted-at": "2026-01-02T03:04:05.000+00:00",
        "preempting": room,
        "reserved": room,
    }
    annotations = {f"muster.dev/{key}": value for key, value in values.items()}
    obj["metadata"]["annotations"] = {**obj["metadata"].get("annotations", {}), **annotations}
    kind = kind_of(obj)
    job = READER.read(kind, obj)
    assert job.reservation == job.backfill
    assert job.reservation is not None
    runs = started(kind, obj)
    for shown in (obj, runs, stopped_again(kind, runs), runs | {"status": {"active": 1, "ready": 1}}):
        live = READER.read(kind, shown)
        assert unlabelled(read_again(in_file(kind, shown))) == unlabelled(live)


@pytest.mark.parametrize("manifest", MANIFESTS.values(), ids=MANIFESTS)
def test_nothing_that_decides_nothing_is_in_the_file(manifest: str) -> None:
    obj = stored(manifest)
    for document in (obj, started(kind_of(obj), obj)):
        document["metadata"] |= {"annotations": {**document["metadata"].get("annotations", {}), "note": "hush"}}
        document["spec"]["hush"] = "hush"
        for template in templates_of(kind_of(obj), document):
            template.pod.setdefault("metadata", {}).setdefault("annotations", {})["note"] = "hush"
            template.pod["spec"] |= {"serviceAccountName": "hush", "imagePullSecrets": [{"name": "hush"}]}
            for container in template.pod["spec"]["containers"]:
                container |= {"image": "hush", "command": ["hush"], "args": ["hush"], "workingDir": "hush"}
                container["env"] = [{"name": "hush", "value": "hush"}]
        assert b"hush" not in in_file(kind_of(obj), document)


def test_a_train_job_is_in_it_as_its_jobset_shows_it() -> None:
    made = jobset()
    made["metadata"]["annotations"] = {"muster.dev/workload": "", "muster.dev/queue-name": "team"}
    made["metadata"]["annotations"] |= {"muster.dev/plan": '{"": "n1*1"}', MIN_PARALLELISM: "1"}
    live, restored = READER.read(TRAIN_JOB, made), read_again(in_file(TRAIN_JOB, made))
    assert unlabelled(restored) == unlabelled(live)
    assert (restored.owner.kind, restored.queue) == ("TrainJob", "team")


def test_one_that_asks_for_a_gang_by_a_word_that_cannot_be_read_is_there_with_that_problem() -> None:
    obj = job("train", labels={"muster.dev/gang": "True"})
    read = read_again(in_file(JOB, obj))
    assert read.managed
    assert read.problem.startswith("muster.dev/gang is 'True'")


def test_a_job_that_cannot_be_planned_says_why() -> None:
    obj = wrapping({"template": {"apiVersion": "v1", "kind": "Pod"}, "podSets": [{"path": "template.apollo"}]})
    assert obj["status"] == STOPPED
    kind = kind_of(obj)
    problem = READER.read(kind, obj).problem
    assert "apollo" in problem
    assert read_again(in_file(kind, obj)).problem == problem
    nameless = encode(hidden(obj, kind))
    assert b"apollo" not in nameless
    assert "it cannot be planned" in decode(nameless).jobs[0].problem


def hidden(obj: Object, kind: Kind, *pods: dict[str, Any]) -> ClusterFile:
    return anonymise(reduced([], convert(pods, list[PodObject]), [], jobs=[job_object(kind, obj, READER)[0]]))


def as_made(name: str, template: Object, **labels: str) -> dict[str, Any]:
    """A pod that the controller of another object has made of the template."""
    metadata = template["metadata"] | {"name": name, "namespace": "team", "uid": f"uid-of-{name}"}
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    metadata["ownerReferences"] = [{"apiVersion": "x/v1", "kind": "X", "name": "x", "uid": "other", "controller": True}]
    return {"metadata": metadata, "spec": template["spec"]}


@pytest.mark.parametrize("kind", [own_kind(), RAY_CLUSTER], ids=lambda kind: kind.name)
def test_pods_find_their_slots_and_their_job_without_names(kind: Kind) -> None:
    obj = stored(OWN if kind is not RAY_CLUSTER else CLUSTER)
    if kind is RAY_CLUSTER:
        obj["spec"]["workerGroupSpecs"][0]["groupName"] = "apollo"
    obj["metadata"] |= {"name": "secret-name", "labels": {"muster.dev/queue-name": "secret-queue"}}
    runs = started(kind, obj)
    pods = []
    for template in templates_of(kind, runs):
        labels = {"ray.io/group": template.name} if kind is RAY_CLUSTER else {"science.example.com/rank": "0"}
        pods.append(as_made(f"secret-{template.name}", template.pod, **labels))
    file = hidden(runs, kind, *pods)
    for word in (b"secret", b"apollo", b"solver", b"n0", b"n1"):
        assert word not in encode(file), word
    facts = decode(encode(file), READER.schedulers)
    (read,) = facts.jobs
    slots = {podset.prefix for podset in read.podsets.podsets}
    assert {f"{pod.owner}{pod.series}" for pod in facts.pods} == slots
    assert {pod.group_key for pod in facts.pods} == {read.key}
    assert read.podsets.by_slot(read.plan or {}).keys() == {
        podset.slot(at) for podset in read.podsets.podsets for at in range(podset.count)
    }


def taken(*jobs: Object, pods: tuple[dict[str, Any], ...] = (), own: tuple[Kind, ...] = ()) -> list[JobObject]:
    async def scenario() -> list[JobObject]:
        async with fake_api() as (api, kube):
            api.on("GET", JOB.path, listed(*jobs))
            limit = {"type": "Container", "default": {"nvidia.com/gpu": "4"}}
            api.on("GET", LIMITS.path, listed({"metadata": {"namespace": "team"}, "spec": {"limits": [limit]}}))
            api.on("GET", PRIORITIES.path, listed({"metadata": {"name": "urgent"}, "value": 7}))
            reader = Reader(registry=Registry(own))
            objects = await take_jobs(kube, reader, convert(pods, list[PodObject]))
            assert {request.path for request in api.asked if request.path.startswith("/apis/science")} == {
                kind.path for kind in own
            }
            assert any(request.path == JOBSET.path for request in api.asked), "a kind that is not served is no fault"
            return objects

    return asyncio.run(scenario())


def wanted(name: str, **meta: Any) -> Object:
    return job(name, labels={"muster.dev/gang": "true"}, **meta)


def names(jobs: list[JobObject]) -> list[str | None]:
    return [obj.metadata.name for obj in jobs]


def test_those_that_muster_manages_are_taken() -> None:
    others = wanted("others")
    others["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"
    empty = wanted("empty")
    empty["spec"]["completions"] = 0
    child = wanted("part", ownerReferences=[{"apiVersion": JOBSET.version, "kind": "JobSet", "controller": True}])
    nameless = wanted("nameless", uid=None)
    left_out = (job("left-alone", labels={}), others, child, nameless, empty)
    assert names(taken(wanted("ours"), *left_out, own=(own_kind(),))) == ["ours"]


def test_a_job_that_has_ended_is_there_while_pods_of_it_are() -> None:
    done = wanted("done") | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    maker = {"apiVersion": "batch/v1", "kind": "Job", "name": "done", "uid": "uid-of-done", "controller": True}
    last = {"metadata": {"ownerReferences": [maker]}, "status": {"phase": "Running"}}
    marked = {"metadata": {"annotations": {"muster.dev/workload": "uid-of-done"}}, "status": {"phase": "Pending"}}
    ended = last | {"status": {"phase": "Succeeded"}}
    assert names(taken(done)) == names(taken(done, pods=(ended,))) == []
    assert names(taken(done, pods=(last,))) == names(taken(done, pods=(marked,))) == ["done"]


def test_templates_have_what_the_api_server_adds_to_their_pods() -> None:
    obj = wanted("train")
    obj["spec"]["template"]["spec"] = {"priorityClassName": "urgent", "containers": [{"name": "main"}]}
    (fetched,) = taken(obj)
    (podset,) = job_from(fetched, Reader()).podsets.podsets
    assert dict(podset.template.requests)["nvidia.com/gpu"] == 4
    assert podset.template.priority == 7
    assert b"urgent" not in msgspec.json.encode(fetched)
