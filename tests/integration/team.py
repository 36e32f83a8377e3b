"""A namespace of users who run jobs: their manifests, and the stored objects."""

from __future__ import annotations

import itertools
import json
from typing import Any

from devcluster import Cluster
from devcluster.api import Object
from devcluster.errors import ClusterError
from policies.model import GANG_GATE

PLAN, NODES, WORKLOAD = "muster.dev/plan", "muster.dev/nodes", "muster.dev/workload"
GANG = {"muster.dev/gang": "true"}
QUEUE = {"kueue.x-k8s.io/queue-name": "team-a"}
COMPLETION = "batch.kubernetes.io/job-completion-index"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
REPLICA = "training.kubeflow.org/replica-index"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
WAYS = {"client": (), "server": ("--server-side",), "forced": ("--server-side", "--force-conflicts")}
_numbers = itertools.count(1)


class Team:
    """A namespace with the labels of its administrator."""

    def __init__(self, cluster: Cluster, **labels: str) -> None:
        self.api = cluster.api
        self._kubectl = cluster.kubectl
        self.name = f"team-{next(_numbers)}"
        cluster.add_namespace(self.name, {f"muster.dev/{key.replace('_', '-')}": labels[key] for key in labels})
        self.jobs = f"/apis/batch/v1/namespaces/{self.name}/jobs"
        self.pods = f"/api/v1/namespaces/{self.name}/pods"

    def job(self, name: str = "train", /, *, labels: Object | None = None, **given: Any) -> Object:
        """The manifest of an Indexed Job; ``given`` goes into its metadata, or (`spec`, `pod`) further down."""
        pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "train"}], **given.pop("pod", {})}
        spec = {"completionMode": "Indexed", "completions": 2, "parallelism": 2, "template": {"spec": pod}}
        meta = {"name": name, "namespace": self.name, "labels": QUEUE if labels is None else labels}
        header = {"apiVersion": "batch/v1", "kind": "Job"}
        return {**header, "spec": spec | given.pop("spec", {}), "metadata": meta | given}

    def create(self, job: Object) -> Object:
        return self.api.create(self.jobs, job)

    def now(self, name: str = "train") -> Object:
        return self.api.get(f"{self.jobs}/{name}")

    def patch(self, patch: Object, name: str = "train") -> Object:
        return self.api.patch(f"{self.jobs}/{name}", patch)

    def start(self, name: str = "train") -> Object:
        """Start the job as Muster does, in one request."""
        started = self.patch(
            {"metadata": {"annotations": {PLAN: '{"": "node-0*2"}'}}, "spec": {"suspend": False}}, name
        )
        assert not started["spec"]["suspend"]
        self.until_active(name)
        return started

    def until_active(self, name: str = "train") -> None:
        self.api.wait_for(f"{self.jobs}/{name}", lambda job: job is not None and job["status"].get("active") == 2)

    def apply(self, manifest: Object, way: str) -> str:
        """The output of kubectl."""
        try:
            return self._kubectl("apply", *WAYS[way], "-f", "-", stdin=json.dumps(manifest))
        except ClusterError as refused:
            return str(refused)

    def pod(self, nodes: str | None, labels: Object, /, **given: Any) -> Object:
        """How a pod of a started job would be created."""
        plan = {} if nodes is None else {NODES: nodes}
        annotations = {WORKLOAD: "uid", "muster.dev/pod-group": "job-train", "kept": "yes"} | plan
        meta = {"name": "pod", "labels": labels, "annotations": annotations | given.pop("annotations", {})}
        spec = {"schedulerName": "muster", "containers": [{"name": "main", "image": "train"}], **given}
        return self.api.create(f"{self.pods}?dryRun=All", {"metadata": meta, "spec": spec})


def scheduler_of(job: Object) -> str:
    name: str = job["spec"]["template"]["spec"]["schedulerName"]
    return name


def ours(job: Object) -> Object:
    """The labels of the job, without labels that the API server copies from its template if it has none."""
    return {key: value for key, value in job["metadata"].get("labels", {}).items() if "/" in key and "batch" not in key}


def node_names(pod: Object) -> list[str]:
    """The node that each term of its required node affinity names."""
    terms = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return [field["values"][0] for term in terms for field in term["matchFields"]]


def is_gated(pod: Object) -> bool:
    return {"name": GANG_GATE} in pod["spec"].get("schedulingGates", [])


def named(*nodes: str) -> Object:
    """The affinity that Muster writes into a template."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}
