"""Snapshots of clusters with jobs and queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from extender.kube.kinds.completion import Completion, PriorityClass
from extender.kube.kinds.job import JOB
from extender.kube.kinds.jobset import JOBSET
from extender.kube.kinds.read import Reader
from extender.kube.reading.objects import AnyObject, NodeObject, PodObject
from extender.kube.snapshots.jobs import job_object
from extender.kube.snapshots.queues import reduced_queue
from extender.kube.snapshots.snapshot import ClusterFile, reduced
from tests.snapshots import node, pod
from tests.test_simulate_snapshot_queues import OBJECTS, cluster_queue

Tree = dict[str, Any]
OPEN = [
    cluster_queue("research", 32),
    cluster_queue("production", 32),
    *(queue for queue in OBJECTS if queue["kind"] == "LocalQueue"),
]
PLAN, FLAVORS = "muster.dev/plan", "muster.dev/flavors"


def job(name: str, pods: int, *, queue: str = "apollo", **said: Any) -> Tree:
    """A suspended Job of whole nodes. ``said``: labels and annotations of it, and the rest of its pods' spec."""
    labels, annotations = said.pop("labels", {}), said.pop("annotations", {})
    container = {
        "name": "main",
        "image": "hush",
        "command": ["hush"],
        "env": [{"name": "hush", "value": "hush"}],
        "resources": {"requests": {"nvidia.com/gpu": "8"}, "limits": {"nvidia.com/gpu": "8"}},
    }
    template: Tree = {
        "metadata": {"labels": {"hush": "hush"}, "annotations": {"hush": "hush"}, "name": "hush"},
        "spec": {
            "schedulerName": "muster",
            "tolerations": [{"key": "corp.example/team", "operator": "Exists"}],
            "containers": [container],
            "serviceAccountName": "hush",
            "volumes": [{"name": "v", "secret": {"secretName": "hush"}}],
            **said,
        },
    }
    meta = {
        "name": name,
        "namespace": "team-vision",
        "uid": f"0000-{name}",
        "creationTimestamp": "2026-08-01T10:00:00Z",
        "labels": {"kueue.x-k8s.io/queue-name": queue, "owner": "hush", **labels},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hush", **annotations},
        "managedFields": [{"manager": "hush"}],
    }
    spec = {"suspend": True, "parallelism": pods, "completions": pods, "completionMode": "Indexed"}
    return {"metadata": meta, "spec": spec | {"template": template}, "status": {"conditions": [{"message": "hush"}]}}


def begun(one: Tree, nodes: Sequence[str], flavors: Tree | None = None) -> Tree:
    """Started by Muster with that plan."""
    one["spec"]["suspend"] = False
    one["metadata"]["annotations"][PLAN] = json.dumps({"": ",".join(f"{name}*1" for name in nodes)})
    if flavors is not None:
        one["metadata"]["annotations"][FLAVORS] = json.dumps({"": flavors})
    return one


def pods_of(one: Tree, nodes: Sequence[str | None]) -> list[Tree]:
    """The pods that the controller has made of the job, bound there by Muster."""
    name, made = one["metadata"]["name"], []
    for index, where in enumerate(nodes):
        member = pod(f"job-{name}", index, len(nodes), node=where)
        meta = member["metadata"]
        meta["ownerReferences"][0] |= {"apiVersion": "batch/v1", "name": name, "uid": f"0000-{name}"}
        meta["labels"]["batch.kubernetes.io/job-completion-index"] = str(index)
        stamp = {"gang-uid": "g", "release": f"r-{name}", "release-complete": "true", "workload": f"0000-{name}"}
        meta["annotations"] |= {f"muster.dev/{key}": value for key, value in stamp.items()}
        made.append(member)
    return made


def cluster(
    jobs: Sequence[Tree],
    pods: Sequence[Tree] = (),
    nodes: int = 4,
    objects: Sequence[Tree] = OBJECTS,
    priorities: Sequence[Tree] = (),
) -> ClusterFile:
    classes = {priority["metadata"]["name"]: msgspec.convert(priority, PriorityClass) for priority in priorities}
    reader = Reader(completion=Completion(priorities=classes))
    return reduced(
        msgspec.convert([node(f"gpu-{number}", "rack-a") for number in range(nodes)], list[NodeObject]),
        msgspec.convert(pods, list[PodObject]),
        [],
        jobs=[
            job_object(JOBSET if "replicatedJobs" in manifest["spec"] else JOB, manifest, reader)[0]
            for manifest in jobs
        ],
        queues=[reduced_queue(manifest["kind"], "v1beta2", json.dumps(manifest).encode()) for manifest in objects],
        namespaces=[msgspec.convert({"metadata": {"name": "team-vision"}}, AnyObject)],
    )


def contended() -> ClusterFile:
    """Research has quota for two nodes: one job starts, the other waits though two more nodes are free."""
    return cluster([job("first", 2), job("second", 2)])
