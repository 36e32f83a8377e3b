"""The queue objects and the jobs of a stage."""

from __future__ import annotations

from collections.abc import Callable

import yaml

from devcluster import Cluster
from devcluster.api import Object
from devcluster.muster import RunningMuster, install_crds_of, install_gate, install_job_admission, start_muster
from extender.kube.queues.workloads import name_of
from policies.model import Controller
from tests.integration.stage import RealStage
from tests.scenarios.pods import pod

GROUP = "/apis/kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
A100 = {"cloud.google.com/gke-gpu": "nvidia-tesla-a100"}
PLURAL = {
    "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Cohort": "cohorts",
    "Topology": "topologies",
}


class Queues:
    """The queue objects and the jobs of a stage; the objects are gone after it."""

    def __init__(self, stage: RealStage) -> None:
        self.stage = stage
        self.jobs = f"/apis/batch/v1/namespaces/{stage.namespace}/jobs"
        self._made: dict[str, None] = {}

    def apply(self, text: str) -> None:
        """Apply the objects as they are written, except for the namespace."""
        here = text.replace("namespace: default", f"namespace: {self.home}")
        self.stage.cluster.kubectl("apply", "-f", "-", stdin=here)
        self._made |= {self.path(obj["kind"], obj["metadata"]["name"]): None for obj in yaml.safe_load_all(text)}

    @property
    def home(self) -> str:
        return self.stage.namespace

    def path(self, kind: str, name: str) -> str:
        within = f"namespaces/{self.home}/" if kind == "LocalQueue" else ""
        return f"{GROUP}/{within}{PLURAL[kind]}/{name}"

    def job(self, name: str, queue: str, size: int, *, gpus: int = 8, **labels: str) -> None:
        template = {"spec": {**pod(name, gpus=gpus)["spec"], "restartPolicy": "Never"}}
        spec = {"completions": size, "parallelism": size, "completionMode": "Indexed", "template": template}
        meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": queue, **labels}}
        self.stage.api.create(self.jobs, {"metadata": meta, "spec": spec})

    def until(self, name: str, holds: Callable[[Object], bool]) -> Object:
        settled_job: Object = self.stage.api.wait_for(f"{self.jobs}/{name}", lambda job: bool(job) and holds(job), 60.0)
        return settled_job

    def until_started(self, name: str, size: int) -> Object:
        return self.until(name, lambda job: job["status"].get("ready") == size)

    def end(self, name: str) -> None:
        """Let the job's pods end well."""
        pods = self.stage.api.get(self.stage.pods_path)["items"]
        self.stage.succeed(*(obj["metadata"]["name"] for obj in pods if obj["metadata"]["name"].startswith(f"{name}-")))

    def reason(self, name: str, code: str) -> str:
        """The job's current reason, once it has that code."""
        return self.stage.until_told(f"job-{name}", lambda gang: gang.state == code).message

    def status(self, kind: str, name: str, holds: Callable[[Object], bool]) -> Object:
        answer = self.stage.api.wait_for(
            self.path(kind, name), lambda obj: bool(obj) and "status" in obj and holds(obj["status"]), 30.0
        )
        return dict(answer["status"])

    def record(self, job: str, condition: str, status: str, **fields: object) -> Object:
        """The status of its Workload, when it has that condition and these fields."""
        controller = self.stage.api.get(f"{self.jobs}/{job}")["metadata"]
        name = name_of(Controller("batch/v1", "Job", job, controller["uid"]))

        def holds(workload: Object | None) -> bool:
            its_status = (workload or {}).get("status", {})
            conditions = {(two["type"], two["status"]) for two in its_status.get("conditions", ())}
            return (condition, status) in conditions and all(its_status.get(key) == fields[key] for key in fields)

        record = self.stage.api.wait_for(f"{GROUP}/namespaces/{self.home}/workloads/{name}", holds, 30.0)
        return dict(record["status"])

    def remove(self) -> None:
        self.stage.api.delete(f"{self.jobs}", {"propagationPolicy": "Background"})
        for path in reversed(self._made):
            self.stage.api.delete(path)


def start_with_queues(cluster: Cluster) -> RunningMuster:
    """Muster with everything that a job of a queue needs."""
    install_crds_of(cluster, "queues")
    running = start_muster(cluster, {"admission_fair_sharing": {"usage_half_life_time_s": 3600}})
    install_gate(cluster)
    install_job_admission(cluster)
    return running
