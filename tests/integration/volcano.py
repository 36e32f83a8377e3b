"""Volcano Jobs, and a stand-in for Volcano's job controller, whose module is not available here.

It follows the sources of volcano-sh/volcano (pkg/controllers/job) for a job that runs undisturbed:

- initiateJob makes the PodGroup, with the labels of the job and the minimum of each task or else its replicas.
- syncJob makes no pod while the PodGroup's phase is empty or Pending.
- createJobPod names the PodGroup and the task on the pod, and the scheduler of the job where the task names none.

Policies, plugins and queues are left out. A restart is done when the test asks for it.
"""

from __future__ import annotations

import threading
from copy import deepcopy
from types import TracebackType
from typing import Self

from devcluster.api import Api, Object
from devcluster.crds import CRDS, until_established
from devcluster.watch import Watch
from tests.integration.podgroups import crd, install_kind

GROUPS, JOBS = "scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"
WAITS = (None, "", "Pending")


def install_volcano(api: Api, *, subresource: bool = False) -> None:
    """Install its CRDs, which accept any fields. That of PodGroups has no status subresource in Volcano."""
    install_kind(api, GROUPS, "PodGroup", status=subresource)
    install_kind(api, JOBS, "Job", status=True)


_AMOUNTS = {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}}
_QUEUE = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {"weight": 1},
            "properties": {
                "weight": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
                "capability": _AMOUNTS,
                "deserved": _AMOUNTS,
                "guarantee": {"type": "object", "properties": {"resource": _AMOUNTS}},
                "reclaimable": {"type": "boolean"},
                "parent": {"type": "string"},
                "priority": {"type": "integer", "format": "int32", "minimum": 0},
                "type": {"type": "string"},
            },
        },
        "status": {"type": "object", "properties": {"state": {"type": "string"}, "allocated": _AMOUNTS}},
    },
}
"""The fields of a Queue that are read, as Volcano's CRD has it
(config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml)."""


def install_queues(api: Api) -> None:
    """The kind Queue of Volcano, which belongs to no namespace."""
    group, _, version = GROUPS.partition("/")
    definition = crd(group, version, "Queue", status=True)
    definition["spec"]["scope"] = "Cluster"
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = _QUEUE
    api.create(CRDS, definition)
    until_established(api, definition["metadata"]["name"])


class JobController:
    """The controller. It follows PodGroups between enter and exit; an error in it is raised at the end."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._jobs: dict[str, Object] = {}
        self._error: Exception | None = None

    def __enter__(self) -> Self:
        self._watch: Watch = self._api.watch(f"/apis/{GROUPS}/podgroups")
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.close()
        self._thread.join()
        if self._error is not None:
            raise self._error

    def create(self, namespace: str, manifest: Object) -> Object:
        """Create the job as its author applies it; returns its PodGroup."""
        job = self._api.create(f"/apis/{JOBS}/namespaces/{namespace}/jobs", manifest)
        return self._initiate(job)

    def _initiate(self, job: Object) -> Object:
        self._jobs[job["metadata"]["uid"]] = job
        namespace = job["metadata"]["namespace"]
        spec, tasks = job["spec"], job["spec"]["tasks"]
        group = {
            "apiVersion": GROUPS,
            "kind": "PodGroup",
            "metadata": {
                "name": _group_of(job),
                "labels": job["metadata"].get("labels"),
                "ownerReferences": [_made_by(job)],
            },
            "spec": {
                "minMember": spec["minAvailable"],
                "minTaskMember": {task["name"]: task.get("minAvailable", task["replicas"]) for task in tasks},
                "queue": spec.get("queue", "default"),
            },
            "status": {"phase": "Pending"} if spec.get("queue") else {},
        }
        return self._api.create(f"/apis/{GROUPS}/namespaces/{namespace}/podgroups", group)

    def restart(self, job: Object) -> Object:
        """Restart the job as RestartJob does: killJob deletes pods and PodGroup, and initiateJob makes a new one."""
        namespace, selected = job["metadata"]["namespace"], f"volcano.sh/job-name={job['metadata']['name']}"
        path = f"/api/v1/namespaces/{namespace}/pods"
        self._api.delete(path, {"gracePeriodSeconds": 0}, labelSelector=selected)
        self._api.wait_for(path, lambda pods: not pods, 60.0, labelSelector=selected)
        self._api.delete(f"/apis/{GROUPS}/namespaces/{namespace}/podgroups/{_group_of(job)}")
        return self._initiate(job)

    def _run(self) -> None:
        try:
            for change, group in self._watch:
                if change != "DELETED" and group.get("status", {}).get("phase") not in WAITS:
                    [owner] = group["metadata"]["ownerReferences"]
                    self._sync(self._jobs.pop(owner["uid"], None))
        except Exception as error:
            self._error = error

    def _sync(self, job: Object | None) -> None:
        if job is None:
            return
        for task in job["spec"]["tasks"]:
            for index in range(task["replicas"]):
                self._api.create(f"/api/v1/namespaces/{job['metadata']['namespace']}/pods", _pod(job, task, index))


def _pod(job: Object, task: Object, index: int) -> Object:
    pod: Object = deepcopy(task["template"])
    pod["spec"].setdefault("schedulerName", job["spec"]["schedulerName"])
    name = job["metadata"]["name"]
    meta = pod.setdefault("metadata", {})
    meta |= {"name": f"{name}-{task['name']}-{index}", "ownerReferences": [_made_by(job)]}
    meta.setdefault("annotations", {}).update(
        {
            "volcano.sh/task-spec": task["name"],
            "scheduling.k8s.io/group-name": _group_of(job),
            "volcano.sh/job-name": name,
            "volcano.sh/queue-name": job["spec"].get("queue", "default"),
            "volcano.sh/job-version": "0",
        }
    )
    meta.setdefault("labels", {}).update({"volcano.sh/job-name": name, "volcano.sh/task-spec": task["name"]})
    return pod


def _group_of(job: Object) -> str:
    return f"{job['metadata']['name']}-{job['metadata']['uid']}"


def _made_by(job: Object) -> Object:
    meta = job["metadata"]
    named = {"apiVersion": JOBS, "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return {**named, "controller": True, "blockOwnerDeletion": True}
