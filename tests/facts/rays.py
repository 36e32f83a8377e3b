"""Manifests of RayClusters and RayJobs, and the plan that is written into them."""

from __future__ import annotations

from typing import Any

from devcluster.api import Object
from tests.facts.kinds import PLAN, term_for

TEMPLATES = ("/headGroupSpec/template", "/workerGroupSpecs/0/template")


def shape(*, hosts: int = 1, most: int = 2, grace_s: int = 0) -> Object:
    """A head and two replicas of workers."""

    def template(name: str) -> Object:
        containers = [{"name": name, "image": "rayproject/ray"}]
        return {"metadata": {}, "spec": {"terminationGracePeriodSeconds": grace_s, "containers": containers}}

    workers = {"groupName": "w", "replicas": 2, "minReplicas": 1, "maxReplicas": most, "numOfHosts": hosts}
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": template("head")},
        "workerGroupSpecs": [{**workers, "rayStartParams": {}, "template": template("worker")}],
    }


def ray_cluster(name: str, more: Object | None = None, **how: Any) -> Object:
    spec = {"suspend": True, **shape(**how), **(more or {})}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


def ray_job(name: str, **spec: Any) -> Object:
    wanted = {"suspend": True, "entrypoint": "python train.py", "shutdownAfterJobFinishes": True, **spec}
    job = {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": name}}
    return {**job, "spec": {"rayClusterSpec": shape(), **wanted}}


def plan(node: str, below: str = "/spec", **spec: Any) -> list[Object]:
    """The operations that unsuspend it with an annotation and node affinity in every template."""
    annotations = [
        {"op": "add", "path": f"{below}{at}/metadata/annotations", "value": {PLAN: node}} for at in TEMPLATES
    ]
    fields = {"affinity": term_for(node), **spec}
    placed = [
        {"op": "add", "path": f"{below}{at}/spec/{name}", "value": value}
        for at in TEMPLATES
        for name, value in fields.items()
    ]
    return [{"op": "replace", "path": "/spec/suspend", "value": False}, *annotations, *placed]


def slot(pod: Object) -> tuple[str | None, ...]:
    """The slot of the pod, by its labels."""
    labels = pod["metadata"]["labels"]
    return tuple(labels.get(f"ray.io/{name}") for name in ("group", "worker-group-replica-index", "replica-host-index"))
