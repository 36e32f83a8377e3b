"""Manifests as the documents of other projects print them, read as Muster reads them: tests/manifests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest
import yaml

from extender.kube.convert import pod_from
from extender.kube.dialects.owner import LWS, LWS_NAME, LWS_SIZE
from extender.kube.kinds.kind import Object, put
from extender.kube.kinds.owners import OWNER_KINDS, owner_from
from extender.kube.kinds.read import Reader
from extender.kube.kinds.registry import KINDS, Registry
from extender.kube.kinds.trainer import TRAIN_JOB
from extender.kube.queues.read import ClusterQueueObject, VolcanoQueueObject, cluster_queue_from
from extender.kube.queues.volcano import volcano_queue_from
from extender.kube.reading.numbering import LWS_GROUP
from extender.kube.reading.objects import PodObject
from extender.kube.reading.quantity import milli, whole
from policies.model import Job, Pod, PodSet
from policies.model.queues import Strategy
from tests.manifests import FIELDS, Manifest, manifests

POLICIES = Path("manifests/components/job-admission")
OWNERS = {kind.name: kind for kind in OWNER_KINDS}


def of_kinds(kinds: Sequence[str]) -> pytest.MarkDecorator:
    chosen = [manifest for manifest in manifests() if manifest.kind in kinds]
    return pytest.mark.parametrize("printed", chosen, ids=[manifest.name for manifest in chosen])


def asks(said: Object) -> dict[str, int]:
    """Return the requests of each pod, in the units of the core."""
    return {name: milli(much) if name == "cpu" else whole(much) for name, much in said.get("asks", {}).items()}


def asked(pod: Pod) -> dict[str, int]:
    return {name: much for name, much in pod.requests if name != "pods"}


def check_topology(printed: Manifest, pod: Pod) -> None:
    topology = pod.topology
    assert topology.required == printed.must.get("together")
    sliced = {level: size for size, level in topology.around}
    if topology.slice_size is not None:
        sliced[str(topology.slice_level)] = topology.slice_size
    assert sliced == printed.must.get("slices", {})


def existing(printed: Manifest) -> Object:
    """Return the object as the API server stores it."""
    obj = printed.members[0]
    meta = obj["metadata"]
    meta |= {"name": meta.pop("generateName", "") + "x" if "name" not in meta else meta["name"], "namespace": "team"}
    meta |= {"uid": "uid", "generation": 1}
    return obj


def rules(file: str) -> set[tuple[str, str]]:
    """The groups and plurals of the first policy in a file. A rule covers all versions of its group."""
    policy = next(
        document
        for document in yaml.safe_load_all((POLICIES / file).read_text())
        if "matchConstraints" in document["spec"]
    )
    constraints = policy["spec"]["matchConstraints"]
    assert constraints.get("matchPolicy", "Equivalent") == "Equivalent"
    named = constraints["resourceRules"]
    return {(group, plural) for rule in named for group in rule["apiGroups"] for plural in rule["resources"]}


def job_of(printed: Manifest) -> Job:
    obj = existing(printed)
    kind = Registry().kind_of(obj["apiVersion"], obj["kind"])
    assert kind is not None
    assert (kind.group, kind.plural) in rules("jobs.yaml")
    if printed.must.get("managed", True):
        put(obj, kind.suspend, value=True)
    return Reader().read(kind, obj)


def check_podsets(printed: Manifest, podsets: Sequence[PodSet]) -> None:
    for podset, expected in zip(podsets, printed.podsets, strict=True):
        assert podset.count == expected["pods"]
        assert podset.wave == expected.get("wave", 0)
        assert podset.minimum == expected.get("least", expected["pods"])
        assert asked(podset.template) == asks(expected)
        check_topology(printed, podset.template)


def test_each_file_says_what_can_be_read_and_where_it_is_from() -> None:
    for printed in manifests():
        assert printed.must.keys() <= FIELDS, printed.name
    for path in sorted(Path("tests/manifests").glob("*/*.yaml")):
        assert path.read_text().startswith("# "), path
    assert len(manifests()) > 80


JOBS = [kind.name for kind in KINDS if kind is not TRAIN_JOB]
"""Without TrainJobs, which are read in the JobSet that their controller makes of them."""


@of_kinds(JOBS)
def test_a_job_is_the_podsets_that_the_table_says(printed: Manifest) -> None:
    if printed.must.get("refused") == "not found":
        assert printed.obj["apiVersion"] not in {kind.version for kind in KINDS if kind.name == printed.kind}
        return
    job = job_of(printed)
    assert job.managed is printed.must.get("managed", True)
    if (unplanned := printed.must.get("unplanned")) is not None:
        assert job.problem == unplanned
        return
    check_podsets(printed, job.podsets.podsets)
    assert job.queue == printed.queue
    assert fnmatch(job.podsets.key.name, printed.must.get("gang", "*"))
    if job.managed:
        least = printed.least
        assert (job.podsets.minimum, job.podsets.first_wave) == (least, printed.must.get("starts", least))
    if printed.must.get("waits") == "InvalidJob":
        assert printed.must["because"] in job.problem
    else:
        assert job.problem == ""


@of_kinds(["CronJob"])
def test_the_jobs_of_a_cronjob_are_read_one_by_one(printed: Manifest) -> None:
    template = printed.obj["spec"]["jobTemplate"]
    obj = {"apiVersion": "batch/v1", "kind": "Job", **template}
    obj["metadata"] = {**template["metadata"], "name": "x", "namespace": "team", "uid": "uid"}
    job = Reader().read(KINDS[0], obj)
    assert (job.managed, job.problem, job.queue) == (True, "", printed.queue)
    check_podsets(printed, job.podsets.podsets)


def pods_of(printed: Manifest, obj: Object) -> list[Pod]:
    """A pod of each template of an owner, as its controllers make the pods, with the label of the admission policy."""
    kind = OWNERS[obj["kind"]]
    leader, worker = kind.templates(obj)
    meta, name = obj["metadata"], obj["metadata"]["name"]
    made = {"apiVersion": "apps/v1", "uid": "maker", "controller": True}
    labels = {"muster.dev/gang": "true"} if (meta.get("labels") or {}).get("muster.dev/gang") else {}
    more: dict[str, str] = {}
    if kind.name == LWS:
        made |= {"kind": "StatefulSet", "name": name}
        labels |= {LWS_NAME: name, LWS_GROUP: "0"}
        exclusive = "leaderworkerset.sigs.k8s.io/exclusive-topology"
        more = {LWS_SIZE: str(obj["spec"]["leaderWorkerTemplate"]["size"])}
        more |= {key: value for key, value in (meta.get("annotations") or {}).items() if key == exclusive}
    elif kind.name == "Deployment":
        made |= {"kind": "ReplicaSet", "name": f"{name}-5d59d67564"}
        labels |= {"pod-template-hash": "5d59d67564"}
    else:
        made |= {"kind": kind.name, "name": name}
    pods = []
    for at, template in enumerate([leader, worker] if kind.name == LWS else [worker]):
        metadata = template.get("metadata") or {}
        of_pod = {
            "name": f"{name}-{at}", "namespace": "team", "uid": f"pod-{at}", "ownerReferences": [made],
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **more},
        }  # fmt: skip
        pods.append(pod_from(msgspec.convert({"metadata": of_pod, "spec": template["spec"]}, PodObject)))
    return pods


@of_kinds(list(OWNERS))
def test_an_owner_makes_the_gangs_that_the_table_says(printed: Manifest) -> None:
    obj = existing(printed)
    kind = OWNERS[obj["kind"]]
    assert (kind.group, kind.plural) in rules("owners.yaml")
    owner = owner_from(kind, obj, Reader())
    assert owner.problem == ""
    pods = pods_of(printed, obj)
    least = printed.least
    for pod, expected in zip(pods, printed.podsets, strict=True):
        assert pod.group is not None
        assert pod.group.problem is None
        assert re.sub("-0$", "", pod.group.name) == printed.must["gang"]
        assert asked(pod) == asks(expected)
        check_topology(printed, pod)
        assert (pod.queue or owner.queue) == printed.queue
        if "gang" in printed.lines:
            assert pod.group.owner == owner.key.name
            assert (pod.group.min_member if owner.minimum is None else owner.minimum) == least
    assert kind.groups(obj) == printed.must.get("groups", 1)
    if "starts" not in printed.must:
        assert owner.podset is None, "all of its pods come together"
    else:
        assert owner.podset is not None
        assert owner.podset.together == printed.must["starts"]
        assert owner.podset.count == printed.size
        assert asked(owner.podset.template) == asks(printed.podsets[-1])
        check_topology(printed, owner.podset.template)


@of_kinds(["Pod"])
def test_pods_are_the_gang_that_the_table_says(printed: Manifest) -> None:
    pods = []
    for at, obj in enumerate(printed.members):
        meta = {**obj["metadata"], "name": f"pod-{at}", "namespace": "team", "uid": f"pod-{at}"}
        pods.append(pod_from(msgspec.convert({"metadata": meta, "spec": obj["spec"]}, PodObject)))
    amounts = [asks(podset) for podset in printed.podsets for _ in range(podset["pods"])]
    assert [asked(pod) for pod in pods] == amounts
    groups = [pod.group for pod in pods]
    if (gang := printed.must.get("gang")) is None:
        assert groups == [None]
    for group in groups if gang is not None else ():
        assert group is not None
        assert (group.name, group.min_member, group.problem) == (gang, printed.size, None)
    assert {pod.queue for pod in pods} == {printed.queue}


@of_kinds(["RayService"])
def test_what_muster_does_not_know_it_leaves_alone(printed: Manifest) -> None:
    assert Registry().kind_of(printed.obj["apiVersion"], printed.kind) is None


@of_kinds(["ClusterQueue"])
def test_a_cluster_queue_has_the_quota_that_the_table_says(printed: Manifest) -> None:
    read = cluster_queue_from(msgspec.convert(printed.obj, ClusterQueueObject))
    queue, must = read.value, printed.must
    assert (read.problems, read.warnings) == ((), ())
    quota = {
        name: {resource: limit.nominal for resource, limit in quotas.items()}
        for group in queue.groups
        for name, quotas in group.flavors
    }
    assert quota == {name: asks({"asks": amounts}) for name, amounts in must["quota"].items()}
    assert queue.cohort == must.get("cohort", "")
    assert (queue.strategy is Strategy.STRICT) is must.get("strict", False)


@of_kinds(["Queue"])
def test_a_queue_of_volcano_has_the_limits_that_the_table_says(printed: Manifest) -> None:
    read = volcano_queue_from(msgspec.convert(printed.obj, VolcanoQueueObject))
    assert read.problems == ()
    assert read.value.weight == printed.must["weight"]
    assert dict(read.value.capability) == asks({"asks": printed.must["most"]})
