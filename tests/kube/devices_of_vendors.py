"""ResourceSlices, classes and claims as drivers and users write them, in the form of resource.k8s.io/v1."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def gpu_slice(node: str = "node-1", generation: int = 1) -> Json:
    """The slice of the NVIDIA GPU driver for one node with two GPUs, one of them with a MIG device beside it."""
    gpu = {
        "type": {"string": "gpu"},
        "productName": {"string": "NVIDIA GB200"},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Blackwell"},
        "addressingMode": {"string": "ATS"},
        "cudaComputeCapability": {"version": "10.0.0"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "driverVersion": {"version": "580.95.5"},
    }
    devices: list[Json] = [
        {
            "name": f"gpu-{number}",
            "attributes": gpu
            | {
                "uuid": {"string": f"GPU-{node}-{number}"},
                "resource.kubernetes.io/pciBusID": {"string": f"0008:0{number}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0008:0{number}"},
            },
            "capacity": {"memory": {"value": "189471Mi"}},
        }
        for number in range(2)
    ]
    devices.append(
        {
            "name": "gpu-1-mig-1g24gb-19-0",
            "attributes": {
                "type": {"string": "mig"},
                "profile": {"string": "1g.24gb"},
                "parentUUID": {"string": f"GPU-{node}-1"},
            },
            "capacity": {"memory": {"value": "23552Mi"}, "multiprocessors": {"value": "18"}},
            "consumesCounters": [{"counterSet": "gpu-1-counter-set", "counters": {"memory": {"value": "23552Mi"}}}],
            "taints": [
                {"key": "gpu.nvidia.com/unhealthy", "value": "xid-94", "effect": "NoSchedule"},
                {"key": "gpu.nvidia.com/note", "effect": "None", "timeAdded": "2026-11-01T00:00:00Z"},
            ],
        }
    )
    spec = {"driver": "gpu.nvidia.com", "nodeName": node, "devices": devices}
    pool = {"name": node, "generation": generation, "resourceSliceCount": 1}
    return {"metadata": {"name": f"{node}-gpu.nvidia.com-x7k2p"}, "spec": spec | {"pool": pool}}


def imex_slice(node: str = "node-1") -> Json:
    devices = [
        {"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}}
        for kind in ("channel", "daemon")
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "compute-domain.nvidia.com", "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-compute-domain.nvidia.com-5s8dq"}, "spec": spec}


def fabric_slice() -> Json:
    """A pool that all nodes share."""
    pool = {"name": "fabric", "generation": 3, "resourceSliceCount": 1}
    spec = {"driver": "fabric.example.com", "allNodes": True, "pool": pool, "devices": [{"name": "switch"}]}
    return {"metadata": {"name": "fabric"}, "spec": spec}


def device_class(name: str, expression: str, resource: str | None = None) -> Json:
    spec: Json = {"selectors": [{"cel": {"expression": expression}}]}
    return {"metadata": {"name": name}, "spec": spec | ({"extendedResourceName": resource} if resource else {})}


def claim_spec(*requests: Json, **more: Any) -> Json:
    return {"devices": {"requests": list(requests), **more}}


def request(name: str, device_class: str, **more: Any) -> Json:
    return {
        "name": name,
        "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1} | more,
    }


CHANNEL = claim_spec(
    request("channel", "compute-domain-default-channel.nvidia.com"),
    config=[
        {
            "requests": ["channel"],
            "opaque": {
                "driver": "compute-domain.nvidia.com",
                "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1",
                    "kind": "ComputeDomainChannelConfig",
                    "domainID": "5a1b0d8e-7c39-4a0e-9d57-2f1f2c3d4e5f",
                    "allocationMode": "Single",
                },
            },
        }
    ],
)
