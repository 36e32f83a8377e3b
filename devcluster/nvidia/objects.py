"""The objects that the driver makes: ResourceSlices of nodes, and the claim templates and DaemonSets of domains."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import yaml

Object = dict[str, Any]

GPU, DOMAIN = "gpu.nvidia.com", "compute-domain.nvidia.com"
"""The names of the two drivers."""
LABEL, TARGET = "resource.nvidia.com/computeDomain", "resource.nvidia.com/computeDomainTarget"
CLIQUE = "nvidia.com/gpu.clique"
NAMESPACE = "nvidia-dra-driver-gpu"


def classes() -> list[Object]:
    """Return the DeviceClasses of the driver's Helm chart."""
    read: list[Object] = yaml.safe_load(_text("classes.yaml"))
    return read


def crd() -> Object:
    """Return the CustomResourceDefinition of ComputeDomain."""
    read: Object = yaml.safe_load(_text("computedomains.yaml"))
    return read


def slices(
    node: str, gpus: int, *, product: str = "NVIDIA GB200", memory: str = "189471Mi", mig: Sequence[str] = ()
) -> Iterator[Object]:
    """Yield the slices that the kubelet plugins publish of a node: its GPUs, a channel and a daemon of a ComputeDomain.

    ``mig``: the profiles of the partitions that one more GPU is divided into.
    """
    devices = [_gpu(node, number, product, memory) for number in range(gpus)]
    devices += [_partition(node, gpus, number, profile) for number, profile in enumerate(mig)]
    if devices:
        yield _slice(node, GPU, devices)
    kinds = ("channel", "daemon")
    yield _slice(
        node,
        DOMAIN,
        [{"name": f"{kind}-0", "attributes": {"type": {"string": kind}, "id": {"int": 0}}} for kind in kinds],
    )


def workload_template(domain: Object) -> Object:
    """Return the ResourceClaimTemplate from which the pods of a domain get their channel."""
    channel, meta = domain["spec"]["channel"], domain["metadata"]
    parameters = {"kind": "ComputeDomainChannelConfig", "domainID": meta["uid"]}
    parameters["allocationMode"] = channel.get("allocationMode", "Single")
    return _template(domain, channel["resourceClaimTemplate"]["name"], "Workload", "channel", parameters)


def daemon_template(domain: Object) -> Object:
    """Return the ResourceClaimTemplate of the domain's daemons."""
    parameters = {"kind": "ComputeDomainDaemonConfig", "domainID": domain["metadata"]["uid"]}
    return _template(domain, daemon_name(domain), "Daemon", "daemon", parameters)


def daemon_name(domain: Object) -> str:
    """Return the name of the domain's DaemonSet, and of its claim template."""
    return f"computedomain-daemon-{domain['metadata']['uid']}"


def daemonset(domain: Object) -> Object:
    """Return the DaemonSet whose pods run on the nodes that are labelled for the domain, whatever their taints."""
    labels = {LABEL: domain["metadata"]["uid"]}
    name = daemon_name(domain)
    pod = {
        "nodeSelector": labels,
        "tolerations": [{"operator": "Exists"}],
        "resourceClaims": [{"name": "daemon", "resourceClaimTemplateName": name}],
        "containers": [
            {
                "name": "compute-domain-daemon",
                "image": "none",
                "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "claims": [{"name": "daemon"}]},
            }
        ],
    }
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}},
    }


def _gpu(node: str, number: int, product: str, memory: str) -> Object:
    unique = uuid.uuid5(uuid.NAMESPACE_DNS, f"{node}-{number}")
    attributes = {
        "type": {"string": "gpu"},
        "uuid": {"string": f"GPU-{unique}"},
        "productName": {"string": product},
        "brand": {"string": "Nvidia"},
        "architecture": {"string": "Blackwell"},
        "cudaComputeCapability": {"version": "10.0.0"},
        "cudaDriverVersion": {"version": "13.0.0"},
        "driverVersion": {"version": "580.95.5"},
        "resource.kubernetes.io/pcieRoot": {"string": f"pci000{number}:00"},
    }
    return {"name": f"gpu-{number}", "attributes": attributes, "capacity": {"memory": {"value": memory}}}


def _partition(node: str, parent: int, number: int, profile: str) -> Object:
    attributes = {
        "type": {"string": "mig"},
        "profile": {"string": profile},
        "parentUUID": {"string": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{node}-{parent}')}"},
    }
    memory = {"memory": {"value": f"{profile.partition('.')[2].removesuffix('gb')}Gi"}}
    return {"name": f"gpu-{parent}-mig-{number}", "attributes": attributes, "capacity": memory}


def _slice(node: str, driver: str, devices: list[Object]) -> Object:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": node, "pool": pool, "devices": devices}
    return {"metadata": {"name": f"{node}-{driver}"}, "spec": spec}


def _template(domain: Object, name: str, target: str, request: str, parameters: Object) -> Object:
    device_class = f"compute-domain-{'default-channel' if request == 'channel' else request}.nvidia.com"
    # The order is that in which Go writes a map, as the driver does. kube-scheduler patches a claim to remove its
    # reservation, and the API server takes parameters in another order for a change of the allocation, which it
    # refuses.
    versioned = dict(sorted({"apiVersion": "resource.nvidia.com/v1beta1", **parameters}.items()))
    devices = {
        "requests": [{"name": request, "exactly": {"deviceClassName": device_class}}],
        "config": [{"requests": [request], "opaque": {"driver": DOMAIN, "parameters": versioned}}],
    }
    labels = {LABEL: domain["metadata"]["uid"], TARGET: target}
    # Its finalizer is the driver's own: the template stays when a domain is deleted whose pods still run.
    meta = {"name": name, "labels": labels, "finalizers": [LABEL]}
    return {"metadata": meta, "spec": {"metadata": {"labels": labels}, "spec": {"devices": devices}}}


def _text(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
