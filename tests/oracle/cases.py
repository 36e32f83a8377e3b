"""The table: what kube-scheduler's own code says that each pod asks for, and where kube-scheduler 1.37.2 bound it."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from extender.kube.reading.quantity import milli, whole

MANIFESTS = Path(__file__).parent / "manifests"
HOSTNAME = "kubernetes.io/hostname"
Object = dict[str, Any]

_RAILS = {f"nvidia.com/resibp{rail}s0": "1" for rail in (24, 64, 79, 94, 154, 192, 206, 220)}
_NETWORKS = {f"networking.gke.io.networks/vpc{at}{end}": "1" for at in range(1, 9) for end in ("", ".IP")}
_GPU = "nvidia.com/gpu"
_NOTEBOOK = {"cpu": "500m", "memory": "1Gi"}
_UNTAINTED = "12, 14-18, 20-22"


@dataclass(frozen=True)
class Case:
    """A pod. ``path``: where its template is in the object; empty: the object is a pod. ``asks``: its requests, but
    for a slot of a pod. ``amounts``: the numbers of the nodes with room that its selectors choose; ``scheduler``: those
    where kube-scheduler binds it, by their taints and cordons, too. ``added``: a container that its controller adds."""

    manifest: str
    name: str
    path: str
    asks: dict[str, str]
    amounts: str
    scheduler: str
    added: tuple[str, Object] | None = None

    @property
    def id(self) -> str:
        return f"{self.manifest}-{self.name}"

    def template(self) -> Object:
        """The spec of the pod as its author wrote it."""
        if not self.path:
            return deepcopy(
                next(obj["spec"] for obj in manifest(self.manifest) if obj["metadata"]["name"] == self.name)
            )
        value: Any = manifest(self.manifest)[0]
        for segment in self.path.split("."):
            value = value[int(segment) if segment.isdigit() else segment]
        spec: Object = deepcopy(value)
        return spec

    def written(self) -> Object:
        """The spec of the pod as its controller creates it."""
        spec = self.template()
        if self.added is not None:
            spec.setdefault(self.added[0], []).append(deepcopy(self.added[1]))
        return spec

    def stored(self) -> Object:
        """The spec of the pod as an API server stores it.

        It has what its RuntimeClass says, host ports, and requests where only limits were.
        """
        spec = self.written()
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            resources = container.setdefault("resources", {})
            if resources.get("limits"):
                resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
            if spec.get("hostNetwork"):
                container["ports"] = [port | {"hostPort": port["containerPort"]} for port in container.get("ports", ())]
        if runtime := runtimes().get(spec.get("runtimeClassName", "")):
            spec["overhead"] = runtime.get("overhead", {}).get("podFixed", {})
            spec.setdefault("nodeSelector", {}).update(runtime.get("scheduling", {}).get("nodeSelector", {}))
        return spec


def _sized(name: str, cpu: str, memory: str) -> Object:
    return {
        "name": name,
        "image": "registry.example.com/ray:2.52.0",
        "resources": {"limits": {"cpu": cpu, "memory": memory}},
    }


_WAIT = ("initContainers", _sized("wait-gcs-ready", "200m", "256Mi"))
_AUTOSCALER = ("containers", _sized("autoscaler", "500m", "512Mi"))
_WORKER, _JOB = "spec.workerGroupSpecs.{}.template.spec", "spec.template.spec"

CASES = (
    Case("efa-test", "test", _JOB,
         {"memory": "128Gi", "hugepages-2Mi": "5Gi", _GPU: "8", "vpc.amazonaws.com/efa": "32"}, "5", "5"),
    Case("tcpxo-training", "template", _JOB, {_GPU: "8"}, "2", ""),
    Case("tcpxo-training", "tcpxo-training-0-as-stored", "", {_GPU: "8", **_NETWORKS}, "2", "2"),
    Case("elastic-workers", "worker", "spec.pytorchReplicaSpecs.Worker.template.spec",
         {"cpu": "80", "memory": "1200Gi", _GPU: "8", "rdma/shared_ib": "1"}, "8", "8"),
    Case("rails", "worker", "spec.mpiReplicaSpecs.Worker.template.spec",
         {"cpu": "96", "memory": "900Gi", _GPU: "8", **_RAILS}, "14", "14"),
    Case("rails", "launcher", "spec.mpiReplicaSpecs.Launcher.template.spec",
         {"cpu": "2", "memory": "4Gi"}, "1-6, 11, 20, 21", "20, 21"),
    Case("tuning", "head", "spec.headGroupSpec.template.spec",
         {"cpu": "8500m", "memory": "33280Mi"}, "1-22", _UNTAINTED, _AUTOSCALER),
    Case("tuning", "gpu", _WORKER.format(0),
         {"cpu": "90", "memory": "1000Gi", _GPU: "8"}, "1-3, 5, 6, 8, 10, 14", "1-3, 5, 6, 10, 14", _WAIT),
    Case("tuning", "cpu", _WORKER.format(1), {"cpu": "3500m", "memory": "14Gi"}, "1-22", _UNTAINTED, _WAIT),
    Case("serving", "worker", "spec.leaderWorkerTemplate.workerTemplate.spec",
         {"cpu": "125", "memory": "1124Gi", "ephemeral-storage": "800Gi", _GPU: "8"}, "1-3, 14", "14"),
    Case("slices", "slice", "spec.replicatedJobs.0.template.spec.template.spec", {"google.com/tpu": "4"}, "4", ""),
    Case("slices", "report", "spec.replicatedJobs.1.template.spec.template.spec",
         {"cpu": "1", "memory": "2Gi"}, "1-22", _UNTAINTED),
    Case("one-clique", "train", _JOB,
         {"cpu": "128", "memory": "800Gi", _GPU: "4", "rdma/hca_shared_devices_a": "1"}, "15-17", "15-17"),
    Case("slurmd", "slurmd", "", {_GPU: "8"}, "1-3, 5, 6, 8, 10, 14, 22", "1-3, 5, 6, 10, 14, 22"),
    Case("notebooks", "on-a-partition", "", _NOTEBOOK | {"nvidia.com/mig-1g.10gb": "1"}, "18", "18"),
    Case("notebooks", "on-a-slice", "", _NOTEBOOK | {"nvidia.com/gpu.shared": "1"}, "19", "19"),
    Case("notebooks", "on-a-gpu", "", _NOTEBOOK | {_GPU: "1"},
         "1-3, 5-10, 12-18, 22", "12, 14-18, 22"),
    Case("large-init", "train", _JOB,
         {"cpu": "50", "memory": "256Gi", "ephemeral-storage": "500Gi", _GPU: "4"},
         "1-3, 9, 12-17, 22", "12, 14-17, 22"),
    Case("runtimes", "confidential", "", {"cpu": "17", "memory": "160Gi", "nvidia.com/pgpu": "1"}, "", ""),
    Case("runtimes", "sandboxed", "", {"cpu": "1250m", "memory": "2208Mi"}, "21", "21"),
    Case("runtimes", "plain", "", {"cpu": "4", "memory": "16Gi", _GPU: "1"}, "1-3, 5-10, 12-18, 22", "12, 14-18, 22"),
)  # fmt: skip


def numbers(text: str) -> list[str]:
    """``"1-3, 5"``: the names of those nodes."""
    names: list[str] = []
    for span in filter(None, text.split(", ")):
        first, _, last = span.partition("-")
        names += [f"node-{number}" for number in range(int(first), int(last or first) + 1)]
    return names


def requests_in(amounts: dict[str, str]) -> dict[str, int]:
    """Return the amounts as Muster counts them, with the slot of a pod."""
    return {name: (milli if name == "cpu" else whole)(much) for name, much in amounts.items()} | {"pods": 1}


def runtimes() -> dict[str, Object]:
    """The RuntimeClasses, by name."""
    return {obj["metadata"]["name"]: obj for obj in manifest("runtimes") if obj["kind"] == "RuntimeClass"}


def opened(node: Object) -> Object:
    """The node without what keeps pods away from it that have room there."""
    return node | {"spec": {key: value for key, value in node["spec"].items() if key == "providerID"}}


def pinned(spec: Object, node: str) -> Object:
    """A copy that no other node will do for."""
    return spec | {"nodeSelector": {**spec.get("nodeSelector", {}), HOSTNAME: node}}


@cache
def manifest(name: str) -> list[Object]:
    """The objects of that file."""
    return list(yaml.safe_load_all((MANIFESTS / f"{name}.yaml").read_text()))
