"""Puts the stand-in on a cluster: its classes, the kind ComputeDomain, its process, and the slices of its nodes."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from devcluster.cluster import Cluster
from devcluster.crds import CRDS, until_established
from devcluster.nvidia.objects import NAMESPACE, classes, crd, slices
from devcluster.process import Process

RESOURCE = "/apis/resource.k8s.io/v1"


class NvidiaDriver:
    """The driver on a cluster, from its making until the cluster ends. ``process`` is that of its controller."""

    process: Process

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        api, kind = cluster.api, crd()
        api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for device_class in classes():
            api.create(f"{RESOURCE}/deviceclasses", device_class)
        api.create(CRDS, kind)
        until_established(api, kind["metadata"]["name"])
        argv = [sys.executable, "-m", "devcluster.nvidia.controller", str(cluster.kubeconfig)]
        self.process = cluster.start("nvidia-driver", argv)

    def publish(self, nodes: Iterable[str], gpus: int, mig: Sequence[str] = ()) -> None:
        """Publish the devices of these nodes: GPUs, a channel, a daemon.

        ``gpus``: how many GPUs each node has; 0 if the device plugin has them.
        ``mig``: as in ``slices``.
        """
        made = (resource_slice for node in nodes for resource_slice in slices(node, gpus, mig=mig))
        self._cluster.api.create_all((f"{RESOURCE}/resourceslices", resource_slice) for resource_slice in made)
